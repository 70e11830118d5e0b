//! The C++ operators `new` and `delete`. The two that are used most are written here, to begin with
//! the fast path; `freehold_cxx` has the others, and what happens when there is no memory.
//!
//! A program may have a `malloc` of its own and leave `new` to the C++ library, which calls that:
//! so do these. No thread has anything at hand here then, so that this is looked at behind the fast
//! path only.

use crate::malloc::first_free;
use core::ffi::c_void;
use freehold_rt::slow::{self, AtHand};
use freehold_sys::own;

freehold_sys::first_function! {
    /// Whoever's `malloc` comes first in the process.
    fn first_malloc() -> extern "C" fn(usize) -> *mut c_void = "malloc" in "freehold_first_malloc";
}

freehold_sys::first_function! {
    /// Whoever's `aligned_alloc` comes first in the process.
    fn first_aligned_alloc() -> extern "C" fn(usize, usize) -> *mut c_void =
        "aligned_alloc" in "freehold_first_aligned_alloc";
}

extern "C" fn allocate(size: usize, align: usize) -> *mut c_void {
    if align <= freehold_cxx::USUAL_ALIGN {
        if own::is_own(first_malloc() as *const ()) {
            return slow::allocate(size).cast();
        }
        // As the C++ library asks: for no bytes a `malloc` may return null.
        return first_malloc()(size.max(1));
    }
    if own::is_own(first_aligned_alloc() as *const ()) {
        return slow::allocate_aligned(size, align).cast();
    }
    match size.max(1).checked_next_multiple_of(align) {
        Some(size) => first_aligned_alloc()(align, size),
        None => core::ptr::null_mut(),
    }
}

unsafe fn delete(object: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe {
        if own::is_own(first_free() as *const ()) {
            freehold_rt::deallocate(object.cast());
        } else if !object.is_null() {
            delete_elsewhere(object);
        }
    }
}

/// `delete` of what the fast path knows nothing of, which may be from a `malloc` that is not
/// Freehold's.
#[cold]
#[inline(never)]
unsafe extern "C" fn delete_elsewhere(object: *mut c_void) {
    let free = first_free();
    // SAFETY: the caller's promise.
    unsafe {
        if own::is_own(free as *const ()) || slow::owns(object.cast()) {
            freehold_rt::free::deallocate(object.cast());
        } else {
            free(object);
        }
    }
}

/// `new` of a small size when the fast path had nothing.
#[cold]
#[inline(never)]
extern "C-unwind" fn new_empty(size: usize) -> *mut c_void {
    match slow::allocate_set_aside(size) {
        Some(object) => object.as_ptr().cast(),
        None => new_rarely(size),
    }
}

/// `new` of a size that the fast path has nothing of.
#[cold]
#[inline(never)]
extern "C-unwind" fn new_large(size: usize) -> *mut c_void {
    match slow::allocate_large_at_hand(size) {
        Some(object) => object.as_ptr().cast(),
        None => new_rarely(size),
    }
}

// A function of its own, so that the one above need not save anything.
#[inline(never)]
extern "C-unwind" fn new_rarely(size: usize) -> *mut c_void {
    match AtHand::of_this_thread() {
        Some(thread) => new_hardened(thread, size),
        None => new_otherwise(size),
    }
}

#[inline(never)]
fn new_hardened(thread: AtHand, size: usize) -> *mut c_void {
    match thread.allocate_tiny(size) {
        Some(object) => object.as_ptr().cast(),
        None => new_hardened_small(thread, size),
    }
}

#[inline(never)]
fn new_hardened_small(thread: AtHand, size: usize) -> *mut c_void {
    match thread.allocate(size) {
        Some(object) => object.as_ptr().cast(),
        None => new_otherwise(size),
    }
}

#[inline(never)]
extern "C-unwind" fn new_otherwise(size: usize) -> *mut c_void {
    freehold_cxx::new(size, freehold_cxx::USUAL_ALIGN, allocate)
}

/// `operator new(size_t)`
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn _Znwm(size: usize) -> *mut c_void {
    freehold_rt::naked_allocate!(new_large, new_empty)
}

/// `operator delete(void*)`
///
/// # Safety
/// `object` is null, or an object that nobody uses any longer.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn _ZdlPv(object: *mut c_void) {
    freehold_rt::naked_deallocate!(delete_elsewhere)
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
extern "C-unwind" fn new(size: usize) -> *mut c_void {
    match freehold_rt::try_allocate(size) {
        Some(object) => object.as_ptr().cast(),
        None if size <= freehold_rt::SMALL_MAX => new_empty(size),
        None => new_large(size),
    }
}

#[cfg(not(target_arch = "x86_64"))]
freehold_cxx::usual_operators!(new, delete);

freehold_cxx::operators!(allocate, delete);
