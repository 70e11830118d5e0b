//! Things that threads lease one each: made when first needed, reused when their thread has exited.
//!
//! The links of those that nobody has stand in front of them all, growing downwards as they grow
//! upwards, so that the pages of what nobody has can be given back to the system.

use crate::layout::at;
use crate::policy::grow;
use core::marker::PhantomData;
use freehold_sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use freehold_sync::lock::Lock;
use freehold_sync::rank::Rank;
use freehold_sync::stack::IndexStack;
use freehold_sys::System;

/// Bytes that are made usable at once.
const STEP: usize = 64 * 1024;

/// The link of what is owned while it is purged: no number, and not that of the end.
const OWNED: u32 = u32::MAX;

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
}

/// All things of one kind. They are never moved and never unmade.
#[repr(align(64))]
pub(crate) struct Stock<T> {
    /// Held while making one.
    pub(crate) lock: Lock,
    /// Where they stand; 0 before that is known. Written with the lock held.
    place: AtomicUsize,
    /// Bytes reserved there, without those of the links. Written with the lock held.
    reserved: AtomicUsize,
    /// Bytes committed from there on, and before that the links of as many. Written with the lock
    /// held.
    committed: AtomicUsize,
    made: AtomicU32,
    idle: IndexStack,
    /// Whether any was given back since their pages were purged.
    worn: AtomicBool,
    kind: PhantomData<T>,
}

impl<T: Stocked> Stock<T> {
    /// None yet; they are made under a lock of the given rank, in a reservation of their own.
    pub(crate) const fn new(rank: &'static Rank) -> Self {
        Self::with_place(rank, 0, 0)
    }

    /// None yet. There are [`Stock::bytes`] of address space left for them at `place`, a page's
    /// start, and [`Stock::link_bytes`] before it.
    pub(crate) fn at(rank: &'static Rank, place: usize, address_space_left: usize) -> Self {
        Self::with_place(rank, place, Self::bytes(address_space_left))
    }

    /// Bytes of address space to set aside for all that there may be: a number of steps, so that
    /// they take no more with their links than [`grow::stock`] allows.
    pub(crate) fn bytes(address_space_left: usize) -> usize {
        let most = grow::stock(T::MOST * size_of::<T>(), address_space_left) / STEP * STEP;
        most - Self::links(most).next_multiple_of(STEP)
    }

    /// Bytes of address space to set aside before them.
    pub(crate) fn link_bytes(address_space_left: usize) -> usize {
        Self::links(Self::bytes(address_space_left))
    }

    /// Bytes that the links of so many bytes of things take.
    const fn links(bytes: usize) -> usize {
        bytes / size_of::<T>() * size_of::<AtomicU32>()
    }

