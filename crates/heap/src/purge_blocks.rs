//! What goes back to the system: blocks that are wholly free, and runs of free granules in others.
//!
//! Who gives something back owns it for that time, as any claimer does. When, and how much, is
//! decided in [`purge`](crate::purge).

use crate::arena::Arena;
use crate::blocks::ones;
use crate::layout::{BLOCK, BLOCK_GRANULES, Block, GRANULE, ZONE_BLOCKS};
use crate::policy::grow;
use freehold_sync::atomic::Ordering;
use freehold_sync::granules::{ALL, find_run, mask};
use freehold_sys::{HugePages, System};

// Relaxed throughout: a granule's dirty bit is its owner's, and a block's a hint.
impl<S: System> Arena<S> {
    /// Purges wholly free blocks that nobody has touched, since others may have that share a huge
    /// page with them.
    pub(crate) fn purge_around(&self) {
        for zone in 0..self.committed_blocks().div_ceil(ZONE_BLOCKS) {
            for i in ones(self.zone(zone).whole.look()) {
                self.purge_whole(Block(zone * ZONE_BLOCKS + i));
            }
        }
    }

    /// Whether what is clean in a block may be resident nevertheless.
    fn may_be_backed(&self, block: Block) -> bool {
        block.0 as usize * BLOCK >= grow::SMALL_PAGES_BELOW && self.may_be_huge_anywhere()
    }

    /// Whether huge pages may be everywhere.
    pub(crate) fn may_be_huge_anywhere(&self) -> bool {
        self.system.huge_pages() == HugePages::Always
    }

    /// Purges at least `target` bytes if there are that many: wholly free blocks from the highest
    /// down, then runs of at least `worth` granules in open blocks, likewise.
    pub(crate) fn purge_some(&self, target: usize, worth: u32) -> usize {
        let zones = self.committed_blocks().div_ceil(ZONE_BLOCKS);
        let mut purged = 0;
        for zone in (0..zones).rev() {
            let dirty = self.zone(zone).dirty.load(Ordering::Relaxed);
            for i in ones(dirty.reverse_bits()) {
                if purged < target {
                    purged += self.purge_whole(Block(zone * ZONE_BLOCKS + 63 - i));
                }
            }
        }
        for zone in (0..zones).rev() {
            let open = self.zone(zone).open.look();
            for i in ones(open.reverse_bits()) {
                if purged < target {
                    purged += self.purge_open(Block(zone * ZONE_BLOCKS + 63 - i), worth);
                }
            }
        }
        self.purger.total.fetch_add(purged, Ordering::Relaxed);
        purged
    }

    /// Purges a wholly free block, if it is one.
    fn purge_whole(&self, block: Block) -> usize {
        let (zone, bit) = (self.zone(block.zone()), block.bit());
        if zone.whole.claim(|whole| (whole & bit != 0).then_some(bit)).is_none() {
            return 0;
        }
        let purged = self.purge_granules(block, ALL);
        // What the system did not take back is found again.
        if self.block(block).dirty.load(Ordering::Relaxed) == 0 {
            zone.dirty.fetch_and(!bit, Ordering::Relaxed);
        }
        self.release_blocks(block, 1);
        purged
    }

    /// Purges the runs of free dirty granules in an open block that are `worth` it; those that are
    /// clean as well, if all are and clean ones may be resident.
    fn purge_open(&self, block: Block, worth: u32) -> usize {
        let entry = self.block(block);
        let clean = if worth == 1 && self.may_be_backed(block) { ALL } else { 0 };
        let (mut purged, mut from) = (0, 0);
        while from < BLOCK_GRANULES {
            let claimed = entry.free.claim(|free| {
                let dirty = free & (entry.dirty.load(Ordering::Relaxed) | clean) & (ALL << from);
                let first = find_run(dirty, worth, 1)?;
                Some(mask(first, (dirty >> first).trailing_ones()))
            });
            let Some(claimed) = claimed else { break };
            purged += self.purge_granules(block, claimed);
            from = 64 - claimed.leading_zeros();
            let first = block.first().plus(claimed.trailing_zeros());
            self.put_back_granules(first, claimed.count_ones());
        }
        purged
    }

    /// Purges the dirty ones of the given granules of a block, which the caller owns, or all of
    /// them if clean ones may be resident. Where a page is larger than a granule, those stay that
    /// share a page with one that is not given. Returns the bytes of dirty ones that are purged.
    fn purge_granules(&self, block: Block, granules: u64) -> usize {
        let entry = self.block(block);
        let per_page = (self.system.page_size() / GRANULE).max(1) as u32;
        let dirty = entry.dirty.load(Ordering::Relaxed) & granules;
        let backed = if self.may_be_backed(block) { granules } else { dirty };
        let mut left = fill_pages(backed, per_page) & granules;
        let mut purged = 0;
        self.keep_purged();
        while left != 0 {
            let first = left.trailing_zeros();
            let count = (left >> first).trailing_ones();
            left &= !mask(first, count);
            let from = first.next_multiple_of(per_page);
            let to = (first + count) / per_page * per_page;
            if from >= to {
                continue;
            }
            let address = self.tables.address(block.first().plus(from));
            // SAFETY: committed, and the caller owns the granules, which are free.
            if unsafe { self.system.purge(address, (to - from) as usize * GRANULE) } {
                let bits = mask(from, to - from);
                let were_dirty =
                    (entry.dirty.fetch_and(!bits, Ordering::Relaxed) & bits).count_ones();
                self.tally.purged(were_dirty);
                purged += were_dirty as usize * GRANULE;
            }
        }
        purged
    }
}

