//! Swings: a program that allocates thousands of objects of one class, frees them all, and begins
//! again.
//!
//! What may stay at hand is bounded, for each class and for all together, so that what is free of
//! one is there for the others. Where nothing but one class comes and goes there are no others, and
//! what went home would be fetched again. So of a class that a heap has missed again and again,
//! with none of the other classes missed in between, more may stay at hand. All that does is
//! granted then, from a bound for the swings of all heaps, and nothing of the usual bounds taken.
//!
//! It makes room as soon as anything else is wanted: what is fetched of another class, or claimed
//! as a run, is owed, and as much goes home. What lies in a heap whose thread rests the background
//! thread takes, as all that is at hand.
//!
//! A heap may have two: of small objects, which are set aside in its [depot](crate::depot), and of
//! medium ones, which stay [hot](crate::hot).
//!
//! Invariant: what swings have been granted in all is what each was, so far as none was lost with a
//! thread that vanished in a fork.

use crate::arena::Arena;
use crate::cache::ThreadCache;
use crate::class::Class;
use crate::depot::{Depots, HALF};
use crate::heap::Heap;
use crate::layout::GRANULE;
use crate::magazine::ROUNDS;
use crate::medium::MediumBins;
use crate::policy::retain;
use freehold_sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use freehold_sys::System;

/// How often in a row a class was missed when it is the only one that comes and goes.
const IN_A_ROW: u8 = 16;

/// The most half magazines, and batches of hot objects, that go home at once.
const HALVES_AT_ONCE: usize = 64;
const BATCHES_AT_ONCE: usize = 8;

/// What of a heap comes and goes alone, of small objects or of medium ones. Its leaseholder's. All
/// zero: nothing.
pub(crate) struct Swing {
    /// The class that was missed last, and how often in a row.
    missed: Class,
    in_a_row: u8,
    /// The class of which more may stay at hand than usually; 0 if there is none.
    class: Class,
    /// Bytes of it that the heap was granted.
    granted: usize,
    /// Bytes that are to go home for something else.
    owed: usize,
}

impl Swing {
    /// None.
    #[cfg(test)]
    pub(crate) const NONE: Self =
        Self { missed: Class(0), in_a_row: 0, class: Class(0), granted: 0, owed: 0 };

    /// Notes that nothing is at hand of a class.
    #[inline]
    pub(crate) fn note_missed(&mut self, class: Class) {
        self.in_a_row = if self.missed == class { self.in_a_row.saturating_add(1) } else { 1 };
        self.missed = class;
    }

    /// The class of which more may stay at hand than usually.
    #[inline]
    pub(crate) fn class(&self) -> Option<Class> {
        (self.class != Class(0)).then_some(self.class)
    }

    /// Whether that is this one.
    #[inline]
    pub(crate) fn is_of(&self, class: Class) -> bool {
        self.class == class
    }

    /// Whether more may stay at hand of the class that was missed last, as there is no other one.
    pub(crate) fn may_grow(&self) -> bool {
        self.in_a_row >= IN_A_ROW && self.class().is_none_or(|class| class == self.missed)
    }

    /// Grants a class so many bytes more.
    pub(crate) fn grow(&mut self, class: Class, bytes: usize) {
        debug_assert!(self.class().is_none_or(|other| other == class));
        self.class = class;
        self.granted += bytes;
    }

    /// Notes that no more than usually may stay at hand of a class. Returns what it was granted.
    pub(crate) fn end(&mut self, class: Class) -> usize {
        if self.class != class {
            return 0;
        }
        (self.class, self.owed) = (Class(0), 0);
        core::mem::take(&mut self.granted)
    }

    /// Bytes of it that the heap was granted.
    pub(crate) fn granted(&self) -> usize {
        self.granted
    }

    /// Notes that so many bytes of something else are fetched. Returns how many batches of so many
    /// bytes are to go home now, of at `most` so many at once.
    pub(crate) fn owe(&mut self, bytes: usize, batch: usize, most: usize) -> usize {
        // No more than there may be.
        let owed = self.owed.saturating_add(bytes).min(self.granted);
        let batches = (owed / batch).min(most);
        self.owed = owed - batches * batch;
        batches
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
        let has_several_threads = self.has_several_threads();
        if has_several_threads && !self.is_reclaimed() {
            self.would_keep_more();
            if !self.is_helped() {
                self.want_help();
            }
            return 0;
        }
        let used = self.about_in_use().used * GRANULE;
        let most = retain::swing_bytes(used, has_several_threads);
        most.saturating_sub(self.leases.granted.all())
    }