    const fn with_place(rank: &'static Rank, place: usize, bytes: usize) -> Self {
        Self {
            lock: Lock::new(rank),
            place: AtomicUsize::new(place),
            reserved: AtomicUsize::new(bytes),
            committed: AtomicUsize::new(0),
            made: AtomicU32::new(0),
            idle: IndexStack::new(),
            worn: AtomicBool::new(false),
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
        // Relaxed: as in `nth`.
        let first = at::<AtomicU32>(self.place.load(Ordering::Relaxed));
        // SAFETY: numbers are of things that were made, whose links are committed with them, and
        // those are never unmade.
        unsafe { &*first.sub(n as usize + 1) }
    }

    /// Whether there was none a moment ago that was made and that nobody has.
    pub(crate) fn has_no_idle(&self) -> bool {
        self.idle.is_empty()
    }

    /// Leases one, as its last lessee left it. `None` when there is no memory for one more.
    pub(crate) fn lease<S: System>(&self, system: &S) -> Option<*mut T> {
        self.lease_idle().or_else(|| {
            // Again with the lock held: those that nobody has may be about to be purged.
            self.lock.hold(|| self.lease_idle().or_else(|| self.make_held(system, 1)))
        })
    }

    /// Leases one that has been made, if nobody has it.
    pub(crate) fn lease_idle(&self) -> Option<*mut T> {
        self.idle.pop(|n| self.link(n)).map(|n| self.nth(n))
    }

    /// Makes `count`, which stand one after the other, and leases them all. `None` when there is no
    /// memory for so many more.
    pub(crate) fn make<S: System>(&self, system: &S, count: usize) -> Option<*mut T> {
        self.lock.hold(|| self.make_held(system, count))
    }

    /// Likewise, for the holder of the lock.
    fn make_held<S: System>(&self, system: &S, count: usize) -> Option<*mut T> {
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
        let links = |bytes: usize| Self::links(bytes).next_multiple_of(page);
        let (before, after) = (links(committed), links(committed + step));
        // SAFETY: inside the reservation.
        let done = unsafe {
            if committed == 0 {
                system.commit(place - after, after + step)
            } else {
                (before == after || system.commit(place - after, after - before))
                    && system.commit(place + committed, step)
            }
        };
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
        let align = page.max(align_of::<T>());
        let links = Self::links(bytes).next_multiple_of(align);
        let Some(start) = system.reserve(links + bytes, align) else { return false };
        self.reserved.store(bytes, Ordering::Relaxed);
        self.place.store(start + links, Ordering::Relaxed);
        true
    }

    /// Ends a lease.
    ///
    /// # Safety
    /// The caller leased it and does not use it any more; it is fit for the next lessee.
    pub(crate) unsafe fn give_back(&self, one: *mut T) {
        // SAFETY: both are in the same array.
        let n = unsafe { one.offset_from(self.nth(0)) };
        // Second, so that it is purged now or next time. Relaxed: a hint.
        self.idle.push(n as u32, |n| self.link(n));
        if !self.worn.load(Ordering::Relaxed) {
            self.worn.store(true, Ordering::Relaxed);
        }
    }

    /// Purges the pages of those that nobody has, as far as `may_go` says of a page that nothing
    /// on it is needed, if any was given back since that was done last. They are zero afterwards,
    /// or as they were. Who wants one meanwhile waits. Those in front are leased first from then
    /// on, so that what is in use is close together.
    pub(crate) fn purge_idle<S: System>(&self, system: &S, mut may_go: impl FnMut(usize) -> bool) {
        if !self.worn.swap(false, Ordering::Relaxed) {
            return;
        }
        self.lock.hold(|| {
            // Those that are owned here have a link that names none, and no other has.
            let link = |n| self.link(n);
            while let Some(n) = self.idle.pop(link) {
                link(n).store(OWNED, Ordering::Relaxed);
            }
            // Relaxed throughout: the links are this thread's until it pushes them.
            let is_owned = |n: usize| link(n as u32).load(Ordering::Relaxed) == OWNED;
            let (page, size) = (system.page_size(), size_of::<T>());
            let (place, made) = (self.place.load(Ordering::Relaxed), self.made());
            let mut goes = |n: usize| {
                let (first, last) = (n * page / size, ((n + 1) * page - 1) / size);
                (first..made.min(last + 1)).all(is_owned) && may_go(place + n * page)
            };
            // Nor has anybody what follows on the last page, since one is made with the lock held.
            let pages = (made * size).div_ceil(page);
            let mut from = 0;
            while from < pages {
                let count = (from..pages).take_while(|&n| goes(n)).count();
                if count > 0 {
                    // SAFETY: committed, of things alone that nobody has, which this thread owns,
                    // and the caller says that nothing there is needed.
                    unsafe { system.purge(place + from * page, count * page) };
                }
                from += count + 1;
            }
            for n in (0..made).rev().filter(|&n| is_owned(n)) {
                self.idle.push(n as u32, link);
            }
        });
    }

    /// Gives the address space back to the system, if it is a reservation of the stock's own.
    ///
    /// # Safety
    /// Nobody uses the stock any longer.
    pub(crate) unsafe fn unmap<S: System>(&self, system: &S) {
        let place = self.place.load(Ordering::Relaxed);
        if place != 0 {
            let bytes = self.reserved.load(Ordering::Relaxed);
            let align = system.page_size().max(align_of::<T>());
            let links = Self::links(bytes).next_multiple_of(align);
            // SAFETY: reserved for this stock alone.
            unsafe { system.unmap(place - links, links + bytes) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::magazine::Magazine;
    use crate::order;
    use freehold_sys::fake::Fake;
    use std::vec::Vec;

    const PAGE: usize = 4096;

    impl<T: Stocked> Stock<T> {
        /// Bytes of those that were made which are resident.
        pub(crate) fn resident<S: System>(&self, system: &S) -> usize {
            let bytes = (self.made() * size_of::<T>()).next_multiple_of(system.page_size());
            system.resident(self.place.load(Ordering::Relaxed), bytes).unwrap()
        }
    }

    /// Leases so many things, and writes to them.
    fn lease<S: System>(stock: &Stock<Magazine>, system: &S, count: usize) -> Vec<*mut Magazine> {
        let all: Vec<_> = (0..count).map(|_| stock.lease(system).unwrap()).collect();
        for &magazine in &all {
            // SAFETY: just leased.
            unsafe { Magazine::slots(magazine, 1)[0] = magazine.addr() };
        }
        all
    }

    #[test]
    fn a_page_is_purged_when_nobody_has_anything_of_it() {
        let system = Fake::new().with_page_size(PAGE);
        let stock = Stock::<Magazine>::new(order::MAGAZINES);
        // On four pages, of the last of which not all are made.
        let all = lease(&stock, &system, 56);
        let kept = [all[20], all[33]];
        let idle = || all.iter().copied().filter(|magazine| !kept.contains(magazine));
        // SAFETY: leased above, and not used any more.
        idle().for_each(|magazine| unsafe { stock.give_back(magazine) });
        stock.purge_idle(&system, |_| true);
        assert_eq!((system.purged(), stock.resident(&system)), (2 * PAGE, 2 * PAGE));
        stock.purge_idle(&system, |_| true);
        assert_eq!(system.purged(), 2 * PAGE, "none was given back since");
        for magazine in kept {
            // SAFETY: leased above.
            assert_eq!(unsafe { Magazine::slots(magazine, 1)[0] }, magazine.addr());
        }
        // Those in front come first, and no more than were there have to be made.
        assert!(lease(&stock, &system, 54).into_iter().eq(idle()));
        assert_eq!(stock.made(), 56);
        assert!(stock.has_no_idle());
        // SAFETY: nobody uses it any more.
        unsafe { stock.unmap(&system) };
    }

    #[test]
    fn a_page_stays_that_is_needed() {
        let system = Fake::new().with_page_size(PAGE);
        let stock = Stock::<Magazine>::new(order::MAGAZINES);
        let all = lease(&stock, &system, 80);
        // SAFETY: leased above, and not used any more.
        all.iter().for_each(|&magazine| unsafe { stock.give_back(magazine) });
        let needed = all[32].addr();
        stock.purge_idle(&system, |page| page != needed);
        assert_eq!((system.purged(), stock.resident(&system)), (4 * PAGE, PAGE));
        // SAFETY: nobody uses it any more.
        unsafe { stock.unmap(&system) };
    }

    #[test]
    fn the_links_of_any_number_of_things_are_there() {
        let system = Fake::new().with_page_size(PAGE);
        let stock = Stock::<Magazine>::new(order::MAGAZINES);
        // Of a thousand a page of links is full.
        for _ in 0..3 {
            let all: Vec<_> = (0..5000).map(|_| stock.lease(&system).unwrap()).collect();
            // SAFETY: leased above, and not used any more.
            all.iter().rev().for_each(|&magazine| unsafe { stock.give_back(magazine) });
            assert!(all.is_sorted());
        }
        // SAFETY: nobody uses it any more.
        unsafe { stock.unmap(&system) };
    }

    #[test]
    fn who_wants_one_while_all_are_owned_waits_and_makes_none() {
        let system = Fake::new().with_page_size(PAGE);
        let stock = Stock::<Magazine>::new(order::MAGAZINES);
        let all = lease(&stock, &system, 16);
        // SAFETY: leased above, and not used any more.
        all.iter().for_each(|&magazine| unsafe { stock.give_back(magazine) });
        std::thread::scope(|scope| {
            let mut other = None;
            stock.purge_idle(&system, |_| {
                assert!(stock.lease_idle().is_none());
                let lease = || stock.lease(&system).map(<*mut Magazine>::addr);
                // It waits, or comes late: with neither is one more made.
                other.get_or_insert_with(|| scope.spawn(lease));
                std::thread::sleep(std::time::Duration::from_millis(20));
                true
            });
            assert_eq!(other.unwrap().join().unwrap(), Some(all[0].addr()));
        });
        assert_eq!(stock.made(), 16);
        // SAFETY: nobody uses it any more.
        unsafe { stock.unmap(&system) };
    }
}
