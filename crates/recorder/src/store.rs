//! Memory for the calls that are made while the next allocator is being looked for: the search
//! itself may allocate. They are few and small; what they get is never used again once freed.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};

const SIZE: usize = 64 * 1024;
const ALIGN: usize = 16;

#[repr(C, align(4096))]
struct Memory([u8; SIZE]);

/// Kept apart from its use: only the addresses within are given out.
struct Store {
    memory: core::cell::UnsafeCell<Memory>,
    used: AtomicUsize,
}

// SAFETY: each byte of the memory is given out once, to whoever moved `used` past it.
unsafe impl Sync for Store {}

static STORE: Store =
    Store { memory: core::cell::UnsafeCell::new(Memory([0; SIZE])), used: AtomicUsize::new(0) };

/// Whether an object came from here.
#[inline(always)]
pub(crate) fn owns(object: *const c_void) -> bool {
    object.addr().wrapping_sub(STORE.memory.get().addr()) < SIZE
}

/// An object of zeros; null when the store is used up. Its size stands in front of it.
pub(crate) fn allocate(size: usize, align: usize) -> *mut c_void {
    let align = align.max(ALIGN);
    let Some(whole) = size.checked_add(align + ALIGN).filter(|&whole| whole <= SIZE) else {
        return ptr::null_mut();
    };
    // Relaxed: the addition alone makes the range ours.
    let at = STORE.used.fetch_add(whole.next_multiple_of(ALIGN), Ordering::Relaxed);
    if at > SIZE - whole {
        return ptr::null_mut();
    }
    let start: *mut c_void = STORE.memory.get().cast();
    let object = (start.addr() + at + ALIGN).next_multiple_of(align);
    let object = start.with_addr(object).cast::<usize>();
    // SAFETY: there are at least `ALIGN` bytes of the range in front of the object, which is
    // aligned for a number.
    unsafe { object.byte_sub(ALIGN).write(size) };
    object.cast()
}

/// The size that an object of this store was asked for with.
///
/// # Safety
/// It [`owns`] the object.
pub(crate) unsafe fn size_of_object(object: *mut c_void) -> usize {
    // SAFETY: `allocate` wrote it there.
    unsafe { object.byte_sub(ALIGN).cast::<usize>().read() }
}
