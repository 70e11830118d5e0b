//! Whether a thread is the only one of its process: it need not lock the bus then to change words
//! that threads share, which takes longer than most else that is done to them.
//!
//! The C library says so, in a variable that it changes before it makes the first thread, and that
//! its own `malloc` goes by: `__libc_single_threaded(3)`, since glibc 2.32. Of what
//! [`thread`](crate::thread) makes it does not know; so from the first of those on no thread is
//! alone. As long as there is no other, only the thread that asks could change either: the answer
//! holds until it makes one. With other C libraries nobody is alone.

use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// Where the C library says whether there is one thread; null where nobody does.
static SAID: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// Whether a thread was made that the C library does not know.
static ACCOMPANIED: AtomicBool = AtomicBool::new(false);

#[cfg(all(target_env = "gnu", not(miri)))]
mod variable {
    use core::ffi::{c_char, c_void};
    use core::ptr;

    #[cfg(target_arch = "x86_64")]
    macro_rules! first_version {
        ($name:literal) => {
            concat!($name, "@GLIBC_2.2.5")
        };
    }
    #[cfg(target_arch = "aarch64")]
    macro_rules! first_version {
        ($name:literal) => {
            concat!($name, "@GLIBC_2.17")
        };
    }

    crate::weak_function! {
        /// `dlsym(3)`, which the C library itself has since glibc 2.34. To refer to the variable
        /// would be to need its version, which an older one has not.
        fn dlsym() -> Option<unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void> =
            "freehold_dlsym" in "freehold_slot_dlsym",
            for first_version!("dlsym");
    }

    /// Its address, or null.
    pub(super) fn address() -> *mut u8 {
        const EVERYWHERE: *mut c_void = ptr::null_mut();
        let name = c"__libc_single_threaded".as_ptr();
        // SAFETY: a name.
        dlsym().map_or(ptr::null_mut(), |dlsym| unsafe { dlsym(EVERYWHERE, name).cast() })
    }
}

#[cfg(not(all(target_env = "gnu", not(miri))))]
mod variable {
    /// Nobody knows.
    pub(super) fn address() -> *mut u8 {
        core::ptr::null_mut()
    }
}

/// Finds out where the C library says it. For a constructor: nobody is alone before.
pub fn find() {
    if !ACCOMPANIED.load(Ordering::Relaxed) {
        // Relaxed: a thread that reads it, and is not the one that is here, is not alone.
        SAID.store(variable::address(), Ordering::Relaxed);
    }
}

/// Notes that the calling thread is about to make one.
pub(crate) fn note_thread() {
    // Relaxed: who makes the thread comes here first, and the thread begins later.
    ACCOMPANIED.store(true, Ordering::Relaxed);
    SAID.store(ptr::null_mut(), Ordering::Relaxed);
}

/// Whether the calling thread is the only one of the process, until it makes another. False where
/// that is not known.
#[inline(always)]
pub fn is_alone() -> bool {
    // Relaxed: who is alone has written it itself.
    let said = SAID.load(Ordering::Relaxed);
    // SAFETY: the C library's variable, a `char`. Whoever makes the first thread writes to it, and
    // as long as there is none but this one that can be nobody else.
    unsafe { !said.is_null() && said.read_volatile() != 0 }
}
