//! Things that threads lease one each: made when first needed, reused when their thread has exited.

use crate::layout::at;
use crate::policy::grow;
use core::marker::PhantomData;
use freehold_sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use freehold_sync::lock::Lock;
use freehold_sync::rank::Rank;
use freehold_sync::stack::IndexStack;
use freehold_sys::System;

/// Bytes that are made usable at once.
const STEP: usize = 64 * 1024;

/// What can be in a stock.
pub(crate) trait Stocked {
    /// How many there may be. Threads beyond that do without; under a limit on address space there
    /// may be fewer.
    const MOST: usize;
    /// Makes one where there are zeros.
    ///
    /// # Safety
    /// The place is the caller's, aligned, and zero.
    unsafe fn make_at(place: *mut Self);
    /// The link of the stack of those that no thread has.
    fn link(&self) -> &AtomicU32;
}

/// All things of one kind. They are never moved and never unmade.
#[repr(align(64))]
pub(crate) struct Stock<T> {
    /// Held while making one.
    pub(crate) lock: Lock,
    /// Where they stand; 0 before that is known. Written with the lock held.
    place: AtomicUsize,
    /// Bytes reserved there. Written with the lock held.
    reserved: AtomicUsize,
    /// Bytes committed from there on. Written with the lock held.
    committed: AtomicUsize,
    made: AtomicU32,
    idle: IndexStack,
    kind: PhantomData<T>,
}

impl<T: Stocked> Stock<T> {
    /// None yet; they are made under a lock of the given rank, in a reservation of their own.
    pub(crate) const fn new(rank: &'static Rank) -> Self {
        Self::with_place(rank, 0, 0)
    }

    /// None yet, and [`Stock::bytes`] of address space left for them at `place`, a page's start.
    pub(crate) fn at(rank: &'static Rank, place: usize, address_space_left: usize) -> Self {
        Self::with_place(rank, place, Self::bytes(address_space_left))
    }

    /// Bytes of address space to set aside for all that there may be: a number of steps.
    pub(crate) fn bytes(address_space_left: usize) -> usize {
        grow::stock(T::MOST * size_of::<T>(), address_space_left) / STEP * STEP
    }

    const fn with_place(rank: &'static Rank, place: usize, bytes: usize) -> Self {
        Self {
            lock: Lock::new(rank),
            place: AtomicUsize::new(place),
            reserved: AtomicUsize::new(bytes),
            committed: AtomicUsize::new(0),
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

    /// All that were made, whoever has them.
    pub(crate) fn all(&self) -> impl Iterator<Item = *mut T> {
        // Acquire pairs with the Release in `make`.
        (0..self.made.load(Ordering::Acquire)).map(|n| self.nth(n))
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
        self.lease_idle().or_else(|| self.make(system, 1))
    }

    /// Leases one that has been made, if nobody has it.
    pub(crate) fn lease_idle(&self) -> Option<*mut T> {
        self.idle.pop(|n| self.link(n)).map(|n| self.nth(n))
    }

    /// Makes `count`, which stand one after the other, and leases them all. `None` when there is no
    /// memory for so many more.
    pub(crate) fn make<S: System>(&self, system: &S, count: usize) -> Option<*mut T> {
        self.lock.hold(|| {
            let n = self.made.load(Ordering::Relaxed) as usize;
            let all = n + count;
            if !self.commit(system, all * size_of::<T>()) {
                return None;
            }
            for n in n..all {
                // SAFETY: committed, never used, and nobody else knows of it.
                unsafe { T::make_at(self.nth(n as u32)) };
            }
            // Release pairs with the Acquire in `all`.
            self.made.store(all as u32, Ordering::Release);
            Some(self.nth(n as u32))
        })
    }

    /// Makes at least the first `wanted` bytes usable.
    fn commit<S: System>(&self, system: &S, wanted: usize) -> bool {
        let page = system.page_size();
        if self.place.load(Ordering::Relaxed) == 0 && !self.reserve(system) {
            return false;
        }
        let all = self.reserved.load(Ordering::Relaxed);
        if wanted > all {
            return false;
        }
        let committed = self.committed.load(Ordering::Relaxed);
        if wanted <= committed {
            return true;
        }
        let place = self.place.load(Ordering::Relaxed);
        let step = wanted.next_multiple_of(STEP.max(page)).min(all) - committed;
        // SAFETY: inside the reservation.
        let done = unsafe { system.commit(place + committed, step) };
        if done {
            self.committed.store(committed + step, Ordering::Relaxed);
        }
        done
    }

    /// Sets address space aside for all that there may be, where that was not done for them.
    fn reserve<S: System>(&self, system: &S) -> bool {
        let page = system.page_size();
        let bytes = Self::bytes(system.address_space_left()).next_multiple_of(page);
        if bytes == 0 {
            return false;
        }
        let Some(place) = system.reserve(bytes, page.max(align_of::<T>())) else { return false };
        self.reserved.store(bytes, Ordering::Relaxed);
        self.place.store(place, Ordering::Relaxed);
        true
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

    /// Gives the address space back to the system, if it is a reservation of the stock's own.
    ///
    /// # Safety
    /// Nobody uses the stock any longer.
    pub(crate) unsafe fn unmap<S: System>(&self, system: &S) {
        let place = self.place.load(Ordering::Relaxed);
        if place != 0 {
            // SAFETY: reserved for this stock alone.
            unsafe { system.unmap(place, self.reserved.load(Ordering::Relaxed)) };
        }
    }
}
