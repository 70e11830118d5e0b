//! Chunks: memory for blocks of one class, with a bit for each that is free. The bits lie at the
//! start of the chunk, behind what the model keeps there.

use crate::block::{Header, Kind, UNIT, at, header};
use crate::segment::Segment;
use core::sync::atomic::{AtomicU64, Ordering};

/// What chunk sizes are multiples of.
const PAGE: usize = 8192;

/// Bits in a word.
const BITS: usize = 64;

/// The start of a chunk, with what a model keeps there.
#[repr(C, align(64))]
pub(crate) struct Chunk<K> {
    pub(crate) kept: K,
    /// The header of the first block, and the distance to the next.
    first: usize,
    stride: usize,
    blocks: usize,
}

impl<K> Chunk<K> {
    /// A chunk of so many pages, all of it free. `kept` is told how many blocks there are.
    pub(crate) fn new(
        segment: &Segment,
        pages: usize,
        block_bytes: usize,
        kept: impl FnOnce(usize) -> K,
    ) -> Option<&'static Self> {
        let (bytes, stride) = (pages * PAGE, block_bytes + UNIT);
        let blocks = Self::capacity(bytes, stride);
        // One line more than is used, so that the start can be aligned.
        let start = segment.extend(bytes)?.next_multiple_of(align_of::<Self>());
        let first = start + Self::start_bytes(blocks);
        let chunk = at::<Self>(start);
        // SAFETY: the memory is new, and `capacity` has seen to it that everything lies within.
        unsafe {
            chunk.write(Self { kept: kept(blocks), first, stride, blocks });
            for n in 0..blocks {
                let own = Header::new(start, block_bytes, Kind::Classed);
                *header(first + n * stride) = own;
            }
            let chunk = &*chunk;
            for n in 0..blocks {
                chunk.word(n / BITS).fetch_or(1 << (n % BITS), Ordering::Relaxed);
            }
            Some(chunk)
        }
    }

    /// How many blocks there is room for: a multiple of eight, if there are as many.
    fn capacity(bytes: usize, stride: usize) -> usize {
        let room = bytes - align_of::<Self>();
        let mut blocks = room / stride;
        while Self::start_bytes(blocks) + blocks * stride > room {
            blocks -= 1;
        }
        if blocks < 8 { blocks } else { blocks & !7 }
    }

    /// What comes before the first header.
    fn start_bytes(blocks: usize) -> usize {
        (size_of::<Self>() + blocks.div_ceil(BITS) * 8).next_multiple_of(UNIT)
    }

    fn word(&self, n: usize) -> &AtomicU64 {
        // SAFETY: the words lie behind this structure, and are never anything but atomic.
        unsafe { &*at::<AtomicU64>((&raw const *self).addr() + size_of::<Self>() + n * 8) }
    }

    /// Takes a free block, the first there is. Of those who take, one at a time may be here.
    pub(crate) fn take(&self) -> Option<usize> {
        (0..self.blocks.div_ceil(BITS)).find_map(|n| {
            let word = self.word(n);
            // Acquire pairs with the Release in `put`: what was done to the block came before.
            let free = word.load(Ordering::Acquire);
            let bit = (free != 0).then(|| free.trailing_zeros() as usize)?;
            // Relaxed: only the bit itself changes, and nobody else takes it.
            word.fetch_and(!(1 << bit), Ordering::Relaxed);
            Some(self.first + (n * BITS + bit) * self.stride + UNIT)
        })
    }

    /// Makes a block free.
    pub(crate) fn put(&self, block: usize) {
        let n = (block - UNIT - self.first) / self.stride;
        // Release pairs with the Acquire in `take`.
        self.word(n / BITS).fetch_or(1 << (n % BITS), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    #[test]
    fn every_block_is_given_once_and_lies_within_the_chunk() {
        let segment = Segment::new();
        for class in 0..class::CLASSES {
            let mut count = 0;
            let bytes = class::bytes(class);
            let chunk = Chunk::new(&segment, 9, bytes, |blocks| count = blocks).expect("memory");
            let start = (&raw const *chunk).addr();
            let blocks: BTreeSet<_> = std::iter::from_fn(|| chunk.take()).collect();
            assert_eq!(blocks.len(), count);
            let list: Vec<_> = blocks.iter().copied().collect();
            assert!(list.windows(2).all(|pair| pair[1] - pair[0] == bytes + UNIT));
            assert!(list[0] > start && list[count - 1] + bytes <= start + 9 * PAGE);
            chunk.put(list[count / 2]);
            assert_eq!(chunk.take(), Some(list[count / 2]));
        }
    }

    #[test]
    fn a_chunk_of_nine_pages_has_136_blocks_of_512_bytes_as_the_original_had() {
        for (pages, expected) in [(9, 136), (20, 304), (30, 464)] {
            let segment = Segment::new();
            let mut count = 0;
            Chunk::new(&segment, pages, 512, |blocks| count = blocks).expect("memory");
            assert_eq!(count, expected, "{pages} pages");
        }
    }
}
