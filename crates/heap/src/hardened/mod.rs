//! Hardened mode: the same heap underneath, with every object between a check and a check.
//!
//! Objects come from slabs and runs as ever, and go back there; what is different is what happens
//! in between, which costs time and memory and is therefore asked for (`docs/hardening.md`):
//!
//! * Every object of a slab ends in a *seal* (`seal`): a word that depends on a secret and on where
//!   it stands, and says whether the object is in use and how many bytes were asked for. It is
//!   looked at when the object and when the next one is freed.
//! * What is freed is cleared at once, and still has to be clear when it is given out again
//!   (`clear`).
//! * It is kept from being given out again for a while (`quarantine`).
//! * Which object is given out is chosen at random (`random`): what is fetched is shuffled once,
//!   and what leaves quarantine takes a place at random among it, so that the last one can be
//!   taken.
//! * Large objects end at an inaccessible page (`guarded`). The largest are inaccessible once they
//!   are freed; others are cleared, and keep that page for the next one (`ready`).
//!
//! A thread's [`Thread`] does all that with a [`ThreadCache`](crate::cache::ThreadCache) that the
//! fast path knows nothing of.
//!
//! Invariant: the free memory of a hardened arena is zero, but for the seals of free objects, and
//! those are cleared when their slab is released.

mod at_hand;
pub(crate) mod clear;
mod elsewhere;
mod guarded;
mod leased;
mod quarantine;
mod random;
mod ready;
mod seal;
mod thread;
mod waiting;

pub use at_hand::TakenBack;
pub use thread::{Misuse, Thread};

use crate::arena::Arena;
use crate::class::Class;
use crate::layout::{Granule, at};
use crate::order;
use crate::stock::Stock;
use core::ops::Range;
use core::ptr::NonNull;
use freehold_sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use freehold_sync::lock::Lock;
use freehold_sys::System;
use leased::Leased;
use ready::Ready;
pub use seal::Secret;
use seal::Slot;

/// What an arena knows of being hardened.
pub(crate) struct Hardening {
    secret: Option<Secret>,
    threads: Stock<Leased>,
    /// How many threads have begun so far. Written with `looking` held.
    begun: AtomicU32,
    /// Held by a thread that begins, and by one that looks at what others could free if there were
    /// any.
    looking: Lock,
    /// Freed runs that have waited, and their fences.
    ready: Ready,
    /// Bytes of address space of freed runs that wait or are ready, of all threads.
    waiting: AtomicUsize,
    /// Bytes of memory that those have kept which wait.
    kept: AtomicUsize,
}

impl Hardening {
    /// With a secret: hardened.
    pub(crate) fn new(secret: Option<Secret>) -> Self {
        Self {
            secret,
            threads: Stock::new(order::HARDENED),
            begun: AtomicU32::new(0),
            looking: Lock::new(order::LOOKING),
            ready: Ready::new(),
            waiting: AtomicUsize::new(0),
            kept: AtomicUsize::new(0),
        }
    }

    /// Whether the arena is.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.secret.is_some()
    }

    /// Notes that one more thread begins, before it touches any object.
    fn note_thread(&self) {
        self.looking.hold(|| self.begun.fetch_add(1, Ordering::Relaxed));
    }

    /// Bytes of address space of freed runs that wait or are ready.
    pub(crate) fn waiting(&self) -> usize {
        // Relaxed: a statistic.
        self.waiting.load(Ordering::Relaxed)
    }

    /// The same, and the bytes of memory that those have kept which wait: for checks.
    pub(crate) fn sums(&self) -> (usize, usize) {
        (self.waiting(), self.kept.load(Ordering::Relaxed))
    }

    /// Whether no other thread than the caller's has begun so far: one may do so at any time.
    #[inline]
    fn is_alone(&self) -> bool {
        // Relaxed: who must be sure asks once more with the lock held.
        self.begun.load(Ordering::Relaxed) == 1
    }

    /// Runs `look` if no other thread than the caller's has begun so far; none does meanwhile.
    #[inline]
    fn while_alone<R>(&self, look: impl FnOnce() -> R) -> Option<R> {
        if !self.looking.try_acquire() {
            return None;
        }
        let result = self.is_alone().then(look);
        self.looking.release();
        result
    }

    /// The locks: that of the threads' stock, the one that keeps threads from beginning, and that
    /// of the runs that are ready.
    pub(crate) fn locks(&self) -> [&Lock; 3] {
        [&self.threads.lock, &self.looking, &self.ready.lock]
    }

    /// Gives the address space back to the system.
    ///
    /// # Safety
    /// Nobody uses the arena any longer.
    pub(crate) unsafe fn unmap<S: System>(&self, system: &S) {
        // SAFETY: the caller's promise.
        unsafe { self.threads.unmap(system) };
    }
}

impl<S: System> Arena<S> {
    /// The secret that seals are made with.
    #[inline]
    fn secret(&self) -> Secret {
        self.hardening.secret.unwrap_or(Secret::NONE)
    }

    /// A place for what a thread keeps. `None` when there is no memory for one more.
    pub fn lease_hardened(&self) -> Option<NonNull<Thread>> {
        let place = NonNull::new(self.hardening.threads.lease(&self.system)?)?;
        // SAFETY: leased to the caller just now.
        Some(unsafe { Leased::begin(place, self) })
    }

    /// Ends a lease.
    ///
    /// # Safety
    /// The place was leased to the caller, who has ended what is there and does not use it any
    /// longer.
    pub unsafe fn give_back_hardened(&self, place: NonNull<Thread>) {
        // SAFETY: the caller's promise.
        unsafe { self.hardening.threads.give_back(place.cast::<Leased>().as_ptr()) };
    }

    /// Seals objects of a slab of small ones, those of these numbers, which it gives out for the
    /// first time. Before anybody has them: so all objects up to the last that was ever given out
    /// have seals, and who has one need not make sure of it, or of the one before.
    #[cold]
    pub(crate) fn seal_carved(&self, class: Class, g: Granule, numbers: Range<u16>) {
        if class == Class::EMPTY {
            return;
        }
        let (base, size, secret) = (self.tables.address(g), class.size(), self.secret());
        for n in numbers.map(usize::from) {
            Slot::new(base + n * size, size, n > 0).prepare(&secret);
        }
    }

    /// Makes the memory of a slab zero that is about to be released: everything but the seals is.
    #[cold]
    pub(crate) fn clear_seals(&self, class: Class, g: Granule) {
        if class == Class::EMPTY {
            return;
        }
        let (base, size) = (self.tables.address(g), class.size());
        let count = if class.is_small() {
            // SAFETY: whoever releases a slab of small objects owns its local part.
            unsafe { (*self.local(g)).carved }
        } else {
            class.info().capacity
        };
        for end in (1..=usize::from(count)).map(|n| base + n * size) {
            // SAFETY: the last word of an object of the slab, all of whose objects are free.
            let seal = unsafe { &*at::<AtomicU64>(end - seal::BYTES) };
            // Relaxed: releasing the granules publishes it.
            seal.store(0, Ordering::Relaxed);
        }
    }
}
