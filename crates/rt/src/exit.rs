//! The end of a thread: its cache goes back, its heap to the next thread.
//!
//! A key of thread-specific data carries a destructor. The C library runs destructors in rounds, as
//! long as one of them sets a value again, at most four times. Other libraries' destructors may
//! allocate and free in every round, so the cache is given back in the last one: until then the
//! destructor just sets its value again, one higher. Whatever the thread still does after that
//! passes through without being kept, so nothing can be left behind.

use crate::{background, libc, mode, process, report, tls};
use core::ffi::{c_uint, c_void};
use core::ptr::without_provenance;
use freehold_sync::atomic::{AtomicU32, Ordering};

/// How many rounds there are: `PTHREAD_DESTRUCTOR_ITERATIONS`, the same in every C library.
const ROUNDS: usize = 4;

/// The key plus one; 0 when there is none.
static KEY: AtomicU32 = AtomicU32::new(0);

/// Makes the key, if there is none. Called before the arena is made, which may take several
/// attempts; there are not many keys.
pub(crate) fn prepare() {
    if KEY.load(Ordering::Relaxed) != 0 {
        return;
    }
    let mut key: c_uint = 0;
    // SAFETY: the key is written to a local variable; the destructor is of the kind asked for.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(at_exit)) } == 0 {
        // Relaxed: published together with the arena.
        KEY.store(key + 1, Ordering::Relaxed);
    }
}

/// Makes sure that the calling thread's cache is given back when the thread exits.
pub(crate) fn arrange(local: &mut tls::Local) {
    if local.will_exit {
        return;
    }
    if let Some(key) = KEY.load(Ordering::Relaxed).checked_sub(1) {
        // First, since setting the value may allocate if the key is not among the first 32.
        local.will_exit = true;
        // SAFETY: the key was made by `prepare` and is never deleted.
        unsafe { libc::pthread_setspecific(key, without_provenance(1)) };
    }
}

unsafe extern "C" fn at_exit(round: *mut c_void) {
    let round = round.addr();
    if let Some(key) = KEY.load(Ordering::Relaxed).checked_sub(1)
        && round < ROUNDS
    {
        // SAFETY: as in `arrange`.
        unsafe { libc::pthread_setspecific(key, without_provenance(round + 1)) };
        return;
    }
    let local = tls::local();
    if let Some(mode) = mode::current() {
        // SAFETY: the thread's own storage. A busy thread was cancelled inside the mode.
        if !unsafe { (*local).cache.is_busy() } {
            mode.end_thread();
        }
        return;
    }
    // SAFETY: the thread's own storage, and nothing of ours is using it: a thread that was
    // cancelled inside the allocator is found busy, and what it held stays held.
    let local = unsafe { &mut *local };
    if let (Some(arena), false) = (process::existing_arena(), local.cache.is_busy()) {
        local.cache.set_busy(true);
        let ended = local.cache.end(arena);
        local.cache.set_busy(false);
        // With the last but one of the threads there may be nobody who looks any more.
        if local.cache.take_wish_for_help() || arena.has_work_for_a_thread() {
            background::start();
        }
        if let Err(invalid) = ended {
            report::invalid("thread exit", invalid);
        }
    }
}
