//! Waiting for a child to end, without taking processor time from it and without making it go
//! away: whoever waits afterwards still finds it, with all that it has used.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid,
};

/// How often a waiting parent looks whether it was told to give up.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How often it looks whether a child has ended, on kernels or in sandboxes that cannot tell.
const POLL_EVERY: Duration = Duration::from_millis(5);

/// Why waiting is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// The child has ended.
    Ended,
    /// It has not, and the time is up.
    TimedOut,
    /// It has not, and nobody wants to wait any more.
    GivenUp,
}

/// The life of a child.
pub(crate) struct Lifetime {
    pid: Pid,
    pidfd: Option<OwnedFd>,
}

impl Lifetime {
    /// The life of the child `pid`, which nobody has waited for yet.
    pub(crate) fn of(pid: u32) -> io::Result<Self> {
        let pid = Pid::from_raw(pid.cast_signed()).ok_or(io::ErrorKind::NotFound)?;
        Ok(Self { pid, pidfd: pidfd_open(pid, PidfdFlags::empty()).ok() })
    }

    /// Waits until the child has ended or need not be waited for any more.
    pub(crate) fn wait(&self, timeout: Duration, give_up: &AtomicBool) -> io::Result<Wait> {
        let deadline = Instant::now() + timeout;
        loop {
            if self.has_ended()? {
                return Ok(Wait::Ended);
            }
            if give_up.load(Ordering::Relaxed) {
                return Ok(Wait::GivenUp);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Wait::TimedOut);
            }
            match &self.pidfd {
                Some(pidfd) => sleep_until_readable(pidfd, left.min(LOOK_EVERY))?,
                None => thread::sleep(left.min(POLL_EVERY)),
            }
        }
    }

    /// Whether the child has ended.
    pub(crate) fn has_ended(&self) -> io::Result<bool> {
        let looking = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(self.pid), looking)?.is_some())
    }

    /// Ends the child, which must lead a group and still be there for whoever waits, and everybody
    /// whom it has left in that group.
    pub(crate) fn end_group(&self) {
        // They may have ended by themselves in the meantime, which is as good.
        let _ = kill_process_group(self.pid, Signal::KILL);
    }
}

/// Sleeps until the child has ended, or for `time`.
fn sleep_until_readable(pidfd: &OwnedFd, time: Duration) -> io::Result<()> {
    let time = Timespec::try_from(time).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&time)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_child_that_ended_is_still_there_for_whoever_waits() {
        let mut child = Command::new("sh").args(["-c", "exit 7"]).spawn().expect("started");
        let lifetime = Lifetime::of(child.id()).expect("a child");
        let never = AtomicBool::new(false);
        let waited = lifetime.wait(Duration::from_secs(60), &never).expect("waited");
        assert_eq!(waited, Wait::Ended);
        assert_eq!(child.wait().expect("still there").code(), Some(7));
    }

    #[test]
    fn waiting_ends_when_time_is_up_or_nobody_wants_to() {
        let mut child = Command::new("sleep").arg("1000").spawn().expect("started");
        let lifetime = Lifetime::of(child.id()).expect("a child");
        let wait = |give_up| {
            lifetime.wait(Duration::from_millis(1), &AtomicBool::new(give_up)).expect("waited")
        };
        assert_eq!(wait(false), Wait::TimedOut);
        assert_eq!(wait(true), Wait::GivenUp);
        child.kill().expect("killed");
        child.wait().expect("ends");
    }
}
