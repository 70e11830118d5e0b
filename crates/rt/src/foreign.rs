//! Memory that came from the C library's own malloc, although Freehold stands in its place.
//!
//! That happens when part of a program does not see Freehold: a plugin loaded with `RTLD_DEEPBIND`
//! calls the C library's malloc, and its memory is then freed here. Such memory is known by where
//! it lies: the C library extends the data segment ("[heap]"), which nobody else does. It is given
//! back to where it came from, and that is said once. Anything else is no object, and is reported.

use crate::maps::Mapping;
use core::fmt::Write;
use freehold_heap::layout::at;
use freehold_sync::atomic::{AtomicBool, Ordering};
use freehold_sys::stderr::Message;

static SAID: AtomicBool = AtomicBool::new(false);

#[cfg(target_env = "gnu")]
freehold_sys::weak_function! {
    /// The C library's own free.
    fn their_free() -> Option<unsafe extern "C" fn(*mut u8)> =
        "__libc_free" in "freehold_libc_free";
}

/// glibc keeps the size of a chunk in the word before what it gives out, with flags in its low
/// bits.
const HEADER: usize = size_of::<usize>();
const FLAGS: usize = 7;

/// Whether `object` lies in the data segment's extension.
fn is_from_libc(object: *const u8) -> bool {
    Mapping::containing(object.addr()).is_some_and(|mapping| mapping.name() == "[heap]")
}

/// Gives the object back to the C library, if it came from there.
pub(crate) fn free(object: *mut u8) -> bool {
    #[cfg(target_env = "gnu")]
    {
        let Some(their_free) = their_free().filter(|_| is_from_libc(object)) else {
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
    #[cfg(not(target_env = "gnu"))]
    {
        let _ = (object, &SAID, Message::new);
        false
    }
}

/// The bytes that can be used at `object`, if it came from the C library's malloc.
pub(crate) fn usable_size(object: *const u8) -> Option<usize> {
    if cfg!(not(target_env = "gnu")) || !is_from_libc(object) {
        return None;
    }
    // SAFETY: the object lies in glibc's heap, and so does the word before it.
    let chunk = unsafe { at::<usize>(object.addr() - HEADER).read() } & !FLAGS;
    Some(chunk.saturating_sub(HEADER))
}
