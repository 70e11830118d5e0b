//! Granules that a heap's thread has released last: hints where its next slabs are to be.
//!
//! A whole slab goes back to its block, where any heap finds it. But its lines are in the cache of
//! the processor whose thread has freed what was there: a thread on another one that takes it up
//! fetches each line from there. So a heap looks first whether some of what it has released last is
//! still free.
//!
//! Nothing is held back by that: what another heap has claimed meanwhile is there no longer. A
//! block that has become wholly free is claimed as a whole, if half of it was released by this
//! heap's thread, and is its home from then on.
//!
//! Invariant: a block stands in one place at most. Used by the leaseholder alone, or in its turn;
//! all accesses are Relaxed, since the lease orders them.

use crate::arena::Arena;
use crate::blocks::{Claim, Home, Prefer, Want};
use crate::class::Class;
use crate::heap::Heap;
use crate::layout::{BLOCK_GRANULES, Block, Granule};
use crate::tally::Account;
use freehold_sync::atomic::{Alone, AtomicU32, AtomicU64, Ordering, compiler_fence};
use freehold_sync::granules::{find_run, mask};
use freehold_sys::System;

/// Blocks of which it is remembered what was released.
const BLOCKS: usize = 16;

/// What was released last, by blocks. All zero: nothing.
#[derive(Default)]
pub(crate) struct Recent {
    /// A bit for each granule of a block.
    granules: [AtomicU64; BLOCKS],
    /// Each block plus one, or 0.
    blocks: [AtomicU32; BLOCKS],
    /// The place that was used last, and the one that the next block gets.
    last: AtomicU32,
    next: AtomicU32,
}

impl Recent {
    /// Remembers granules that the heap's thread has released: so many, of one block.
    pub(crate) fn note_released(&self, g: Granule, count: u32) {
        let link = g.block().0 + 1;
        let n = self.place_of(link).unwrap_or_else(|| {
            let n = self.next.load(Ordering::Relaxed) as usize % BLOCKS;
            self.next.store(n as u32 + 1, Ordering::Relaxed);
            self.put(n, link);
            n
        });
        let granules = self.granules[n].load(Ordering::Relaxed);
        self.granules[n].store(granules | mask(g.in_block(), count), Ordering::Relaxed);
        self.last.store(n as u32, Ordering::Relaxed);
    }

    /// Forgets all: zero everywhere afterwards.
    fn forget(&self) {
        (0..BLOCKS).for_each(|n| self.put(n, 0));
        self.last.store(0, Ordering::Relaxed);
        self.next.store(0, Ordering::Relaxed);
    }

