//! Freehold in a process.
//!
//! Owns what there is one of: the arena, each thread's cache, the handlers for thread exit and
//! fork, and the words on standard error when a program frees what it must not. The C library
//! (`freehold-capi`) and the Rust interface (`freehold`) are thin layers over the functions here.
//!
//! [`allocate`] and [`deallocate`] are the fast path. Everything else is in [`slow`] and [`free`].

#![no_std]

#[cfg(test)]
extern crate std;

mod background;
mod chunk;
mod debugging;
mod emergency;
mod exit;
mod figures;
mod foreign;
mod fork;
pub mod free;
mod guarded;
mod hardened;
mod libc;
mod maps;
mod mode;
mod note;
mod process;
mod report;
mod settings;
pub mod slow;
mod stack;
#[cfg(target_env = "gnu")]
mod stay;
mod streams;
mod tls;
mod words;

use core::ptr::NonNull;
use freehold_heap::class::Class;
#[cfg(not(target_arch = "x86_64"))]
use freehold_heap::magazine::Kept;

pub use freehold_heap::class::{GRANULE_FACTOR, SMALL_MAX};
pub use freehold_heap::usage::Usage;
#[doc(hidden)]
pub use freehold_heap::{class::SMALL_CLASS, layout::GRANULE};
#[doc(hidden)]
pub use process::REGION;
#[doc(hidden)]
pub use tls::{LIMIT, MAGIC, MAP, TOPS};

/// The version of this library.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Gives out `size` bytes at a multiple of 16, or null when there is no memory. Never null for a
/// size of 0: every object is a different one.
#[inline]
pub fn allocate(size: usize) -> *mut u8 {
    match try_allocate(size) {
        Some(object) => object.as_ptr(),
        None => slow::allocate(size),
    }
}

/// The fast path of [`allocate`]: an object out of the thread's magazine, if the size has one and
/// there is one in it.
#[inline]
pub fn try_allocate(size: usize) -> Option<NonNull<u8>> {
    if size > SMALL_MAX {
        return None;
    }
    tls::pop(Class::of_small(size))
}

/// Gives out `size` bytes that are zero, or null when there is no memory.
#[inline]
pub fn allocate_zeroed(size: usize) -> *mut u8 {
    if size > SMALL_MAX {
        return slow::allocate_zeroed(size);
    }
    let object = allocate(size);
    if !object.is_null() {
        // SAFETY: just given out, with at least `size` bytes.
        unsafe { object.write_bytes(0, size) };
    }
    object
}

/// Takes back what [`allocate`] or one of its siblings gave out. Null is ignored. What is not an
/// object is reported on standard error, and ends the process.
///
/// # Safety
/// Nobody uses the object any longer.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub unsafe extern "C" fn deallocate(object: *mut u8) {
    naked_deallocate!()
}

/// Takes back what [`allocate`] or one of its siblings gave out, as on x86-64.
///
/// # Safety
/// Nobody uses the object any longer.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub unsafe extern "C" fn deallocate(object: *mut u8) {
    // SAFETY: the thread's own storage; the caller gives the object up.
    unsafe {
        match (*tls::local()).cache.keep(process::region(), object.addr()) {
            Kept::Done => {}
            Kept::Full(class) => free::deallocate_in_full(object, class.0.into()),
            Kept::No if object.is_null() => {}
            Kept::No => free::deallocate(object),
        }
    }
}
