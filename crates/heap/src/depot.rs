//! A heap's depot: full magazines that its thread has set aside, for each class a few.
//!
//! A thread that frees more than a magazine holds, and then allocates as much, exchanges magazines
//! here instead of giving objects back to their slabs and taking them out again.
//!
//! Invariant: no magazine is in two places, not even between two steps. Whoever is interrupted here
//! by a fork leaves the child with a depot in which every magazine is one that nobody else there
//! has, and those that count as full are.

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

    /// Sets a full magazine aside.
    pub(crate) fn exchange_full<S: System>(
        &mut self,
        arena: &Arena<S>,
        class: Class,
        full: *mut Magazine,
    ) -> Option<Exchanged> {
        let depot = &mut self.classes[usize::from(class.0)];
        depot.exchange_full(class, full, || self.fresh.take(arena))
    }

    /// Whether there is a full magazine of a class.
    #[inline]
    pub(crate) fn has(&self, class: Class) -> bool {
        self.classes[usize::from(class.0)].full > 0
    }

    /// Takes a full magazine out, if there is one, and leaves `empty` in its place.
    pub(crate) fn exchange_empty(
        &mut self,
        class: Class,
        empty: *mut Magazine,
    ) -> Option<*mut Magazine> {
        self.classes[usize::from(class.0)].exchange_empty(class, empty)
    }

    /// Empties a full magazine, if there is one, and returns what was in it.
    pub(crate) fn empty_one(&mut self, class: Class) -> Option<Rounds> {
        self.classes[usize::from(class.0)].empty_one(class)
    }
}

/// What there is for a full magazine.
pub(crate) enum Exchanged {
    /// An empty one.
    ForEmpty(*mut Magazine),
    /// The one that has been here longest, full, since there may be no more.
    ForOldest(*mut Magazine),
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

    /// Returns one of its own empty magazines for it, or one that `lease` gives, or its oldest.
    fn exchange_full(
        &mut self,
        class: Class,
        full: *mut Magazine,
        lease: impl FnOnce() -> Option<*mut Magazine>,
    ) -> Option<Exchanged> {
        let places = usize::from(class.info().depot);
        if self.full == places {
            let oldest = core::mem::replace(self.place(class, 0), full);
            self.oldest = if self.oldest + 1 < places { self.oldest + 1 } else { 0 };
            return Some(Exchanged::ForOldest(oldest));
        }
        let place = self.place(class, self.full);
        let empty = if place.is_null() { lease()? } else { *place };
        *place = full;
        self.full += 1;
        Some(Exchanged::ForEmpty(empty))
    }

    fn exchange_empty(&mut self, class: Class, empty: *mut Magazine) -> Option<*mut Magazine> {
        self.full = self.full.checked_sub(1)?;
        let last = self.full;
        Some(core::mem::replace(self.place(class, last), empty))
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
    use crate::class::SMALL_MAX;
    use std::collections::VecDeque;

    /// A magazine that only its address is known of.
    fn magazine(n: usize) -> *mut Magazine {
        core::ptr::without_provenance_mut(n)
    }

    #[test]
    fn the_last_set_aside_comes_back_first_and_the_oldest_goes_when_there_is_no_room() {
        for class in [Class::of_small(16), Class::of_small(64), Class::of_small(SMALL_MAX)] {
            let places = usize::from(class.info().depot);
            let (mut depot, mut model, mut next) = (Depot::new(), VecDeque::new(), 0);
            let mut seed = 1_usize;
            for _ in 0..10_000 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                if seed >> 40 & 1 == 0 {
                    next += 1;
                    let lease = || Some(magazine(1 << 60));
                    match depot.exchange_full(class, magazine(next), lease) {
                        Some(Exchanged::ForOldest(oldest)) => {
                            assert_eq!(model.len(), places);
                            assert_eq!(model.pop_front(), Some(oldest.addr()));
                        }
                        Some(Exchanged::ForEmpty(empty)) => {
                            assert!(model.len() < places);
                            assert_eq!(empty.addr(), 1 << 60);
                        }
                        None => panic!("a magazine could be leased"),
                    }
                    model.push_back(next);
                } else {
                    let taken = depot.exchange_empty(class, magazine(1 << 60));
                    assert_eq!(taken.map(<*mut Magazine>::addr), model.pop_back());
                }
            }
        }
    }
}
