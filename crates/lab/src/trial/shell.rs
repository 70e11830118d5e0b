//! Commands around a run: what prepares it, cleans up after it, drives it, or tells that a server
//! is ready. They run under the shell and under whatever allocator it always has.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use freehold_model::{Failure, FailureKind};

use crate::last_words::Tail;
use crate::lifetime::{Lifetime, Wait};

/// What becomes of what a command has left running when it ends by itself. When it is ended, so is
/// all of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// It goes on: the program may need it.
    GoesOn,
    /// It is ended.
    Ends,
}

/// How a command ended.
struct Ended {
    waited: Wait,
    status: ExitStatus,
    taken: Duration,
}

/// A command of the shell with nothing to read and nobody to listen.
fn shell(command: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // A group of its own: an interrupt from the terminal is for us, who let the run finish.
    shell.process_group(0);
    shell
}

/// Waits for a command that was started a moment ago, and ends it if that takes too long.
fn complete(
    child: &mut Child,
    rest: Rest,
    timeout: Duration,
    give_up: &AtomicBool,
) -> io::Result<Ended> {
    let start = Instant::now();
    let life = Lifetime::of(child.id())?;
    let waited = life.wait(timeout, give_up);
    let taken = start.elapsed();
    if rest == Rest::Ends || !matches!(waited, Ok(Wait::Ended)) {
        life.end_group();
    }
    let status = child.wait()?;
    Ok(Ended { waited: waited?, status, taken })
}

/// Whether a command succeeds before the time is up or somebody gives up.
pub(super) fn succeeds(command: &str, timeout: Duration, give_up: &AtomicBool) -> bool {
    let ended = shell(command)
        .spawn()
        .and_then(|mut child| complete(&mut child, Rest::Ends, timeout, give_up));
    ended.is_ok_and(|ended| ended.waited == Wait::Ended && ended.status.success())
}

/// Runs a command that must succeed, and tells how long it took. `what` names it in a failure.
pub(super) fn run(
    what: &str,
    command: &str,
    rest: Rest,
    timeout: Duration,
    give_up: &AtomicBool,
) -> Result<Duration, Failure> {
    let failure = |kind, detail: String| Failure { kind, detail: format!("{what}: {detail}") };
    let not_started = |error: io::Error| failure(FailureKind::NotStarted, error.to_string());
    let mut child = shell(command).stderr(Stdio::piped()).spawn().map_err(not_started)?;
    let errors = child.stderr.take().map(Tail::of).transpose().map_err(not_started)?;
    let ended = complete(&mut child, rest, timeout, give_up).map_err(not_started)?;
    match ended.waited {
        Wait::Ended if ended.status.success() => Ok(ended.taken),
        Wait::Ended => {
            let words = errors.map(Tail::last_lines).unwrap_or_default();
            Err(failure(FailureKind::Failed, format!("{}{words}", ended.status)))
        }
        Wait::TimedOut => Err(failure(
            FailureKind::TimedOut,
            format!("took more than {} s", timeout.as_secs_f64()),
        )),
        Wait::GivenUp => Err(failure(FailureKind::Failed, "interrupted".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::thread;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(300);

    /// Runs a script that leaves a sleeper, and tells whether that one still sleeps.
    fn leaves_a_sleeper(end: &str, rest: Rest, timeout: Duration) -> bool {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("pid");
        let script = format!("sleep 37 & echo $! > {}; {end}", path.display());
        let _ = run("--load", &script, rest, timeout, &AtomicBool::new(false));
        let pid = fs::read_to_string(path).expect("it was started");
        let pid = pid.trim();
        // Whoever was killed takes a moment to go, and may stay in the table when it has.
        let sleeps = || {
            let stat = fs::read_to_string(Path::new("/proc").join(pid).join("stat"));
            stat.is_ok_and(|stat| !stat.contains(") Z"))
        };
        let mut looks = 0..20;
        let still = looks.all(|_| {
            thread::sleep(Duration::from_millis(10));
            sleeps()
        });
        // Nobody else takes it away.
        let _ = Command::new("kill").arg(pid).stderr(Stdio::null()).status();
        still
    }

    #[test]
    fn an_interrupt_from_the_terminal_does_not_reach_a_command() {
        let own_group = "read pid name state parent group rest < /proc/$$/stat; test $group = $$";
        assert!(succeeds(own_group, LONG, &AtomicBool::new(false)));
    }

    #[test]
    fn what_takes_too_long_is_ended_with_all_that_it_has_started() {
        assert!(!leaves_a_sleeper("wait", Rest::GoesOn, SHORT));
        assert!(!leaves_a_sleeper("wait", Rest::Ends, SHORT));
    }

    #[test]
    fn what_a_command_has_left_goes_on_only_where_it_may_be_needed() {
        assert!(leaves_a_sleeper("true", Rest::GoesOn, LONG));
        assert!(!leaves_a_sleeper("true", Rest::Ends, LONG));
    }

    #[test]
    fn a_question_that_is_not_answered_in_time_is_answered_with_no() {
        let start = Instant::now();
        assert!(!succeeds("sleep 37", SHORT, &AtomicBool::new(false)));
        assert!(!succeeds("sleep 37", LONG, &AtomicBool::new(true)));
        assert!(start.elapsed() < LONG / 2);
    }
}
