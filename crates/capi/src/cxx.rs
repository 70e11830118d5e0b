//! The C++ operators `new` and `delete`. The two that are used most are written here, to begin with
//! the fast path; `freehold_cxx` has the others, and what happens when there is no memory.

use core::ffi::c_void;
use freehold_rt::slow::{self, AtHand};

extern "C" fn allocate(size: usize, align: usize) -> *mut c_void {
    let object = if align <= freehold_cxx::USUAL_ALIGN {
        slow::allocate(size)
    } else {
        slow::allocate_aligned(size, align)
    };
    object.cast()
}

unsafe fn delete(object: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { freehold_rt::deallocate(object.cast()) }
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
    freehold_rt::naked_deallocate!()
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
