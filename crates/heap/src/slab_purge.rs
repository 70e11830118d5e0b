//! Purging within slabs: the pages that hold nothing but free objects, of slabs that nobody has
//! taken from for a while.
//!
//! A slab is released when its last object is freed. Until then a few that are in use, or at hand
//! of a thread that sleeps, keep all of it resident: 32 to 256 KiB. So the background thread looks
//! at slabs that have been in a pool for some seconds; and, when a program has come to rest, at all
//! in pools, and at those that heaps are attached to. It holds each as one would who takes objects
//! from it, claimed from its pool or with the heap's lock; so nobody is given one of its objects
//! meanwhile, and others may go on to free.
//!
//! A slab remembers the pages that were purged until objects are taken from it, so that looking
//! again makes no system call.
//!
//! Left alone are slabs of which a thread has all free objects at hand, those in which little would
//! be gained, and all in hardened mode, whose free objects have seals.

use crate::arena::Arena;
use crate::class::{CLASSES, Class};
use crate::heap::Heap;
use crate::layout::{GRANULE, Granule};
use crate::policy::purge;
use crate::tally::Account;
use freehold_sync::freed;
use freehold_sync::granules::mask;
use freehold_sync::word::Ledger;
use freehold_sys::System;

/// One part in so many of a slab's pages has to be free: fewer are not worth the call, nor that a
/// huge page with others in use is split.
const WORTH: u32 = 4;

/// How the objects of a slab lie on its pages.
struct Grid {
    /// Bytes from one object to the next, and in a page.
    size: usize,
    page: usize,
    /// Objects in a slab, and pages: at most 64.
    capacity: usize,
    pages: u32,
}

impl Grid {
    /// That of a class. `None` where slabs have no whole pages, or none that can be purged.
    fn of(class: Class, page: usize) -> Option<Self> {
        let info = class.info();
        let pages = usize::from(info.granules) * GRANULE / page;
        let fits = page <= GRANULE && pages <= u64::BITS as usize && class != Class::EMPTY;
        fits.then_some(Self {
            size: info.size as usize,
            page,
            capacity: info.capacity.into(),
            pages: pages as u32,
        })
    }

    /// The pages that hold nothing but free objects, or nothing: `free` gives the words of a bit
    /// for each object.
    fn free_pages(&self, free: impl Fn(usize) -> u64) -> u64 {
        let pages = (0..self.pages).filter(|&page| {
            let start = page as usize * self.page;
            let (first, end) = (start / self.size, (start + self.page).div_ceil(self.size));
            are_all_set(&free, first, end.min(self.capacity))
        });
        pages.fold(0, |all, page| all | 1 << page)
    }
}

/// Whether the bits from `first` to before `end` are all set.
fn are_all_set(words: impl Fn(usize) -> u64, first: usize, end: usize) -> bool {
    let mut at = first;
    while at < end {
        let (word, bit) = (at / 64, at as u32 % 64);
        let count = (end - at).min(64 - bit as usize) as u32;
        let wanted = mask(bit, count);
        if words(word) & wanted != wanted {
            return false;
        }
        at += count as usize;
    }
    true
}

/// Which slabs are looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slabs {
    /// Those that have been in a pool for long.
    LongPooled,
    /// All in pools, and those that heaps are attached to.
    All,
}

/// One look at slabs.
struct Look {
    /// For how many ticks slabs must have been in a pool, and the number of the last tick.
    pooled_for: (u32, u32),
    /// Bytes purged.
    purged: usize,
    /// Whether the system has refused to take pages back, as it does if they are locked: then it is
    /// not asked for others.
    refused: bool,
}

impl<S: System> Arena<S> {
    /// Purges the pages within slabs that hold nothing but free objects. Returns the bytes purged.
    pub fn purge_within_slabs(&self) -> usize {
        let tick = self.purger.next_tick();
        self.begin_tick(tick);
        self.purge_within(Slabs::All, tick)
    }

    /// Purges pages within some slabs, in the tick of this number. Returns the bytes purged.
    pub(crate) fn purge_within(&self, slabs: Slabs, tick: u32) -> usize {
        // A slab that was looked at goes back into the pool as one that was put in now.
        let ticks = if slabs == Slabs::All { 1 } else { purge::TICKS_IN_POOL };
        let mut look = Look { pooled_for: (ticks, tick), purged: 0, refused: false };
        for class in (1..CLASSES as u8).map(Class) {
            let grid = Grid::of(class, self.system.page_size());
            let grid = grid.filter(|_| !self.hardening.is_on() && !look.refused);
            if class.is_small() {
                let at_one = |look: &mut Look| self.purge_in_kept_slab(class, grid.as_ref(), look);
                while self.purger.lock.hold(|| at_one(&mut look)) {}
            }
            let Some(grid) = grid else { continue };
            // A slab at a time, so that a fork, which has to find none claimed, need not wait long.
            while self.purger.lock.hold(|| self.purge_in_pooled_slab(class, &grid, &mut look)) {}
            if slabs == Slabs::All && class.is_small() {
                for heap in self.all_heaps() {
                    self.purge_in_attached(heap, class, &grid, &mut look);
                }
            }
        }
        self.note_purged_within(look.purged);
        look.purged
    }

    /// Puts the slab that a heap has kept longest into the pool, if that is long enough, and purges
    /// within it where that can be done. Returns whether there was one.
    fn purge_in_kept_slab(&self, class: Class, grid: Option<&Grid>, look: &mut Look) -> bool {
        let Some(g) = self.claim_slab_kept_for(class, look.pooled_for) else { return false };
        if let Some(grid) = grid {
            self.purge_small(class, grid, g, look);
        }
        if !self.put_into_pool(class, g, self.word(g).count()) {
            self.release_slab(class, g, &Account::new(&self.tally));
        }
        true
    }

