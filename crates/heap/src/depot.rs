//! A heap's depot: full magazines that its thread has set aside, for each class a few; or those
//! threads that share it.
//!
//! A thread that frees more than a magazine holds, and then allocates as much, sets magazines aside
//! here instead of giving objects back to their slabs and taking them out again.
//!
//! What changes hands is what is in them, which costs an instruction an object; the thread's own
//! magazine stays its own. A signal handler may come here while the fast path of its own thread,
//! which it interrupts, is about to write to that magazine: if another had taken its place, and it
//! were in the depot, its objects would be given out twice. So some are lost at worst.
//!
//! Invariant: no object is in two magazines that count, not even between two steps. Whoever is
//! interrupted here by a fork leaves the child with a depot in which every magazine is one that
//! nobody else there has, and those that count as full are.

use crate::arena::Arena;
use crate::class::{Class, SMALL_CLASSES};
use crate::magazine::{Fresh, Magazine, ROUNDS, Rounds};
use crate::policy::retain;
use freehold_sys::System;

/// The depots of a heap, one for each small class.
pub(crate) struct Depots {
    classes: [Depot; SMALL_CLASSES + 1],
    fresh: Fresh,
}

impl Depots {
    /// Without magazines.
    pub(crate) const fn new() -> Self {
        Self { classes: [const { Depot::new() }; SMALL_CLASSES + 1], fresh: Fresh::NONE }
    }

    /// Sets aside what is in a full magazine.
    ///
    /// # Safety
    /// The caller has it, and it is full.
    pub(crate) unsafe fn exchange_full<S: System>(
        &mut self,
        arena: &Arena<S>,
        class: Class,
        full: *mut Magazine,
    ) -> Option<Exchanged> {
        let depot = &mut self.classes[usize::from(class.0)];
        // SAFETY: the caller's promise.
        unsafe { depot.exchange_full(class, full, || self.fresh.take(arena)) }
    }

    /// Sets aside what is in a full magazine, where locks are held that come after those of
    /// whoever has magazines: a place without one gets `spare`, if that is there.
    ///
    /// # Safety
    /// The caller has it, and it is full.
    pub(crate) unsafe fn exchange_full_for(
        &mut self,
        class: Class,
        full: *mut Magazine,
        spare: &mut Option<*mut Magazine>,
    ) -> Option<Exchanged> {
        let depot = &mut self.classes[usize::from(class.0)];
        // SAFETY: the caller's promise.
        unsafe { depot.exchange_full(class, full, || spare.take()) }
    }

    /// Whether there is a full magazine of a class.
    #[inline]
    pub(crate) fn has(&self, class: Class) -> bool {
        self.classes[usize::from(class.0)].full > 0
    }

    /// Fills an empty magazine with what is in a full one, if there is one.
    ///
    /// # Safety
    /// The caller has it.
    #[must_use]
    pub(crate) unsafe fn exchange_empty(&mut self, class: Class, empty: *mut Magazine) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.classes[usize::from(class.0)].exchange_empty(class, empty) }
    }

    /// Empties a full magazine, if there is one, and returns what was in it.
    pub(crate) fn empty_one(&mut self, class: Class) -> Option<Rounds> {
        self.classes[usize::from(class.0)].empty_one(class)
    }
}

/// What became of a full magazine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exchanged {
    /// What was in it is here: it is empty.
    ForEmpty,
    /// It has what had been here longest, full as it was, since there may be no more.
    ForOldest,
}

/// The magazines of one class: a ring of as many places as there may be full ones. From the oldest
/// on come the full ones, in the order in which they were set aside; then empty ones; then places
/// never used, which are null.
struct Depot {
    magazines: [*mut Magazine; retain::DEPOT_MOST],
    oldest: usize,
    full: usize,
}

impl Depot {
    /// Without magazines.
    const fn new() -> Self {
        Self { magazines: [core::ptr::null_mut(); retain::DEPOT_MOST], oldest: 0, full: 0 }
    }

    /// The place `n` after that of the oldest magazine.
    fn place(&mut self, class: Class, n: usize) -> &mut *mut Magazine {
        let (places, n) = (usize::from(class.info().depot), self.oldest + n);
        &mut self.magazines[if n < places { n } else { n - places }]
    }

