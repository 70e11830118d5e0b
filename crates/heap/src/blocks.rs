//! Claiming granules and whole blocks, and giving them back.
//!
//! A heap takes granules from its *home*: an open block that other heaps leave alone while they
//! find something else. When it is exhausted the heap moves: to the lowest open block with room, or
//! else opens a wholly free one, dirty before clean, low before high. A block whose last granule
//! comes back is closed, and is then wholly free again, unless it is somebody's home.

use crate::arena::Arena;
use crate::class::Class;
use crate::layout::{BLOCK_GRANULES, Block, GRANULE, Granule, ZONE_BLOCKS};
use crate::scavenge::Growth;
use crate::tables::ZoneEntry;
use crate::tally::Account;
use freehold_sync::atomic::{AtomicU32, Ordering, fence};
use freehold_sync::granules::{ALL, find_run, longest_run, mask};
use freehold_sys::System;

/// What is no longer than this is a slab, or as small as one: more of the kind will follow.
const SLAB_GRANULES: u32 = 8;

/// The block that a heap takes granules from, and how the heap grows.
#[derive(Default)]
pub struct Home {
    /// The block plus one, or 0 for none. Relaxed everywhere: it only says where to try first.
    block: AtomicU32,
    growth: Growth,
}

impl Home {
    fn get(&self) -> Option<Block> {
        self.block.load(Ordering::Relaxed).checked_sub(1).map(Block)
    }

    fn set(&self, block: Option<Block>) {
        self.block.store(block.map_or(0, |b| b.0 + 1), Ordering::Relaxed);
    }
}

/// Which granules to take when there is a choice.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Prefer {
    /// Those touched before: they cost no page fault.
    Dirty,
    /// Those known to be zero: they need no clearing.
    Clean,
}

/// What is wanted: `count` granules (at most a block's) at a multiple of `align` granules.
#[derive(Clone, Copy)]
pub struct Want {
    /// How many, in a row.
    pub count: u32,
    /// A power of two, at most a block's granules.
    pub align: u32,
    /// Which, when there is a choice.
    pub prefer: Prefer,
    /// Whether they are for objects that are no larger than a page. A program writes to the
    /// beginning of what it allocates, so to each page of those, and of others perhaps to no more.
    pub dense: bool,
}

/// Granules that now belong to the caller.
#[derive(Clone, Copy)]
pub struct Claim {
    /// The first.
    pub granule: Granule,
    /// How many of them were touched before. The memory of the others is zero.
    pub dirty: u32,
}

impl<S: System> Arena<S> {
    /// Claims granules, from `home` if it has them. `None` when the region has no more.
    pub(crate) fn claim_granules(
        &self,
        want: Want,
        home: &Home,
        account: &Account,
    ) -> Option<Claim> {
        // Longer runs are left out: they are claimed and purged all the time, and rows of dirty
        // granules long enough for one take long to find.
        let short = want.count <= SLAB_GRANULES && want.align == 1;
        let growth = (short && want.prefer == Prefer::Dirty).then_some(&home.growth);
        let claim = growth
            .and_then(|growth| self.claim_scavenged(want.count, growth, account))
            .or_else(|| self.claim_in(home.get()?, want, account))
            .or_else(|| self.claim_in_open(want, home, account, true))
            .or_else(|| self.claim_dirty_elsewhere(want, home, account))
            .or_else(|| self.claim_in_new(want, home, account))
            .or_else(|| self.claim_in_open(want, home, account, false))?;
        if let Some(growth) = growth.filter(|_| claim.dirty == 0) {
            self.note_growth(growth);
        }
        Some(claim)
    }

    /// Claims granules that are all dirty, before a clean block is opened: in a wholly free block,
    /// or in the home of another heap, which may be idle.
    fn claim_dirty_elsewhere(&self, want: Want, home: &Home, account: &Account) -> Option<Claim> {
        if want.prefer != Prefer::Dirty {
            return None;
        }
        if let Some(block) = self.find_preferred_block(Prefer::Dirty) {
            let claimed = self.claim_these(block, 1);
            return claimed.then(|| self.claim_in_whole(block, want, home, account));
        }
        self.zones().find_map(|(n, zone)| {
            let homes = zone.open.look() & zone.home.load(Ordering::Relaxed);
            ones(homes).find_map(|i| self.claim_dirty_in(Block(n * ZONE_BLOCKS + i), want, account))
        })
    }

    /// Claims granules for a slab of a class: dirty ones in `home` before others, wherever those
    /// are, since they cost nothing and keep what is in use together.
    pub(crate) fn claim_for_slab(
        &self,
        class: Class,
        home: &Home,
        account: &Account,
    ) -> Option<Claim> {
        let info = class.info();
        let dense = info.size as usize <= self.system.page_size();
        let want = Want { count: info.granules.into(), align: 1, prefer: Prefer::Dirty, dense };
        let at_home = home.get().and_then(|block| self.claim_dirty_in(block, want, account));
        at_home.or_else(|| self.claim_granules(want, home, account))
    }

