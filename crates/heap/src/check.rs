//! The invariants, executable: for tests, and for whoever suspects corruption. Everything must be
//! at rest: no thread is inside the allocator.

use crate::arena::Arena;
use crate::class::Class;
use crate::free::InSlab;
use crate::layout::{BLOCK_GRANULES, Block, Granule};
use crate::tables::{KeptAs, RUN};
use crate::tally::Tally;
use freehold_sync::atomic::Ordering;
use freehold_sync::granules::ALL;
use freehold_sync::word::{Ledger, State};
use freehold_sys::System;

/// What a walk over the whole arena found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Census {
    /// Granules in slabs.
    pub slab_granules: usize,
    /// Granules in runs.
    pub run_granules: usize,
    /// Free objects known to slabs and their words.
    pub free_objects: usize,
    /// Bytes of those that are medium ones.
    pub free_medium: usize,
    /// Objects that are out: in use, in threads' magazines and outboxes, in inboxes, or in medium
    /// bins.
    pub objects_out: usize,
}

impl<S: System> Arena<S> {
    /// Walks over everything and checks that it agrees.
    ///
    /// # Panics
    /// When something does not agree.
    ///
    /// # Safety
    /// No thread is inside the allocator.
    pub unsafe fn check(&self) -> Census {
        let mut census = Census::default();
        let mut g = 0;
        let end = self.committed_blocks() * BLOCK_GRANULES;
        while g < end {
            // SAFETY: the caller's promise.
            g += unsafe { self.check_at(Granule(g), &mut census) };
        }
        let granules = self.granules_in_use();
        assert_eq!(granules.used, census.slab_granules + census.run_granules, "used granules");
        let dirty: usize = (0..self.committed_blocks()).map(|b| self.check_block(Block(b))).sum();
        assert_eq!(granules.dirty, dirty, "dirty free granules");
        let free_medium = Tally::free_medium(self.every_tally());
        assert_eq!(free_medium, census.free_medium, "bytes of free medium objects");
        // SAFETY: the caller's promise.
        unsafe { self.check_swings() };
        if granules.used == 0 {
            assert_eq!(self.hardening.sums(), (0, 0), "freed runs that wait, and what they keep");
        }
        census
    }

    unsafe fn check_at(&self, g: Granule, census: &mut Census) -> u32 {
        let tag = self.tag(g);
        match tag.class() {
            0 => {
                assert_eq!(
                    self.word(g).count().look().0,
                    State::Free,
                    "{g:?} is free, its word not"
                );
                1
            }
            RUN => {
                let granules = self.run_granules(g);
                census.run_granules += granules as usize;
                granules
            }
            class => {
                assert_eq!(tag.delta(), 0);
                let info = Class(class).info();
                // SAFETY: nobody else is at it.
                let free = unsafe { self.check_slab(Class(class), g) };
                assert!((0..=i32::from(info.capacity)).contains(&free), "{g:?} has {free} free");
                census.slab_granules += usize::from(info.granules);
                census.free_objects += free as usize;
                if !Class(class).is_small() {
                    census.free_medium += free as usize * Class(class).size();
                }
                census.objects_out += usize::from(info.capacity) - free as usize;
                u32::from(info.granules)
            }
        }
    }

    /// Checks a slab, and returns how many of its objects are free as far as it knows.
    unsafe fn check_slab(&self, class: Class, g: Granule) -> i32 {
        if !class.is_small() {
            let (state, mask) = self.word(g).mask().look();
            assert!(matches!(state, State::Detached | State::Pooled), "{g:?} is {state:?}");
            let owner = self.tag(g).owner();
            assert!(owner == 0 || self.heap(owner).is_exclusive(), "{g:?} is of heap {owner}");
            for index in (0..class.info().capacity.into()).filter(|&n| mask.0 >> n & 1 != 0) {
                let place = InSlab { class, slab: g, index };
                assert!(!self.is_handed_over(place), "{g:?} has {index} free and handed over");
            }
            return mask.count();
        }
        // SAFETY: nobody else is at it.
        let local = unsafe { &*self.local(g) };
        let known = local.free_count(class.info());
        let (state, count) = self.word(g).count().look();
        let is_kept = matches!(state, State::Kept | State::Disturbed);
        let keeper = if is_kept { KeptAs::key(self.tag(g).owner(), class) } else { 0 };
        assert_eq!(local.kept_as.look(), keeper, "who keeps {g:?}");
        let free = match state {
            State::Attached | State::Kept | State::Disturbed => known + count.0,
            State::Detached | State::Pooled => count.0,
            State::Free | State::Claimed => panic!("{g:?} is {state:?}"),
        };
        // At rest every free is counted, so what is free and not in the holder's hands has its bit.
        let in_hand = known - i32::from(local.balance);
        assert_eq!(free - in_hand, self.count_bits(class, g, 0), "bits of {g:?}");
        // What the holder has counted it finds, although it does not look at the first words.
        let in_sight = self.count_bits(class, g, local.lowest.into());
        let is_found = !matches!(state, State::Attached) || in_sight >= i32::from(local.balance);
        assert!(is_found, "{in_sight} bits of {g:?} from word {} on", local.lowest);
        free
    }

    /// How many bits are set in the words of a slab from number `first` on.
    fn count_bits(&self, class: Class, g: Granule, first: usize) -> i32 {
        let bits = self.bits(g);
        let words = usize::from(class.info().words);
        // SAFETY: nobody else is at it.
        let local = unsafe { &*self.local(g) };
        let word = |n| bits.word(n).load(Ordering::Relaxed) | local.own_word(class.info(), bits, n);
        let ones = (first..words).map(|n| word(n).count_ones());
        ones.sum::<u32>() as i32
    }

    /// Checks a block's bits against its granules' tags. Returns its dirty free granules.
    fn check_block(&self, block: Block) -> usize {
        let (entry, zone) = (self.block(block), self.zone(block.zone()));
        let whole = zone.whole.look() & block.bit() != 0;
        let free = if whole { ALL } else { entry.free.look() };
        assert!(!whole || entry.free.look() == 0, "{block:?} is closed and open");
        let dirty = entry.dirty.load(Ordering::Relaxed);
        for i in 0..BLOCK_GRANULES {
            let class = self.tag(block.first().plus(i)).class();
            assert!(class == 0 || free >> i & 1 == 0, "granule {i} of {block:?} is free and used");
        }
        (free & dirty).count_ones() as usize
    }
}
