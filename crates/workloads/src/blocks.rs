//! The measured calls: `malloc`, `free` and touching a block. Nothing else in this crate calls
//! the allocator while a measurement runs.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

unsafe extern "C" {
    fn malloc(size: usize) -> *mut c_void;
    fn free(block: *mut c_void);
}

/// The byte that blocks are filled with; not zero, so that no page can be shared with the
/// kernel's zero page.
const FILL: u8 = 0x5a;

/// Allocates a block; `None` when the allocator has no more.
pub(crate) fn allocate(size: usize) -> Option<NonNull<c_void>> {
    // SAFETY: `malloc` accepts every size.
    NonNull::new(unsafe { malloc(size) })
}

/// Writes a block from end to end.
///
/// # Safety
/// `block` must come from [`allocate`] with at least `size` bytes and not be freed yet.
pub(crate) unsafe fn fill(block: NonNull<c_void>, size: usize) {
    // SAFETY: the caller vouches for `size` writable bytes.
    unsafe { ptr::write_bytes(block.as_ptr().cast::<u8>(), FILL, size) }
}

/// Frees a block.
///
/// # Safety
/// `block` must come from [`allocate`], not be freed yet, and not be used afterwards.
pub(crate) unsafe fn release(block: *mut c_void) {
    // SAFETY: the caller vouches that this is the block's only free.
    unsafe { free(block) }
}

/// The address of the `malloc` that calls in this program are bound to.
pub(crate) fn malloc_address() -> *const c_void {
    malloc as *const c_void
}

/// The address of the `free` that calls in this program are bound to.
pub(crate) fn free_address() -> *const c_void {
    free as *const c_void
}
