//! Populating: having a block's pages put in place by one call, as one huge page where the system
//! gives those to who asks, instead of by 512 page faults.
//!
//! Only blocks that a heap opens for slabs are populated, only while that is a small share of what
//! is in use (the policy says how small), and only while the program grows: where memory was purged
//! a moment ago it comes and goes, and huge pages would be made and broken up all the time; nor
//! where the program [writes](crate::sparse) to little of what it allocates. Their granules then
//! count as dirty, like all memory that is resident and free, so what turns out not to be wanted is
//! purged like anything else.
//!
//! A block is made eligible for huge pages for the length of the call only: otherwise the kernel
//! would, at leisure, make huge pages of blocks that were mostly purged. Where they are everywhere,
//! all of the region is eligible until something is purged. The first part of the
//! region is never eligible ([`grow::SMALL_PAGES_BELOW`]).

use crate::arena::Arena;
use crate::layout::{BLOCK, BLOCK_GRANULES, Block, GRANULE};
use crate::policy::populate::{Costs, Pages};
use crate::policy::{grow, populate};
use crate::sparse::Sparse;
use freehold_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use freehold_sync::granules::ALL;
use freehold_sys::{HugePages, System};

/// What there is to know about huge pages.
pub(crate) struct Populated {
    /// Whether the whole region has been made ineligible, so that it stays one mapping.
    forbidden: AtomicBool,
    /// What populating has cost. Relaxed, one by one, and a few more or less do not matter.
    small: AtomicU64,
    saved: AtomicU64,
    lost: AtomicU64,
    /// Whether the program writes to what it has.
    pub(crate) sparse: Sparse,
}

impl Populated {
    /// Nothing populated yet.
    pub(crate) const fn new() -> Self {
        Self {
            forbidden: AtomicBool::new(false),
            small: AtomicU64::new(Costs::NONE.small),
            saved: AtomicU64::new(Costs::NONE.saved),
            lost: AtomicU64::new(Costs::NONE.lost),
            sparse: Sparse::new(),
        }
    }

    fn costs(&self) -> Costs {
        Costs {
            small: self.small.load(Ordering::Relaxed),
            saved: self.saved.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
        }
    }

    fn set_costs(&self, costs: Costs) {
        self.small.store(costs.small, Ordering::Relaxed);
        self.saved.store(costs.saved, Ordering::Relaxed);
        self.lost.store(costs.lost, Ordering::Relaxed);
    }
}

impl<S: System> Arena<S> {
    /// Finds out when the system has huge pages, by the first block, which was just committed and
    /// which nobody knows of. Where they are everywhere, a small process is not to have any:
    /// neither its first blocks nor the metadata, of which no part is as large as one by then.
    pub(crate) fn find_huge_pages(&self) {
        // SAFETY: committed, and nobody's; blocks begin at multiples of their length.
        unsafe { self.system.find_huge_pages(self.region(), BLOCK) };
        // Elsewhere nobody requests them here: the call would divide a mapping for nothing.
        if self.system.huge_pages() == HugePages::Always {
            let end = self.region() + self.region_bytes().min(grow::SMALL_PAGES_BELOW);
            // SAFETY: the arena's own reservation.
            unsafe { self.system.forbid_huge_pages(self.metadata.0, end - self.metadata.0) };
        }
    }

    /// Populates a clean block, which the caller owns, for what is `dense` or not, if that is worth
    /// it.
    pub(crate) fn populate_ahead(&self, block: Block, dense: bool) {
        let now = self.about_in_use();
        let entry = self.block(block);
        // Relaxed: the block is the caller's.
        let clean = entry.dirty.load(Ordering::Relaxed) == 0;
        if !clean || self.has_purged_lately() {
            return;
        }
        let high = block.0 as usize * BLOCK >= grow::SMALL_PAGES_BELOW;
        let affordable = populate::is_affordable(now.used * GRANULE, now.dirty * GRANULE);
        if !high || !affordable || !self.is_worth_populating(dense) {
            self.note_unpopulated(block);
            return;
        }
        if self.populate_timed(self.tables.address(block.first())) {
            entry.dirty.store(ALL, Ordering::Relaxed);
            self.tally.populated(BLOCK_GRANULES);
        }
    }

    /// Populates a block, and notes how long that took.
    fn populate_timed(&self, address: usize) -> bool {
        let costs = self.populated.costs();
        let pages = costs.next();
        let before = self.system.thread_nanoseconds();
        let done = self.populate(address, pages);
        let took = self.system.thread_nanoseconds().saturating_sub(before);
        if done {
            self.populated.set_costs(costs.after(pages, took));
        }
        done
    }

    fn populate(&self, address: usize, pages: Pages) -> bool {
        let system = &self.system;
        // Relaxed: who finds it a moment too late has small pages.
        let unasked = match system.huge_pages() {
            HugePages::OnRequest => false,
            HugePages::Always => !self.populated.forbidden.load(Ordering::Relaxed),
            HugePages::Never => true,
        };
        if pages == Pages::Small || unasked {
            // SAFETY: the caller owns the block.
            return unsafe { system.populate(address, BLOCK) };
        }
        self.forbid_huge_pages_once();
        // SAFETY: the caller owns the block.
        unsafe {
            let done = system.allow_huge_pages(address, BLOCK) && system.populate(address, BLOCK);
            system.forbid_huge_pages(address, BLOCK);
            done
        }
    }

    /// Has what is about to be purged stay purged: where huge pages are everywhere, the kernel
    /// makes one, at leisure, of any stretch that has a single page (`khugepaged`), and all the
    /// rest of it is resident again. From now on there are huge pages on request alone, for blocks
    /// that are populated.
    pub(crate) fn keep_purged(&self) {
        if self.system.huge_pages() == HugePages::Always {
            self.forbid_huge_pages_once();
        }
    }

    /// Where pages are huge on request only, this changes nothing but that blocks which are
    /// populated do not differ from the others, which would divide the mapping.
    fn forbid_huge_pages_once(&self) {
        // Relaxed: done twice it does no harm.
        if !self.populated.forbidden.swap(true, Ordering::Relaxed) {
            // SAFETY: the arena's own region.
            unsafe { self.system.forbid_huge_pages(self.region(), self.region_bytes()) };
        }
    }
}
