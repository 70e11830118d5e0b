//! Swings: a program that allocates thousands of objects, frees them all, and begins again.
//!
//! What may stay at hand is bounded, for each class and for all together, so that what is free of
//! one is there for the others. Where a program has phases, in which it does nothing but allocate
//! and then nothing but free, nobody else wants what is free in between, and what went home would
//! be fetched again. So a heap notes how often in a row something was missed, with nothing gone
//! home for want of room, and the other way round. When both was often, more may stay at hand than
//! usually, from a bound for the swings of all heaps.
//!
//! It makes room when something else is wanted: of a class that was not used while a fourth of what
//! swings were granted, or 2 MiB, was fetched of others, or claimed as runs, about as much goes
//! home as is fetched from then on. What lies in a heap whose thread rests the background thread
//! takes, as all that is at hand.
//!
//! Small objects, which are set aside in the heap's [depot](crate::depot), and medium ones, which
//! stay [hot](crate::hot), have swings of their own.
//!
//! Invariant: what swings have been granted in all is what each was, so far as none was lost with a
//! thread that vanished in a fork.

use crate::arena::Arena;
use crate::cache::ThreadCache;
use crate::heap::Heap;
use crate::invalid::FoundLate;
use crate::layout::GRANULE;
use crate::policy::retain;
use freehold_sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use freehold_sys::System;

/// The most half magazines of small objects, and batches of medium ones, that go home at once.
const HALVES_AT_ONCE: usize = 64;
pub(crate) const BATCHES_AT_ONCE: usize = 8;

/// How often in a row something happened, and how often the last time that it did.
struct Row {
    now: u8,
    last: u8,
}

impl Row {
    fn add(&mut self) {
        self.now = self.now.saturating_add(1);
    }

    fn end(&mut self) {
        if self.now > 0 {
            (self.last, self.now) = (self.now, 0);
        }
    }

    fn longest(&self) -> u8 {
        self.now.max(self.last)
    }
}

/// Whether what is at hand of a class was used: since that was asked last, and in this epoch of
/// swings, or the one before.
#[derive(Clone, Copy)]
pub(crate) struct Used(u8);

impl Used {
    const LATELY: u8 = 1;
    const NOW: u8 = 2;
    const BEFORE: u8 = 4;

    /// It was not.
    pub(crate) const NEVER: Self = Self(0);

    /// Notes that it is.
    #[inline(always)]
    pub(crate) fn note(&mut self) {
        self.0 |= Self::LATELY | Self::NOW;
    }

    /// Whether it was, since this was asked last.
    pub(crate) fn take(&mut self) -> bool {
        let was = self.0 & Self::LATELY != 0;
        self.0 &= !Self::LATELY;
        was
    }

    /// Begins the next epoch.
    pub(crate) fn end_epoch(&mut self) {
        let before = if self.0 & Self::NOW == 0 { 0 } else { Self::BEFORE };
        self.0 = self.0 & Self::LATELY | before;
    }

    /// Whether it was used neither in this epoch nor in the one before.
    pub(crate) fn is_idle(self) -> bool {
        self.0 & (Self::NOW | Self::BEFORE) == 0
    }
}

/// The swings of a heap's small objects, or of its medium ones. Its leaseholder's. All zero: there
/// are none.
pub(crate) struct Swing {
    /// Something was missed.
    missed: Row,
    /// Something went home for want of room.
    gone: Row,
    /// Bytes that may stay at hand beyond what usually may.
    granted: usize,
    /// Bytes that were fetched in this epoch.
    fetched: usize,
    /// Bytes that are to go home for something else.
    owed: usize,
}

impl Swing {
    /// Notes that nothing is at hand of a class, and some is fetched.
    #[inline]
    pub(crate) fn note_missed(&mut self) {
        self.gone.end();
        self.missed.add();
    }

    /// Notes that some goes home for want of room.
    #[inline]
    pub(crate) fn note_gone(&mut self) {
        self.missed.end();
        self.gone.add();
    }

    /// Whether the program has phases: something was missed so often in a row, and went home.
    pub(crate) fn has_phases(&self, missed: u8) -> bool {
        self.missed.longest() >= missed && self.gone.longest() >= retain::GONE_IN_A_ROW
    }

