//! Purging the tables of blocks that nobody uses.
//!
//! What is known of a block's granules is two to six pages of tables. They stay resident when the
//! block is wholly free and purged: of a program that had gigabytes, many megabytes. So, when the
//! program has come to rest, whoever purges owns such blocks for a moment, like any other claimer,
//! and purges the pages that tell of nothing but them.
//!
//! That changes nothing that anybody may read. A granule that nobody has has no tag, its word and
//! its bits are zero, as is a purged page, and its local part is written by whoever claims it
//! before it is read. The tags are left alone: they are a hundredth of that.

use crate::arena::Arena;
use crate::layout::{BLOCK_GRANULES, Block, ZONE_BLOCKS};
use crate::tables::{FarBits, Remote, SlabLocal};
use freehold_sync::atomic::Ordering;
use freehold_sync::granules::mask;
use freehold_sys::System;

/// Blocks whose tables are purged at once, at most: few, so that who wants some finds others, and
/// as many as share a page of their local parts where pages are of 64 KiB.
const AT_ONCE: u32 = 16;

/// Blocks that are owned at once with those beside them.
const OWNED: u32 = AT_ONCE + 2;

impl<S: System> Arena<S> {
    /// Purges the tables of all blocks that are wholly free and clean, and were in use since that
    /// was done last. What the system does not take back, as it does not what is locked, stays
    /// until the block was in use again. Does nothing where the region has no room left for as many
    /// blocks as are owned meanwhile: somebody who wants one might be refused.
    pub(crate) fn purge_tables(&self) {
        if self.granules() / BLOCK_GRANULES - self.committed_blocks() < OWNED {
            return;
        }
        for (n, zone) in self.zones() {
            for first in (0..ZONE_BLOCKS).step_by(AT_ONCE as usize) {
                // Relaxed: hints, and the claim decides.
                let worn = zone.worn.load(Ordering::Relaxed) & !zone.dirty.load(Ordering::Relaxed);
                let mut left = zone.whole.look() & worn & mask(first, AT_ONCE);
                while left != 0 {
                    let at = left.trailing_zeros();
                    let count = (left >> at).trailing_ones();
                    left &= !mask(at, count);
                    self.purge_tables_of(n, mask(at, count));
                }
            }
        }
    }

    /// Purges the tables of neighbouring blocks of a zone, if they are wholly free. Where the one
    /// beside them is free as well it is owned with them: there may be a page that tells of both.
    fn purge_tables_of(&self, zone: u32, wanted: u64) {
        // So that a fork finds none of them owned.
        self.purger.lock.hold(|| {
            let entry = self.zone(zone);
            let with_neighbours = wanted | wanted << 1 | wanted >> 1;
            let Some(blocks) = entry
                .whole
                .claim(|whole| (whole & wanted == wanted).then_some(whole & with_neighbours))
            else {
                return;
            };
            let first = Block(zone * ZONE_BLOCKS + blocks.trailing_zeros());
            let end = Block(first.0 + blocks.count_ones());
            let (from, to) = (first.first().0 as usize, end.first().0 as usize);
            let tables = &self.tables;
            let part = |size: usize| (from * size, to * size);
            let (locals, remotes) = (part(size_of::<SlabLocal>()), part(size_of::<Remote>()));
            let far = part(size_of::<FarBits>());
            self.purge_part(tables.locals - locals.1, tables.locals - locals.0);
            self.purge_part(tables.remotes - remotes.1, tables.remotes - remotes.0);
            self.purge_part(tables.far_bits + far.0, tables.far_bits + far.1);
            // Relaxed: a hint. While they are owned nobody else says that they are worn.
            entry.worn.fetch_and(!wanted, Ordering::Relaxed);
            entry.whole.release(blocks);
        });
    }

    /// Purges the pages that lie in a part of a table as a whole.
    fn purge_part(&self, from: usize, to: usize) {
        let page = self.system.page_size();
        let (from, to) = (from.next_multiple_of(page), to / page * page);
        if from < to {
            // SAFETY: inside the table, where it is committed, since the blocks are that it tells
            // of; the caller owns these, so that nobody writes there, and who reads finds zero
            // before and after.
            unsafe { self.system.purge(from, to - from) };
        }
    }
}
