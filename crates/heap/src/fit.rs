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
use core::iter::{from_fn, once};
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
        let lowest = self.find_preferred_block(prefer);
        let Some(_) = lowest else {
            let mut rows = rows(self.words(|zone| zone.whole.look()));
            return rows.find_map(|(start, length)| fits(aligned(start), count, start + length));
        };
        if (count, align) == (1, 1) {
            return lowest;
        }
        self.find_preferred(count, prefer, aligned)
            .or_else(|| self.find_most_preferred(count, prefer, aligned))
    }

    /// The lowest block that is wholly free and of the preferred kind.
    pub(crate) fn find_preferred_block(&self, prefer: Prefer) -> Option<Block> {
        let mut words = self.words(|zone| preferred(zone, prefer)).zip(0..);
        let (word, n) = words.find(|&(word, _)| word != 0)?;
        Some(Block(n * ZONE_BLOCKS + word.trailing_zeros()))
    }

    /// `count` blocks, all of them of the preferred kind, in the shortest row that has so many.
    fn find_preferred(
        &self,
        count: u32,
        prefer: Prefer,
        aligned: impl Fn(u32) -> u32,
    ) -> Option<Block> {
        let rows = rows(self.words(|zone| preferred(zone, prefer)));
        let fitting = rows.filter_map(|(start, length)| {
            fits(aligned(start), count, start + length).map(|first| (length, first))
        });
        fitting.min_by_key(|&(length, _)| length).map(|(_, first)| first)
    }

    /// `count` blocks where most are of the preferred kind, the lowest such.
    fn find_most_preferred(
        &self,
        count: u32,
        prefer: Prefer,
        aligned: impl Fn(u32) -> u32,
    ) -> Option<Block> {
        let is_preferred = |b: u32| u32::from(self.is_preferred(Block(b), prefer));
        let (mut best, mut most) = (None, 0);
        for (start, length) in rows(self.words(|zone| zone.whole.look())) {
            let Some(last) = (start + length).checked_sub(count).filter(|&last| last >= start)
            else {
                continue;
            };
            let mut here: u32 = (start..start + count).map(is_preferred).sum();
            for first in start..=last {
                if aligned(first) == first && (best.is_none() || here > most) {
                    (best, most) = (Some(Block(first)), here);
                }
                if first < last {
                    here = here + is_preferred(first + count) - is_preferred(first);
                }
            }
        }
        best
    }

    fn words(&self, of: impl Fn(&ZoneEntry) -> u64) -> impl Iterator<Item = u64> {
        self.zones().map(move |(_, zone)| of(zone))
    }

    fn is_preferred(&self, block: Block, prefer: Prefer) -> bool {
        preferred(self.zone(block.zone()), prefer) & block.bit() != 0
    }
}

/// The first of `count` blocks from `first` on, if they end before `end`.
fn fits(first: u32, count: u32, end: u32) -> Option<Block> {
    (first + count <= end).then_some(Block(first))
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

/// The start and the length of every row of set bits, which may reach from one word into the next.
fn rows(words: impl Iterator<Item = u64>) -> impl Iterator<Item = (u32, u32)> {
    // A word without any ends the last row.
    let mut words = words.chain(once(0)).zip((0..).step_by(ZONE_BLOCKS as usize));
    let (mut word, mut base, mut at) = (0, 0, ZONE_BLOCKS);
    let (mut start, mut length) = (0, 0);
    from_fn(move || {
        loop {
            if at >= ZONE_BLOCKS {
                (word, base) = words.next()?;
                at = 0;
            }
            let rest: u64 = word >> at;
            if rest & 1 == 1 {
                start = if length == 0 { base + at } else { start };
                length += rest.trailing_ones();
                at += rest.trailing_ones();
                continue;
            }
            at += rest.trailing_zeros();
            if length > 0 {
                return Some((start, core::mem::take(&mut length)));
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn rows_of(words: &[u64]) -> Vec<(u32, u32)> {
        rows(words.iter().copied()).collect()
    }

    #[test]
    fn a_row_reaches_from_one_word_into_the_next() {
        assert_eq!(rows_of(&[]), []);
        assert_eq!(rows_of(&[0, 0]), []);
        assert_eq!(rows_of(&[0b1011]), [(0, 2), (3, 1)]);
        assert_eq!(rows_of(&[1 << 63, 0b101]), [(63, 2), (66, 1)]);
        assert_eq!(rows_of(&[!0, !0, 1]), [(0, 129)]);
        assert_eq!(rows_of(&[!0 << 60, 0, 1 << 63]), [(60, 4), (191, 1)]);
    }
}
