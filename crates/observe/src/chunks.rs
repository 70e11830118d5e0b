//! What is used and what is free in the heaps of the C library of GNU, from the sizes that it keeps
//! before each block. The process goes on meanwhile: where sizes do not fit together, the walk
//! ends, and says so.

use std::ops::Range;

use crate::reading::Window;

/// Blocks begin at multiples of this, and none is smaller than two of it.
const ALIGNMENT: u64 = 16;
const SMALLEST: u64 = 32;

/// Bits beside a size: the block before is used; and what marks another arena, or a mapping.
const PREVIOUS_USED: u64 = 1;
const FLAGS: u64 = 7;

/// Of those: the block has a mapping of its own, which is whole pages.
const MAPPED: u64 = 2;
const PAGE: u64 = 4096;

/// The size of the block in which a thread notes what it keeps.
const KEEPER: u64 = 0x290;

/// Arenas for threads begin at multiples of this.
const ARENA: u64 = 64 << 20;

/// Where the size of an arena's heap is kept, from its beginning.
const HEAP_SIZE: u64 = 16;

/// How far from the beginning of an arena its first block can be: the arena itself may be there.
const FARTHEST: u64 = 4096;

/// Blocks that have to fit together before one is taken for the first.
const PROBE: usize = 8;

/// What a heap holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    /// Bytes of blocks that are used, or kept by a thread for its next use.
    pub(crate) used: u64,
    /// Those of them that a thread keeps for its next use (`tcache`).
    pub(crate) kept: u64,
    /// Bytes of blocks that are free.
    pub(crate) free: u64,
    /// Bytes at the end that were never given out, or have come back there.
    pub(crate) top: u64,
    /// Whether the walk came to the end.
    pub(crate) is_complete: bool,
}

/// Memory that can be read word by word.
pub(crate) trait Words {
    /// The word at an address.
    fn word(&mut self, address: u64) -> Option<u64>;
}

impl Words for Window {
    fn word(&mut self, address: u64) -> Option<u64> {
        Window::word(self, address)
    }
}

/// The contents of the heap that the program's data segment goes on as; nothing if it is another
/// allocator's, which may ask the system for memory there as well.
pub(crate) fn main_heap(memory: &mut dyn Words, area: &Range<u64>) -> Option<Contents> {
    let range = area.start.next_multiple_of(ALIGNMENT)..area.end;
    let begins_as_one = fits(memory, range.clone());
    let contents = walk(memory, range);
    (begins_as_one || contents.is_complete).then_some(contents)
}

/// The contents of a heap of an arena that was made for threads; nothing if this is none.
pub(crate) fn arena_heap(memory: &mut dyn Words, start: u64) -> Option<Contents> {
    if !start.is_multiple_of(ARENA) {
        return None;
    }
    let size = memory.word(start + HEAP_SIZE)?;
    if size == 0 || size > ARENA || !size.is_multiple_of(4096) {
        return None;
    }
    let end = start + size;
    let mut candidates = (start + 2 * ALIGNMENT..start + FARTHEST).step_by(ALIGNMENT as usize);
    let first = candidates.find(|&first| fits(memory, first..end))?;
    Some(walk(memory, first..end))
}

/// The size of the block at an address, if it can be one, and whether the one before is used.
fn size_at(memory: &mut dyn Words, block: u64, end: u64) -> Option<(u64, bool)> {
    let word = memory.word(block + 8)?;
    let size = word & !FLAGS;
    let is_one = size >= SMALLEST && size.is_multiple_of(ALIGNMENT) && size <= end - block;
    is_one.then_some((size, word & PREVIOUS_USED != 0))
}

/// Whether blocks follow each other from here, as many as a probe takes or up to the end.
fn fits(memory: &mut dyn Words, range: Range<u64>) -> bool {
    let mut at = range.start;
    for _ in 0..PROBE {
        match size_at(memory, at, range.end) {
            Some((size, _)) => at += size,
            None => return false,
        }
        if at == range.end {
            return true;
        }
    }
    true
}

/// Bytes of what a thread keeps for its next use, if the block at an address is where it notes
/// that: numbers of blocks of each size, and the first of each.
fn kept(memory: &mut dyn Words, block: u64) -> u64 {
    const SIZES: u64 = 64;
    const COUNT_BYTES: u64 = 2;
    const MOST: u64 = 1 << 12;
    let counts = block + ALIGNMENT;
    let firsts = counts + SIZES * COUNT_BYTES;
    let mut bytes = 0;
    for n in 0..SIZES {
        let four = memory.word(counts + n / 4 * 8).unwrap_or(u64::MAX);
        let count = four >> (n % 4 * 16) & 0xffff;
        let first = memory.word(firsts + n * 8).unwrap_or(1);
        let fits = (count == 0) == (first == 0) && first.is_multiple_of(ALIGNMENT) && count < MOST;
        if !fits {
            return 0;
        }
        bytes += count * (SMALLEST + n * ALIGNMENT);
    }
    bytes
}

