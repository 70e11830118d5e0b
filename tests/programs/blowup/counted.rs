//! The program's own lists of blocks, counted like the blocks: they are in use as well.

use std::alloc::{GlobalAlloc, Layout, System};

use crate::memory::METER;

struct Counted;

#[global_allocator]
static COUNTED: Counted = Counted;

// SAFETY: the system's allocator does everything, which is malloc; counting allocates nothing.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        METER.add(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, object: *mut u8, layout: Layout) {
        METER.subtract(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(object, layout) }
    }

    unsafe fn realloc(&self, object: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        METER.add(size);
        METER.subtract(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.realloc(object, layout, size) }
    }
}