    /// Purges within the slab that has been in a pool longest, if that is long enough. Returns
    /// whether it is worth going on.
    fn purge_in_pooled_slab(&self, class: Class, grid: &Grid, look: &mut Look) -> bool {
        let account = Account::new(&self.tally);
        let pooled_for = look.pooled_for;
        let (g, is_pooled) = if class.is_small() {
            let claimed = self.claim_slab_pooled_for(class, pooled_for, |g| self.word(g).count());
            let Some(g) = claimed else { return false };
            self.purge_small(class, grid, g, look);
            (g, self.put_into_pool(class, g, self.word(g).count()))
        } else {
            let shared = self.claim_slab_pooled_for(class, pooled_for, |g| self.word(g).mask());
            let claimed = shared.or_else(|| self.claim_slab_at_owner_for(class, pooled_for));
            let Some(g) = claimed else { return false };
            let free = self.word(g).mask().free_objects();
            if self.note_claimed_from_pool(class, g) || free.count() == class.info().capacity.into()
            {
                self.release_slab(class, g, &account);
                return true;
            }
            self.purge_free_pages(grid, g, grid.free_pages(|_| free.0), look);
            (g, self.put_into_pool(class, g, self.word(g).mask()))
        };
        if !is_pooled {
            self.release_slab(class, g, &account);
        }
        !look.refused
    }

    /// Purges within the slabs of a class that a heap is attached to.
    fn purge_in_attached(&self, heap: &Heap, class: Class, grid: &Grid, look: &mut Look) {
        let mut held = heap.hold();
        for g in held.attached_slabs(class) {
            self.purge_small(class, grid, g, look);
        }
    }

    /// Purges within a slab of small objects that the caller holds.
    fn purge_small(&self, class: Class, grid: &Grid, g: Granule, purged: &mut Look) {
        let (bits, info) = (self.bits(g), class.info());
        // SAFETY: the caller holds the slab.
        let (carved, fresh) = unsafe { ((*self.local(g)).carved, (*self.local(g)).fresh) };
        // SAFETY: as above.
        let local = unsafe { &*self.local(g) };
        let look = |n: usize| freed::look(bits.word(n)) | local.own_word(info, bits, n);
        // What was never touched is not resident where all of the slab was clean.
        let untouched = if fresh { 0 } else { u64::MAX };
        let free = grid.free_pages(|n| match usize::from(carved).saturating_sub(n * 64) {
            // None of these was ever out, so that none has a bit, and the word is left alone.
            0 => untouched,
            64.. => look(n),
            carved => look(n) | untouched << carved,
        });
        self.purge_free_pages(grid, g, free, purged);
    }

    /// Purges those of the pages that have not been, if they are worth it. The caller holds the
    /// slab, which starts at granule `g`.
    fn purge_free_pages(&self, grid: &Grid, g: Granule, free: u64, look: &mut Look) {
        // SAFETY: the caller holds the slab.
        let done = unsafe { &mut (*self.local(g)).purged };
        let mut left = free & !*done;
        if left.count_ones() * WORTH < grid.pages {
            return;
        }
        self.keep_purged();
        while left != 0 && !look.refused {
            let first = left.trailing_zeros();
            let count = (left >> first).trailing_ones();
            let run = mask(first, count);
            left &= !run;
            let address = self.tables.address(g) + first as usize * grid.page;
            let bytes = count as usize * grid.page;
            // SAFETY: committed, and of free objects alone, which nobody is given as long as the
            // caller holds the slab; nobody touches them before that.
            if unsafe { self.system.purge(address, bytes) } {
                *done |= run;
                look.purged += bytes;
            } else {
                look.refused = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    fn grid(size: usize) -> Grid {
        let class = Class::of_aligned(size, 16).unwrap();
        Grid::of(class, PAGE).unwrap()
    }

    /// The pages that no object in use touches, found byte by byte.
    fn by_bytes(grid: &Grid, used: impl Fn(usize) -> bool) -> u64 {
        let mut free = (1_u128 << grid.pages) as u64;
        free = free.wrapping_sub(1);
        for n in (0..grid.capacity).filter(|&n| used(n)) {
            for byte in [n * grid.size, (n + 1) * grid.size - 1] {
                free &= !(1 << (byte / PAGE));
            }
            for byte in (n * grid.size..(n + 1) * grid.size).step_by(PAGE / 2) {
                free &= !(1 << (byte / PAGE));
            }
        }
        free
    }

    #[test]
    fn a_page_is_free_if_no_object_in_use_touches_it() {
        let mut seed = 1_u64;
        for size in [16, 48, 112, 1000, 1024, 2048, 2560, 5000, 14_000, 32 << 10] {
            let grid = grid(size);
            for sparse in 1..40 {
                let words: std::vec::Vec<u64> = (0..grid.capacity.div_ceil(64))
                    .map(|_| {
                        (0..64).fold(0, |word, bit| {
                            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                            word | u64::from(!(seed >> 33).is_multiple_of(sparse)) << bit
                        })
                    })
                    .collect();
                let used = |n: usize| words[n / 64] >> (n % 64) & 1 == 0;
                assert_eq!(grid.free_pages(|n| words[n]), by_bytes(&grid, used), "size {size}");
            }
        }
    }

    #[test]
    fn pages_that_are_larger_than_a_granule_are_left_alone() {
        assert!(Grid::of(Class::of_small(100), 2 * GRANULE).is_none());
        assert!(Grid::of(Class::of_small(100), GRANULE).is_some());
        assert!(Grid::of(Class::EMPTY, PAGE).is_none());
    }
}
