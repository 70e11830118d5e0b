//! What each thread of a harness has done so far, readable by others while it works. It must not
//! know what the numbers are used for.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::mapping::Zeroed;
use crate::outcome::Calls;

/// The counters of one thread. Two cache lines wide, because processors fetch lines in pairs and
/// a neighbour's counters must not slow this one's.
///
/// Each counter has one writer at a time, the thread itself, so that adding needs no atomic
/// instruction. All orderings are relaxed: a reader wants a recent value of each, and no value
/// says anything about another memory location.
#[repr(align(128))]
#[derive(Default)]
pub(crate) struct Tally {
    allocations: AtomicU64,
    reallocations: AtomicU64,
    frees: AtomicU64,
    allocated_bytes: AtomicU64,
    freed_bytes: AtomicU64,
    operations: AtomicU64,
    finished_ns: AtomicU64,
}

// SAFETY: integers and padding, all of which may be zero.
unsafe impl Zeroed for Tally {}

#[inline]
fn add(counter: &AtomicU64, number: u64) {
    counter.store(counter.load(Ordering::Relaxed) + number, Ordering::Relaxed);
}

impl Tally {
    #[inline]
    pub(crate) fn allocated(&self, size: usize) {
        add(&self.allocations, 1);
        add(&self.allocated_bytes, size as u64);
    }

    #[inline]
    pub(crate) fn freed(&self, size: usize) {
        add(&self.frees, 1);
        add(&self.freed_bytes, size as u64);
    }

    #[inline]
    pub(crate) fn resized(&self, from: usize, to: usize) {
        add(&self.reallocations, 1);
        add(&self.allocated_bytes, to as u64);
        add(&self.freed_bytes, from as u64);
    }

    /// Counts operations in the sense of the harness.
    #[inline]
    pub(crate) fn did(&self, operations: u64) {
        add(&self.operations, operations);
    }

    pub(crate) fn finished(&self, ns: u64) {
        self.finished_ns.store(ns, Ordering::Relaxed);
    }

    pub(crate) fn finished_ns(&self) -> u64 {
        self.finished_ns.load(Ordering::Relaxed)
    }

    pub(crate) fn allocations(&self) -> u64 {
        self.allocations.load(Ordering::Relaxed)
    }

    pub(crate) fn operations(&self) -> u64 {
        self.operations.load(Ordering::Relaxed)
    }

    /// Calls, summed over threads.
    pub(crate) fn calls(threads: &[Self]) -> Calls {
        threads.iter().fold(Calls::default(), |sum, tally| Calls {
            allocations: sum.allocations + tally.allocations(),
            reallocations: sum.reallocations + tally.reallocations.load(Ordering::Relaxed),
            frees: sum.frees + tally.frees.load(Ordering::Relaxed),
        })
    }

    /// Bytes not yet freed, summed over threads: what was live all the time while the counters were
    /// read, so that threads at work make it too little, and never too much.
    pub(crate) fn live_bytes(threads: &[Self]) -> u64 {
        let sum = |counter: fn(&Self) -> &AtomicU64| -> u64 {
            threads.iter().map(|tally| counter(tally).load(Ordering::Relaxed)).sum()
        };
        let allocated = sum(|tally| &tally.allocated_bytes);
        // Keeps the loads below behind those above.
        fence(Ordering::Acquire);
        allocated.saturating_sub(sum(|tally| &tally.freed_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_may_be_freed_and_resized_by_others_than_those_who_allocated_them() {
        let threads = [Tally::default(), Tally::default()];
        threads[0].allocated(100);
        threads[0].allocated(50);
        threads[1].freed(100);
        threads[1].resized(50, 70);
        assert_eq!(Tally::live_bytes(&threads), 70);
        let calls = Tally::calls(&threads);
        assert_eq!(calls, Calls { allocations: 2, reallocations: 1, frees: 1 });
    }
}
