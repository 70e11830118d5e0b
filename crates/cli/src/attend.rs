//! Standing in for a command: signals that are sent to us are passed on to it, and we end as it
//! does. It must not know what the command is run for.

use std::fs;
use std::process::{Child, ExitStatus};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, setrlimit};
use signal_hook::consts::{
    SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2,
};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::emulate_default_handler;
use signal_hook::low_level::siginfo::{Cause, Origin};

use crate::exit::Failure;

/// Signals that are passed on to the command.
const PASSED_ON: [i32; 8] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGCONT];

/// Listens for the signals that are passed on and for the end of the command. A signal that we
/// were started to ignore stays ignored, here and in the command.
pub(crate) struct Attendant {
    signals: SignalsInfo<WithOrigin>,
}

impl Attendant {
    /// Begins to listen, which must be before the command is started.
    pub(crate) fn begin() -> Result<Self, Failure> {
        let ignored = ignored_signals(&fs::read_to_string("/proc/self/status").unwrap_or_default());
        let heeded = PASSED_ON.into_iter().filter(|signal| ignored & (1 << (signal - 1)) == 0);
        let signals = SignalsInfo::new(heeded.chain([SIGCHLD]))
            .map_err(|error| Failure::error("cannot listen for signals", &error))?;
        Ok(Self { signals })
    }

    /// The signal to end by, if one has come before there was a command to pass it on to.
    pub(crate) fn called_off(&mut self) -> Option<i32> {
        let mut signals = self.signals.pending().map(|origin| origin.signal);
        signals.find(|signal| [SIGHUP, SIGINT, SIGQUIT, SIGTERM].contains(signal))
    }

    /// Waits for the command, passing on what is sent to us meanwhile.
    pub(crate) fn wait(mut self, child: &mut Child) -> Result<ExitStatus, Failure> {
        loop {
            let ended = child.try_wait();
            let ended =
                ended.map_err(|error| Failure::error("cannot wait for the command", &error))?;
            if let Some(status) = ended {
                return Ok(status);
            }
            for origin in self.signals.wait() {
                pass_on(child, &origin);
            }
        }
    }
}

/// The set of ignored signals in the text of a `status` file, one bit a signal.
fn ignored_signals(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_kernels_mask() {
        let ignored = ignored_signals("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0\n");
        assert_ne!(ignored & (1 << (SIGHUP - 1)), 0);
        assert_eq!(ignored & (1 << (SIGTERM - 1)), 0);
    }
}
