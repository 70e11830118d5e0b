//! Runs: whole granules, for everything above the largest class.
//!
//! A run belongs to no heap: any thread claims one with one exchange and frees it with one `or`. Up
//! to a block it lies inside a block; beyond, it has blocks of its own, and what it leaves of its
//! last one is open to others.

use crate::arena::Arena;
use crate::blocks::{Home, Prefer, Want};
use crate::hot_runs;
use crate::layout::{BLOCK, BLOCK_GRANULES, Block, GRANULE, Granule};
use crate::medium::Given;
use crate::tables::RUN;
use crate::tally::Account;
use freehold_sync::atomic::Ordering;
use freehold_sync::granules::{ALL, mask};
use freehold_sys::System;

/// Granules for so many bytes.
pub(crate) fn granules_for(bytes: usize) -> usize {
    bytes.div_ceil(GRANULE)
}

impl<S: System> Arena<S> {
    /// The granules of a run for so many bytes: as many as [hot runs](crate::hot_runs) have, so
    /// that one that is freed serves whoever wants about as much. What nobody writes to takes no
    /// memory. In hardened mode, where none are hot, as few as will do.
    pub(crate) fn length_for(&self, bytes: usize) -> usize {
        let least = granules_for(bytes.max(1));
        match u32::try_from(least) {
            Ok(least) if !self.hardening.is_on() => hot_runs::length_of(least) as usize,
            _ => least,
        }
    }

    /// Claims a run for `bytes` at a multiple of `align` (a power of two). `None` when the region
    /// cannot hold it.
    pub(crate) fn take_run(
        &self,
        bytes: usize,
        align: usize,
        prefer: Prefer,
        home: &Home,
        account: &Account,
    ) -> Option<Given> {
        let (count, least) = (self.length_for(bytes), granules_for(bytes.max(1)));
        if count > self.granules() as usize {
            return None;
        }
        let (mut count, least) = (count as u32, least as u32);
        let (g, clean) = if count <= BLOCK_GRANULES && align <= BLOCK {
            let align = granules_for(align) as u32;
            let claim = |count| {
                let want = Want { count, align, prefer, dense: false };
                self.claim_granules(want, home, account)
            };
            let claimed = claim(count).or_else(|| {
                // There may be a row that is just long enough.
                let shorter = (least < count).then_some(least)?;
                count = shorter;
                claim(shorter)
            })?;
            (claimed.granule, claimed.dirty == 0)
        } else {
            self.take_blocks(count, align.div_ceil(BLOCK), prefer, account)?
        };
        self.make_run(g, count);
        Some(Given { address: self.tables.address(g), zero: clean })
    }

    /// Claims as many blocks as `count` granules need, and opens what is left of the last.
    fn take_blocks(
        &self,
        count: u32,
        align: usize,
        prefer: Prefer,
        account: &Account,
    ) -> Option<(Granule, bool)> {
        let blocks = count.div_ceil(BLOCK_GRANULES);
        let align = u32::try_from(align).ok()?;
        let first = self.claim_blocks(blocks, align, prefer)?;
        let mut dirty = 0;
        for_each_block(first, count, |block, bits| {
            let entry = self.block(block);
            // Relaxed: the granules are the caller's.
            dirty += (entry.dirty.fetch_or(bits, Ordering::Relaxed) & bits).count_ones();
            if bits != ALL {
                self.open(block, !bits);
            }
        });
        if dirty < count {
            self.regret_purge((count - dirty) as usize * GRANULE, true);
        }
        account.claimed(count, dirty, &self.tally);
        Some((first.first(), dirty == 0))
    }

    /// The granules of the run that starts at `g`.
    pub(crate) fn run_granules(&self, g: Granule) -> u32 {
        debug_assert!(self.tag(g).class() == RUN);
        // SAFETY: set when the run was claimed; changed only by its owner, who is the caller.
        unsafe { (*self.local(g)).run }
    }

    /// The run that starts at `address`, if one does.
    pub(crate) fn run_at(&self, address: usize) -> Option<Granule> {
        let g = self.granule_of(address)?;
        self.is_in_use_as_run(g, address).then_some(g)
    }

    /// Whether a run is in use that begins at `address`, which is in granule `g`.
    #[inline]
    pub(crate) fn is_in_use_as_run(&self, g: Granule, address: usize) -> bool {
        self.tag(g).part().is_run() && !self.is_free_run(g) && address.is_multiple_of(GRANULE)
    }

    /// Whether a run is free, although it is claimed.
    #[inline]
    pub(crate) fn is_free_run(&self, g: Granule) -> bool {
        // SAFETY: there is a local part for each granule, and this of it is an atomic.
        unsafe { &(*self.local(g)).bin }.is_free()
    }

