//! Forking a process with busy threads.
//!
//! Before the copy all locks are taken, so that no heap is in the middle of anything; afterwards
//! the parent releases them, and the child makes them free and takes up the heaps of the threads
//! that do not exist there. The handlers are registered by a constructor that runs before those of
//! other libraries: handlers run in the reverse order before the copy, and in the same order after
//! it, so other libraries' handlers run while the locks are free. Where another handler was faster,
//! the forking thread is marked busy meanwhile, and what it allocates comes from the emergency
//! store.

use crate::stack::image;
use crate::{background, guarded, libc, mode, process, streams, tls};
use freehold_sync::atomic::{AtomicBool, Ordering};

static REGISTERED: AtomicBool = AtomicBool::new(false);

/// Registers the handlers, if that has not been done.
pub(crate) extern "C" fn prepare() {
    // Relaxed: whoever is first registers; there is nothing else to see.
    if REGISTERED.swap(true, Ordering::Relaxed) {
        return;
    }
    #[cfg(target_env = "gnu")]
    // SAFETY: the handlers are functions of this library, which is never unloaded.
    unsafe {
        libc::__register_atfork(
            Some(before),
            Some(after_in_parent),
            Some(after_in_child),
            core::ptr::null_mut(),
        );
    }
    #[cfg(not(target_env = "gnu"))]
    // SAFETY: as above.
    unsafe {
        libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child));
    }
}

/// Runs as the program starts, or when the library is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = prepare;

unsafe extern "C" fn before() {
    // SAFETY: the thread's own storage.
    let cache = unsafe { &mut (*tls::local()).cache };
    // A handler of a signal that interrupted the allocator cannot wait for it. It forks without the
    // locks, and the child had better not allocate.
    if let (Some(arena), false) = (process::any_arena(), cache.is_busy()) {
        cache.set_busy(true);
        let listed = streams::acquire(arena, cache.heap());
        image::close();
        if let Some(mode) = mode::current() {
            mode.lock();
        }
        arena.lock_all();
        guarded::lock();
        LOCKED.store(true, Ordering::Relaxed);
        LISTED.store(listed, Ordering::Relaxed);
    }
}

/// Whether the forking thread has taken the locks. Written with all of them held.
static LOCKED: AtomicBool = AtomicBool::new(false);

/// Whether it has taken that of the list of streams as well. Written likewise.
static LISTED: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn after_in_parent() {
    if let (Some(arena), true) = (process::any_arena(), LOCKED.load(Ordering::Relaxed)) {
        LOCKED.store(false, Ordering::Relaxed);
        let listed = LISTED.load(Ordering::Relaxed);
        guarded::unlock();
        arena.unlock_all();
        if listed {
            streams::release();
        }
        if let Some(mode) = mode::current() {
            mode.unlock();
        }
        image::open();
        // SAFETY: the thread's own storage.
        unsafe { (*tls::local()).cache.set_busy(false) };
    }
}

unsafe extern "C" fn after_in_child() {
    if let (Some(arena), true) = (process::any_arena(), LOCKED.load(Ordering::Relaxed)) {
        LOCKED.store(false, Ordering::Relaxed);
        background::prepare();
        arena.set_helped(false);
        // SAFETY: the thread's own storage.
        let cache = unsafe { &mut (*tls::local()).cache };
        guarded::unlock();
        image::reset();
        match mode::current() {
            Some(mode) => mode.after_fork_in_child(arena),
            None => cache.after_fork_in_child(arena),
        }
        cache.set_busy(false);
    }
}
