//! Whether the program writes to what it allocates.
//!
//! To [populate](crate::populate) a block makes all of it resident, also what the program has
//! allocated and never writes to. That can be seen at blocks that were left as they are: all are at
//! first, and one in some later. When such a block is full, the background thread looks at it once;
//! where less than a quarter of it is resident, the next ones are left as they are as well. Until
//! one was looked at, or where nobody can, only what is [dense] is taken to be written to: a heap
//! of buffers that are hardly used would be resident as a whole.
//!
//! [dense]: crate::blocks::Want::dense
//!
//! A [hot run](crate::hot_runs) costs as much memory as was written to. When some have to go for
//! want of room the background thread looks how much of some of them is resident, and again as long
//! as it is little: more may stay then.

use crate::arena::Arena;
use crate::layout::{BLOCK, Block, GRANULE};
use crate::policy::populate;
use crate::policy::retain::{HOT_RUN_BYTES_MOST, Resident};
use freehold_sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use freehold_sys::System;

/// What blocks that were left as they are have shown. Relaxed throughout: the numbers are hints,
/// and where threads write them at the same time a block is not looked at.
pub(crate) struct Sparse {
    /// One more than the number of a block that is being filled, and of the last one that was
    /// filled and not looked at; 0 for none.
    filling: AtomicU32,
    filled: AtomicU32,
    /// What the last one that was looked at had in it: [`UNKNOWN`], [`LITTLE`] or [`MUCH`].
    seen: AtomicU8,
    /// How many blocks are populated before another is left as it is.
    until_left: AtomicU32,
    /// Whether hot runs had to go for want of room since it was looked at them.
    runs_went: AtomicBool,
    /// How much of the hot runs is resident, in parts of [`Resident::ALL`].
    of_hot_runs: AtomicU32,
    /// Of which bin of hot runs one is looked at first.
    first_bin: AtomicU32,
    /// Looks at which it is forgotten how much was in use: threads give back what they kept when
    /// hardly any of it was resident.
    until_given_back: AtomicU32,
}

/// None was looked at, or it could not be told.
const UNKNOWN: u8 = 0;
/// It is [sparse](populate::is_sparse).
const LITTLE: u8 = 1;
/// It is not.
const MUCH: u8 = 2;

/// Looks until threads have given back what they kept too much of.
const LOOKS_UNTIL_GIVEN_BACK: u32 = 10;

/// Hot runs that are looked at together, of all heaps, if there are no more heaps than that.
const RUNS_LOOKED_AT: usize = 16;

impl Sparse {
    /// Nothing seen yet.
    pub(crate) const fn new() -> Self {
        Self {
            filling: AtomicU32::new(0),
            filled: AtomicU32::new(0),
            seen: AtomicU8::new(UNKNOWN),
            until_left: AtomicU32::new(populate::POPULATED_BETWEEN_LOOKS),
            runs_went: AtomicBool::new(false),
            of_hot_runs: AtomicU32::new(Resident::ALL.parts),
            first_bin: AtomicU32::new(0),
            until_given_back: AtomicU32::new(0),
        }
    }
}

impl<S: System> Arena<S> {
    /// Whether the program has written to some of what it has allocated, as far as is known, and
    /// the next block, which is for what is `dense` or not, need not be left as it is to see
    /// whether it still does.
    pub(crate) fn is_worth_populating(&self, dense: bool) -> bool {
        self.note_filled();
        // Asking is a system call, which a filter may forbid to this thread, but not to another.
        if self.populated.sparse.filled.load(Ordering::Relaxed) != 0 && !self.is_helped() {
            self.want_help();
        }
        let left = self.populated.sparse.until_left.load(Ordering::Relaxed).checked_sub(1);
        let next = left.unwrap_or(populate::POPULATED_BETWEEN_LOOKS);
        self.populated.sparse.until_left.store(next, Ordering::Relaxed);
        let seen = self.populated.sparse.seen.load(Ordering::Relaxed);
        left.is_some() && (seen == MUCH || dense && seen == UNKNOWN)
    }

    /// Looks how much of the last block that was filled is resident. For the background thread.
    pub(crate) fn look_at_filled(&self) {
        let filled = self.populated.sparse.filled.swap(0, Ordering::Relaxed);
        if let Some(block) = filled.checked_sub(1).map(Block) {
            let resident = self.system.resident(self.tables.address(block.first()), BLOCK);
            let used = self.granules_used(block) as usize * GRANULE;
            let seen = match resident {
                None => UNKNOWN,
                Some(bytes) if populate::is_sparse(used, bytes) => LITTLE,
                Some(_) => MUCH,
            };
            self.populated.sparse.seen.store(seen, Ordering::Relaxed);
        }
    }

