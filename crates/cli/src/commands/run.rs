//! `freehold run`: a command under an allocator, with proof that the allocator was live.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::{fs, io};

use clap::Args;
use freehold_lab::launch::{self, Suspect};
use freehold_model::{Allocator, RunReport, Verdict};
use freehold_report::verdict;
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, setrlimit};
use signal_hook::consts::{
    SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2,
};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::emulate_default_handler;
use signal_hook::low_level::siginfo::{Cause, Origin};

use crate::catalogue::Catalogue;
use crate::exit::{Exit, Failure};
use crate::ui::Ui;
use crate::{advice, start, ui};

const EXAMPLES: &str = "\
Examples:
  freehold run -- ./server --port 80
  freehold run --allocator jemalloc -- python3 app.py
  freehold run --allocator ./libmine.so -- ./server
  freehold run --dry-run -- ./server            print what would be run

The command is started with LD_PRELOAD, which its own children inherit. Whether the allocator is
really live is read from the memory map of the process, and said on standard error; when the
command ends before it can be looked at, its dynamic loader is asked instead.

Signals sent to freehold are passed on to the command. It ends as the command does: with its
status, or by its signal. It exits with 5 when the allocator cannot be live in the command (then
nothing is run), or was not; with 126 or 127 when the command cannot be
executed or found; with 125 when anything else went wrong.";

/// Signals that are passed on to the command.
const PASSED_ON: [i32; 8] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGCONT];

/// Run a command under an allocator, and prove that the allocator is live
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Run {
    /// The allocator: a name, or the path of a library
    #[arg(short, long, value_name = "ALLOCATOR", default_value = "freehold")]
    allocator: String,
    /// Run the command even where the allocator cannot be live, and end as it does
    #[arg(long)]
    force: bool,
    /// Print the command line that would be run, and run nothing
    #[arg(short = 'n', long = "dry-run")]
    is_rehearsal: bool,
    /// Write what was proved, and how the command ended, to this file
    #[arg(long, value_name = "FILE")]
    json: Option<String>,
    /// The command and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    command: Vec<OsString>,
}

impl Run {
    /// Runs the command. The status of a plain failure belongs to the command, so one of our own
    /// has another.
    pub(crate) fn execute(self, ui: Ui) -> Result<Exit, Failure> {
        self.attempt(ui).map_err(|failure| match failure.exit {
            Exit::Error => Failure { exit: Exit::NotStarted, ..failure },
            _ => failure,
        })
    }

    fn attempt(&self, ui: Ui) -> Result<Exit, Failure> {
        let allocator = Catalogue::new(&[])?.get(&self.allocator)?;
        let preload = launch::preload_value(&allocator)
            .map_err(|error| Failure::new(Exit::NotLive, error.to_string()))?;
        let program =
            launch::resolve(&self.command[0]).ok_or_else(|| start::not_found(&self.command[0]))?;
        if self.is_rehearsal {
            ui::print_raw(&format!("{}\n", shell_line(preload.as_ref(), &self.command)))?;
            return Ok(Exit::Success);
        }
        let obstacle = launch::obstacle(&program, &allocator);
        if let Some(reason) = obstacle.as_ref().filter(|_| !self.force) {
            return Err(Failure::new(Exit::NotLive, reason).hint(advice::not_live()));
        }
        if let Some(path) = &self.json {
            ui::check_writable(path)?;
        }

        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]);
        if let Some(preload) = preload {
            command.env(launch::PRELOAD, preload);
        }
        // Before the start, so that no signal falls between.
        let mut signals =
            listen().map_err(|error| Failure::error("cannot listen for signals", &error))?;
        let mut child =
            command.spawn().map_err(|error| start::not_started(&self.command[0], &error))?;
        let suspect = Suspect::new(child.id(), &program, &allocator);
        let witness = Witness::start(ui, suspect, described(&allocator), obstacle)
            .map_err(|error| Failure::error("cannot watch the command", &error))?;
        let status = wait(&mut child, &mut signals)
            .map_err(|error| Failure::error("cannot wait for the command", &error))?;
        let verdict = witness.conclude();
        self.conclude(allocator, &verdict, status)
    }

    /// Reports, and decides how to end.
    fn conclude(
        &self,
        allocator: Allocator,
        verdict: &Verdict,
        status: ExitStatus,
    ) -> Result<Exit, Failure> {
        let reason = match verdict {
            Verdict::NotLive { reason } => Some(reason.clone()),
            _ => None,
        };
        if let Some(path) = &self.json {
            let report = RunReport {
                allocator,
                command: self.command.iter().map(|word| word.to_string_lossy().into()).collect(),
                verdict: verdict.clone(),
                exit_status: status.code(),
                signal: status.signal(),
            };
            ui::save_json(path, &report)?;
        }
        match reason {
            Some(reason) if !self.force => {
                let message = format!("the command ended ({status}), but {reason}");
                Err(Failure::new(Exit::NotLive, message).hint(advice::not_live()))
            }
            _ => Ok(start::ended_as(status)),
        }
    }
}

