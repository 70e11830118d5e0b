//! Looking at what the fast path does not: whether a freed small object is free already.
//!
//! The fast path looks at an address only. What a slow path may cost allows more: the first frees
//! of a thread in each class, and some later ones, are *watched*. As long as a class is watched its
//! magic number is 0, so that every free of it comes here; each is looked up in the magazine, and
//! in the slab where the thread's heap is attached to that.

use crate::arena::Arena;
use crate::cache::ThreadCache;
use crate::class::Class;
use crate::invalid::Invalid;
use crate::layout::Granule;
use crate::magazine::{MAGAZINES, Magazine};
use freehold_sync::atomic::Ordering;
use freehold_sys::System;

/// Frees that are watched when the first thread that has a heap begins to use a class: some 200
/// instructions each.
const FIRST: u8 = 8;

/// Frees that are watched when another thread does, which may not live for much longer than that:
/// one that is made twice, and no more.
const LATER: u8 = 2;

/// Times that a thread fetches objects before it watches one more free: one in some 500.
const FETCHES: u8 = 16;

/// What a thread watches: for each class, how many frees are still to be.
pub(crate) struct Watch {
    frees: [u8; MAGAZINES],
    /// Times that objects were fetched since a class was watched for that.
    fetches: u8,
}

impl Watch {
    /// Nothing.
    pub(crate) const fn new() -> Self {
        Self { frees: [0; MAGAZINES], fetches: 0 }
    }

    /// Whether the next free of the class is to be watched.
    pub(crate) fn is_on(&self, class: Class) -> bool {
        self.frees[usize::from(class.0)] > 0
    }

    /// Watches the next frees of a class that the thread begins to use, with a heap that others
    /// have used for it before, or not.
    pub(crate) fn begin(&mut self, class: Class, used_before: bool) {
        self.frees[usize::from(class.0)] = if used_before { LATER } else { FIRST };
    }

    /// Counts a watched free.
    fn count(&mut self, class: Class) {
        let left = &mut self.frees[usize::from(class.0)];
        *left = left.saturating_sub(1);
    }
}

impl ThreadCache {
    /// Notes that objects of a class were fetched: now and then one free of it is watched for that.
    pub(crate) fn note_fetch(&mut self, class: Class) {
        self.watch.fetches += 1;
        if self.watch.fetches == FETCHES {
            self.watch.fetches = 0;
            self.watch.frees[usize::from(class.0)] |= 1;
            self.set_magic(class);
        }
    }

    /// Looks whether an object that the thread is about to keep is free already, or was never given
    /// out, if the class is watched.
    pub(crate) fn look_at_free<S: System>(
        &mut self,
        arena: &Arena<S>,
        class: Class,
        slab: Granule,
        index: usize,
        address: usize,
    ) -> Result<(), Invalid> {
        if !self.watch.is_on(class) {
            return Ok(());
        }
        self.watch.count(class);
        self.set_magic(class);
        let top = self.tops[usize::from(class.0)];
        // SAFETY: the magazine is this thread's.
        if top != 0 && unsafe { Magazine::copy_below(top) }.as_slice().contains(&address) {
            return Err(Invalid::FreedTwice { address });
        }
        let Some(held) = self.heap().map(|heap| heap.hold()) else { return Ok(()) };
        if !held.is_attached_to(class, slab) {
            return Ok(());
        }
        // SAFETY: the slab is attached to the heap whose lock is held.
        let carved = unsafe { (*arena.local(slab)).carved };
        if index >= carved.into() {
            return Err(Invalid::NotAllocated { address });
        }
        // Relaxed: a bit that this thread set, or one that comes too early to be right.
        let bits = arena.bits(slab);
        // SAFETY: as above.
        let own = unsafe { (*arena.local(slab)).own_word(class.info(), bits, index / 64) };
        let bits = bits.word(index / 64).load(Ordering::Relaxed) | own;
        let free = bits >> (index % 64) & 1 != 0;
        if free { Err(Invalid::FreedTwice { address }) } else { Ok(()) }
    }
}
