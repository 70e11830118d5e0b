//! Things that threads lease one each: made when first needed, reused when their thread has exited.

use crate::layout::at;
use core::marker::PhantomData;
use freehold_sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use freehold_sync::lock::Lock;
use freehold_sync::stack::IndexStack;
use freehold_sys::System;

/// How many of a kind there may be. Threads beyond that do without.
const MOST: usize = 4096;

/// What can be in a stock.
pub(crate) trait Stocked {
    /// One as good as new.
    fn new() -> Self;
    /// The link of the stack of those that no thread has.
    fn link(&self) -> &AtomicU32;
}

/// All things of one kind. They are never moved and never unmade.
pub(crate) struct Stock<T> {
    /// Held while making one.
    pub(crate) lock: Lock,
    /// Where they stand; 0 before there are any. Written with the lock held.
    place: AtomicUsize,
    made: AtomicU32,
    idle: IndexStack,
    kind: PhantomData<T>,
}

impl<T: Stocked> Stock<T> {
    /// None yet.
    pub(crate) const fn new() -> Self {
        Self {
            lock: Lock::new(),
            place: AtomicUsize::new(0),
            made: AtomicU32::new(0),
            idle: IndexStack::new(),
            kind: PhantomData,
        }
    }

    /// How many were made.
    pub(crate) fn made(&self) -> usize {
        // Relaxed: a statistic.
        self.made.load(Ordering::Relaxed) as usize
    }

    fn nth(&self, n: u32) -> *mut T {
        // Relaxed: whoever knows a number got it from the stack or made it, which comes after the
        // place was written.
        let first = at::<T>(self.place.load(Ordering::Relaxed));
        // SAFETY: the place has room for all.
        unsafe { first.add(n as usize) }
    }

    fn link(&self, n: u32) -> &AtomicU32 {
        // SAFETY: numbers are of things that were made, and those are never unmade.
        unsafe { (*self.nth(n)).link() }
    }

    /// Leases one, as its last lessee left it. `None` when there is no memory for one more.
    pub(crate) fn lease<S: System>(&self, system: &S) -> Option<*mut T> {
        let found = self.idle.pop(|n| self.link(n));
        let n = found.or_else(|| self.lock.hold(|| self.make(system)))?;
        Some(self.nth(n))
    }

    fn make<S: System>(&self, system: &S) -> Option<u32> {
        let page = system.page_size();
        if self.place.load(Ordering::Relaxed) == 0 {
            let place = system.reserve(Self::bytes(page), page)?;
            self.place.store(place, Ordering::Relaxed);
        }
        let n = self.made.load(Ordering::Relaxed);
        if n as usize == MOST {
            return None;
        }
        let place = self.nth(n);
        let from = place.addr() / page * page;
        let to = (place.addr() + size_of::<T>()).next_multiple_of(page);
        // SAFETY: inside the reservation; neighbours on the same page keep their rights.
        if !unsafe { system.commit(from, to - from) } {
            return None;
        }
        // SAFETY: committed just now, and nobody else knows of it.
        unsafe { place.write(T::new()) };
        self.made.store(n + 1, Ordering::Relaxed);
        Some(n)
    }

    /// Ends a lease.
    ///
    /// # Safety
    /// The caller leased it and does not use it any more; it is fit for the next lessee.
    pub(crate) unsafe fn give_back(&self, one: *mut T) {
        // SAFETY: both are in the same array.
        let n = unsafe { one.offset_from(self.nth(0)) };
        self.idle.push(n as u32, |n| self.link(n));
    }

    /// Gives the address space back to the system.
    ///
    /// # Safety
    /// Nobody uses the stock any longer.
    pub(crate) unsafe fn unmap<S: System>(&self, system: &S) {
        let place = self.place.load(Ordering::Relaxed);
        if place != 0 {
            // SAFETY: reserved for this stock alone.
            unsafe { system.unmap(place, Self::bytes(system.page_size())) };
        }
    }

    fn bytes(page: usize) -> usize {
        (MOST * size_of::<T>()).next_multiple_of(page)
    }
}
