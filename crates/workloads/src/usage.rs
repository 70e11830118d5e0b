//! Processor time, faults and switches of this process. It must not know what is measured.

use std::mem::MaybeUninit;

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
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to writable memory of the right type.
    let status = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
    debug_assert_eq!(status, 0, "getrusage cannot fail with these arguments");
    // SAFETY: all of the structure is integers, and it was zeroed before the kernel filled it.
    let usage = unsafe { usage.assume_init() };
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
