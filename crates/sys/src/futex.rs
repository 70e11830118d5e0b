//! Waiting for a word to change, and waking who waits. Source: `futex(2)`.

use crate::syscall::{self, number};
use core::sync::atomic::AtomicU32;

const WAIT: usize = 0;
const WAKE: usize = 1;
const WAIT_PRIVATE: usize = 128;
const WAKE_PRIVATE: usize = 129;

/// Sleeps while `word` holds `expected`. May return early for no reason: the caller looks again.
pub fn wait(word: &AtomicU32, expected: u32) {
    // SAFETY: the word is a valid aligned u32 for the length of the borrow, and there is no timeout
    // structure. Errors (the value differs, a signal came) all mean "look again".
    unsafe {
        syscall::call(
            number::FUTEX,
            [word.as_ptr() as usize, WAIT_PRIVATE, expected as usize, 0, 0, 0],
        );
    }
}

/// The same for at most so many milliseconds, and also for a word that the kernel wakes for: the
/// one that it clears when a thread ends.
pub fn wait_shortly(word: &AtomicU32, expected: u32, milliseconds: u64) {
    let time = [milliseconds / 1000, milliseconds % 1000 * 1_000_000];
    // SAFETY: as above, with a timespec, two 64-bit words on both architectures.
    unsafe {
        syscall::call(
            number::FUTEX,
            [word.as_ptr() as usize, WAIT, expected as usize, time.as_ptr() as usize, 0, 0],
        );
    }
}

/// Wakes all threads that wait for `word` in [`wait_shortly`].
pub fn wake_waiting_shortly(word: &AtomicU32) {
    // SAFETY: waking reads nothing but the address.
    unsafe {
        syscall::call(number::FUTEX, [word.as_ptr() as usize, WAKE, i32::MAX as usize, 0, 0, 0]);
    }
}

/// Wakes at most one thread that waits for `word`.
pub fn wake_one(word: &AtomicU32) {
    // SAFETY: waking reads nothing but the address.
    unsafe {
        syscall::call(number::FUTEX, [word.as_ptr() as usize, WAKE_PRIVATE, 1, 0, 0, 0]);
    }
}

/// Wakes all threads that wait for `word`.
pub fn wake_all(word: &AtomicU32) {
    // SAFETY: waking reads nothing but the address.
    unsafe {
        syscall::call(
            number::FUTEX,
            [word.as_ptr() as usize, WAKE_PRIVATE, i32::MAX as usize, 0, 0, 0],
        );
    }
}