/// Who finds out whether the allocator is live, while the command runs.
enum Witness {
    /// It is known already.
    Certain(Verdict),
    /// A thread is watching.
    Watching { over: Arc<AtomicBool>, thread: JoinHandle<Verdict> },
}

impl Witness {
    /// Finds out at once where that is possible, and begins to watch where it is not.
    fn start(ui: Ui, suspect: Suspect, name: String, obstacle: Option<String>) -> io::Result<Self> {
        let known = obstacle.map(|reason| Verdict::NotLive { reason });
        if let Some(verdict) = known.or_else(|| suspect.glance()) {
            tell(ui, &name, &verdict);
            return Ok(Self::Certain(verdict));
        }
        let over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&over);
        let builder = thread::Builder::new().name("witness".to_owned());
        let thread = builder.spawn(move || {
            let verdict = suspect.watch(&ended);
            tell(ui, &name, &verdict);
            verdict
        })?;
        Ok(Self::Watching { over, thread })
    }

    /// The verdict, once the command has ended.
    fn conclude(self) -> Verdict {
        match self {
            Self::Certain(verdict) => verdict,
            Self::Watching { over, thread } => {
                // Release pairs with the acquire of the watching thread: it looks no more.
                over.store(true, Ordering::Release);
                thread.thread().unpark();
                let broken = |_| Verdict::NotLive { reason: "nobody could watch it".to_owned() };
                thread.join().unwrap_or_else(broken)
            }
        }
    }
}

/// Says what was found out; a failure is said at the end, with what to do about it.
fn tell(ui: Ui, name: &str, found: &Verdict) {
    if found.is_live() {
        ui.note(&verdict(name, found));
    } else {
        ui::warn(&verdict(name, found));
    }
}

fn described(allocator: &Allocator) -> String {
    match &allocator.version {
        Some(version) => format!("{} {version}", allocator.name),
        None => allocator.name.clone(),
    }
}

/// Listens for the signals that are passed on and for the end of the command. A signal that we
/// were started to ignore stays ignored, here and in the command.
fn listen() -> io::Result<SignalsInfo<WithOrigin>> {
    let ignored = ignored_signals(&fs::read_to_string("/proc/self/status").unwrap_or_default());
    let heeded = PASSED_ON.into_iter().filter(|signal| ignored & (1 << (signal - 1)) == 0);
    SignalsInfo::new(heeded.chain([SIGCHLD]))
}

/// The set of ignored signals in the text of a `status` file, one bit a signal.
fn ignored_signals(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Waits for the command, passing on what is sent to us meanwhile.
fn wait(child: &mut Child, signals: &mut SignalsInfo<WithOrigin>) -> io::Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        for origin in signals.wait() {
            pass_on(child, &origin);
        }
    }
}

/// Passes a signal on if somebody sent it to us. One from the terminal went to the command as
/// well, which is in our process group, so passing it on would deliver it twice.
fn pass_on(child: &Child, origin: &Origin) {
    if origin.signal == SIGCHLD || !matches!(origin.cause, Cause::Sent(_)) {
        return;
    }
    let pid = Pid::from_raw(child.id().cast_signed());
    if let (Some(pid), Some(signal)) = (pid, Signal::from_named_raw(origin.signal)) {
        // It may have ended a moment ago; then there is nobody to tell.
        let _ = kill_process(pid, signal);
    }
}

/// Ends this process by a signal, as the command ended; returns when that is impossible.
pub(crate) fn end_by(signal: i32) {
    // The command has left its core file, if it leaves one; ours would overwrite it.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let _ = emulate_default_handler(signal);
    if let Some(signal) = Signal::from_named_raw(signal) {
        let _ = kill_process(rustix::process::getpid(), signal);
    }
}

/// A line that does the same in a shell.
fn shell_line(preload: Option<&OsString>, command: &[OsString]) -> String {
    let assignment = preload
        .map(|value| format!("{}={}", launch::PRELOAD, ui::quoted(&value.to_string_lossy())));
    let words = command.iter().map(|word| ui::quoted(&word.to_string_lossy()));
    assignment.into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_only_where_a_shell_needs_it() {
        let words = ["echo", "a b", "it's", ""].map(OsString::from);
        assert_eq!(
            shell_line(Some(&OsString::from("/x/lib.so")), &words),
            "LD_PRELOAD=/x/lib.so echo 'a b' 'it'\\''s' ''"
        );
    }

    #[test]
    fn ignored_signals_are_read_from_the_kernels_mask() {
        let ignored = ignored_signals("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0\n");
        assert_ne!(ignored & (1 << (SIGHUP - 1)), 0);
        assert_eq!(ignored & (1 << (SIGTERM - 1)), 0);
    }
}