    /// Takes what is in a full magazine into an empty one of its own, or one that `lease` gives, or
    /// for what is in the oldest. `None` if the class has no places, or if `lease` gives none.
    ///
    /// # Safety
    /// The caller has it, and it is full.
    unsafe fn exchange_full(
        &mut self,
        class: Class,
        full: *mut Magazine,
        lease: impl FnOnce() -> Option<*mut Magazine>,
    ) -> Option<Exchanged> {
        let places = usize::from(class.info().depot);
        if places == 0 {
            return None;
        }
        if self.full == places {
            let oldest = *self.place(class, 0);
            // SAFETY: the caller's magazine, and one of this depot.
            unsafe {
                Magazine::slots(oldest, ROUNDS).swap_with_slice(Magazine::slots(full, ROUNDS));
            };
            self.oldest = if self.oldest + 1 < places { self.oldest + 1 } else { 0 };
            return Some(Exchanged::ForOldest);
        }
        let place = self.place(class, self.full);
        if place.is_null() {
            *place = lease()?;
        }
        // SAFETY: as above.
        unsafe { Magazine::copy(full, *place, ROUNDS) };
        self.full += 1;
        Some(Exchanged::ForEmpty)
    }

    /// Fills an empty magazine with what was set aside last.
    ///
    /// # Safety
    /// The caller has it.
    unsafe fn exchange_empty(&mut self, class: Class, empty: *mut Magazine) -> bool {
        let Some(last) = self.full.checked_sub(1) else { return false };
        self.full = last;
        // SAFETY: the caller's magazine, and one of this depot.
        unsafe { Magazine::copy(*self.place(class, last), empty, ROUNDS) };
        true
    }

    fn empty_one(&mut self, class: Class) -> Option<Rounds> {
        self.full = self.full.checked_sub(1)?;
        let last = self.full;
        let end = Magazine::slot_after(*self.place(class, last), ROUNDS);
        // SAFETY: a magazine of this depot, and full.
        Some(unsafe { Magazine::copy_below(end) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::collections::VecDeque;

    /// A magazine of the test's own.
    struct Own(*mut Magazine);

    impl Own {
        fn new() -> Self {
            // SAFETY: not of size zero; zeros are a magazine.
            Self(unsafe { alloc_zeroed(Layout::new::<Magazine>()) }.cast())
        }

        /// What is in all its slots.
        fn number(&self) -> usize {
            // SAFETY: this test's magazine.
            let slots = unsafe { Magazine::slots(self.0, ROUNDS) };
            assert!(slots.iter().all(|&slot| slot == slots[0]), "{slots:?}");
            slots[0]
        }

        fn set(&self, number: usize) {
            // SAFETY: this test's magazine.
            unsafe { Magazine::slots(self.0, ROUNDS) }.fill(number);
        }
    }

    impl Drop for Own {
        fn drop(&mut self) {
            // SAFETY: allocated so.
            unsafe { dealloc(self.0.cast(), Layout::new::<Magazine>()) };
        }
    }

    #[test]
    fn the_last_set_aside_comes_back_first_and_the_oldest_goes_when_there_is_no_room() {
        for class in [16, 64, 1024].map(Class::of_small) {
            let places = usize::from(class.info().depot);
            let (mut depot, mut model, mut next) = (Depot::new(), VecDeque::new(), 0);
            let (own, mut leased) = (Own::new(), std::vec::Vec::new());
            let mut seed = 1_usize;
            for _ in 0..10_000 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                if seed >> 40 & 1 == 0 {
                    next += 1;
                    own.set(next);
                    let lease = || {
                        leased.push(Own::new());
                        leased.last().map(|magazine| magazine.0)
                    };
                    // SAFETY: the test's magazine, and full.
                    match unsafe { depot.exchange_full(class, own.0, lease) } {
                        Some(Exchanged::ForOldest) => {
                            assert_eq!(model.len(), places);
                            assert_eq!(model.pop_front(), Some(own.number()));
                        }
                        Some(Exchanged::ForEmpty) => assert!(model.len() < places),
                        None => panic!("a magazine could be leased"),
                    }
                    model.push_back(next);
                } else {
                    own.set(0);
                    // SAFETY: the test's magazine.
                    let filled = unsafe { depot.exchange_empty(class, own.0) };
                    assert_eq!(filled.then(|| own.number()), model.pop_back());
                }
            }
            assert_eq!(leased.len(), places);
        }
    }
}
