//! The C library's lock on the list of open streams, which must be taken before ours for a fork.
//!
//! glibc's `fork` takes it after the handlers, when ours are held already. A thread that flushes
//! all streams has it while it waits for a stream, and a thread that reads from that stream may
//! wait for one of ours: nobody would go on. glibc's own malloc is locked later, for this reason.
//! The lock can be taken again by who has it, as `fork` then does; in the child `fork` makes it
//! free.
//!
//! But it does so only if the process has had several threads, and says so in no way that an older
//! glibc has as well. So the lock is taken if another thread has a heap: one that has never
//! allocated is not seen. In debugging mode, in which there is one heap, threads are counted.

use crate::mode::{self, Mode};
use crate::{debugging, hardened};
use freehold_heap::arena::Arena;
use freehold_heap::heap::Heap;
use freehold_sys::Linux;

#[cfg(target_env = "gnu")]
mod list {
    freehold_sys::weak_function! {
        fn lock() -> Option<unsafe extern "C" fn()> = "_IO_list_lock" in "freehold_list_lock";
    }

    freehold_sys::weak_function! {
        fn unlock() -> Option<unsafe extern "C" fn()> = "_IO_list_unlock" in "freehold_list_unlock";
    }

    /// Takes the lock, if it is known how both are done.
    pub(super) fn acquire() -> bool {
        let Some(lock) = lock().filter(|_| unlock().is_some()) else { return false };
        // SAFETY: takes and gives nothing.
        unsafe { lock() };
        true
    }

    pub(super) fn release() {
        if let Some(unlock) = unlock() {
            // SAFETY: the calling thread has the lock.
            unsafe { unlock() };
        }
    }
}

/// Other C libraries do not say how it is taken.
#[cfg(not(target_env = "gnu"))]
mod list {
    pub(super) fn acquire() -> bool {
        false
    }

    pub(super) fn release() {}
}

/// Takes the lock, for the thread of heap `mine`, if others may hold it. Returns whether it did.
pub(crate) fn acquire(arena: &Arena<Linux>, mine: Option<&Heap>) -> bool {
    let has_others = match mode::current() {
        None => arena.leases_besides(mine) > 0,
        Some(Mode::Hardened) => arena.leases_besides(hardened::heap()) > 0,
        Some(Mode::Debugging) => debugging::has_other_threads(),
    };
    has_others && list::acquire()
}

/// Releases the lock that was taken, in the parent.
pub(crate) fn release() {
    list::release();
}