    /// Grants a heap so many bytes for a swing, which were left a moment ago.
    pub(crate) fn grant_swing(&self, bytes: usize) {
        self.leases.granted.0.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes back what a swing was granted.
    pub(crate) fn end_swing(&self, bytes: usize) {
        if bytes > 0 {
            // Less than that may be counted in the child of a fork that came between.
            let less = |all: usize| Some(all.saturating_sub(bytes));
            let granted = &self.leases.granted.0;
            _ = granted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
    }

    /// Sends some of what is hot of a swing home, as so many bytes of something else are fetched.
    /// Returns the granules released.
    fn make_room_of_hot(&self, bins: &mut MediumBins, class: Class, bytes: usize) -> u32 {
        let batches = bins.swing().owe(bytes, ROUNDS * class.size(), BATCHES_AT_ONCE);
        (0..batches).map(|_| self.send_some_hot(bins, class)).sum()
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

impl Depots {
    /// Lets more be set aside of a class of which so many magazines were too few, if it comes and
    /// goes alone. Returns whether that was done, or its depth is a matter of swings in any case.
    #[cold]
    pub(crate) fn deepen_swing<S: System>(
        &mut self,
        arena: &Arena<S>,
        class: Class,
        too_few: usize,
    ) -> bool {
        let is_swing = self.swing.is_of(class);
        if !self.swing.may_grow() {
            return is_swing;
        }
        let (places, extra, bytes) = self.places(class);
        // What it was allowed before becomes part of the swing.
        let usual = if is_swing { 0 } else { extra * bytes };
        let left = arena.left_for_swings().saturating_sub(usual);
        let deepest = retain::deepest_swing(places, bytes, left);
        let deeper = retain::deeper_depot(places, too_few, deepest);
        if deeper.is_none() && is_swing {
            self.make_shallow(arena, class);
        }
        let Some(deeper) = deeper.filter(|&deeper| deeper > places) else { return is_swing };
        if !self.deepen(arena, class, deeper) {
            return is_swing;
        }
        let granted = usual + (deeper - places) * bytes;
        arena.grant_swing(granted);
        self.swing.grow(class, granted);
        self.deepened -= usual;
        true
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

    /// Sends some of what is at hand of swings home, as so many bytes are fetched of a class that
    /// is none of theirs, or of a run.
    #[inline]
    pub(crate) fn make_room<S: System>(
        &mut self,
        arena: &Arena<S>,
        fetched: Option<Class>,
        bytes: usize,
    ) {
        if self.heap().is_some_and(|heap| heap.has_swings.get()) {
            self.make_room_of_swings(arena, fetched, bytes);
        }
    }

    #[cold]
    fn make_room_of_swings<S: System>(
        &mut self,
        arena: &Arena<S>,
        fetched: Option<Class>,
        bytes: usize,
    ) {
        let (Some(heap), Some(bins)) = (self.heap(), self.medium_bins()) else { return };
        // SAFETY: the thread has the lease, and what is done there is done to nothing else.
        let set_aside = unsafe { heap.with_depots(|it| it.swing.class()) };
        let hot = bins.swing().class();
        if set_aside.is_none() && hot.is_none() {
            heap.has_swings.set(false);
        }
        let is_other = |class: &Class| Some(*class) != fetched;
        if let Some(class) = hot.filter(is_other) {
            let released = arena.make_room_of_hot(bins, class, bytes);
            self.note_released(arena, released);
        }
        let Some(class) = set_aside.filter(is_other) else { return };
        let batch = HALF * class.size();
        // SAFETY: as above.
        let halves = unsafe { heap.with_depots(|it| it.swing.owe(bytes, batch, HALVES_AT_ONCE)) };
        for _ in 0..halves {
            // SAFETY: as above.
            let half = unsafe { heap.with_depots(|it| it.empty_one(arena, class)) };
            let Some(rounds) = half else { break };
            // A second free that is found out now stays unnamed: this is no free.
            _ = self.give_back(arena, class, rounds.as_slice());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Class = Class(3);
    const OTHER: Class = Class(4);

    fn missed(classes: impl IntoIterator<Item = Class>) -> Swing {
        let mut swing = Swing::NONE;
        classes.into_iter().for_each(|class| swing.note_missed(class));
        swing
    }

    #[test]
    fn a_class_comes_and_goes_alone_when_no_other_was_missed_for_long() {
        let often = usize::from(IN_A_ROW);
        let row = |count| core::iter::repeat_n(ONE, count);
        assert!(missed(row(often)).may_grow() && missed(row(1000)).may_grow());
        assert!(!missed(row(often - 1)).may_grow());
        assert!(!missed(row(1000).chain([OTHER])).may_grow());
        assert!(!missed(row(often - 1).chain([OTHER, ONE])).may_grow());
    }

    #[test]
    fn as_long_as_one_class_has_a_swing_no_other_gets_one() {
        let mut swing = missed([ONE; 20]);
        swing.grow(ONE, 1000);
        assert!(swing.may_grow() && swing.is_of(ONE) && !swing.is_of(OTHER));
        (0..20).for_each(|_| swing.note_missed(OTHER));
        assert!(!swing.may_grow());
        assert_eq!((swing.end(OTHER), swing.end(ONE), swing.end(ONE)), (0, 1000, 0));
        assert!(swing.may_grow() && swing.class().is_none());
    }

    #[test]
    fn what_is_owed_goes_by_the_batch_and_waits_if_it_is_more_than_goes_at_once() {
        let mut swing = Swing::NONE;
        swing.grow(ONE, 1000);
        assert_eq!([60, 60, 60, 19, 1].map(|bytes| swing.owe(bytes, 100, 3)), [0, 1, 0, 0, 1]);
        assert_eq!([500, 0, 0].map(|bytes| swing.owe(bytes, 100, 3)), [3, 2, 0]);
        // No more than there may be of it.
        assert_eq!([usize::MAX, 0].map(|bytes| swing.owe(bytes, 100, 50)), [10, 0]);
    }
}
