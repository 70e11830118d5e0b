//! What is leased to a thread in hardened mode.

use super::thread::Thread;
use super::waiting::Waiting;
use crate::arena::Arena;
use crate::stock::Stocked;
use core::ptr::NonNull;
use freehold_sys::System;

/// What is leased to a thread.
#[repr(C)]
pub(super) struct Leased {
    thread: Thread,
    /// None wait when nobody has the lease.
    waiting: Waiting,
}

const _: () = assert!(size_of::<Leased>() < 16 << 10);

impl Stocked for Leased {
    /// Less than 512 MiB of address space. Threads beyond that do without what is kept here.
    const MOST: usize = 1 << 15;

    unsafe fn make_at(_place: *mut Self) {
        // Zeros: nothing waits. The rest is written when it is leased.
    }
}

impl Leased {
    /// What a thread has that leases the place, where nothing waits.
    ///
    /// # Safety
    /// The place is leased to the caller.
    pub(super) unsafe fn begin<S: System>(
        place: NonNull<Self>,
        arena: &Arena<S>,
    ) -> NonNull<Thread> {
        let mut thread = Thread::new(arena, place.addr().get());
        // SAFETY: the caller's.
        unsafe {
            thread.waiting = &raw mut (*place.as_ptr()).waiting;
            place.cast::<Thread>().write(thread);
        }
        place.cast()
    }
}