    /// Has a block in a place of which no granules are known. They go first: the child of a fork
    /// may find the place between any two steps, and those of one block may not count for another.
    fn put(&self, n: usize, link: u32) {
        self.granules[n].store(0, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        self.blocks[n].store(link, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    /// Where a block stands, if it does.
    fn place_of(&self, link: u32) -> Option<usize> {
        let last = self.last.load(Ordering::Relaxed) as usize;
        let is_its = |block: &AtomicU32| block.load(Ordering::Relaxed) == link;
        if is_its(&self.blocks[last]) { Some(last) } else { self.blocks.iter().position(is_its) }
    }

    /// Calls `claim` with each block of which so many granules in a row were released, and all that
    /// were released of it, the block that was used last first, until it claims some; those of the
    /// blocks of which it did not are forgotten.
    fn claim_by(&self, count: u32, claim: impl Fn(Block, u64) -> Option<Claim>) -> Option<Claim> {
        let last = self.last.load(Ordering::Relaxed) as usize;
        for n in 0..BLOCKS {
            let n = (last + BLOCKS - n) % BLOCKS;
            let granules = self.granules[n].load(Ordering::Relaxed);
            if find_run(granules, count, 1).is_none() {
                continue;
            }
            let claim = claim(Block(self.blocks[n].load(Ordering::Relaxed) - 1), granules);
            let claimed = |claim: Claim| mask(claim.granule.in_block(), count);
            let left = claim.map_or(0, |claim| granules & !claimed(claim));
            self.granules[n].store(left, Ordering::Relaxed);
            if claim.is_some() {
                self.last.store(n as u32, Ordering::Relaxed);
                return claim;
            }
        }
        None
    }
}

impl<S: System> Arena<S> {
    /// Releases a slab whose objects the heap's thread has freed, so that every one is back.
    pub(crate) fn release_own_slab(
        &self,
        heap: &Heap,
        class: Class,
        g: Granule,
        account: &Account,
    ) {
        self.release_slab(class, g, account);
        // Where there is one thread what is free is in its cache, wherever it lies.
        if heap.is_exclusive() && !Alone::now().is_so() {
            heap.recent.note_released(g, class.info().granules.into());
            heap.has_recent.store(true, Ordering::Relaxed);
        }
    }

    /// Claims so many granules in a row of those that a heap's thread has released last, if they
    /// are still free and dirty.
    #[inline(always)]
    pub(crate) fn claim_recent(&self, count: u32, heap: &Heap, account: &Account) -> Option<Claim> {
        let has_any = heap.has_recent.load(Ordering::Relaxed);
        has_any.then(|| self.claim_some_of(heap, count, account))?
    }

    /// Likewise, where there may be one. Apart from what every process runs.
    #[inline(never)]
    fn claim_some_of(&self, heap: &Heap, count: u32, account: &Account) -> Option<Claim> {
        heap.recent.claim_by(count, |block, granules| {
            self.claim_dirty_of(block, granules, count, account).or_else(|| {
                let is_own = granules.count_ones() >= BLOCK_GRANULES / 2;
                is_own.then(|| self.claim_of_whole(block, count, &heap.slab_home, account))?
            })
        })
    }

    /// Claims so many granules of a block that has become wholly free, if it still is: the heap
    /// goes on in it.
    fn claim_of_whole(
        &self,
        block: Block,
        count: u32,
        home: &Home,
        account: &Account,
    ) -> Option<Claim> {
        let zone = self.zone(block.zone());
        // Relaxed: nothing is concluded from it but whether to try.
        let is_dirty = zone.dirty.load(Ordering::Relaxed) & block.bit() != 0;
        let claimed = is_dirty && self.claim_these(block, 1);
        let want = Want { count, align: 1, prefer: Prefer::Dirty, dense: false };
        claimed.then(|| self.claim_in_whole(block, want, home, account))
    }
}

impl Heap {
    /// Forgets what its thread has released, before its pages are purged as far as they are zero.
    pub(crate) fn forget_recent(&self) {
        if self.has_recent.load(Ordering::Relaxed) {
            self.recent.forget();
            // Second: in the child of a fork what is not forgotten yet is forgotten then.
            compiler_fence(Ordering::SeqCst);
            self.has_recent.store(false, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freehold_sys::fake::Fake;
    use std::vec::Vec;

    fn granule(block: u32, n: u32) -> Granule {
        Block(block).first().plus(n)
    }

    /// What is claimed of what was released, if so many are free of each block.
    fn claimed(recent: &Recent, free: impl Fn(Block) -> u64) -> Vec<Granule> {
        let claim = |block: Block, granules: u64| {
            let left = granules & free(block);
            let granule = block.first().plus(left.trailing_zeros());
            (left != 0).then_some(Claim { granule, dirty: 1 })
        };
        core::iter::from_fn(|| Some(recent.claim_by(1, claim)?.granule)).collect()
    }

    #[test]
    fn what_was_released_last_comes_first_and_all_of_it_once() {
        let recent = Recent::default();
        let released = [granule(3, 9), granule(7, 0), granule(3, 2), granule(5, 63)];
        for g in released {
            recent.note_released(g, 1);
        }
        assert_eq!(
            claimed(&recent, |_| u64::MAX),
            [released[3], released[1], released[2], released[0]]
        );
        assert_eq!(claimed(&recent, |_| u64::MAX), []);
    }

    #[test]
    fn what_is_no_longer_free_is_forgotten() {
        let recent = Recent::default();
        (0..4).for_each(|n| recent.note_released(granule(3, n), 1));
        recent.note_released(granule(4, 1), 1);
        assert_eq!(
            claimed(&recent, |block| if block.0 == 3 { 0b0110 } else { 0 }),
            [granule(3, 1), granule(3, 2)]
        );
        assert_eq!(claimed(&recent, |_| u64::MAX), []);
    }

    #[test]
    fn what_was_forgotten_is_zero() {
        let recent = Recent::default();
        (0..40).for_each(|n| recent.note_released(granule(n, n), 1));
        recent.forget();
        assert_eq!(recent.granules.map(AtomicU64::into_inner), [0; BLOCKS]);
        assert_eq!(recent.blocks.map(AtomicU32::into_inner), [0; BLOCKS]);
        assert_eq!([recent.last, recent.next].map(AtomicU32::into_inner), [0, 0]);
    }

    #[test]
    fn nothing_is_left_when_a_lease_ends() {
        let place = Arena::create(Fake::new()).unwrap();
        // SAFETY: it lives until the end of the test.
        let arena = unsafe { place.as_ref() };
        let heap = arena.lease().unwrap();
        heap.recent.note_released(granule(3, 1), 1);
        heap.has_recent.store(true, Ordering::Relaxed);
        // SAFETY: leased above, and not used any more.
        unsafe { arena.end_lease(heap, |_| ()) };
        let is_zero = |block: &AtomicU32| block.load(Ordering::Relaxed) == 0;
        assert!(heap.recent.blocks.iter().all(is_zero) && !heap.has_recent.load(Ordering::Relaxed));
        // SAFETY: nobody uses it any more.
        unsafe { Arena::destroy(place) };
    }

    #[test]
    fn of_more_blocks_than_there_are_places_the_last_are_remembered() {
        let recent = Recent::default();
        let blocks = 3 * BLOCKS as u32;
        (0..blocks).for_each(|n| recent.note_released(granule(n, 5), 1));
        let last: Vec<_> = (0..BLOCKS as u32).map(|n| granule(blocks - 1 - n, 5)).collect();
        assert_eq!(claimed(&recent, |_| u64::MAX), last);
    }
    /// Whether a heap that has released so many granules of a block claims some of it when all of
    /// it is free, and dirty or not.
    fn claims_of_whole(released: u32, is_dirty: bool) -> bool {
        let place = Arena::create(Fake::new()).unwrap();
        // SAFETY: it lives until the end of the test.
        let arena = unsafe { place.as_ref() };
        let (heap, home) = (arena.lease().unwrap(), Home::default());
        let account = Account::new(&heap.tally);
        let want = Want { count: BLOCK_GRANULES, align: 1, prefer: Prefer::Clean, dense: false };
        let claim = arena.claim_granules(want, &home, &account).unwrap();
        let block = claim.granule.block();
        arena.leave_home(&home);
        if !is_dirty {
            arena.block(block).dirty.store(0, Ordering::Relaxed);
        }
        arena.release_granules(claim.granule, BLOCK_GRANULES, &account);
        assert!(arena.zone(block.zone()).whole.look() & block.bit() != 0);
        heap.recent.note_released(claim.granule, released);
        heap.has_recent.store(true, Ordering::Relaxed);
        let again = arena.claim_recent(1, heap, &account);
        assert!(again.is_none_or(|again| again.granule == claim.granule));
        let is_claimed = again.is_some();
        // SAFETY: nobody uses it any more.
        unsafe { Arena::destroy(place) };
        is_claimed
    }

    #[test]
    fn a_whole_block_is_claimed_by_who_has_released_half_of_it_if_it_is_dirty() {
        let half = BLOCK_GRANULES / 2;
        let claims = [(half, true), (half - 1, true), (BLOCK_GRANULES, false)];
        assert_eq!(claims.map(|(n, is_dirty)| claims_of_whole(n, is_dirty)), [true, false, false]);
    }
}
