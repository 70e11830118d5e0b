//! The measured calls: `malloc` and its family, and touching a block. Nothing else in this crate
//! calls the allocator while a measurement runs.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

unsafe extern "C" {
    fn malloc(size: usize) -> *mut c_void;
    fn calloc(count: usize, size: usize) -> *mut c_void;
    fn realloc(block: *mut c_void, size: usize) -> *mut c_void;
    fn memalign(alignment: usize, size: usize) -> *mut c_void;
    fn free(block: *mut c_void);
}

/// The byte that blocks are filled with; not zero, so that no page can be shared with the
/// kernel's zero page.
const FILL: u8 = 0x5a;

/// Allocates a block; `None` when the allocator has no more.
#[inline]
pub(crate) fn allocate(size: usize) -> Option<NonNull<c_void>> {
    // SAFETY: `malloc` accepts every size.
    NonNull::new(unsafe { malloc(size) })
}

/// Allocates a block of zeros.
#[inline]
pub(crate) fn allocate_zeroed(size: usize) -> Option<NonNull<c_void>> {
    // SAFETY: `calloc` accepts every size.
    NonNull::new(unsafe { calloc(1, size) })
}

/// Allocates a block at a multiple of `alignment`, which must be a power of two.
#[inline]
pub(crate) fn allocate_aligned(alignment: usize, size: usize) -> Option<NonNull<c_void>> {
    // SAFETY: `memalign` accepts every size, and refuses or rounds what is no power of two.
    NonNull::new(unsafe { memalign(alignment, size) })
}

/// Gives a block another size, which must not be zero. `None` when the allocator has no more; the
/// block is then still there.
///
/// # Safety
/// `block` must be null or come from one of the allocating functions, not be freed yet, and not be
/// used after success.
#[inline]
pub(crate) unsafe fn resize(block: *mut c_void, size: usize) -> Option<NonNull<c_void>> {
    // SAFETY: the caller vouches for the block.
    NonNull::new(unsafe { realloc(block, size) })
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
/// `block` must be null or come from one of the allocating functions, not be freed yet, and not be
/// used afterwards.
#[inline]
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
