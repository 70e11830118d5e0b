//! Memory that came from the C library's own malloc, although Freehold stands in its place.
//!
//! That happens when part of a program does not see Freehold: a plugin loaded with `RTLD_DEEPBIND`
//! calls the C library's malloc, and its memory is then freed here. Such memory is known by where
//! it lies and by what stands before it (`chunk.rs`). It is given back to where it came from, and
//! that is said once. Anything else is no object, and is reported.

use crate::chunk;
#[cfg(target_env = "gnu")]
use core::fmt::Write;
#[cfg(target_env = "gnu")]
use freehold_sync::atomic::{AtomicBool, Ordering};
#[cfg(target_env = "gnu")]
use freehold_sys::stderr::Message;

#[cfg(target_env = "gnu")]
static SAID: AtomicBool = AtomicBool::new(false);

#[cfg(target_env = "gnu")]
freehold_sys::weak_function! {
    /// The C library's own free.
    fn their_free() -> Option<unsafe extern "C" fn(*mut u8)> =
        "__libc_free" in "freehold_libc_free";
}

/// Gives the object back to the C library, if it came from there.
#[cfg(target_env = "gnu")]
pub(crate) fn free(object: *mut u8) -> bool {
    let Some(their_free) = their_free().filter(|_| usable_size(object).is_some()) else {
        return false;
    };
    // Relaxed: once is enough, and twice does no harm.
    if !SAID.swap(true, Ordering::Relaxed) {
        let mut message = Message::new();
        // Writing to a fixed buffer cannot fail.
        let _ = writeln!(
            message,
            "freehold: free: {object:?} came from the C library's own malloc (a plugin loaded \
             with RTLD_DEEPBIND?); it is given back there (said once)"
        );
    }
    // SAFETY: memory of the C library's malloc, which checks it, given up by its user.
    unsafe { their_free(object) };
    true
}

/// Other C libraries have no second malloc.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn free(_object: *mut u8) -> bool {
    false
}

/// The bytes that can be used at `object`, if it came from the C library's malloc.
pub(crate) fn usable_size(object: *const u8) -> Option<usize> {
    if cfg!(target_env = "gnu") { chunk::usable_size(object.addr()) } else { None }
}