    /// Notes that the caller's run is free, so that a second free of it is found out.
    pub(crate) fn set_free_run(&self, g: Granule) {
        // SAFETY: as above.
        let bin = unsafe { &(*self.local(g)).bin };
        bin.set_free(bin.number());
    }

    /// Frees a run.
    pub(crate) fn give_run(&self, g: Granule, account: &Account) {
        let count = self.run_granules(g);
        self.look_if_zeroed(g);
        self.tag(g).clear();
        self.release_run_granules(g, count, account);
    }

    /// Gives back granules of a run: a part within one block, or from a block's start on.
    fn release_run_granules(&self, g: Granule, count: u32, account: &Account) {
        if g.in_block() + count <= BLOCK_GRANULES && count < BLOCK_GRANULES {
            self.release_granules(g, count, account);
            return;
        }
        debug_assert!(g.in_block() == 0);
        let (whole, rest) = (count / BLOCK_GRANULES, count % BLOCK_GRANULES);
        self.release_blocks(g.block(), whole);
        account.released(whole * BLOCK_GRANULES, &self.tally);
        if rest > 0 {
            self.release_granules(g.plus(whole * BLOCK_GRANULES), rest, account);
        }
    }

    /// Makes a run as short as `bytes` allow. The address stays.
    pub(crate) fn shrink_run(&self, g: Granule, bytes: usize, account: &Account) {
        let (have, want) = (self.run_granules(g), self.length_for(bytes) as u32);
        if want >= have {
            return;
        }
        // SAFETY: the run is the caller's.
        unsafe { (*self.local(g)).set_run(want) };
        // First up to the next block's start, then whole blocks and the rest of the last.
        let mut from = g.plus(want);
        let end = g.plus(have);
        let to_block = (BLOCK_GRANULES - from.in_block()) % BLOCK_GRANULES;
        let head = to_block.min(end.0 - from.0);
        if head > 0 {
            self.release_granules(from, head, account);
            from = from.plus(head);
        }
        if from < end {
            self.release_run_granules(from, end.0 - from.0, account);
        }
    }

    /// Makes a run long enough for `bytes` by claiming the granules that follow it. Returns whether
    /// it succeeded; the address stays either way.
    pub(crate) fn extend_run(&self, g: Granule, bytes: usize, account: &Account) -> bool {
        let have = self.run_granules(g);
        let want = granules_for(bytes);
        if want > (self.granules() - g.0) as usize {
            return false;
        }
        let want = want as u32;
        let end = g.plus(have);
        let in_first = (BLOCK_GRANULES - end.in_block()) % BLOCK_GRANULES;
        let more = want - have;
        let (head, rest) = (more.min(in_first), more.saturating_sub(in_first));
        // A run that lies inside a block does not start at one, so it cannot grow out of it.
        if rest > 0 && g.in_block() != 0 {
            return false;
        }
        if head > 0 && !self.claim_exactly(end, head, account) {
            return false;
        }
        if rest > 0 && !self.claim_following_blocks(end.plus(head).block(), rest, account) {
            if head > 0 {
                self.release_granules(end, head, account);
            }
            return false;
        }
        // SAFETY: the run is the caller's.
        unsafe { (*self.local(g)).set_run(want) };
        true
    }

    fn claim_exactly(&self, g: Granule, count: u32, account: &Account) -> bool {
        let (entry, bits) = (self.block(g.block()), mask(g.in_block(), count));
        let got = entry.free.claim(|free| (free & bits == bits).then_some(bits)).is_some();
        if got {
            let dirty = entry.dirty.fetch_or(bits, Ordering::Relaxed) & bits;
            account.claimed(count, dirty.count_ones(), &self.tally);
        }
        got
    }

    fn claim_following_blocks(&self, first: Block, count: u32, account: &Account) -> bool {
        let blocks = count.div_ceil(BLOCK_GRANULES);
        let offered = self.frontier.offered();
        let missing = (first.0 + blocks).saturating_sub(offered);
        if missing > 0 && !self.commit_more(offered, missing) {
            return false;
        }
        if !self.claim_these(first, blocks) {
            return false;
        }
        let mut dirty = 0;
        for_each_block(first, count, |block, bits| {
            let entry = self.block(block);
            dirty += (entry.dirty.fetch_or(bits, Ordering::Relaxed) & bits).count_ones();
            if bits != ALL {
                self.open(block, !bits);
            }
        });
        account.claimed(count, dirty, &self.tally);
        true
    }
}

/// Calls `each` with every block of `count` granules from the start of `first`, and its granules.
fn for_each_block(first: Block, count: u32, mut each: impl FnMut(Block, u64)) {
    let (mut block, mut left) = (first, count);
    while left > 0 {
        let here = left.min(BLOCK_GRANULES);
        each(block, mask(0, here));
        (block, left) = (Block(block.0 + 1), left - here);
    }
}
