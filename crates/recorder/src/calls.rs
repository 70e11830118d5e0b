//! The functions that programs are bound to: each passes the call on, and records it.
//!
//! Allocations are recorded when they have been made, frees before they are made: in between the
//! object is the caller's, so that no other thread can be given the same address, and the records
//! of an address are in order.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::Ordering;
use freehold_trace::record::{Function, Note, code};

use crate::process::COUNTED;
use crate::thread::{self, Thread};
use crate::{counting, libc, next, process, store, writer};

/// Runs as the program starts: a process that never calls is in the trace as well.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = at_start;

extern "C" fn at_start() {
    if let Some(thread) = begin() {
        next::prepare();
        // SAFETY: `begin` gave the thread.
        unsafe {
            process::enter(&mut *thread);
            writer::leave(thread);
        }
    }
}

/// Begins a call; `None` if it is made within another, and only to be passed on.
#[inline(always)]
fn begin() -> Option<*mut Thread> {
    let thread = thread::current();
    // SAFETY: the thread's own part.
    let is_inside = unsafe { &(*thread).is_inside };
    if is_inside.load(Ordering::Relaxed) {
        process::count_nested();
        return None;
    }
    is_inside.store(true, Ordering::Relaxed);
    Some(thread)
}

/// Ends a call to a function without an alignment that was to allocate, whose record has `code`.
///
/// # Safety
/// `thread` came from [`begin`].
#[inline(always)]
unsafe fn end_allocation(
    thread: *mut Thread,
    (code, function): (u8, Function),
    object: *mut c_void,
    size: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if object.is_null() {
            record_failure(thread, function, size);
        } else {
            writer::allocated(thread, code, object, size);
        }
        writer::leave(thread);
    }
}

/// Records that a call has returned null.
///
/// # Safety
/// `thread` came from [`begin`].
#[cold]
#[inline(never)]
unsafe fn record_failure(thread: *mut Thread, function: Function, size: usize) {
    // SAFETY: the caller's promise.
    unsafe { writer::noted(thread, &Note::failed(function, size as u64), true) };
}

/// Makes a call that is only counted.
///
/// # Safety
/// `thread` came from [`begin`], and the mode has been seen.
#[inline(never)]
unsafe fn count_malloc(thread: *mut Thread, size: usize) -> *mut c_void {
    // SAFETY: the caller's promise; all was found before the mode was set.
    unsafe {
        let object = next::ready_malloc(size);
        if !object.is_null() {
            counting::allocated_behind(&mut *thread, object, size as u64);
        }
        writer::leave(thread);
        object
    }
}

/// Makes and records a call to a function with an alignment.
fn allocate_aligned(
    function: Function,
    align: usize,
    size: usize,
    call: impl FnOnce() -> *mut c_void,
) -> *mut c_void {
    let Some(thread) = begin() else {
        return call();
    };
    let object = call();
    // SAFETY: `begin` gave the thread.
    unsafe {
        if object.is_null() {
            record_failure(thread, function, size);
        } else {
            writer::allocated_aligned(thread, function, object, size, align);
        }
        writer::leave(thread);
    }
    object
}

/// `malloc(3)`. What it leads to are functions of their own, so that it saves no registers itself.
#[unsafe(no_mangle)]
pub extern "C" fn malloc(size: usize) -> *mut c_void {
    let Some(thread) = begin() else {
        return pass_malloc(size);
    };
    if process::mode() == COUNTED {
        // SAFETY: `begin` gave the thread.
        return unsafe { count_malloc(thread, size) };
    }
    // SAFETY: `begin` gave the thread.
    unsafe { record_malloc(thread, size) }
}

/// Makes a call that is neither recorded nor counted.
#[cold]
#[inline(never)]
fn pass_malloc(size: usize) -> *mut c_void {
    next::malloc(size)
}

/// Makes and records a call.
///
/// # Safety
/// `thread` came from [`begin`].
#[inline(never)]
unsafe fn record_malloc(thread: *mut Thread, size: usize) -> *mut c_void {
    let object = next::malloc(size);
    // SAFETY: the caller's promise.
    unsafe { end_allocation(thread, (code::MALLOC, Function::Malloc), object, size) };
    object
}

/// `calloc(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    let Some(thread) = begin() else {
        return next::calloc(count, size);
    };
    let object = next::calloc(count, size);
    let bytes = count.saturating_mul(size);
    // SAFETY: `begin` gave the thread.
    unsafe { end_allocation(thread, (code::CALLOC, Function::Calloc), object, bytes) };
    object
}

/// Passes `object` on to be freed. `variant` tells the forms of `delete` from `free`.
#[inline(always)]
unsafe fn release(object: *mut c_void, variant: u8) {
    let Some(thread) = begin() else {
        // SAFETY: the caller's promise.
        return unsafe { pass_free(object) };
    };
    if process::mode() == COUNTED {
        // SAFETY: `begin` gave the thread, and the mode was seen; the rest is the caller's promise.
        return unsafe { count_release(thread, object) };
    }
    // SAFETY: `begin` gave the thread; the rest is the caller's promise.
    unsafe { record_release(thread, object, variant) };
}

/// Passes a call on that is neither recorded nor counted.
///
/// # Safety
/// As for `free(3)`.
#[cold]
#[inline(never)]
unsafe fn pass_free(object: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { next::free(object) };
}

