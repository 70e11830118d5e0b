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
use crate::{background, guarded, hardened, libc, mode, process, streams, tls};
use freehold_heap::arena::Arena;
use freehold_sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use freehold_sys::Linux;

static REGISTERED: AtomicBool = AtomicBool::new(false);

/// Registers the handlers, if that has not been done.
pub(crate) fn prepare() {
    // Relaxed: whoever is first registers; there is nothing else to see.
    if REGISTERED.swap(true, Ordering::Relaxed) {
        return;
    }
    #[cfg(target_env = "gnu")]
    // SAFETY: the handlers are functions of this library, which is never unloaded: see `at_start`.
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
extern "C" fn at_start() {
    #[cfg(target_env = "gnu")]
    crate::stay::arrange();
    prepare();
}

#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = at_start;

unsafe extern "C" fn before() {
    if have_locked() {
        NESTED.store(NESTED.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        return;
    }
    // SAFETY: the thread's own storage.
    let cache = unsafe { &mut (*tls::local()).cache };
    // A handler of a signal that interrupted the allocator cannot wait for it. It forks without the
    // locks, and the child had better not allocate.
    let is_busy = cache.is_busy() || hardened::is_at_it();
    if let (Some(arena), false) = (process::any_arena(), is_busy) {
        hardened::set_at_it(true);
        cache.set_busy(true);
        // Before the lock on the list of streams: who is asking the loader may have to wait for who
        // has the loader's lock and opens a stream.
        image::close();
        let listed = streams::acquire(arena, cache.heap());
        if let Some(mode) = mode::current() {
            mode.lock();
        }
        arena.lock_all();
        guarded::lock();
        LISTED.store(listed, Ordering::Relaxed);
        LOCKED_BY.store(me(), Ordering::Relaxed);
    }
}

/// The forking thread that has taken the locks, by its storage, which is where it is in the child
/// as well; 0 if none has. Another one may fork at the same time, without them. Written with all of
/// them held. Relaxed everywhere: that it is its own only the thread finds that has written it.
static LOCKED_BY: AtomicUsize = AtomicUsize::new(0);

/// The calling thread.
fn me() -> usize {
    tls::local().addr()
}

/// How many forks are under way of a signal handler that has interrupted that thread as it forked.
/// Written by that thread alone.
static NESTED: AtomicUsize = AtomicUsize::new(0);

/// Whether the calling thread is the one that has taken the locks.
fn have_locked() -> bool {
    LOCKED_BY.load(Ordering::Relaxed) == me()
}

/// After a fork: the arena, if this is the end of the one that has taken the locks.
fn locked() -> Option<&'static Arena<Linux>> {
    let arena = process::any_arena().filter(|_| have_locked())?;
    if let Some(others) = NESTED.load(Ordering::Relaxed).checked_sub(1) {
        NESTED.store(others, Ordering::Relaxed);
        return None;
    }
    LOCKED_BY.store(0, Ordering::Relaxed);
    Some(arena)
}

/// Whether it has taken that of the list of streams as well. Written likewise.
static LISTED: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn after_in_parent() {
    if let Some(arena) = locked() {
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
        hardened::set_at_it(false);
    }
}

unsafe extern "C" fn after_in_child() {
    guarded::after_fork_in_child();
    if let Some(arena) = locked() {
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
        hardened::set_at_it(false);
    }
}
