//! Clocks: of the machine, of this thread, and of other processes.

use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, Timespec};

const SECOND_NS: u64 = 1_000_000_000;

/// Now, in nanoseconds of the monotonic clock.
pub(crate) fn now_ns() -> u64 {
    nanoseconds(rustix::time::clock_gettime(ClockId::Monotonic))
}

/// The processor time that the calling thread has used.
pub(crate) fn own_thread_ns() -> u64 {
    nanoseconds(rustix::time::clock_gettime(ClockId::ThreadCPUTime))
}

/// The processor time of a process with all threads that it has or had.
pub(crate) fn process_ns(pid: u32) -> Option<u64> {
    let clock = clock_getcpuclockid(Pid::from_raw(pid.cast_signed())).ok()?;
    let time = clock_gettime(clock).ok()?;
    Some(time.tv_sec() as u64 * SECOND_NS + time.tv_nsec() as u64)
}

/// Ticks as nanoseconds.
pub(crate) fn of_ticks(ticks: u64) -> u64 {
    ticks.saturating_mul(SECOND_NS / clock_ticks_per_second())
}

/// A time in ticks since the machine was started, as time of the monotonic clock.
pub(crate) fn from_boot_ticks(ticks: u64) -> u64 {
    let since_boot = of_ticks(ticks);
    let now = now_ns();
    let boot = nanoseconds(rustix::time::clock_gettime(ClockId::Boottime));
    let suspended = boot.saturating_sub(now);
    since_boot.saturating_sub(suspended)
}

/// Nanoseconds as seconds.
pub(crate) fn seconds(ns: u64) -> f64 {
    ns as f64 / SECOND_NS as f64
}

fn nanoseconds(time: Timespec) -> u64 {
    time.tv_sec as u64 * SECOND_NS + time.tv_nsec as u64
}
