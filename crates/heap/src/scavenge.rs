//! Scavenging: a heap that grows looks for granules that lie idle before it touches more.
//!
//! A heap takes granules from its home, which other heaps leave alone; so what is free and dirty
//! in the home of a thread that waits for its turn would be left there, while a heap that grows
//! touches clean ones at home, each for the price of eight page faults. Therefore a heap that has
//! claimed some clean granules, for slabs or runs no longer than those, looks how many dirty ones
//! are free anywhere, and for as many claims takes those first. The search costs more than a claim
//! at home, which is why it is not made as long as a heap lives on what it has.

use crate::arena::Arena;
use crate::blocks::{Claim, Prefer, Want, ones};
use crate::layout::{Block, ZONE_BLOCKS};
use crate::policy::scavenge::CLEAN_BETWEEN_LOOKS;
use crate::tally::Account;
use freehold_sync::atomic::{AtomicU32, Ordering};
use freehold_sys::System;

/// How much a home's owner has grown. Used by one thread at a time; all accesses are Relaxed, since
/// whatever hands the home on orders them.
pub(crate) struct Growth {
    /// Claims of clean granules until the next look.
    until_look: AtomicU32,
    /// How many claims look for dirty granules elsewhere before another clean one is made.
    credit: AtomicU32,
}

impl Default for Growth {
    fn default() -> Self {
        Self { until_look: AtomicU32::new(CLEAN_BETWEEN_LOOKS - 1), credit: AtomicU32::new(0) }
    }
}

impl Growth {
    /// Counts a claim of clean granules, and says whether it is time to look around.
    fn note_clean(&self) -> bool {
        let left = self.until_look.load(Ordering::Relaxed).checked_sub(1);
        self.until_look.store(left.unwrap_or(CLEAN_BETWEEN_LOOKS - 1), Ordering::Relaxed);
        left.is_none()
    }
}

impl<S: System> Arena<S> {
    /// Claims so many dirty granules in a row wherever there are some, if the last look has found
    /// that there may be.
    pub(crate) fn claim_scavenged(
        &self,
        count: u32,
        growth: &Growth,
        account: &Account,
    ) -> Option<Claim> {
        let credit = growth.credit.load(Ordering::Relaxed).checked_sub(1)?;
        let want = Want { count, align: 1, prefer: Prefer::Dirty, dense: false };
        let found = self.zones().find_map(|(n, zone)| {
            let mut open = ones(zone.open.look()).filter(|&i| zone.open.longest(i) >= count);
            open.find_map(|i| self.claim_dirty_in(Block(n * ZONE_BLOCKS + i), want, account))
        });
        growth.credit.store(if found.is_some() { credit } else { 0 }, Ordering::Relaxed);
        found
    }

    /// Notes a claim of clean granules, and looks how many dirty ones there are if it is time.
    #[inline]
    pub(crate) fn note_growth(&self, growth: &Growth) {
        if growth.note_clean() {
            growth.credit.store(self.about_in_use().dirty as u32, Ordering::Relaxed);
        }
    }
}