/// Adds to each of these granules the others that share its page.
fn fill_pages(granules: u64, per_page: u32) -> u64 {
    if per_page == 1 {
        return granules;
    }
    let pages = (0..BLOCK_GRANULES).step_by(per_page as usize).map(|n| mask(n, per_page));
    pages.filter(|page| granules & page != 0).fold(granules, |all, page| all | page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::{Home, Prefer, Want};
    use crate::layout::{Granule, at};
    use crate::tally::Account;
    use freehold_sys::fake::Fake;
    use std::sync::atomic::{AtomicUsize as Number, Ordering::SeqCst};
    use std::vec::Vec;

    const ONE: Want = Want { count: 1, align: 1, prefer: Prefer::Dirty, dense: true };

    /// A block of whose granules the first is in use, and the others are free and dirty.
    fn with_one_in_use(arena: &Arena<Fake>) -> Granule {
        let (home, account) = (Home::default(), Account::new(&arena.tally));
        let claim = |_| arena.claim_granules(ONE, &home, &account).unwrap().granule;
        let all: Vec<_> = (0..BLOCK_GRANULES).map(claim).collect();
        assert!(all.iter().all(|g| g.block() == all[0].block()));
        arena.leave_home(&home);
        all[1..].iter().for_each(|&g| arena.release_granules(g, 1, &account));
        all[0]
    }

    /// Calls `act` in another thread with the arena that lives there, and waits for it.
    fn in_another_thread(place: &Number, act: fn(&Arena<Fake>)) {
        let place = place.load(SeqCst);
        // SAFETY: the arena of the test that waits for this.
        let act = move || act(unsafe { &*at::<Arena<Fake>>(place) });
        std::thread::spawn(act).join().unwrap();
    }

    #[test]
    fn what_somebody_looks_for_while_it_is_purged_in_an_open_block_is_found_afterwards() {
        static ARENA: Number = Number::new(0);
        let place = Arena::create(Fake::new().with_address_space(24 << 20)).unwrap();
        ARENA.store(place.as_ptr().expose_provenance(), SeqCst);
        // SAFETY: it lives until the end of the test.
        let arena = unsafe { place.as_ref() };
        let block = with_one_in_use(arena).block();
        arena.system.before_purge(|_, _| {
            in_another_thread(&ARENA, |arena| {
                let (home, account) = (Home::default(), Account::new(&arena.tally));
                let claim = arena.claim_granules(ONE, &home, &account).unwrap();
                assert_ne!(claim.granule.block(), Block(0), "all of that are claimed");
            });
        });
        assert!(arena.purge_all() >= (BLOCK_GRANULES as usize - 1) * GRANULE);
        arena.system.before_purge(|_, _| ());
        assert_eq!(arena.block(block).free.look().count_ones(), BLOCK_GRANULES - 1);
        // As much as there is.
        let (home, account) = (Home::default(), Account::new(&arena.tally));
        while arena.claim_granules(ONE, &home, &account).is_some() {}
        assert_eq!(arena.block(block).free.look(), 0, "memory is refused that is free");
        // SAFETY: nobody uses it any more.
        unsafe { Arena::destroy(place) };
    }

    #[test]
    fn a_block_whose_last_granule_is_released_while_others_are_purged_becomes_whole() {
        static ARENA: Number = Number::new(0);
        static LAST: Number = Number::new(0);
        let place = Arena::create(Fake::new()).unwrap();
        ARENA.store(place.as_ptr().expose_provenance(), SeqCst);
        // SAFETY: it lives until the end of the test.
        let arena = unsafe { place.as_ref() };
        let last = with_one_in_use(arena);
        LAST.store(last.0 as usize + 1, SeqCst);
        arena.system.before_purge(|_, _| {
            in_another_thread(&ARENA, |arena| {
                if let Some(last) = LAST.swap(0, SeqCst).checked_sub(1) {
                    let account = Account::new(&arena.tally);
                    arena.release_granules(Granule(last as u32), 1, &account);
                }
            });
        });
        arena.purge_all();
        assert_eq!(arena.granules_in_use().used, 0);
        assert_ne!(arena.zone(0).whole.look() & last.block().bit(), 0, "it is not whole");
        // SAFETY: nobody uses it any more.
        unsafe { Arena::destroy(place) };
    }
}