/// The bytes of the large blocks, each with a mapping of its own, at the beginning of an area, and
/// how many there are.
pub(crate) fn mapped_blocks(memory: &mut dyn Words, area: &Range<u64>) -> (u64, u64) {
    let (mut bytes, mut count) = (0, 0);
    while area.end - (area.start + bytes) >= PAGE {
        let at = area.start + bytes;
        let (before, size) = (memory.word(at), memory.word(at + 8));
        let (Some(0), Some(size)) = (before, size) else { break };
        let len = size & !FLAGS;
        let is_one = size & FLAGS == MAPPED && len >= PAGE && len.is_multiple_of(PAGE);
        if !is_one || len > area.end - at {
            break;
        }
        bytes += len;
        count += 1;
    }
    (bytes, count)
}

/// Goes from block to block. Whether one is used is kept in the next; the last one is the top.
fn walk(memory: &mut dyn Words, range: Range<u64>) -> Contents {
    let mut contents = Contents::default();
    let mut at = range.start;
    let Some((mut size, _)) = size_at(memory, at, range.end) else { return contents };
    loop {
        let next = at + size;
        if range.end - next < SMALLEST {
            contents.top = size;
            contents.is_complete = true;
            return contents;
        }
        let Some((next_size, is_used)) = size_at(memory, next, range.end) else { return contents };
        if is_used {
            contents.used += size;
            if size == KEEPER {
                contents.kept += kept(memory, at);
            }
        } else {
            contents.free += size;
        }
        (at, size) = (next, next_size);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    impl Words for HashMap<u64, u64> {
        fn word(&mut self, address: u64) -> Option<u64> {
            self.get(&address).copied()
        }
    }

    /// Blocks of these sizes, used or not, and the top up to `end`.
    fn heap(first: u64, blocks: &[(u64, bool)], end: u64) -> HashMap<u64, u64> {
        let mut words = HashMap::new();
        let (mut at, mut before) = (first, true);
        for &(size, is_used) in blocks.iter().chain([&(end - first - sum(blocks), true)]) {
            words.insert(at + 8, size | u64::from(before));
            (at, before) = (at + size, is_used);
        }
        words
    }

    fn sum(blocks: &[(u64, bool)]) -> u64 {
        blocks.iter().map(|block| block.0).sum()
    }

    const BLOCKS: [(u64, bool); 4] = [(656, true), (64, false), (128, true), (4096, false)];

    #[test]
    fn used_and_free_blocks_and_the_top_are_told_apart() {
        let mut memory = heap(0x10000, &BLOCKS, 0x20000);
        let contents = main_heap(&mut memory, &(0x10000..0x20000)).expect("a heap");
        let top = 0x10000 - sum(&BLOCKS);
        let expected = Contents { used: 784, free: 4160, top, is_complete: true, kept: 0 };
        assert_eq!(contents, expected);
    }

    #[test]
    fn what_a_thread_keeps_is_read_from_its_notes() {
        let mut memory = heap(0x10000, &[(KEEPER, true), (64, true)], 0x20000);
        let counts = 0x10000 + ALIGNMENT;
        for word in 0..16 + 64 {
            memory.insert(counts + word * 8, 0);
        }
        // Three blocks of 48 bytes: the second size.
        memory.insert(counts, 3 << 16);
        memory.insert(counts + 128 + 8, 0x10400);
        assert_eq!(main_heap(&mut memory, &(0x10000..0x20000)).expect("a heap").kept, 144);
        // A number without a first block: this is something else.
        memory.insert(counts + 128 + 8, 0);
        assert_eq!(main_heap(&mut memory, &(0x10000..0x20000)).expect("a heap").kept, 0);
    }

    #[test]
    fn large_blocks_are_followed_while_they_fit() {
        let words = [(0, 0), (8, 0x5000 | MAPPED), (0x5000, 0), (0x5008, 0x3000 | MAPPED)];
        let mut memory: HashMap<u64, u64> = words.into();
        memory.extend([(0x8000, 0), (0x8008, 17)]);
        assert_eq!(mapped_blocks(&mut memory, &(0..0x9000)), (0x8000, 2));
        assert_eq!(mapped_blocks(&mut memory, &(0..0x4000)), (0, 0));
    }

    #[test]
    fn sizes_that_do_not_fit_end_the_walk() {
        let blocks = [(64, true); 2 * PROBE];
        let mut memory = heap(0x10000, &blocks, 0x20000);
        let bad = PROBE as u64 + 2;
        memory.insert(0x10000 + bad * 64 + 8, 7);
        let contents = main_heap(&mut memory, &(0x10000..0x20000)).expect("a heap");
        assert_eq!(contents, Contents { used: (bad - 1) * 64, ..Contents::default() });
        // Where they never fit, the memory is somebody else's.
        memory.insert(0x10000 + 64 + 8, 7);
        assert_eq!(main_heap(&mut memory, &(0x10000..0x20000)), None);
    }

    #[test]
    fn the_first_block_of_an_arena_is_found_behind_the_arena() {
        let start = 3 * ARENA;
        let mut memory = heap(start + 0x8d0, &BLOCKS, start + 0x20000);
        memory.insert(start + HEAP_SIZE, 0x20000);
        let contents = arena_heap(&mut memory, start).expect("a heap");
        assert_eq!((contents.used, contents.free, contents.is_complete), (784, 4160, true));
        assert_eq!(arena_heap(&mut memory, start + 4096), None);
        assert_eq!(arena_heap(&mut HashMap::new(), start), None);
    }
}
