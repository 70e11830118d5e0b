//! A heap's depot: full magazines that its thread has set aside, for each class a few.
//!
//! A thread that frees more than a magazine holds, and then allocates as much, exchanges magazines
//! here instead of giving objects back to their slabs and taking them out again.
//!
//! Invariant: of the places in use, those of full magazines come first; the others have empty ones.
//! Whoever is interrupted here by a fork leaves the child with a depot in which every magazine is
//! one that nobody else there has.

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

    /// Sets a full magazine aside, if there is room, and returns an empty one for it.
    pub(crate) fn exchange_full<S: System>(
        &mut self,
        arena: &Arena<S>,
        class: Class,
        full: *mut Magazine,
    ) -> Option<*mut Magazine> {
        let depot = &mut self.classes[usize::from(class.0)];
        depot.exchange_full(class, full, || self.fresh.take(arena))
    }

    /// Takes a full magazine out, if there is one, and leaves `empty` in its place.
    pub(crate) fn exchange_empty(
        &mut self,
        class: Class,
        empty: *mut Magazine,
    ) -> Option<*mut Magazine> {
        self.classes[usize::from(class.0)].exchange_empty(empty)
    }

    /// Empties a full magazine, if there is one, and returns what was in it.
    pub(crate) fn empty_one(&mut self, class: Class) -> Option<Rounds> {
        self.classes[usize::from(class.0)].empty_one()
    }
}

/// The magazines of one class.
struct Depot {
    magazines: [*mut Magazine; retain::DEPOT_MOST],
    full: usize,
    used: usize,
}

impl Depot {
    /// Without magazines.
    const fn new() -> Self {
        Self { magazines: [core::ptr::null_mut(); retain::DEPOT_MOST], full: 0, used: 0 }
    }

    /// Returns one of its own empty magazines for it, or one that `lease` gives.
    fn exchange_full(
        &mut self,
        class: Class,
        full: *mut Magazine,
        lease: impl FnOnce() -> Option<*mut Magazine>,
    ) -> Option<*mut Magazine> {
        if self.full >= retain::depot(class.size(), ROUNDS) {
            return None;
        }
        let empty = if self.full < self.used { self.magazines[self.full] } else { lease()? };
        self.magazines[self.full] = full;
        self.full += 1;
        self.used = self.used.max(self.full);
        Some(empty)
    }

    fn exchange_empty(&mut self, empty: *mut Magazine) -> Option<*mut Magazine> {
        self.full = self.full.checked_sub(1)?;
        Some(core::mem::replace(&mut self.magazines[self.full], empty))
    }

    fn empty_one(&mut self) -> Option<Rounds> {
        self.full = self.full.checked_sub(1)?;
        let end = Magazine::slot_after(self.magazines[self.full], ROUNDS);
        // SAFETY: a magazine of this depot, and full.
        Some(unsafe { Magazine::copy_below(end) })
    }
}
