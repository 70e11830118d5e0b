//! Which wholly free blocks to take for a run of several, or for the next slab.
//!
//! Owns nothing: it looks, and whoever asked then claims what was found, if it is still free.
//! Several blocks in a row come from the shortest row of the preferred kind that has so many, so
//! that long rows stay for what needs them. If no row has, what is preferred is used as far as
//! possible: where most blocks are of that kind. A single block is the lowest.

use crate::arena::Arena;
use crate::blocks::Prefer;
use crate::layout::{BLOCK_SHIFT, Block, ZONE_BLOCKS};
use crate::tables::ZoneEntry;
use core::iter::once;
use freehold_sync::atomic::Ordering;
use freehold_sys::System;

impl<S: System> Arena<S> {
    /// `count` wholly free blocks in a row, the first at a multiple of `align` blocks (a power of
    /// two), among those that are committed.
    pub(crate) fn find_blocks(&self, count: u32, align: u32, prefer: Prefer) -> Option<Block> {
        // Alignment is that of addresses, and the region starts at a block, not at a multiple of
        // it.
        let region = self.region() >> BLOCK_SHIFT;
        let aligned =
            |b: u32| ((region + b as usize).next_multiple_of(align as usize) - region) as u32;
        let preferred = if (count, align) == (1, 1) {
            self.find_preferred_block(prefer)
        } else {
            self.find_preferred(count, prefer, aligned)
        };
        if preferred.is_some() {
            return preferred;
        }
        let (mut best, mut most) = (None, 0);
        for_each_row(self.words(|zone| zone.whole.look()), |start, length| {
            let last = (start + length).checked_sub(count);
            let mut first = aligned(start);
            while last.is_some_and(|last| first <= last) {
                let here = (first..first + count).filter(|&b| self.is_preferred(b, prefer)).count();
                if best.is_none() || here > most {
                    (best, most) = (Some(Block(first)), here);
                }
                first = aligned(first + 1);
            }
        });
        best
    }

    /// The lowest block that is wholly free and of the preferred kind.
    pub(crate) fn find_preferred_block(&self, prefer: Prefer) -> Option<Block> {
        let mut words = self.words(|zone| preferred(zone, prefer)).zip(0..);
        let (word, n) = words.find(|&(word, _)| word != 0)?;
        Some(Block(n * ZONE_BLOCKS + word.trailing_zeros()))
    }

    /// As many blocks, all of them of the preferred kind.
    fn find_preferred(
        &self,
        count: u32,
        prefer: Prefer,
        aligned: impl Fn(u32) -> u32,
    ) -> Option<Block> {
        let words = self.words(|zone| preferred(zone, prefer));
        let (mut best, mut shortest) = (None, u32::MAX);
        for_each_row(words, |start, length| {
            let first = aligned(start);
            if first + count <= start + length && length < shortest {
                (best, shortest) = (Some(Block(first)), length);
            }
        });
        best
    }

    fn words(&self, of: impl Fn(&ZoneEntry) -> u64) -> impl Iterator<Item = u64> {
        self.zones().map(move |(_, zone)| of(zone))
    }

    fn is_preferred(&self, block: u32, prefer: Prefer) -> bool {
        let block = Block(block);
        preferred(self.zone(block.zone()), prefer) & block.bit() != 0
    }
}

/// The wholly free blocks of a zone that are of the preferred kind. Any are, where clean ones are
/// preferred: to purge a block costs less than to leave one dirty and to touch another.
fn preferred(zone: &ZoneEntry, prefer: Prefer) -> u64 {
    match prefer {
        // Relaxed: a hint, as what is found free is one.
        Prefer::Dirty => zone.whole.look() & zone.dirty.load(Ordering::Relaxed),
        Prefer::Clean => zone.whole.look(),
    }
}

/// Calls `each` with the start and the length of every row of set bits, which may reach from one
/// word into the next.
fn for_each_row(words: impl Iterator<Item = u64>, mut each: impl FnMut(u32, u32)) {
    let (mut start, mut length) = (0, 0);
    // A word without any ends the last row.
    for (word, base) in words.chain(once(0)).zip((0..).step_by(ZONE_BLOCKS as usize)) {
        let mut at = 0;
        while at < ZONE_BLOCKS {
            let rest = word >> at;
            if rest & 1 == 1 {
                if length == 0 {
                    start = base + at;
                }
                length += rest.trailing_ones();
                at += rest.trailing_ones();
                continue;
            }
            if length > 0 {
                each(start, length);
                length = 0;
            }
            at += rest.trailing_zeros().min(ZONE_BLOCKS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn rows(words: &[u64]) -> Vec<(u32, u32)> {
        let mut rows = Vec::new();
        for_each_row(words.iter().copied(), |start, length| rows.push((start, length)));
        rows
    }

    #[test]
    fn a_row_reaches_from_one_word_into_the_next() {
        assert_eq!(rows(&[]), []);
        assert_eq!(rows(&[0, 0]), []);
        assert_eq!(rows(&[0b1011]), [(0, 2), (3, 1)]);
        assert_eq!(rows(&[1 << 63, 0b101]), [(63, 2), (66, 1)]);
        assert_eq!(rows(&[!0, !0, 1]), [(0, 129)]);
        assert_eq!(rows(&[!0 << 60, 0, 1 << 63]), [(60, 4), (191, 1)]);
    }
}
