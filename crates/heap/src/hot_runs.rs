//! Hot runs: the runs that a thread freed last, for it to take again first.
//!
//! A run belongs to no heap: claiming one means finding granules in a block that others take from
//! as well, and freeing it means giving them back there. A program that needs a buffer of some
//! size again and again finds here the one it has just freed, for a fifth of the price. Few are
//! kept, and few bytes (`policy/retain.rs`); the one kept longest makes room. A thread that only
//! frees runs, because others allocate them, keeps none.
//!
//! Invariant: a hot run is claimed, in use by nobody, and tagged as hot, so that a second free of
//! it is found out. It counts as in use when it is decided how much may be free and dirty.

use crate::arena::Arena;
use crate::cache::ThreadCache;
use crate::heap::Heap;
use crate::layout::{GRANULE, Granule};
use crate::policy::retain;
use crate::runs::granules_for;
use crate::tables::{HOT, RUN};
use crate::tally::Account;
use freehold_sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use freehold_sys::System;

/// A run and its granules, as one word: 0 for none. Whoever is interrupted by a fork leaves the
/// child with words that are whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct HotRun {
    first: Granule,
    count: u32,
}

impl HotRun {
    fn packed(self) -> u64 {
        u64::from(self.count) << 32 | u64::from(self.first.0)
    }

    fn unpacked(word: u64) -> Option<Self> {
        let run = Self { first: Granule(word as u32), count: (word >> 32) as u32 };
        (run.count > 0).then_some(run)
    }
}

/// The hot runs of a heap. All accesses are Relaxed: the leaseholder alone writes, the lease orders
/// what one after the other writes, and who else looks wants about a number.
pub(crate) struct HotRuns {
    /// A ring. The next one comes in place `next`, where the one is that was kept longest.
    runs: [AtomicU64; PLACES],
    next: AtomicUsize,
    /// Granules of all of them.
    granules: AtomicU32,
    /// How many of them there may be. Looked up again when the thread claims a run.
    most: AtomicU32,
    /// How many runs may be kept before the thread takes one again.
    credit: AtomicUsize,
}

const PLACES: usize = retain::HOT_RUNS_MOST;
const _: () = assert!(PLACES.is_power_of_two());
const _: () = assert!(GRANULE <= retain::HOT_RUN_BYTES_LEAST);

impl HotRuns {
    /// None yet.
    pub(crate) const fn new() -> Self {
        Self {
            runs: [const { AtomicU64::new(0) }; PLACES],
            next: AtomicUsize::new(0),
            granules: AtomicU32::new(0),
            most: AtomicU32::new(0),
            credit: AtomicUsize::new(0),
        }
    }

    /// About how many granules are of hot runs.
    pub(crate) fn granules(&self) -> u32 {
        self.granules.load(Ordering::Relaxed)
    }

    /// Notes that the thread claims a run, and how many granules may be kept.
    fn note_claimed(&self, most: u32) {
        self.most.store(most, Ordering::Relaxed);
        self.note_taken();
    }

    /// Notes that the thread takes a run.
    #[inline]
    fn note_taken(&self) {
        let credit = self.credit.load(Ordering::Relaxed);
        self.credit.store((credit + 1).min(PLACES), Ordering::Relaxed);
    }

    #[inline]
    fn next(&self) -> usize {
        self.next.load(Ordering::Relaxed)
    }

    #[inline]
    fn at(&self, n: usize) -> Option<HotRun> {
        HotRun::unpacked(self.runs[n % PLACES].load(Ordering::Relaxed))
    }

    /// Takes the run out that is in a place.
    #[inline]
    fn forget(&self, n: usize) -> Option<HotRun> {
        let run = self.at(n)?;
        self.runs[n % PLACES].store(0, Ordering::Relaxed);
        let left = self.granules().saturating_sub(run.count);
        self.granules.store(left, Ordering::Relaxed);
        Some(run)
    }

    /// Takes the run out that was freed last of those that have `count` granules, or hardly more.
    #[inline]
    fn take(&self, count: u32) -> Option<HotRun> {
        if self.granules() < count {
            return None;
        }
        let fits = |run: HotRun| run.count.wrapping_sub(count) <= count / 8;
        let oldest = self.next();
        let n = (oldest..oldest + PLACES).rev().find(|&n| self.at(n).is_some_and(fits))?;
        self.note_taken();
        self.forget(n)
    }

    /// Takes the run out that was kept longest.
    fn take_oldest(&self) -> Option<HotRun> {
        let oldest = self.next();
        (oldest..oldest + PLACES).find_map(|n| self.forget(n))
    }

    /// Whether a run may be kept, after making room.
    #[inline]
    fn wants(&self, count: u32) -> bool {
        self.credit.load(Ordering::Relaxed) > 0 && count <= self.most.load(Ordering::Relaxed)
    }

    /// Whether there is room for a run.
    #[inline]
    fn has_room(&self, count: u32) -> bool {
        self.at(self.next()).is_none()
            && self.granules() + count <= self.most.load(Ordering::Relaxed)
    }

