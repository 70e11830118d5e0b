//! What is larger than the largest class: one best-fit heap for all threads, behind one lock. And
//! the segment, from which everything else of a model comes as well.

use crate::bestfit::{BestFit, pointer};
use crate::guarded::Guarded;
use crate::order;
use crate::segment::Segment;
use freehold_sync::lock::Lock;

/// The oversize area of a model.
pub(crate) struct Oversize {
    heap: Guarded<BestFit>,
    pub(crate) segment: Segment,
}

impl Oversize {
    pub(crate) const fn new() -> Self {
        Self { heap: Guarded::new(order::OVERSIZE, BestFit::new()), segment: Segment::new() }
    }

    /// A block of at least `size` bytes.
    pub(crate) fn allocate(&self, size: usize) -> *mut u8 {
        pointer(self.heap.with(|heap| heap.allocate(size, &self.segment)))
    }

    /// Takes a block back.
    ///
    /// # Safety
    /// The block came from here and nobody uses it any longer.
    pub(crate) unsafe fn deallocate(&self, block: *mut u8) {
        // SAFETY: the caller's promise.
        self.heap.with(|heap| unsafe { heap.deallocate(block) });
    }

    /// Its locks, in the order in which they are taken.
    pub(crate) fn locks(&self) -> [&Lock; 2] {
        [self.heap.lock(), self.segment.lock()]
    }
}
