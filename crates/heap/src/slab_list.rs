//! A list of slabs, the one that has waited longest first: doubly linked through the slabs' local
//! parts.
//!
//! Invariants: both ends are 0 when it is empty, else granules plus one, as all links are; a slab
//! is in one list at most. Whose lock protects a list, and the links of the slabs in it, says who
//! has it. Relaxed: that lock orders it, and others only look whether there is any.

use crate::arena::Arena;
use crate::layout::Granule;
use freehold_sync::atomic::{AtomicU32, Ordering};
use freehold_sys::System;

/// A list. All zero is an empty one.
#[derive(Default)]
pub(crate) struct SlabList {
    first: AtomicU32,
    last: AtomicU32,
}

/// A slab as a link.
const fn link_to(g: Granule) -> u32 {
    g.0 + 1
}

/// The slab that a link leads to, if it leads anywhere.
fn target(link: u32) -> Option<Granule> {
    link.checked_sub(1).map(Granule)
}

impl SlabList {
    /// An empty list.
    pub(crate) const fn new() -> Self {
        Self { first: AtomicU32::new(0), last: AtomicU32::new(0) }
    }

    /// The slab that has waited longest: a hint for who does not hold the lock.
    #[inline]
    pub(crate) fn first(&self) -> Option<Granule> {
        target(self.first.load(Ordering::Relaxed))
    }

    /// The slab behind one.
    ///
    /// # Safety
    /// The lock is held, and the slab is in the list.
    pub(crate) unsafe fn after<S: System>(arena: &Arena<S>, g: Granule) -> Option<Granule> {
        // SAFETY: the lock protects the links of slabs in the list.
        target(unsafe { (*arena.local(g)).next })
    }

    /// Puts a slab last. Returns whether it is the only one.
    ///
    /// # Safety
    /// The lock is held, and the slab is the caller's and in no list.
    pub(crate) unsafe fn append<S: System>(&self, arena: &Arena<S>, g: Granule) -> bool {
        let last = self.last.load(Ordering::Relaxed);
        // SAFETY: the lock protects the links of slabs in the list, and this one is the caller's.
        unsafe {
            (*arena.local(g)).prev = last;
            (*arena.local(g)).next = 0;
            match target(last) {
                Some(last) => (*arena.local(last)).next = link_to(g),
                None => self.first.store(link_to(g), Ordering::Relaxed),
            }
        }
        self.last.store(link_to(g), Ordering::Relaxed);
        last == 0
    }

    /// Takes a slab out. Returns whether it was the only one.
    ///
    /// # Safety
    /// The lock is held, and the slab is in the list.
    pub(crate) unsafe fn unlink<S: System>(&self, arena: &Arena<S>, g: Granule) -> bool {
        // SAFETY: the lock protects the links of slabs in the list.
        unsafe {
            let (next, prev) = ((*arena.local(g)).next, (*arena.local(g)).prev);
            match target(prev) {
                Some(prev) => (*arena.local(prev)).next = next,
                None => self.first.store(next, Ordering::Relaxed),
            }
            match target(next) {
                Some(next) => (*arena.local(next)).prev = prev,
                None => self.last.store(prev, Ordering::Relaxed),
            }
            next | prev == 0
        }
    }

    /// Both ends as they are written.
    #[cfg(test)]
    pub(crate) fn into_ends(self) -> [u32; 2] {
        [self.first.into_inner(), self.last.into_inner()]
    }
}
