//! Counting what a thread does at tracepoints of the kernel: its system calls, and the signals that
//! it is given. That takes root, since the kernel's own code is looked at; every call costs the
//! thread a fraction of a microsecond.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use rustix::process::getppid;
use rustix::thread::gettid;

use super::event::{Event, Wanted};
use crate::clock;

/// Where the file system is that has the numbers of tracepoints, if anybody has mounted it.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The numbers of the tracepoints that are counted, as this kernel has them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Tracepoints {
    calls: u64,
    signals: u64,
    call_ns: f64,
}

/// How long a system call takes the calling thread that does next to nothing: the least of some,
/// since others may interrupt.
fn call_ns() -> f64 {
    const CALLS: u32 = 200;
    let batch = || {
        let began = clock::now_ns();
        for _ in 0..CALLS {
            let _ = getppid();
        }
        (clock::now_ns() - began) as f64 / f64::from(CALLS)
    };
    (0..10).map(|_| batch()).fold(f64::MAX, f64::min)
}

impl Tracepoints {
    /// The numbers, if this user may know them and count by them.
    pub(crate) fn find() -> Option<Self> {
        let open = |path| openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok();
        let mut places = PLACES.into_iter().filter_map(open).chain(unseen_mount());
        let found = places.find_map(|place| Self::within(&place))?;
        // What may be known may still not be counted.
        let alone = call_ns();
        let _counters = Counters::open(found, gettid().as_raw_pid().unsigned_abs())?;
        Some(Self { call_ns: (call_ns() - alone).max(0.0), ..found })
    }

    /// How much longer a system call takes while it is counted, in nanoseconds.
    pub(crate) fn call_ns(&self) -> f64 {
        self.call_ns
    }

    fn within(place: &OwnedFd) -> Option<Self> {
        let id = |name: &str| number(place, name).ok();
        Some(Self {
            calls: id("events/raw_syscalls/sys_enter/id")?,
            signals: id("events/signal/signal_deliver/id")?,
            call_ns: 0.0,
        })
    }
}

/// The file system without a place where anybody else would see it.
fn unseen_mount() -> Option<OwnedFd> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC).ok()?;
    fsconfig_create(context.as_fd()).ok()?;
    let flags = FsMountFlags::FSMOUNT_CLOEXEC;
    fsmount(context.as_fd(), flags, MountAttrFlags::MOUNT_ATTR_RDONLY).ok()
}

fn number(place: &OwnedFd, name: &str) -> io::Result<u64> {
    let file = openat(place, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = String::new();
    File::from(file).read_to_string(&mut text)?;
    text.trim().parse().map_err(io::Error::other)
}

/// Counts of one thread, from the moment on at which they are opened.
pub(crate) struct Counters {
    calls: Event,
    signals: Event,
}

/// What was counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// System calls begun.
    pub(crate) calls: u64,
    /// Signals delivered.
    pub(crate) signals: u64,
    /// For how long the thread ran meanwhile, in nanoseconds.
    pub(crate) run_ns: u64,
}

impl Counters {
    /// Begins to count; nothing where that is refused, or the thread has ended.
    pub(crate) fn open(tracepoints: Tracepoints, tid: u32) -> Option<Self> {
        let open = |id| Event::open(Wanted::Tracepoint(id), tid, None).ok();
        Some(Self { calls: open(tracepoints.calls)?, signals: open(tracepoints.signals)? })
    }

    /// What was counted so far, also of a thread that has ended.
    pub(crate) fn counts(&self) -> Option<Counts> {
        let (calls, run_ns) = self.calls.counted().ok()?;
        Some(Counts { calls, signals: self.signals.count().ok()?, run_ns })
    }
}

impl Counts {
    /// What was counted since.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            calls: self.calls - before.calls,
            signals: self.signals - before.signals,
            run_ns: self.run_ns - before.run_ns,
        }
    }

    /// What a thread that ran for so long did, if all the time it did as it did while it was
    /// counted; nothing where it did not run then. A call took `call_ns` longer meanwhile.
    pub(crate) fn of_a_run(self, run_ns: u64, call_ns: f64) -> Option<Self> {
        let own_ns = self.run_ns as f64 - self.calls as f64 * call_ns;
        // However dear counting is, it is not all that the thread did.
        let own_ns = own_ns.max(self.run_ns as f64 / 10.0);
        let scaled = |count: u64| (count as f64 * run_ns as f64 / own_ns).round() as u64;
        let counted = Self { calls: scaled(self.calls), signals: scaled(self.signals), run_ns };
        (self.run_ns > 0 || run_ns == 0).then_some(counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_of_a_thread_are_counted_exactly_where_that_is_allowed() {
        let Some(found) = Tracepoints::find() else {
            assert!(!rustix::process::geteuid().is_root() || unseen_mount().is_none());
            println!("skipped: tracepoints are for root, and need tracefs");
            return;
        };
        let tid = gettid().as_raw_pid().unsigned_abs();
        let counters = Counters::open(found, tid).expect("it was just possible");
        let before = counters.counts().expect("counted");
        for _ in 0..100 {
            let _ = rustix::process::getppid();
        }
        let counted = counters.counts().expect("counted").since(before);
        // The calls that read the numbers count as well.
        assert!((100..=104).contains(&counted.calls), "{counted:?}");
    }

    #[test]
    fn a_part_of_a_run_stands_for_all_of_it_less_what_counting_took() {
        let counted = Counts { calls: 1000, signals: 2, run_ns: 500_000 };
        let whole = Counts { calls: 6000, signals: 12, run_ns: 1_800_000 };
        assert_eq!(counted.of_a_run(1_800_000, 200.0), Some(whole));
        assert_eq!(Counts::default().of_a_run(5, 200.0), None, "it did not run meanwhile");
        assert_eq!(Counts::default().of_a_run(0, 200.0), Some(Counts::default()));
    }
}