    /// Whether more may stay at hand than usually.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.granted > 0
    }

    /// Bytes that may.
    pub(crate) fn granted(&self) -> usize {
        self.granted
    }

    /// Notes that so many bytes are fetched, and tells whether an epoch ends with that.
    pub(crate) fn ends_epoch(&mut self, fetched: usize) -> bool {
        self.fetched = self.fetched.saturating_add(fetched);
        let ends = self.fetched >= retain::swing_epoch(self.granted);
        if ends {
            self.fetched = 0;
        }
        ends
    }

    /// Notes that so many bytes are fetched while something lies idle, or none but those before.
    /// Returns whether so many are to go home, which they do then.
    pub(crate) fn owes(&mut self, fetched: usize, batch: usize) -> bool {
        // No more than there may be.
        self.owed = self.owed.saturating_add(fetched).min(self.granted);
        let is_owed = self.owed >= batch;
        self.owed -= if is_owed { batch } else { 0 };
        is_owed
    }
}

/// Whether a heap has swings. Here, since it is asked more often than there are some.
#[derive(Default)]
pub(crate) struct HasSwings(AtomicBool);

impl HasSwings {
    /// Relaxed, as all here: it is the leaseholder's own.
    #[inline]
    fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, value: bool) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// Bytes that swings of all heaps were granted. All accesses are Relaxed: how much that may be is a
/// matter of about.
#[derive(Default)]
pub(crate) struct Granted(AtomicUsize);

