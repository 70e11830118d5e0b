//! What a thread may do that is the only one of its process: change words that threads share by one
//! instruction each, which its own signal handlers find done or not begun, without a lock on the
//! bus, which takes several times as long.
//!
//! Whether it is the only one the C library says, in a variable that it changes before it makes the
//! first thread, and that its own `malloc` goes by: `__libc_single_threaded(3)`, since glibc 2.32.
//! Of what [`thread`](crate::thread) makes it does not know; so from the first of those on no thread
//! is alone. As long as there is no other, only the thread that asks could write to either: the
//! answer holds until it makes one. Elsewhere, and on other processors, nobody is alone.

use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

/// Where the C library says whether there is one thread; null where nobody does.
static SAID: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// Whether a thread was made that the C library does not know.
static ACCOMPANIED: AtomicBool = AtomicBool::new(false);

#[cfg(all(target_arch = "x86_64", target_env = "gnu", not(miri)))]
mod machine {
    use core::arch::asm;
    use core::ffi::{c_char, c_void};

    crate::weak_function! {
        /// `dlsym(3)`, of the C library since glibc 2.34: the variable has a version that a library
        /// which refers to it would need of every glibc.
        fn dlsym() -> Option<unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void> =
            "freehold_dlsym" in "freehold_slot_dlsym",
            for "dlsym@GLIBC_2.2.5";
    }

    /// The C library's variable, or null.
    pub(super) fn single_threaded() -> *mut u8 {
        const EVERYWHERE: *mut c_void = core::ptr::null_mut();
        let name = c"__libc_single_threaded";
        // SAFETY: a name.
        dlsym().map_or(core::ptr::null_mut(), |it| unsafe { it(EVERYWHERE, name.as_ptr()).cast() })
    }

    /// # Safety
    /// The place is valid and aligned, and no other thread is there.
    #[inline(always)]
    pub(super) unsafe fn or(place: *mut u64, bits: u64) {
        // SAFETY: the caller's promise.
        unsafe {
            asm!("or qword ptr [{}], {}", in(reg) place, in(reg) bits, options(nostack));
        }
    }

    /// # Safety
    /// The place is valid and aligned, and no other thread is there.
    #[inline(always)]
    pub(super) unsafe fn and(place: *mut u64, bits: u64) {
        // SAFETY: the caller's promise.
        unsafe {
            asm!("and qword ptr [{}], {}", in(reg) place, in(reg) bits, options(nostack));
        }
    }

    /// Returns what it found.
    ///
    /// # Safety
    /// The place is valid and aligned, and no other thread is there.
    #[inline(always)]
    pub(super) unsafe fn compare_exchange(place: *mut u64, seen: u64, next: u64) -> u64 {
        let mut found = seen;
        // SAFETY: the caller's promise.
        unsafe {
            asm!(
                "cmpxchg qword ptr [{}], {}",
                in(reg) place,
                in(reg) next,
                inout("rax") found,
                options(nostack),
            );
        }
        found
    }
}

#[cfg(not(all(target_arch = "x86_64", target_env = "gnu", not(miri))))]
mod machine {
    pub(super) fn single_threaded() -> *mut u8 {
        core::ptr::null_mut()
    }

    pub(super) unsafe fn or(_: *mut u64, _: u64) {}

    pub(super) unsafe fn and(_: *mut u64, _: u64) {}

    pub(super) unsafe fn compare_exchange(_: *mut u64, seen: u64, _: u64) -> u64 {
        seen
    }
}

/// Finds out where the C library says it. For a constructor: nobody is alone before.
pub fn find() {
    if !ACCOMPANIED.load(Ordering::Relaxed) {
        // Relaxed: a thread that reads it and is not the one that is here is not alone.
        SAID.store(machine::single_threaded(), Ordering::Relaxed);
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
    // Relaxed: what is true of this thread alone was written by it.
    let said = SAID.load(Ordering::Relaxed);
    // SAFETY: the C library's variable, a `char`. Whoever makes the first thread writes to it, and
    // as long as there is none but this one that can be nobody else.
    unsafe { !said.is_null() && said.read_volatile() != 0 }
}

/// `AtomicU64::fetch_or` of a thread that is alone. A handler may come between the look at what was
/// there, which is returned, and the change: whoever frees the same object in one frees it twice.
///
/// # Safety
/// There is no other thread: see [`is_alone`].
#[inline(always)]
pub unsafe fn fetch_or(word: &AtomicU64, bits: u64) -> u64 {
    let before = word.load(Ordering::Relaxed);
    // SAFETY: a word, and the caller's promise.
    unsafe { machine::or(word.as_ptr(), bits) };
    before
}

/// `AtomicU64::fetch_and` of a thread that is alone, but for what was there.
///
/// # Safety
/// As for [`fetch_or`].
#[inline(always)]
pub unsafe fn and(word: &AtomicU64, bits: u64) {
    // SAFETY: a word, and the caller's promise.
    unsafe { machine::and(word.as_ptr(), bits) };
}

/// `AtomicU64::compare_exchange` of a thread that is alone.
///
/// # Safety
/// As for [`fetch_or`].
#[inline(always)]
pub unsafe fn compare_exchange(word: &AtomicU64, seen: u64, next: u64) -> Result<u64, u64> {
    // SAFETY: a word, and the caller's promise.
    let found = unsafe { machine::compare_exchange(word.as_ptr(), seen, next) };
    if found == seen { Ok(found) } else { Err(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(all(target_arch = "x86_64", target_env = "gnu", not(miri)))]
    fn words_are_changed_as_by_atomics() {
        let (word, by_atomics) = (AtomicU64::new(0b1010), AtomicU64::new(0b1010));
        let now = || word.load(Ordering::Relaxed);
        for bits in [0b0110, 1 << 63, 0b1000] {
            // SAFETY: this test's own.
            let before = unsafe { fetch_or(&word, bits) };
            assert_eq!(before, by_atomics.fetch_or(bits, Ordering::Relaxed));
            assert_eq!(now(), by_atomics.load(Ordering::Relaxed));
        }
        // SAFETY: as above.
        unsafe { and(&word, !0b0110) };
        assert_eq!(now(), 1 << 63 | 0b1000);
        for (seen, next) in [(now(), 7), (8, 9), (7, u64::MAX), (u64::MAX, 0)] {
            let before = now();
            // SAFETY: as above.
            let result = unsafe { compare_exchange(&word, seen, next) };
            let expected = if before == seen { (Ok(seen), next) } else { (Err(before), before) };
            assert_eq!((result, now()), expected);
        }
    }
}
