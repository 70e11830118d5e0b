//! The C standard's functions, including those of C23, and the two older names.

use crate::errno::{EINVAL, ENOMEM, checked, failed};
use core::ffi::c_void;
use freehold_rt::slow::{self, AtHand};

/// `malloc(3)`.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C" fn malloc(size: usize) -> *mut c_void {
    freehold_rt::naked_allocate!(malloc_large, malloc_empty)
}

/// `malloc(3)`.
#[cfg(not(target_arch = "x86_64"))]
#[unsafe(no_mangle)]
pub extern "C" fn malloc(size: usize) -> *mut c_void {
    match freehold_rt::try_allocate(size) {
        Some(object) => object.as_ptr().cast(),
        None if size <= freehold_rt::SMALL_MAX => malloc_empty(size),
        None => malloc_large(size),
    }
}

/// `malloc` of a small size when the fast path had nothing.
#[cold]
#[inline(never)]
extern "C" fn malloc_empty(size: usize) -> *mut c_void {
    match slow::allocate_set_aside(size) {
        Some(object) => object.as_ptr().cast(),
        None => malloc_rarely(size),
    }
}

/// `malloc` of a size that the fast path has nothing of.
#[cold]
#[inline(never)]
extern "C" fn malloc_large(size: usize) -> *mut c_void {
    match slow::allocate_large_at_hand(size) {
        Some(object) => object.as_ptr().cast(),
        None => malloc_rarely(size),
    }
}

// A function of its own, so that the one above need not save anything.
#[inline(never)]
extern "C" fn malloc_rarely(size: usize) -> *mut c_void {
    match AtHand::of_this_thread() {
        Some(thread) => malloc_hardened(thread, size),
        None => malloc_otherwise(size),
    }
}

#[inline(never)]
extern "C" fn malloc_otherwise(size: usize) -> *mut c_void {
    checked(slow::allocate_rarely(size))
}

// As before: what needs nothing saved comes first, and ends with the call of the rest.
#[inline(never)]
fn malloc_hardened(thread: AtHand, size: usize) -> *mut c_void {
    match thread.allocate_tiny(size) {
        Some(object) => object.as_ptr().cast(),
        None => malloc_hardened_small(thread, size),
    }
}

#[inline(never)]
fn malloc_hardened_small(thread: AtHand, size: usize) -> *mut c_void {
    match thread.allocate(size) {
        Some(object) => object.as_ptr().cast(),
        None => malloc_otherwise(size),
    }
}

/// `free(3)`. Leaves `errno` alone.
///
/// # Safety
/// `object` is null, or an object that nobody uses any longer.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(object: *mut c_void) {
    freehold_rt::naked_deallocate!()
}

/// `free(3)`. Leaves `errno` alone.
///
/// # Safety
/// `object` is null, or an object that nobody uses any longer.
#[cfg(not(target_arch = "x86_64"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(object: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { freehold_rt::deallocate(object.cast()) }
}

/// `calloc(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        Some(bytes) => checked(freehold_rt::allocate_zeroed(bytes)),
        None => failed(ENOMEM),
    }
}

/// `realloc(3)`: with a size of 0 it frees the object and returns null, as glibc does.
///
/// # Safety
/// `object` is null, or an object of the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(object: *mut c_void, size: usize) -> *mut c_void {
    if size == 0 && !object.is_null() {
        // SAFETY: the caller's promise.
        unsafe { free(object) };
        return core::ptr::null_mut();
    }
    // SAFETY: the caller's promise.
    checked(unsafe { slow::reallocate(object.cast(), size) })
}

/// `aligned_alloc(3)`: any power of two will do, and the size need not be a multiple of it.
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    if !align.is_power_of_two() {
        return failed(EINVAL);
    }
    checked(slow::allocate_aligned(size, align))
}

freehold_sys::first_function! {
    /// Whoever's `free` comes first in the process. What calls it is not exported by every
    /// allocator: where another one was preloaded before this one, its objects come here for that.
    pub(crate) fn first_free() -> unsafe extern "C" fn(*mut c_void) =
        "free" in "freehold_first_free";
}

freehold_sys::first_function! {
    /// Whoever's `realloc` comes first in the process.
    fn first_realloc() -> unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void =
        "realloc" in "freehold_first_realloc";
}

/// C23's `free_sized`: the size is not relied upon.
///
/// # Safety
/// As for [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(object: *mut c_void, _: usize) {
    // SAFETY: the caller's promise.
    unsafe { first_free()(object) }
}

/// C23's `free_aligned_sized`: alignment and size are not relied upon.
///
/// # Safety
/// As for [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(object: *mut c_void, _: usize, _: usize) {
    // SAFETY: the caller's promise.
    unsafe { first_free()(object) }
}

/// An old name for `free`. Source: `cfree(3)`.
///
/// # Safety
/// As for [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfree(object: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { first_free()(object) }
}

/// `reallocarray(3)`.
///
/// # Safety
/// As for [`realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(
    object: *mut c_void,
    count: usize,
    size: usize,
) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: the caller's promise.
        Some(bytes) => unsafe { first_realloc()(object, bytes) },
        None => failed(ENOMEM),
    }
}
