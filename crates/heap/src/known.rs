//! What a heap knows of medium objects by their addresses: which are hot, and where in their slabs
//! those are that were hot before they were given out.
//!
//! One entry for each 2 KiB of 8 MiB, which is exact where what a heap keeps lies no further
//! apart. Who frees an object whose entry is its own need not find out where it is in its slab. The
//! entries are made when a heap wants a medium object for the first time; before, and where there
//! is no memory for them, it keeps none.
//!
//! Invariants: the entry of a hot object stays as it is until the object is taken, so no two hot
//! objects have the same, and what has none that is marked as hot is not hot. All others may have
//! been overwritten, or be of long ago: the object may have gone home since, and its memory may
//! belong to another class. So who goes by one looks at the granule's tag, and whether the object
//! is free as far as its slab knows.

use crate::arena::Arena;
use crate::layout::{GRANULE, at};
use crate::magazine::Magazine;
use crate::tables::Part;
use freehold_sync::atomic::{Ordering, compiler_fence};
use freehold_sys::System;

/// Entries of a heap. A power of two.
pub(crate) const ENTRIES: usize = 4096;
/// Medium objects start further apart than this.
const UNIT_SHIFT: u32 = 11;
/// Medium objects start at multiples of this, which is more than there are of them in a slab.
const STEP: usize = 128;

/// Where a medium object is: from the lowest bit its number in the slab, its address, and the part
/// of the slab that it starts in, whose highest bit, which no part has, says that it is hot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry(u64);

const PART_SHIFT: u32 = 48;
const IS_HOT: u64 = 1 << 63;

impl Entry {
    /// That of an object.
    #[inline]
    pub(crate) fn new(address: usize, index: usize, part: Part) -> Self {
        debug_assert!(address.is_multiple_of(STEP) && address >> PART_SHIFT == 0);
        debug_assert!(index < STEP && u64::from(part.0) << PART_SHIFT & IS_HOT == 0);
        Self(address as u64 | index as u64 | u64::from(part.0) << PART_SHIFT)
    }

    /// The object's address.
    #[inline]
    pub(crate) fn address(self) -> usize {
        (self.0 & ((1 << PART_SHIFT) - STEP as u64)) as usize
    }

    /// The object's number in its slab.
    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize % STEP
    }

    /// Whether it is that of an object that was given out, of such a part of a slab.
    #[inline]
    pub(crate) fn is_of(self, address: usize, part: Part) -> bool {
        self.0 & !(STEP as u64 - 1) == address as u64 | u64::from(part.0) << PART_SHIFT
    }

    #[inline]
    fn is_hot(self) -> bool {
        self.0 & IS_HOT != 0
    }

    #[inline]
    fn hot(self) -> Self {
        Self(self.0 | IS_HOT)
    }
}

const _: () = assert!(STEP.is_power_of_two() && STEP <= GRANULE && STEP < 1 << UNIT_SHIFT);
const _: () = assert!(ENTRIES.is_power_of_two() && ENTRIES << UNIT_SHIFT <= 1 << u32::BITS);

/// What is known of all.
pub(crate) struct Known {
    /// Where the entries are.
    entries: usize,
    /// How many there are, less one.
    mask: u32,
    /// What is there as long as there are no others: nothing is known.
    none: Entry,
}

impl Known {
    /// Makes one of which nothing is known.
    ///
    /// # Safety
    /// The place is the caller's, and aligned, and the one that is made is not moved.
    pub(crate) unsafe fn make_at(place: *mut Self) {
        // SAFETY: the caller's promise; each is a field of the place.
        unsafe {
            let none = &raw mut (*place).none;
            none.write(Entry(0));
            (&raw mut (*place).entries).write(none.expose_provenance());
            (&raw mut (*place).mask).write(0);
        }
    }

    /// Sees to it that there are entries. Returns whether there are.
    #[inline]
    pub(crate) fn provide<S: System>(&mut self, arena: &Arena<S>) -> bool {
        self.is_there() || self.make(arena)
    }

    #[cold]
    fn make<S: System>(&mut self, arena: &Arena<S>) -> bool {
        const MAGAZINES: usize = ENTRIES * size_of::<Entry>() / size_of::<Magazine>();
        // They stay this heap's, one after the other, for their memory, which is zero.
        let Some(first) = arena.magazines.make(&arena.system, MAGAZINES) else { return false };
        self.use_entries(first.expose_provenance());
        true
    }

    /// Uses the entries at a place, which are all zero, and nobody else's.
    pub(crate) fn use_entries(&mut self, entries: usize) {
        self.entries = entries;
        // Second: in the child of a fork there are as many entries as there are said to be.
        compiler_fence(Ordering::SeqCst);
        self.mask = ENTRIES as u32 - 1;
    }

    fn is_there(&self) -> bool {
        self.mask != 0
    }

    /// Where the entry is that an object has.
    #[inline]
    fn place(&self, address: usize) -> *mut Entry {
        // Half of the address tells which one it is.
        let number = address as u32 >> UNIT_SHIFT & self.mask;
        at::<Entry>(self.entries).wrapping_add(number as usize)
    }

    /// The entry at which an object's is, if it has one.
    #[inline]
    pub(crate) fn at(&self, address: usize) -> Entry {
        // SAFETY: one of the entries, which are this heap's alone.
        unsafe { self.place(address).read() }
    }

    /// Whether an object may be hot; if not it certainly is not.
    #[inline]
    pub(crate) fn may_be_hot(&self, address: usize) -> bool {
        self.at(address).is_hot()
    }

    /// Whether an object is hot.
    #[inline]
    pub(crate) fn is_hot(&self, address: usize) -> bool {
        let entry = self.at(address);
        entry.is_hot() && entry.address() == address
    }

    /// Marks an object as hot, where none is that has the same entry.
    #[inline]
    pub(crate) fn set_hot(&mut self, address: usize, entry: Entry) {
        debug_assert!(self.is_there() && !self.may_be_hot(address) && entry.address() == address);
        // SAFETY: as in `at`.
        unsafe { self.place(address).write(entry.hot()) };
    }

    /// Notes that a hot object is given out.
    #[inline]
    pub(crate) fn set_out(&mut self, entry: Entry) {
        // SAFETY: as in `at`.
        unsafe { self.place(entry.0 as usize).write(entry) };
    }

    /// How many are marked as hot.
    #[cfg(test)]
    pub(crate) fn count_hot(&self) -> usize {
        let unit = 1 << UNIT_SHIFT;
        (0..=self.mask as usize).filter(|n| self.may_be_hot(n * unit)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_says_where_its_object_is_and_is_of_no_other() {
        let address = 0x7fff_ffff_f880;
        for (class, delta) in [(42, 0), (61, 7), (0, 0)] {
            let part = Part::new(class, delta);
            for index in [0, 1, 55] {
                let entry = Entry::new(address, index, part);
                assert_eq!((entry.address(), entry.index()), (address, index));
                assert!(entry.is_of(address, part));
                let others = [address + 1, address - 1, address + STEP, address - STEP, 0];
                assert!(others.iter().all(|&other| !entry.is_of(other, part)));
                for other in [Part::new(class + 1, delta), Part::new(class, delta + 1)] {
                    assert!(!entry.is_of(address, other));
                }
                assert!(entry.hot().is_hot() && !entry.is_hot());
                assert_eq!((entry.hot().address(), entry.hot().index()), (address, index));
                assert!(!entry.hot().is_of(address, part), "a hot one was not given out");
            }
        }
    }
}
