//! Processor time, faults and switches of this process, and of a child that has ended. It must
//! not know what is measured.

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// A reading since the start of the process, or the difference of two.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Processor time in the program.
    pub user_seconds: f64,
    /// Processor time in the kernel on its behalf.
    pub system_seconds: f64,
    /// Page faults that needed no disk.
    pub minor_faults: u64,
    /// Context switches that the process asked for.
    pub voluntary_switches: u64,
    /// Context switches forced on it.
    pub involuntary_switches: u64,
}

/// Reads what the process has used so far, all threads together.
pub fn now() -> Usage {
    read(libc::RUSAGE_SELF)
}

/// Reads what the calling thread has used so far.
pub(crate) fn own_thread() -> Usage {
    read(libc::RUSAGE_THREAD)
}

fn read(whose: libc::c_int) -> Usage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to writable memory of the right type.
    let status = unsafe { libc::getrusage(whose, usage.as_mut_ptr()) };
    debug_assert_eq!(status, 0, "getrusage cannot fail with these arguments");
    // SAFETY: all of the structure is integers, and it was zeroed before the kernel filled it.
    told(&unsafe { usage.assume_init() })
}

/// Processor time of the calling thread so far.
pub(crate) fn own_thread_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to writable memory of the right type.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    debug_assert_eq!(status, 0, "clock_gettime cannot fail with these arguments");
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// What a child and its children used.
#[derive(Debug, Clone, Copy)]
pub struct Reaped {
    /// How it ended.
    pub status: ExitStatus,
    /// Time, faults and switches.
    pub usage: Usage,
    /// Page faults that needed a disk.
    pub major_faults: u64,
    /// The most that one of them held; at least what its parent held when it started it.
    pub peak_rss_bytes: u64,
}

/// Waits for the end of a child and takes it away.
pub fn reap(pid: u32) -> io::Result<Reaped> {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    let mut status = 0;
    // SAFETY: both pointers are to writable memory of the right types.
    let reaped = unsafe { libc::wait4(pid.cast_signed(), &raw mut status, 0, usage.as_mut_ptr()) };
    if reaped < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all of the structure is integers, and it was zeroed before the kernel filled it.
    let usage = unsafe { usage.assume_init() };
    Ok(Reaped {
        status: ExitStatus::from_raw(status),
        usage: told(&usage),
        major_faults: count(usage.ru_majflt),
        peak_rss_bytes: count(usage.ru_maxrss) * 1024,
    })
}

fn told(usage: &libc::rusage) -> Usage {
    Usage {
        user_seconds: seconds(usage.ru_utime),
        system_seconds: seconds(usage.ru_stime),
        minor_faults: count(usage.ru_minflt),
        voluntary_switches: count(usage.ru_nvcsw),
        involuntary_switches: count(usage.ru_nivcsw),
    }
}

impl Usage {
    /// What was used between an earlier reading and this one.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            user_seconds: self.user_seconds - earlier.user_seconds,
            system_seconds: self.system_seconds - earlier.system_seconds,
            minor_faults: self.minor_faults - earlier.minor_faults,
            voluntary_switches: self.voluntary_switches - earlier.voluntary_switches,
            involuntary_switches: self.involuntary_switches - earlier.involuntary_switches,
        }
    }
}

fn seconds(time: libc::timeval) -> f64 {
    time.tv_sec as f64 + time.tv_usec as f64 / 1e6
}

fn count(value: libc::c_long) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_child_is_taken_away_with_what_it_used() {
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done; exit 3";
        let child = Command::new("sh").args(["-c", script]).spawn().map(|child| child.id());
        let pid = child.expect("started");
        let reaped = reap(pid).expect("a child");
        assert_eq!(reaped.status.code(), Some(3));
        assert!(reaped.usage.user_seconds + reaped.usage.system_seconds > 0.0);
        assert!(reaped.usage.minor_faults > 0);
        assert!(reaped.peak_rss_bytes > 100 * 1024);
        assert!(reap(pid).is_err(), "it was taken away before");
    }
}