    /// How much of the hot runs is resident, as far as is known: all, where nobody looks.
    pub(crate) fn resident_of_hot_runs(&self) -> Resident {
        if !self.is_helped() {
            return Resident::ALL;
        }
        Resident { parts: self.populated.sparse.of_hot_runs.load(Ordering::Relaxed) }
    }

    /// Notes that a hot run had to go for want of room.
    pub(crate) fn note_runs_go(&self) {
        let went = &self.populated.sparse.runs_went;
        // Read first: mostly it is known.
        if !went.load(Ordering::Relaxed) {
            went.store(true, Ordering::Relaxed);
        }
    }

    /// Looks how much of some hot runs is resident, if any had to go, or more may stay since it is
    /// little. Returns whether to look again soon: the program may begin to write to what it did
    /// not. For the background thread.
    pub(crate) fn look_at_hot_runs(&self) -> bool {
        let sparse = &self.populated.sparse;
        if let Some(left) = sparse.until_given_back.load(Ordering::Relaxed).checked_sub(1) {
            sparse.until_given_back.store(left, Ordering::Relaxed);
            self.forget_peak();
        }
        let went = sparse.runs_went.swap(false, Ordering::Relaxed);
        let before = self.resident_of_hot_runs();
        if !went && before == Resident::ALL {
            return false;
        }
        let heaps = || self.all_heaps().filter(|heap| heap.hot_runs.granules() > 0);
        let of_each = (RUNS_LOOKED_AT / heaps().count().max(1)).max(1);
        let first = sparse.first_bin.fetch_add(1, Ordering::Relaxed) % u64::BITS;
        let runs = heaps().flat_map(|heap| heap.hot_runs.some(first, of_each));
        let (resident, looked_at) = runs.fold((0, 0), |(resident, looked_at), (g, count)| {
            let (at, page) = (self.tables.address(g), self.system.page_size());
            // Of its own it may have no page, where those are larger than a granule.
            let (start, end) = (at.next_multiple_of(page), at + count as usize * GRANULE);
            let bytes = (end.saturating_sub(start) / page * page).min(BLOCK);
            let seen = (bytes > 0).then(|| self.system.resident(start, bytes)).flatten();
            seen.map_or((resident, looked_at), |more| (resident + more, looked_at + bytes))
        });
        if looked_at > 0 {
            let now = before.and(resident, looked_at);
            sparse.of_hot_runs.store(now.parts, Ordering::Relaxed);
            if now.parts > before.parts {
                self.lower_hot_runs_of_all();
            }
            if now.is_much_more_than(before) {
                sparse.until_given_back.store(LOOKS_UNTIL_GIVEN_BACK, Ordering::Relaxed);
            }
        }
        went || self.hot_granules() * GRANULE > HOT_RUN_BYTES_MOST
    }

    /// Notes that a clean block, which the caller owns, is left as it is.
    pub(crate) fn note_unpopulated(&self, block: Block) {
        if block.0 < populate::FIRST_LOOKED_AT {
            return;
        }
        self.note_filled();
        let filling = self.populated.sparse.filling.load(Ordering::Relaxed);
        // The one that is being filled is waited for, but not for ever: its thread may have ended.
        if filling == 0 || filling.abs_diff(block.0) > populate::BLOCKS_UNTIL_GIVEN_UP {
            self.populated.sparse.filling.store(block.0 + 1, Ordering::Relaxed);
        }
    }

    /// Looks whether the block that was being filled is full.
    fn note_filled(&self) {
        let filling = self.populated.sparse.filling.load(Ordering::Relaxed);
        let block = filling.checked_sub(1).map(Block);
        if block.is_some_and(|block| populate::is_filled(self.granules_used(block))) {
            self.populated.sparse.filled.store(filling, Ordering::Relaxed);
            self.populated.sparse.filling.store(0, Ordering::Relaxed);
        }
    }

    /// How many granules of a block are in use, or were since it was clean.
    fn granules_used(&self, block: Block) -> u32 {
        self.block(block).dirty.load(Ordering::Relaxed).count_ones()
    }
}
