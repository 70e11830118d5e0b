//! A best-fit heap: the smallest free block that will do is cut to size, and neighbours that are
//! free become one block again. What it holds is found through headers before and behind each
//! block (boundary tags). It has no lock: who uses it holds one.

use crate::block::{Header, Kind, UNIT, at, header, whole_units};
use crate::segment::Segment;
use crate::tree::Tree;

/// The least by which the heap grows.
const GROWTH: usize = 64 << 10;

/// What is cut off must be worth it: a header, and room for a free block's links.
const LEAST_REST: usize = 2 * UNIT;

/// The heap.
pub(crate) struct BestFit {
    free: Tree,
    /// The header that ends the newest stretch of memory; 0 before there is one.
    end: usize,
}

impl BestFit {
    pub(crate) const fn new() -> Self {
        Self { free: Tree::new(), end: 0 }
    }

    /// A block of at least `size` bytes, as the address behind its header.
    pub(crate) fn allocate(&mut self, size: usize, segment: &Segment) -> Option<usize> {
        let bytes = whole_units(size)?;
        // SAFETY: the free blocks are this heap's alone.
        let block = match unsafe { self.free.take_best(bytes) } {
            Some(block) => block,
            None => self.grow(bytes, segment)?,
        };
        // SAFETY: the block was just taken out, and is large enough.
        unsafe { self.cut(block, bytes) };
        Some(block + UNIT)
    }

    /// Takes a block back.
    ///
    /// # Safety
    /// The block came from `allocate` of this heap and nobody uses it any longer.
    pub(crate) unsafe fn deallocate(&mut self, block: *mut u8) {
        let own = block.expose_provenance() - UNIT;
        // SAFETY: the headers before and behind a block of this heap are the heap's.
        unsafe {
            let bytes = header(own).bytes();
            self.give_back(own, bytes);
        }
    }

    /// Shortens a block to `bytes` and marks it used; what is left over becomes free.
    ///
    /// # Safety
    /// The block is in no tree, and has at least `bytes`.
    unsafe fn cut(&mut self, block: usize, bytes: usize) {
        // SAFETY: the caller's promise; all headers are this heap's.
        unsafe {
            let rest = header(block).bytes() - bytes;
            if rest < LEAST_REST {
                let all = header(block).bytes();
                return header(block).set(all, Kind::Fitted);
            }
            header(block).set(bytes, Kind::Fitted);
            let behind = next(block);
            *header(behind) = Header::new(block, rest - UNIT, Kind::Free);
            header(next(behind)).owner = behind;
            self.free.insert(behind);
        }
    }

    /// Makes a block free, and one with those beside it that are free.
    ///
    /// # Safety
    /// The block is this heap's, in use by nobody, and in no tree.
    unsafe fn give_back(&mut self, mut block: usize, mut bytes: usize) {
        // SAFETY: the caller's promise; all headers are this heap's.
        unsafe {
            header(block).set(bytes, Kind::Free);
            let behind = next(block);
            if header(behind).kind() == Kind::Free {
                self.free.remove(behind);
                bytes += UNIT + header(behind).bytes();
            }
            let before = header(block).owner;
            if before != 0 && header(before).kind() == Kind::Free {
                self.free.remove(before);
                bytes += UNIT + header(before).bytes();
                block = before;
            }
            header(block).set(bytes, Kind::Free);
            header(next(block)).owner = block;
            self.free.insert(block);
        }
    }

    /// Gets more memory from the segment, and from it a block of at least `bytes`, in no tree.
    fn grow(&mut self, bytes: usize, segment: &Segment) -> Option<usize> {
        let more = (bytes + 2 * UNIT).max(GROWTH);
        let start = segment.extend(more)?;
        let end = start + more - UNIT;
        // SAFETY: the memory is new and this heap's alone; so is the header that ended the last.
        unsafe {
            let block = if self.end != 0 && start == self.end + UNIT {
                // It goes on where it ended: the header that ended it begins a block.
                self.end
            } else {
                *header(start) = Header::new(0, 0, Kind::Fitted);
                start
            };
            *header(end) = Header::new(block, 0, Kind::Fitted);
            self.end = end;
            self.give_back(block, end - block - UNIT);
            self.free.take_best(bytes)
        }
    }
}

/// The header behind a block.
///
/// # Safety
/// The block is one of a best-fit heap, and its own header is right.
unsafe fn next(block: usize) -> usize {
    // SAFETY: the caller's promise.
    block + UNIT + unsafe { header(block) }.bytes()
}

/// A block from a heap as C wants it.
pub(crate) fn pointer(block: Option<usize>) -> *mut u8 {
    block.map_or(core::ptr::null_mut(), at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::header_of;

    fn get(heap: &mut BestFit, segment: &Segment, size: usize) -> *mut u8 {
        pointer(heap.allocate(size, segment))
    }

    #[test]
    fn the_smallest_block_that_will_do_is_taken() {
        let (mut heap, segment) = (BestFit::new(), Segment::new());
        let mut hold = |size| {
            let block = get(&mut heap, &segment, size);
            // Something in use between the blocks keeps them apart.
            get(&mut heap, &segment, 16);
            block
        };
        let (large, small, medium) = (hold(800), hold(100), hold(400));
        for block in [large, small, medium] {
            // SAFETY: each comes from this heap.
            unsafe { heap.deallocate(block) };
        }
        assert_eq!(get(&mut heap, &segment, 200), medium);
        assert_eq!(get(&mut heap, &segment, 90), small);
        assert_eq!(get(&mut heap, &segment, 500), large);
    }

    #[test]
    fn neighbours_that_are_free_become_one_block_and_nothing_is_lost() {
        let (mut heap, segment) = (BestFit::new(), Segment::new());
        let mut blocks: std::vec::Vec<_> =
            (1..2000).map(|n| get(&mut heap, &segment, n * 37 % 3000)).collect();
        let taken = segment.taken();
        // Every third first, then the rest from both ends.
        while let Some(block) = (!blocks.is_empty()).then(|| blocks.remove(blocks.len() / 3)) {
            // SAFETY: each comes from this heap, once.
            unsafe { heap.deallocate(block) };
        }
        let all = get(&mut heap, &segment, taken - 2 * UNIT);
        assert_eq!(segment.taken(), taken, "the whole of it was to be one block");
        // SAFETY: the block has just come.
        assert_eq!(unsafe { header_of(all) }.bytes(), taken - 2 * UNIT);
    }
}
