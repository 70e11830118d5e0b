//! Pure private heaps, as the C++ library of old and the Cilk allocator had them: every thread
//! takes from a heap of its own, and keeps what it frees, wherever that came from. There is nothing
//! to wait for, and nothing by which memory finds its way back: where one thread allocates and
//! another frees, one heap grows for ever and the other hoards.
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

/// The model.
pub struct Private {
    /// The heap of each seat. The locks are not used: a seat has one thread.
    heaps: [Guarded<Lists>; SEATS],
    /// For threads without a seat.
    common: Guarded<Lists>,
    oversize: Oversize,
}

impl Private {
    /// Empty heaps.
    #[expect(clippy::large_stack_arrays, reason = "models are statics")]
    pub const fn new() -> Self {
        Self {
            heaps: [const { Guarded::new(order::HEAP, Lists::new()) }; SEATS],
            common: Guarded::new(order::HEAP, Lists::new()),
            oversize: Oversize::new(),
        }
    }

    /// Bytes taken from the system so far.
    pub fn taken(&self) -> usize {
        self.oversize.segment.taken()
    }

    fn with_heap<R>(&self, use_it: impl FnOnce(&mut Lists) -> R) -> R {
        match thread::seat() {
            // SAFETY: the seat is this thread's alone, and so is its heap.
            Some(seat) => use_it(unsafe { self.heaps[seat].as_held() }),
            None => self.common.with(use_it),
        }
    }
}

impl Default for Private {
    fn default() -> Self {
        Self::new()
    }
}

impl Model for Private {
    fn allocate(&self, size: usize) -> *mut u8 {
        match class::of(size) {
            Some(class) => {
                pointer(self.with_heap(|heap| heap.take(class, 0, &self.oversize.segment)))
            }
            None => self.oversize.allocate(size),
        }
    }

    unsafe fn deallocate(&self, block: *mut u8) {
        // SAFETY: the block is the caller's to give back.
        unsafe {
            if header_of(block).kind() == Kind::Fitted {
                self.oversize.deallocate(block);
            } else {
                self.with_heap(|heap| heap.put(block));
            }
        }
    }

    fn each_lock(&self, each: &mut dyn FnMut(&Lock)) {
        each(self.common.lock());
        self.oversize.locks().into_iter().for_each(each);
    }
}