    /// Claims granules of `home` that are all dirty, for so many runs in a row, each of so many
    /// granules, or for as many as there are in the first row of one. Returns the first, and for
    /// how many.
    pub(crate) fn claim_dirty_row(
        &self,
        runs: u32,
        count: u32,
        home: &Home,
        account: &Account,
    ) -> Option<(Granule, u32)> {
        let block = home.get()?;
        let entry = self.block(block);
        let claimed = entry.free.claim(|free| {
            let dirty = free & entry.dirty.load(Ordering::Relaxed);
            let first = find_run(dirty, count, 1)?;
            let row = (dirty >> first).trailing_ones();
            Some(mask(first, runs.min(row / count) * count))
        })?;
        let claim = self.settle_claim(block, claimed, account);
        Some((claim.granule, claimed.count_ones() / count))
    }

    /// Claims the first of some granules of a block that are free and dirty, so many in a row.
    pub(crate) fn claim_dirty_of(
        &self,
        block: Block,
        granules: u64,
        count: u32,
        account: &Account,
    ) -> Option<Claim> {
        let entry = self.block(block);
        let claimed = entry.free.claim(|free| {
            let dirty = free & granules & entry.dirty.load(Ordering::Relaxed);
            find_run(dirty, count, 1).map(|first| mask(first, count))
        })?;
        Some(self.settle_claim(block, claimed, account))
    }

    pub(crate) fn claim_dirty_in(
        &self,
        block: Block,
        want: Want,
        account: &Account,
    ) -> Option<Claim> {
        let entry = self.block(block);
        let claimed = entry.free.claim(|free| {
            let dirty = free & entry.dirty.load(Ordering::Relaxed);
            find_run(dirty, want.count, want.align).map(|first| mask(first, want.count))
        })?;
        Some(self.settle_claim(block, claimed, account))
    }

    fn claim_in(&self, block: Block, want: Want, account: &Account) -> Option<Claim> {
        let entry = self.block(block);
        let claimed = entry.free.claim(|free| {
            // Relaxed here and below: a dirty bit is changed by its granule's owner alone, and the
            // claim's Acquire comes after the former owner's Release.
            let dirty = entry.dirty.load(Ordering::Relaxed);
            let liked = if want.prefer == Prefer::Dirty { free & dirty } else { free & !dirty };
            let first = find_run(liked, want.count, want.align)
                .or_else(|| find_run(free, want.count, want.align))?;
            Some(mask(first, want.count))
        })?;
        Some(self.settle_claim(block, claimed, account))
    }

    /// Marks claimed granules dirty, and counts them.
    fn settle_claim(&self, block: Block, claimed: u64, account: &Account) -> Claim {
        let entry = self.block(block);
        let dirty = entry.dirty.load(Ordering::Relaxed) & claimed;
        if dirty != claimed {
            entry.dirty.fetch_or(claimed, Ordering::Relaxed);
            self.regret_purge((claimed & !dirty).count_ones() as usize * GRANULE, false);
        }
        account.claimed(claimed.count_ones(), dirty.count_ones(), &self.tally);
        let granule = block.first().plus(claimed.trailing_zeros());
        Claim { granule, dirty: dirty.count_ones() }
    }

    pub(crate) fn zones(&self) -> impl Iterator<Item = (u32, &ZoneEntry)> {
        let count = self.committed_blocks().div_ceil(ZONE_BLOCKS);
        (0..count).map(|n| (n, self.zone(n)))
    }

    fn claim_in_open(
        &self,
        want: Want,
        home: &Home,
        account: &Account,
        spare_homes: bool,
    ) -> Option<Claim> {
        for (n, zone) in self.zones() {
            let homes = if spare_homes { zone.home.load(Ordering::Relaxed) } else { 0 };
            let mut candidates = zone.open.look() & !homes;
            while candidates != 0 {
                let i = candidates.trailing_zeros();
                candidates &= candidates - 1;
                if zone.open.longest(i) < want.count {
                    continue;
                }
                let block = Block(n * ZONE_BLOCKS + i);
                if let Some(claim) = self.claim_in(block, want, account) {
                    self.move_home(home, block);
                    return Some(claim);
                }
                zone.open.correct(i, &self.block(block).free);
            }
        }
        None
    }

    fn claim_in_new(&self, want: Want, home: &Home, account: &Account) -> Option<Claim> {
        let block = self.claim_blocks(1, 1, want.prefer)?;
        if want.count <= SLAB_GRANULES && want.prefer == Prefer::Dirty {
            self.populate_ahead(block, want.dense);
        }
        Some(self.claim_in_whole(block, want, home, account))
    }

    /// Takes granules of a wholly free block that the caller owns, which becomes the home.
    pub(crate) fn claim_in_whole(
        &self,
        block: Block,
        want: Want,
        home: &Home,
        account: &Account,
    ) -> Claim {
        let claimed = mask(0, want.count);
        let claim = self.settle_claim(block, claimed, account);
        self.open(block, ALL & !claimed);
        self.move_home(home, block);
        claim
    }