    /// Keeps a run that is wanted and that there is room for.
    #[inline]
    fn keep(&self, run: HotRun) {
        let place = self.next();
        debug_assert!(self.at(place).is_none());
        self.runs[place % PLACES].store(run.packed(), Ordering::Relaxed);
        self.next.store((place + 1) % PLACES, Ordering::Relaxed);
        self.granules.store(self.granules() + run.count, Ordering::Relaxed);
        let credit = self.credit.load(Ordering::Relaxed);
        self.credit.store(credit.saturating_sub(1), Ordering::Relaxed);
    }
}

impl<S: System> Arena<S> {
    /// About how many granules are of hot runs of all heaps.
    pub(crate) fn hot_granules(&self) -> usize {
        self.all_heaps().map(|heap| heap.hot_runs.granules() as usize).sum()
    }

    /// Notes that the leaseholder of a heap claims a run.
    pub(crate) fn note_run_claimed(&self, heap: &Heap) {
        let heaps = self.leases.exclusive_made();
        heap.hot_runs.note_claimed(retain::hot_run_granules(heaps.into()));
    }

    /// Releases a heap's hot runs, for its leaseholder, or when that is gone. Returns the granules
    /// released.
    pub(crate) fn let_go_of_runs(&self, heap: &Heap) -> u32 {
        let account = Account::new(&heap.tally);
        while let Some(oldest) = heap.hot_runs.take_oldest() {
            self.give_run(oldest.first, &account);
        }
        account.total_released()
    }
}

impl ThreadCache {
    /// Gives out a hot run for `size` bytes, if there is one.
    #[inline]
    pub fn pop_run<S: System>(&mut self, arena: &Arena<S>, size: usize) -> Option<usize> {
        let count = u32::try_from(granules_for(size)).ok()?;
        let run = self.heap()?.hot_runs.take(count)?;
        arena.tag(run.first).set(RUN, 0);
        Some(arena.tables.address(run.first))
    }

    /// Keeps a run that is freed, if it is one, and if the thread has use for it.
    ///
    /// # Safety
    /// Nobody uses the run any longer, if one starts at `address`.
    #[inline]
    pub unsafe fn put_run<S: System>(&mut self, arena: &Arena<S>, address: usize) -> bool {
        let (Some(heap), Some(first)) = (self.heap(), arena.run_at(address)) else { return false };
        let count = arena.run_granules(first);
        if !heap.hot_runs.wants(count) {
            return false;
        }
        arena.look_if_zeroed(first);
        arena.tag(first).set(RUN, HOT);
        if !heap.hot_runs.has_room(count) {
            self.make_room_for_run(arena, heap, count);
        }
        heap.hot_runs.keep(HotRun { first, count });
        true
    }

    #[inline(never)]
    fn make_room_for_run<S: System>(&mut self, arena: &Arena<S>, heap: &Heap, count: u32) {
        let account = Account::new(&heap.tally);
        while !heap.hot_runs.has_room(count)
            && let Some(oldest) = heap.hot_runs.take_oldest()
        {
            arena.give_run(oldest.first, &account);
        }
        self.note_released(arena, account.total_released());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(runs: &[(u32, u32)]) -> HotRuns {
        let all = HotRuns::new();
        for &(first, count) in runs {
            all.note_claimed(1000);
            assert!(all.wants(count) && all.has_room(count));
            all.keep(HotRun { first: Granule(first), count });
        }
        all
    }

    #[test]
    fn the_run_freed_last_of_a_size_is_taken_first() {
        let runs = with(&[(1, 4), (2, 8), (3, 4), (4, 16)]);
        assert_eq!(runs.take(4).unwrap().first, Granule(3));
        assert_eq!(runs.take(4).unwrap().first, Granule(1));
        assert!(runs.take(4).is_none());
        assert_eq!(runs.take_oldest().unwrap().first, Granule(2));
        assert_eq!(runs.take_oldest().unwrap().first, Granule(4));
        assert_eq!((runs.take_oldest(), runs.granules()), (None, 0));
    }

    #[test]
    fn a_run_serves_for_at_most_an_eighth_less() {
        let runs = with(&[(1, 18)]);
        assert!(runs.take(15).is_none());
        assert!(runs.take(19).is_none());
        assert!(runs.take(16).is_some());
    }

    #[test]
    fn what_only_frees_keeps_none() {
        let runs = with(&[(1, 4)]);
        assert!(!runs.wants(4));
        runs.note_claimed(4);
        assert!(runs.wants(4) && !runs.wants(5));
    }

    #[test]
    fn there_is_room_for_so_many_runs_and_granules() {
        let runs = with(&[(1, 4), (2, 4)]);
        runs.note_claimed(11);
        assert!(runs.has_room(3) && !runs.has_room(4));
        let full: std::vec::Vec<_> = (1..=PLACES as u32).map(|n| (n, 1)).collect();
        assert!(!with(&full).has_room(1));
    }
}
