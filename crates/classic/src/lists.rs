//! The heap of a thread: a list of free blocks for each class, and memory from which blocks are cut
//! when a list is empty. It has no lock.

use crate::block::{Header, Kind, UNIT, at, header};
use crate::class::{self, CLASSES};
use crate::segment::Segment;

/// What is taken from the segment at once.
const SPAN: usize = 64 << 10;

/// The heap.
pub(crate) struct Lists {
    /// For each class, the first free block. The next is written in it.
    first: [usize; CLASSES],
    /// The rest of the span that each class is cutting blocks from.
    next: [usize; CLASSES],
    end: [usize; CLASSES],
}

impl Lists {
    pub(crate) const fn new() -> Self {
        Self { first: [0; CLASSES], next: [0; CLASSES], end: [0; CLASSES] }
    }

    /// A block of this class. A new one gets `owner` into its header.
    pub(crate) fn take(&mut self, class: usize, owner: usize, segment: &Segment) -> Option<usize> {
        let block = self.first[class];
        if block == 0 {
            return self.cut(class, owner, segment);
        }
        // SAFETY: a block in the list is free, and has the next one's address in it.
        self.first[class] = unsafe { at::<usize>(block).read() };
        Some(block)
    }

    fn cut(&mut self, class: usize, owner: usize, segment: &Segment) -> Option<usize> {
        let bytes = class::bytes(class);
        let stride = bytes + UNIT;
        if self.end[class] - self.next[class] < stride {
            let span = SPAN.next_multiple_of(stride);
            self.next[class] = segment.extend(span)?;
            self.end[class] = self.next[class] + span;
        }
        let own = self.next[class];
        self.next[class] += stride;
        // SAFETY: the memory is this heap's, and was not given out before.
        unsafe { *header(own) = Header::new(owner, bytes, Kind::Classed) };
        Some(own + UNIT)
    }

    /// Takes a block in, wherever it was cut.
    ///
    /// # Safety
    /// The block is a classed one that nobody uses any longer.
    pub(crate) unsafe fn put(&mut self, block: *mut u8) {
        let address = block.expose_provenance();
        // SAFETY: the caller's promise; a block has room for an address.
        unsafe {
            let class = class::of(header(address - UNIT).bytes()).unwrap_or(CLASSES - 1);
            at::<usize>(address).write(self.first[class]);
            self.first[class] = address;
        }
    }
}
