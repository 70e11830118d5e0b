//! Whether a thread is the only one of its process: it need not lock the bus then to change words
//! that threads share, which takes longer than most else that is done to them.
//!
//! The C library says so, in a variable that it changes before it makes the first thread, and that
//! its own `malloc` goes by: `__libc_single_threaded(3)`, since glibc 2.32. Of what
//! [`thread`](crate::thread) makes it does not know; so from the first of those on no thread is
//! alone. As long as there is no other, only the thread that asks could change either: the answer
//! holds until it makes one. With other C libraries nobody is alone.

use core::sync::atomic::{AtomicBool, Ordering};

/// Whether a thread was made that the C library does not know.
static ACCOMPANIED: AtomicBool = AtomicBool::new(false);

#[cfg(all(target_env = "gnu", not(miri)))]
crate::weak_variable! {
    /// glibc's.
    fn single_threaded() -> *const u8 =
        "__libc_single_threaded" in "freehold_slot_single_threaded";
}

#[cfg(not(all(target_env = "gnu", not(miri))))]
fn single_threaded() -> *const u8 {
    core::ptr::null()
}

/// Notes that the calling thread is about to make one.
pub(crate) fn note_thread() {
    // Relaxed: who makes the thread comes here first, and the thread begins later.
    ACCOMPANIED.store(true, Ordering::Relaxed);
}

/// Whether the calling thread is the only one of the process, until it makes another. False where
/// that is not known.
#[inline(always)]
pub fn is_alone() -> bool {
    let said = single_threaded();
    // SAFETY: the C library's variable, a `char`. Whoever makes the first thread writes to it, and
    // as long as there is none but this one that can be nobody else.
    let says_so = unsafe { !said.is_null() && said.read_volatile() != 0 };
    // Relaxed: who is alone has written it itself.
    says_so && !ACCOMPANIED.load(Ordering::Relaxed)
}