impl Granted {
    fn all(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl<S: System> Arena<S> {
    /// Bytes that a heap could be granted for a swing: where there are several threads, none as
    /// long as nobody would take it from one that rests.
    pub(crate) fn left_for_swings(&self) -> usize {
        if self.has_several_threads() && !self.is_reclaimed() {
            self.would_keep_more();
            if !self.is_helped() {
                self.want_help();
            }
            return 0;
        }
        self.most_for_swings().saturating_sub(self.leases.granted.all())
    }

    /// Bytes that all heaps could be granted.
    pub(crate) fn most_for_swings(&self) -> usize {
        retain::swing_bytes(self.about_in_use().used * GRANULE)
    }

    /// Grants a swing so many bytes, which were left a moment ago, if any.
    pub(crate) fn grant(&self, swing: &mut Swing, bytes: usize) {
        if bytes > 0 {
            self.leases.granted.0.fetch_add(bytes, Ordering::Relaxed);
            swing.granted += bytes;
        }
    }

    /// Takes back what a swing was granted, now that so many bytes less may stay at hand.
    pub(crate) fn take_back_grant(&self, swing: &mut Swing, bytes: usize) {
        let bytes = bytes.min(swing.granted);
        if bytes > 0 {
            swing.granted -= bytes;
            // Less than that may be counted in the child of a fork that came between.
            let less = |all: usize| Some(all.saturating_sub(bytes));
            let granted = &self.leases.granted.0;
            _ = granted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
    }

    /// Checks that what swings were granted in all is what each was, and what heaps may keep at
    /// hand what they were allowed.
    ///
    /// # Panics
    /// When it is not.
    ///
    /// # Safety
    /// No thread is inside the allocator.
    pub(crate) unsafe fn check_swings(&self) {
        let granted = |heap: &Heap| {
            // SAFETY: the caller's promise.
            let set_aside = unsafe {
                heap.with_depots(|it| {
                    it.check();
                    it.swing.granted
                })
            };
            // SAFETY: as above.
            let bins = unsafe { &mut *heap.medium.get() };
            bins.check();
            set_aside + bins.swing().granted
        };
        let all: usize = self.all_heaps().map(granted).sum();
        assert_eq!(self.leases.granted.all(), all, "bytes granted to swings");
    }
}

impl ThreadCache {
    /// Notes that the heap has a swing.
    #[inline]
    pub(crate) fn note_swing(&self, has_swing: bool) {
        if has_swing && let Some(heap) = self.heap() {
            heap.has_swings.set(true);
        }
    }

    /// Sends some of what lies idle of swings home, as so many bytes are fetched of a class, which
    /// does not, or claimed as a run.
    #[inline]
    pub(crate) fn make_room<S: System>(&mut self, arena: &Arena<S>, bytes: usize) {
        if self.heap().is_some_and(|heap| heap.has_swings.get()) {
            self.make_room_of_swings(arena, bytes);
        }
    }

    #[cold]
    fn make_room_of_swings<S: System>(&mut self, arena: &Arena<S>, bytes: usize) {
        let (Some(heap), Some(bins)) = (self.heap(), self.medium_bins()) else { return };
        let is_any_hot = bins.swing().is_any();
        // SAFETY: the thread has the lease, and what is done there is done to nothing else.
        let is_any_set_aside = unsafe { heap.with_depots(|it| it.swing.is_any()) };
        if is_any_hot {
            let mut twice = FoundLate::NOTHING;
            let released = arena.make_room_of_hot(bins, bytes, &mut twice);
            self.found_late.note_all(&twice);
            self.note_released(arena, released);
        }
        if !is_any_set_aside {
            return heap.has_swings.set(is_any_hot);
        }
        // SAFETY: as above.
        unsafe { heap.with_depots(|it| it.note_fetched(bytes)) };
        for n in 0..HALVES_AT_ONCE {
            let fetched = if n == 0 { bytes } else { 0 };
            // SAFETY: as above.
            let owed = unsafe { heap.with_depots(|it| it.take_owed(arena, fetched)) };
            let Some((idle, rounds)) = owed else { break };
            if let Err(twice) = self.give_back(arena, idle, rounds.as_slice()) {
                self.found_late.note(twice);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const NONE: Swing = Swing {
        missed: Row { now: 0, last: 0 },
        gone: Row { now: 0, last: 0 },
        granted: 0,
        fetched: 0,
        owed: 0,
    };
    const OFTEN: usize = retain::GONE_IN_A_ROW as usize;

    /// What comes of rows of misses, and of going home.
    fn after(rows: &[(usize, usize)]) -> Swing {
        let mut swing = NONE;
        for &(missed, gone) in rows {
            (0..missed).for_each(|_| swing.note_missed());
            (0..gone).for_each(|_| swing.note_gone());
        }
        swing
    }

    #[test]
    fn a_program_has_phases_when_it_misses_often_in_a_row_and_lets_go_often_in_a_row() {
        let phases = |rows: &[(usize, usize)]| after(rows).has_phases(OFTEN as u8);
        assert!(phases(&[(OFTEN, OFTEN)]) && phases(&[(1000, 1000)]));
        // The first miss after they were gone is when it counts.
        assert!(phases(&[(OFTEN, OFTEN), (1, 0)]) && phases(&[(OFTEN, OFTEN), (OFTEN, 1)]));
        assert!(!phases(&[(1000, OFTEN - 1)]) && !phases(&[(OFTEN - 1, 1000)]));
        assert!(!phases(&[(1000, 0)]) && !phases(&[(0, 1000)]));
        assert!(!phases(&[(20, 20); 1000]), "it does both at the same time");
        assert!(!phases(&[(1000, 1000), (3, 3), (3, 3)]), "that it had some is long ago");
    }

    #[test]
    fn a_class_is_idle_that_was_not_used_for_an_epoch_and_one_before() {
        let mut used = Used::NEVER;
        used.note();
        let idle = |used: &mut Used| {
            used.end_epoch();
            used.is_idle()
        };
        assert_eq!([idle(&mut used), idle(&mut used), idle(&mut used)], [false, true, true]);
        assert_eq!([used.take(), used.take()], [true, false]);
        used.note();
        assert!(!idle(&mut used) && used.take());
        used.note();
        assert_eq!([idle(&mut used), idle(&mut used)], [false, true]);
    }

    #[test]
    fn an_epoch_ends_when_a_part_of_what_was_granted_was_fetched() {
        let mut swing = Swing { granted: 8 << 20, ..NONE };
        let ends: Vec<_> = (1..=2048).filter(|_| swing.ends_epoch(4096)).collect();
        assert_eq!(ends, [256, 512, 768, 1024, 1280, 1536, 1792, 2048]);
    }

    #[test]
    fn what_is_owed_is_paid_by_the_batch_and_is_no_more_than_was_granted() {
        let mut swing = Swing { granted: 1000, ..NONE };
        let mut paid = |bytes| {
            let first = swing.owes(bytes, 100);
            usize::from(first) + (0..20).filter(|_| swing.owes(0, 100)).count()
        };
        assert_eq!([60, 60, 60, 19, 1].map(&mut paid), [0, 1, 0, 0, 1]);
        assert_eq!([500, usize::MAX].map(&mut paid), [5, 10]);
    }
}
