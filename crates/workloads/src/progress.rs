//! What each thread has done so far, readable by another while it works. It must not know what
//! the numbers are used for.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::mapping::Zeroed;

/// The counters of one thread. Two cache lines wide, because processors fetch lines in pairs and
/// a neighbour's counter must not slow this one.
///
/// Each counter has one writer, its thread. All orderings are relaxed: a reader wants a recent
/// value of each, and no value says anything about another memory location.
#[repr(align(128))]
pub(crate) struct Progress {
    calls: AtomicU64,
    bytes: AtomicU64,
    waited_ns: AtomicU64,
}

// SAFETY: three integers and padding, all of which may be zero.
unsafe impl Zeroed for Progress {}

/// One reading, of one thread or summed over several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// Calls made.
    pub(crate) calls: u64,
    /// Bytes concerned.
    pub(crate) bytes: u64,
    /// Time spent waiting for the partner.
    pub(crate) waited_ns: u64,
}

impl Progress {
    pub(crate) fn publish(&self, calls: u64, bytes: u64) {
        self.calls.store(calls, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn publish_wait(&self, waited_ns: u64) {
        self.waited_ns.store(waited_ns, Ordering::Relaxed);
    }

    /// The calls of the thread that has made the fewest.
    pub(crate) fn least_calls(threads: &[Self]) -> u64 {
        threads.iter().map(|thread| thread.calls.load(Ordering::Relaxed)).min().unwrap_or(0)
    }

    /// The sum over threads.
    pub(crate) fn sum(threads: &[Self]) -> Count {
        threads.iter().fold(Count::default(), |sum, thread| Count {
            calls: sum.calls + thread.calls.load(Ordering::Relaxed),
            bytes: sum.bytes + thread.bytes.load(Ordering::Relaxed),
            waited_ns: sum.waited_ns + thread.waited_ns.load(Ordering::Relaxed),
        })
    }
}
