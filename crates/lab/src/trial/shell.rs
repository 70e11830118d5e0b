//! Commands around a run: what prepares it, cleans up after it, drives it, or tells that a server
//! is ready. They run under the shell and under whatever allocator it always has.

use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use freehold_model::{Failure, FailureKind};

use crate::last_words::Tail;
use crate::lifetime::{Lifetime, Wait};

/// A command of the shell with nothing to read and nobody to listen.
fn shell(command: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    shell
}

/// Whether a command succeeds.
pub(super) fn succeeds(command: &str) -> bool {
    shell(command).status().is_ok_and(|status| status.success())
}

/// Runs a command that must succeed, and tells how long it took. `what` names it in a failure.
pub(super) fn run(
    what: &str,
    command: &str,
    timeout: Duration,
    give_up: &AtomicBool,
) -> Result<Duration, Failure> {
    let failure = |kind, detail: String| Failure { kind, detail: format!("{what}: {detail}") };
    let not_started = |error: std::io::Error| failure(FailureKind::NotStarted, error.to_string());
    let start = Instant::now();
    let mut child = shell(command).stderr(Stdio::piped()).spawn().map_err(not_started)?;
    let errors = child.stderr.take().map(Tail::of).transpose().map_err(not_started)?;
    let waited = Lifetime::of(child.id()).and_then(|life| life.wait(timeout, give_up));
    let taken = start.elapsed();
    if !matches!(waited, Ok(Wait::Ended)) {
        // It may have ended by itself in the meantime, which is as good.
        let _ = child.kill();
    }
    let status = child.wait().map_err(not_started)?;
    match waited.map_err(not_started)? {
        Wait::Ended if status.success() => Ok(taken),
        Wait::Ended => {
            let words = errors.map(Tail::last_lines).unwrap_or_default();
            Err(failure(FailureKind::Failed, format!("{status}{words}")))
        }
        Wait::TimedOut => Err(failure(
            FailureKind::TimedOut,
            format!("took more than {} s", timeout.as_secs_f64()),
        )),
        Wait::GivenUp => Err(failure(FailureKind::Failed, "interrupted".to_owned())),
    }
}
