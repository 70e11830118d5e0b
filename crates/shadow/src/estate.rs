//! An arena for the time of a test.

use freehold_heap::arena::Arena;
use freehold_sys::System;
use std::ptr::NonNull;

/// An arena that is given back at the end of the test, and checked before.
pub struct Estate<S: System> {
    arena: NonNull<Arena<S>>,
}

// SAFETY: an arena may be used and destroyed by any thread.
unsafe impl<S: System> Sync for Estate<S> {}
// SAFETY: as above.
unsafe impl<S: System> Send for Estate<S> {}

impl<S: System> Estate<S> {
    /// An arena in this system.
    pub fn new(system: S) -> Self {
        Self { arena: Arena::create(system).expect("there is address space") }
    }

    /// The arena.
    pub fn arena(&self) -> &Arena<S> {
        // SAFETY: it lives until `drop`.
        unsafe { self.arena.as_ref() }
    }
}

impl<S: System> Drop for Estate<S> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: the threads of the test are gone.
            unsafe { self.arena().check() };
        }
        // SAFETY: nobody uses it any more.
        unsafe { Arena::destroy(self.arena) };
    }
}