/// Passes on a call that is only counted.
///
/// # Safety
/// `thread` came from [`begin`], and the mode has been seen; as for `free(3)`.
#[inline(never)]
unsafe fn count_release(thread: *mut Thread, object: *mut c_void) {
    // SAFETY: all was found before the mode was set; the rest is the caller's promise.
    unsafe {
        // What the store has given out is not used again.
        if !object.is_null() && !store::owns(object) {
            counting::released_behind(&mut *thread, object);
            next::ready_free(object);
        }
        writer::leave(thread);
    }
}

/// Records a call, and passes it on.
///
/// # Safety
/// `thread` came from [`begin`]; as for `free(3)`.
#[inline(never)]
unsafe fn record_release(thread: *mut Thread, object: *mut c_void, variant: u8) {
    // SAFETY: the caller's promise.
    unsafe {
        if object.is_null() {
            writer::noted(thread, &Note::free_null(), true);
        } else {
            writer::released(thread, code::FREE, variant, object);
        }
        next::free(object);
        writer::leave(thread);
    }
}

/// `free(3)`.
///
/// # Safety
/// As for the function of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(object: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { release(object, 0) }
}

/// C23's `free_sized`.
///
/// # Safety
/// As for [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(object: *mut c_void, _: usize) {
    // SAFETY: the caller's promise.
    unsafe { release(object, 0) }
}

/// C23's `free_aligned_sized`.
///
/// # Safety
/// As for [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(object: *mut c_void, _: usize, _: usize) {
    // SAFETY: the caller's promise.
    unsafe { release(object, 0) }
}

/// `realloc(3)`. The old address is free for others as soon as the next allocator has it, and the
/// new one is known only afterwards: so there are two records.
///
/// # Safety
/// As for the function of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(object: *mut c_void, size: usize) -> *mut c_void {
    let Some(thread) = begin() else {
        // SAFETY: the caller's promise.
        return unsafe { next::realloc(object, size) };
    };
    // SAFETY: `begin` gave the thread; the rest is the caller's promise.
    unsafe {
        if !object.is_null() {
            writer::released(thread, code::REALLOC_FROM, 0, object);
        }
        let moved = next::realloc(object, size);
        if moved.is_null() && size == 0 && !object.is_null() {
            writer::noted(thread, &Note::realloc_freed(), false);
            writer::leave(thread);
        } else {
            if moved.is_null() && !object.is_null() {
                writer::kept(thread, object);
            }
            (*thread).resized = object.addr() as u64;
            end_allocation(thread, (code::REALLOC_TO, Function::Realloc), moved, size);
        }
        moved
    }
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
    let Some(bytes) = count.checked_mul(size) else {
        libc::set_out_of_memory();
        return ptr::null_mut();
    };
    // SAFETY: the caller's promise.
    unsafe { realloc(object, bytes) }
}

/// `aligned_alloc(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    allocate_aligned(Function::AlignedAlloc, align, size, || next::aligned_alloc(align, size))
}

/// `memalign(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    allocate_aligned(Function::Memalign, align, size, || next::memalign(align, size))
}

/// `posix_memalign(3)`.
///
/// # Safety
/// As for the function of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(
    result: *mut *mut c_void,
    align: usize,
    size: usize,
) -> c_int {
    let mut error = 0;
    allocate_aligned(Function::PosixMemalign, align, size, || {
        // SAFETY: the caller's promise.
        error = unsafe { next::posix_memalign(result, align, size) };
        // SAFETY: the result was written, since there was no error.
        if error == 0 { unsafe { result.read() } } else { ptr::null_mut() }
    });
    error
}

/// The alignment of `valloc` and `pvalloc` in the trace: what it is on most machines.
const PAGE: usize = 4096;

/// `valloc(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn valloc(size: usize) -> *mut c_void {
    allocate_aligned(Function::Valloc, PAGE, size, || next::valloc(size))
}

/// `pvalloc(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(size: usize) -> *mut c_void {
    allocate_aligned(Function::Pvalloc, PAGE, size, || next::pvalloc(size))
}

/// What the C++ operators allocate with. One for no bytes is as large as for one, as it is in the
/// C++ library.
extern "C" fn allocate_new(size: usize, align: usize) -> *mut c_void {
    let size = size.max(1);
    if align > freehold_cxx::USUAL_ALIGN {
        return allocate_aligned(Function::NewAligned, align, size, || next::memalign(align, size));
    }
    let Some(thread) = begin() else {
        return pass_malloc(size);
    };
    if process::mode() == COUNTED {
        // SAFETY: `begin` gave the thread.
        return unsafe { count_malloc(thread, size) };
    }
    let object = next::malloc(size);
    // SAFETY: `begin` gave the thread.
    unsafe { end_allocation(thread, (code::NEW, Function::New), object, size) };
    object
}

extern "C-unwind" fn new(size: usize) -> *mut c_void {
    freehold_cxx::new(size, freehold_cxx::USUAL_ALIGN, allocate_new)
}

unsafe fn delete(object: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { release(object, 1) }
}

freehold_cxx::usual_operators!(new, delete);
freehold_cxx::operators!(allocate_new, delete);
