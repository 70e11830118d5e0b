//! Scavenging: a heap that grows looks for granules that lie idle before it touches more.
//!
//! A heap takes granules from its home, which other heaps leave alone; so what is free and dirty
//! in the home of a thread that waits for its turn would be left there, while a heap that grows
//! touches clean ones at home, each for the price of eight page faults. Therefore a heap that has
//! claimed some clean granules for slabs looks how many dirty ones are free anywhere, and for as
//! many claims takes those first. The search costs more than a claim at home, which is why it is
//! not made as long as a heap lives on what it has.

use crate::arena::Arena;
use crate::blocks::{Claim, Prefer, Want, ones};
use crate::layout::{Block, ZONE_BLOCKS};
use crate::policy::scavenge::CLEAN_BETWEEN_LOOKS;
use crate::tally::Account;
use freehold_sync::atomic::{AtomicU32, Ordering};
use freehold_sys::System;

/// How much a home's owner has grown. Used by one thread at a time; all accesses are Relaxed, since
/// whatever hands the home on orders them.
#[derive(Default)]
pub(crate) struct Growth {
    /// Clean granules claimed since the last look.
    clean: AtomicU32,
    /// How many dirty granules to look for elsewhere before another clean one is claimed.
    credit: AtomicU32,
}

impl Growth {
    /// Counts a clean granule, and says whether it is time to look around.
    fn note_clean(&self) -> bool {
        let clean = self.clean.load(Ordering::Relaxed) + 1;
        let look = clean == CLEAN_BETWEEN_LOOKS;
        self.clean.store(if look { 0 } else { clean }, Ordering::Relaxed);
        look
    }
}

impl<S: System> Arena<S> {
    /// Claims a dirty granule wherever there is one, if the last look has found that there are.
    pub(crate) fn claim_scavenged(&self, growth: &Growth, account: &Account) -> Option<Claim> {
        let credit = growth.credit.load(Ordering::Relaxed).checked_sub(1)?;
        let want = Want { count: 1, align: 1, prefer: Prefer::Dirty };
        let found = self.zones().find_map(|(n, zone)| {
            let mut open = ones(zone.open.load(Ordering::Relaxed));
            open.find_map(|i| self.claim_dirty_in(Block(n * ZONE_BLOCKS + i), want, account))
        });
        growth.credit.store(if found.is_some() { credit } else { 0 }, Ordering::Relaxed);
        found
    }

    /// Notes that a clean granule was claimed, and looks how many dirty ones there are if it is
    /// time.
    #[inline]
    pub(crate) fn note_growth(&self, growth: &Growth) {
        if growth.note_clean() {
            growth.credit.store(self.about_in_use().dirty as u32, Ordering::Relaxed);
        }
    }
}
