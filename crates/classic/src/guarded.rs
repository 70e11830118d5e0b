//! A value and the lock that protects it.

use core::cell::UnsafeCell;
use freehold_sync::lock::Lock;
use freehold_sync::rank::Rank;

/// A value that is looked at and changed only while its lock is held.
pub(crate) struct Guarded<T> {
    lock: Lock,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through `with` alone, by one thread at a time.
unsafe impl<T: Send> Sync for Guarded<T> {}

impl<T> Guarded<T> {
    pub(crate) const fn new(rank: &'static Rank, value: T) -> Self {
        Self { lock: Lock::new(rank), value: UnsafeCell::new(value) }
    }

    /// Uses the value. `use_it` must not come back here.
    pub(crate) fn with<R>(&self, use_it: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the lock is held, so this is the only reference.
        self.lock.hold(|| use_it(unsafe { &mut *self.value.get() }))
    }

    /// The value, for a thread that holds the lock already, or that is the only one to use it.
    ///
    /// # Safety
    /// Nobody else uses the value until the reference is gone.
    #[expect(clippy::mut_from_ref, reason = "the caller promises what a lock would ensure")]
    pub(crate) unsafe fn as_held(&self) -> &mut T {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.value.get() }
    }

    /// The lock, for a fork, and to ask how often it was waited for.
    pub(crate) fn lock(&self) -> &Lock {
        &self.lock
    }
}
