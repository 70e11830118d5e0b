//! Freehold: a memory allocator whose threads own the memory they hand out.
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: freehold::Freehold = freehold::Freehold;
//!
//! let words: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
//! assert_eq!(words[999], "999");
//! assert!(freehold::usage().in_use() > 0);
//! ```
//!
//! There is nothing to tune. Memory that is free goes back to the system while the program runs;
//! [`purge`] gives back all of it at once.
//!
//! A plugin with this allocator stays loaded when it is closed (`dlclose`), since threads that used
//! it call it when they end.

#![no_std]

use core::alloc::{GlobalAlloc, Layout};

pub use freehold_rt::{Usage, VERSION};

/// The allocator, for `#[global_allocator]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Freehold;

/// The alignment that every object has.
const USUAL_ALIGN: usize = 16;

// SAFETY: the functions of the runtime give out memory of at least the size and alignment asked
// for, that nobody else has until it is given back; they do not unwind.
unsafe impl GlobalAlloc for Freehold {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= USUAL_ALIGN {
            freehold_rt::allocate(layout.size())
        } else {
            freehold_rt::slow::allocate_aligned(layout.size(), layout.align())
        }
    }

    #[inline]
    unsafe fn dealloc(&self, object: *mut u8, _: Layout) {
        // SAFETY: the caller gives up an object of this allocator's.
        unsafe { freehold_rt::deallocate(object) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= USUAL_ALIGN {
            return freehold_rt::allocate_zeroed(layout.size());
        }
        freehold_rt::slow::allocate_zeroed_aligned(layout.size(), layout.align())
    }

    #[inline]
    unsafe fn realloc(&self, object: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() <= USUAL_ALIGN {
            // SAFETY: the object is the caller's.
            return unsafe { freehold_rt::slow::reallocate(object, size) };
        }
        let new = freehold_rt::slow::allocate_aligned(size, layout.align());
        if !new.is_null() {
            // SAFETY: both are objects of at least so many bytes, and different ones; the old one
            // is given up.
            unsafe {
                core::ptr::copy_nonoverlapping(object, new, layout.size().min(size));
                self.dealloc(object, layout);
            }
        }
        new
    }
}

/// Looks at all objects, in use and freed, of a process that was started with `FREEHOLD_DEBUG` in
/// its environment, and reports on standard error what is damaged. Returns how many objects are;
/// `None` without `FREEHOLD_DEBUG`, where nothing can be looked at.
pub fn check_heap() -> Option<usize> {
    freehold_rt::slow::check_heap()
}

/// Gives everything that is free back to the system, as far as this thread can reach it: what it
/// keeps for itself, and all memory that no thread keeps. Returns the bytes given back.
pub fn purge() -> usize {
    freehold_rt::slow::trim()
}

/// Leaves the process without a thread of Freehold's, until it needs one again: to be called before
/// a program of one thread does what only such a program can, such as entering a user namespace, if
/// its other threads have ended less than a second ago; or before a program drops its rights, which
/// that thread would keep.
pub fn end_background_thread() {
    freehold_rt::slow::end_background_thread();
}

/// What the memory is used for at this moment.
pub fn usage() -> Usage {
    freehold_rt::slow::usage()
}

/// Whether `pointer` points into memory of Freehold's.
pub fn owns<T>(pointer: *const T) -> bool {
    freehold_rt::slow::owns(pointer.cast())
}