    /// Opens a block that the caller owns, with the given granules free.
    pub(crate) fn open(&self, block: Block, free: u64) {
        self.block(block).free.release(free);
        self.zone(block.zone()).open.note_released(block.in_zone(), longest_run(free));
    }

    fn move_home(&self, home: &Home, block: Block) {
        self.leave_home(home);
        self.zone(block.zone()).home.fetch_or(block.bit(), Ordering::Relaxed);
        home.set(Some(block));
    }

    /// Makes a heap homeless, so that others may use its block and an empty one can be closed.
    pub(crate) fn leave_home(&self, home: &Home) {
        let Some(block) = home.get() else { return };
        home.set(None);
        self.zone(block.zone()).home.fetch_and(!block.bit(), Ordering::Relaxed);
        // Pairs with that of `put_back_granules`: who releases the last one finds the block to be
        // nobody's home, or is seen here.
        fence(Ordering::SeqCst);
        if self.block(block).free.look() == ALL {
            self.close(block);
        }
    }

    /// Gives back `count` granules of one block, all claimed by the caller.
    pub(crate) fn release_granules(&self, first: Granule, count: u32, account: &Account) {
        account.released(count, &self.tally);
        self.put_back_granules(first, count);
    }

    /// As [`Arena::release_granules`], for granules that count as free.
    pub(crate) fn put_back_granules(&self, first: Granule, count: u32) {
        let (block, at) = (first.block(), first.in_block());
        let after = self.block(block).free.release(mask(at, count));
        let zone = self.zone(block.zone());
        let (up, down) = ((after >> at).trailing_ones(), (after << (63 - at)).leading_ones());
        zone.open.note_released(block.in_zone(), up + down - 1);
        // After the fence in there.
        if after == ALL && zone.home.load(Ordering::Relaxed) & block.bit() == 0 {
            self.close(block);
        }
    }

    /// Makes an open block wholly free, if it still is.
    fn close(&self, block: Block) {
        if self.block(block).free.close() {
            self.zone(block.zone()).open.close(block.in_zone());
            self.release_blocks(block, 1);
        }
    }

    /// Gives back whole blocks that the caller owns.
    pub(crate) fn release_blocks(&self, first: Block, count: u32) {
        for_each_zone(first, count, |zone, bits| {
            let entry = self.zone(zone);
            let base = zone * ZONE_BLOCKS;
            let mut dirty = 0;
            for i in ones(bits) {
                let touched = self.block(Block(base + i)).dirty.load(Ordering::Relaxed) != 0;
                dirty |= u64::from(touched) << i;
            }
            entry.dirty.fetch_or(dirty, Ordering::Relaxed);
            // Read first: mostly they are that already.
            if entry.worn.load(Ordering::Relaxed) & bits != bits {
                entry.worn.fetch_or(bits, Ordering::Relaxed);
            }
            entry.whole.release(bits);
            true
        });
    }

    /// Claims `count` wholly free blocks in a row, the first at a multiple of `align` blocks,
    /// committing more if need be. Their dirty bits are left as they are.
    pub(crate) fn claim_blocks(&self, count: u32, align: u32, prefer: Prefer) -> Option<Block> {
        loop {
            let offered = self.frontier.offered();
            if let Some(first) = self.find_blocks(count, align, prefer) {
                if self.claim_these(first, count) {
                    return Some(first);
                }
                continue; // Somebody else was faster; look again.
            }
            // With an alignment, the first fitting block may come that much later.
            if !self.commit_more(offered, count + (align - 1)) {
                return None;
            }
        }
    }

    /// Claims these blocks if all of them are wholly free.
    pub(crate) fn claim_these(&self, first: Block, count: u32) -> bool {
        let mut claimed = 0;
        let all = for_each_zone(first, count, |zone, bits| {
            let entry = self.zone(zone);
            let got = entry.whole.claim(|free| (free & bits == bits).then_some(bits)).is_some();
            if got {
                entry.dirty.fetch_and(!bits, Ordering::Relaxed);
                claimed += bits.count_ones();
            }
            got
        });
        if !all && claimed > 0 {
            self.release_blocks(first, claimed);
        }
        all
    }
}

/// The positions of the set bits.
pub(crate) fn ones(mut bits: u64) -> impl Iterator<Item = u32> {
    core::iter::from_fn(move || {
        let i = bits.trailing_zeros();
        bits &= bits.wrapping_sub(1);
        (i < BLOCK_GRANULES).then_some(i)
    })
}

/// Calls `each` with every zone that the blocks touch and their bits in it, until one returns
/// false. Returns whether none did.
fn for_each_zone(first: Block, count: u32, mut each: impl FnMut(u32, u64) -> bool) -> bool {
    let (mut at, end) = (first.0, first.0 + count);
    while at < end {
        let in_zone = at % ZONE_BLOCKS;
        let here = (ZONE_BLOCKS - in_zone).min(end - at);
        if !each(at / ZONE_BLOCKS, mask(in_zone, here)) {
            return false;
        }
        at += here;
    }
    true
}
