//! Private heaps with ownership, as in `ptmalloc` and `LKmalloc`: every thread takes from a heap of
//! its own, and whoever frees a block gives it back to the heap that it came from, under that
//! heap's lock. Memory is bounded, but what one heap has another cannot use: as many threads as
//! take turns, as many times the memory.
//!
//! Departures: what is larger than 64 KiB is served from one area behind one lock, as it is in
//! libmtmalloc. A heap goes to the next thread when its thread exits. Threads beyond the 1024th
//! share a heap.

use crate::Model;
use crate::bestfit::pointer;
use crate::block::{Kind, header_of};
use crate::class;
use crate::guarded::Guarded;
use crate::lists::Lists;
use crate::order;
use crate::oversize::Oversize;
use crate::thread::{self, SEATS};
use freehold_sync::lock::Lock;

/// The heap of threads without a seat.
const COMMON: usize = SEATS;

/// The model.
pub struct Ownership {
    /// The heap of each seat, and the common one.
    heaps: [Guarded<Lists>; SEATS + 1],
    oversize: Oversize,
}

impl Ownership {
    /// Empty heaps.
    #[expect(clippy::large_stack_arrays, reason = "models are statics")]
    pub const fn new() -> Self {
        Self {
            heaps: [const { Guarded::new(order::HEAP, Lists::new()) }; SEATS + 1],
            oversize: Oversize::new(),
        }
    }

    /// Bytes taken from the system so far.
    pub fn taken(&self) -> usize {
        self.oversize.segment.taken()
    }
}

impl Default for Ownership {
    fn default() -> Self {
        Self::new()
    }
}

impl Model for Ownership {
    fn allocate(&self, size: usize) -> *mut u8 {
        let Some(class) = class::of(size) else { return self.oversize.allocate(size) };
        let own = thread::seat().unwrap_or(COMMON);
        pointer(self.heaps[own].with(|heap| heap.take(class, own, &self.oversize.segment)))
    }

    unsafe fn deallocate(&self, block: *mut u8) {
        // SAFETY: the block is the caller's to give back, and its owner the heap that it is from.
        unsafe {
            let own = header_of(block);
            if own.kind() == Kind::Fitted {
                self.oversize.deallocate(block);
            } else {
                self.heaps[own.owner].with(|heap| heap.put(block));
            }
        }
    }

    fn each_lock(&self, each: &mut dyn FnMut(&Lock)) {
        self.heaps.iter().map(Guarded::lock).chain(self.oversize.locks()).for_each(each);
    }
}
