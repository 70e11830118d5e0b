//! Who the calling thread is: its number, which counts threads in the order of their first calls,
//! and its seat, a small number that goes to the next thread when this one exits.
//!
//! Both are one word. It is kept in thread-specific data of the C library, for the sake of the
//! destructor, and in thread-local storage, since the C library still frees what is its own when
//! thread-specific data is gone: a seat that was taken then would never come back. Setting the
//! former may allocate if its key is not among the first, so that such a key is not used; the
//! thread then goes by the kernel's number and has no seat.

use crate::order;
use core::ffi::{c_int, c_uint, c_void};
use core::ptr::without_provenance;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use freehold_sync::lock::Lock;
use freehold_sys::process::thread_id;

/// Threads that can have a seat at the same time.
pub(crate) const SEATS: usize = 1024;

/// Keys below this need no memory.
const USABLE_KEYS: u32 = 32;

/// The bits of the word in which the seat is, plus one.
const SEAT_BITS: u32 = 16;

/// The key plus one; `NO_KEY` if there is none to be used.
static KEY: AtomicU32 = AtomicU32::new(0);
const NO_KEY: u32 = u32::MAX;
static MAKING_KEY: Lock = Lock::new(order::KEY);

static THREADS: AtomicUsize = AtomicUsize::new(0);
static TAKEN: [AtomicU64; SEATS / 64] = [const { AtomicU64::new(0) }; SEATS / 64];

#[link(name = "c")]
unsafe extern "C" {
    fn pthread_key_create(
        key: *mut c_uint,
        destructor: Option<unsafe extern "C" fn(*mut c_void)>,
    ) -> c_int;
    fn pthread_getspecific(key: c_uint) -> *mut c_void;
    fn pthread_setspecific(key: c_uint, value: *const c_void) -> c_int;
}

freehold_sys::thread_storage! {
    /// The word of the calling thread, to its very end; 0 before there is one.
    fn kept() -> *mut usize = concat!("freehold_model_word_", env!("CARGO_PKG_VERSION_MAJOR"));
}

/// The number of the calling thread, from 1. No two threads ever have the same.
pub(crate) fn number() -> usize {
    word().map_or_else(|| thread_id() as usize, |word| word >> SEAT_BITS)
}

/// The seat of the calling thread, which it alone has until it exits. `None` when all are taken, or
/// when the thread is about to end.
pub(crate) fn seat() -> Option<usize> {
    (word()? & ((1 << SEAT_BITS) - 1)).checked_sub(1)
}

fn word() -> Option<usize> {
    // SAFETY: the thread's own storage.
    let known = unsafe { kept().read() };
    if known != 0 {
        return Some(known);
    }
    let key = key()?;
    // The storage may be wiped while the program is being loaded.
    // SAFETY: the key was made and is never deleted.
    let word = Some(unsafe { pthread_getspecific(key) }.addr()).filter(|word| *word != 0);
    let word = word.unwrap_or_else(|| new_word(key));
    // SAFETY: the thread's own storage.
    unsafe { kept().write(word) };
    Some(word)
}

#[cold]
fn new_word(key: c_uint) -> usize {
    // Relaxed: a counter.
    let number = THREADS.fetch_add(1, Ordering::Relaxed) + 1;
    let word = number << SEAT_BITS | take_seat().map_or(0, |seat| seat + 1);
    // SAFETY: the key was made and is never deleted; the value is a number.
    unsafe { pthread_setspecific(key, without_provenance(word)) };
    word
}

fn key() -> Option<c_uint> {
    // Relaxed: the number stands for nothing else in memory.
    let mut known = KEY.load(Ordering::Relaxed);
    if known == 0 {
        known = MAKING_KEY.hold(make_key);
    }
    (known != NO_KEY).then(|| known - 1)
}

#[cold]
fn make_key() -> u32 {
    let known = KEY.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    let mut key = 0;
    // SAFETY: the key is written to a local variable; the destructor is of the kind asked for.
    let is_made = unsafe { pthread_key_create(&raw mut key, Some(at_exit)) } == 0;
    let made = if is_made && key < USABLE_KEYS { key + 1 } else { NO_KEY };
    KEY.store(made, Ordering::Relaxed);
    made
}

/// The thread's seat goes to the next one at once. What other destructors still allocate, and the
/// C library frees, the thread does without a seat.
unsafe extern "C" fn at_exit(word: *mut c_void) {
    let seat = word.addr() & ((1 << SEAT_BITS) - 1);
    // SAFETY: the thread's own storage.
    unsafe { kept().write(word.addr() - seat) };
    if let Some(seat) = seat.checked_sub(1) {
        // Release pairs with the Acquire in `take_seat`: what belongs to the seat comes with it.
        TAKEN[seat / 64].fetch_and(!(1 << (seat % 64)), Ordering::Release);
    }
}

/// Takes the lowest seat that is free.
fn take_seat() -> Option<usize> {
    TAKEN.iter().enumerate().find_map(|(n, word)| {
        // Acquire pairs with the Release in `at_exit`.
        let taken = word.fetch_update(Ordering::Acquire, Ordering::Relaxed, |taken| {
            (taken != u64::MAX).then(|| taken | (taken + 1))
        });
        Some(n * 64 + taken.ok()?.trailing_ones() as usize)
    })
}

/// Makes the locks of this file free, in the child of a fork.
pub(crate) fn after_fork() {
    MAKING_KEY.reset();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_thread_keeps_its_number_and_its_seat_and_shares_them_with_nobody() {
        let own = (number(), seat());
        assert_eq!(own, (number(), seat()));
        let other = thread::spawn(|| (number(), seat())).join().expect("no panic");
        assert_ne!(own.0, other.0);
        assert!(own.1.is_some() && own.1 != other.1);
    }

    #[test]
    fn a_thread_that_has_left_takes_no_seat_again() {
        let stays_without = || {
            let word = word().expect("a key");
            let key = key().expect("a key");
            // What the C library does as a thread ends, after which it still frees.
            // SAFETY: the key is this file's; the value is that of the key.
            unsafe {
                pthread_setspecific(key, without_provenance(0));
                at_exit(without_provenance::<c_void>(word).cast_mut());
            }
            seat().is_none() && number() == word >> SEAT_BITS
        };
        assert!(thread::spawn(stays_without).join().expect("no panic"));
    }

    #[test]
    fn a_seat_is_taken_by_a_later_thread_when_its_own_has_exited() {
        // Other tests take seats meanwhile, but far fewer than there are threads here.
        let seats: std::collections::BTreeSet<_> =
            (0..4 * SEATS).map(|_| thread::spawn(seat).join().expect("no panic")).collect();
        assert!(!seats.contains(&None));
        assert!(seats.len() < SEATS / 4, "{} seats", seats.len());
    }
}
