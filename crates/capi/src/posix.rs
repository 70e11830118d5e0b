//! The functions for alignments. Source: `posix_memalign(3)`.

use crate::errno::{EINVAL, ENOMEM, checked, failed};
use core::ffi::{c_int, c_void};
use freehold_rt::slow;

/// `posix_memalign(3)`: returns the error, and leaves `errno` and, on an error, the result alone.
///
/// # Safety
/// `result` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(
    result: *mut *mut c_void,
    align: usize,
    size: usize,
) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<usize>()) {
        return EINVAL;
    }
    let object = slow::allocate_aligned(size, align);
    if object.is_null() {
        return ENOMEM;
    }
    // SAFETY: the caller's promise.
    unsafe { result.write(object.cast()) };
    0
}

/// `memalign(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    if !align.is_power_of_two() {
        return failed(EINVAL);
    }
    checked(slow::allocate_aligned(size, align))
}

/// `valloc(3)`: at a multiple of the page size.
#[unsafe(no_mangle)]
pub extern "C" fn valloc(size: usize) -> *mut c_void {
    checked(slow::allocate_aligned(size, slow::page_size()))
}

freehold_sys::first_function! {
    /// Whoever's `memalign` comes first in the process: its `free` will be given what `pvalloc`
    /// returns, which not every allocator exports.
    fn first_memalign() -> extern "C" fn(usize, usize) -> *mut c_void =
        "memalign" in "freehold_first_memalign";
}

/// `pvalloc(3)`: whole pages.
#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(size: usize) -> *mut c_void {
    let page = slow::page_size();
    match size.checked_next_multiple_of(page) {
        Some(bytes) => first_memalign()(page, bytes.max(page)),
        None => failed(ENOMEM),
    }
}
