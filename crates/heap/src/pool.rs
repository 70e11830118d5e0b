//! Slabs with free objects that no heap is attached to, by class: for any heap that needs one.
//!
//! A doubly linked list through the slabs' local parts, under a lock of its own. Whether a slab is
//! in the list, its word says: `Pooled`, or `Claimed` by the thread that freed its last object and
//! is waiting for the lock to unlink it. The slab that has waited longest is taken first: frees
//! have gone on meanwhile, so it has the most to give, or has become whole and left.

use crate::arena::Arena;
use crate::class::Class;
use crate::layout::{GRANULE, Granule};
use crate::order;
use crate::policy::purge;
use freehold_sync::atomic::{AtomicU32, Ordering};
use freehold_sync::lock::Lock;
use freehold_sync::word::{Ledger, SlabWord};
use freehold_sys::System;

/// The pool of one class. Its ends are slabs' granules plus one, 0 for none; they are changed with
/// the lock held. Relaxed, since the lock orders everything but a glance whether there is anything.
/// Two or three share a line: with a line of its own for each, 16 and 64 simulated processors took
/// as many from each other.
pub(crate) struct Pool {
    pub(crate) lock: Lock,
    first: AtomicU32,
    last: AtomicU32,
    /// Slabs that were put in since the last tick, and which that was: slabs remember it.
    entered: AtomicU32,
    tick: AtomicU32,
}

/// Bytes of a slab.
fn slab_bytes(class: Class) -> usize {
    usize::from(class.info().granules) * GRANULE
}

/// A slab as a link: its granule plus one.
const fn link_to(g: Granule) -> u32 {
    g.0 + 1
}

/// The slab that a link leads to, if it leads anywhere.
fn target(link: u32) -> Option<Granule> {
    link.checked_sub(1).map(Granule)
}

impl Pool {
    /// An empty pool.
    pub(crate) const fn new() -> Self {
        Self {
            lock: Lock::new(order::POOL),
            first: AtomicU32::new(0),
            last: AtomicU32::new(0),
            entered: AtomicU32::new(0),
            tick: AtomicU32::new(0),
        }
    }

    /// Bytes of the slabs that were put in since the last tick, if this is the class's pool.
    fn entered_bytes(&self, class: Class) -> usize {
        self.entered.load(Ordering::Relaxed) as usize * slab_bytes(class)
    }

    /// Begins a tick of the background thread. Returns how many slabs were put in during the last
    /// one. A hint: one that is put in at this moment may be forgotten.
    pub(crate) fn begin_tick(&self, tick: u32) -> u32 {
        // The greatest, if several begin at the same time: whoever puts a slab back must not find
        // it waiting again.
        self.tick.fetch_max(tick, Ordering::Relaxed);
        let entered = self.entered.load(Ordering::Relaxed);
        if entered != 0 {
            self.entered.store(0, Ordering::Relaxed);
        }
        entered
    }

    /// Puts a slab last.
    ///
    /// # Safety
    /// The lock is held, and the slab is claimed by the caller and on no list.
    unsafe fn append<S: System>(&self, arena: &Arena<S>, g: Granule) {
        let last = self.last.load(Ordering::Relaxed);
        // SAFETY: the lock protects the links of slabs on the list, and this one is the caller's.
        unsafe {
            (*arena.local(g)).prev = last;
            (*arena.local(g)).next = 0;
            (*arena.local(g)).pooled_at = self.tick.load(Ordering::Relaxed);
            match target(last) {
                Some(last) => (*arena.local(last)).next = link_to(g),
                None => self.first.store(link_to(g), Ordering::Relaxed),
            }
        }
        self.last.store(link_to(g), Ordering::Relaxed);
    }

    /// Takes a slab off.
    ///
    /// # Safety
    /// The lock is held, and the slab is on the list.
    unsafe fn unlink<S: System>(&self, arena: &Arena<S>, g: Granule) {
        // SAFETY: the lock protects the links of slabs on the list.
        unsafe {
            let (next, prev) = ((*arena.local(g)).next, (*arena.local(g)).prev);
            match target(prev) {
                Some(prev) => (*arena.local(prev)).next = next,
                None => self.first.store(next, Ordering::Relaxed),
            }
            match target(next) {
                Some(next) => (*arena.local(next)).prev = prev,
                None => self.last.store(prev, Ordering::Relaxed),
            }
        }
    }
}

impl<S: System> Arena<S> {
    /// Puts a claimed slab into the pool. Returns false when the slab has become complete
    /// meanwhile: it is still claimed, and the caller releases it.
    #[must_use]
    pub(crate) fn pool_slab<L: Ledger>(
        &self,
        class: Class,
        g: Granule,
        word: &SlabWord<L>,
    ) -> bool {
        let pooled = self.put_into_pool(class, g, word);
        if pooled {
            self.note_pooled(class);
        }
        pooled
    }

    /// [`Arena::pool_slab`] for who has taken the slab out of the pool to look at it.
    #[must_use]
    pub(crate) fn put_into_pool<L: Ledger>(
        &self,
        class: Class,
        g: Granule,
        word: &SlabWord<L>,
    ) -> bool {
        let pool = &self.pools[usize::from(class.0)];
        pool.lock.hold(|| {
            // SAFETY: the lock is held, and the slab is claimed by the caller, so its links are
            // ours to set before it becomes `Pooled`.
            unsafe { pool.append(self, g) };
            let pooled = word.pool(class.info().capacity.into());
            if !pooled {
                // SAFETY: as above.
                unsafe { pool.unlink(self, g) };
            }
            pooled
        })
    }

    /// Counts a slab that was put into a pool, and notes when it is time for somebody to look at
    /// them. Threads that count at the same time may count one slab instead of two.
    fn note_pooled(&self, class: Class) {
        let entered = &self.pools[usize::from(class.0)].entered;
        let count = entered.load(Ordering::Relaxed) + 1;
        entered.store(count, Ordering::Relaxed);
        let between = purge::slabs_between_looks(slab_bytes(class));
        let is_time = (count as usize).is_multiple_of(between);
        if is_time && !self.is_helped() && !self.help_wanted.load(Ordering::Relaxed) {
            let bytes = |(pool, n): (&Pool, u8)| pool.entered_bytes(Class(n));
            if self.pools.iter().zip(0..).map(bytes).sum::<usize>() >= purge::SLABS_WORTH_A_THREAD {
                self.want_help();
            }
        }
    }

    /// Forgets how many slabs were put into pools until now.
    pub(crate) fn forget_pooled(&self) {
        for pool in &self.pools {
            pool.entered.store(0, Ordering::Relaxed);
        }
    }

    /// Begins a tick of the background thread. Returns how many slabs were put into pools during
    /// the last one.
    pub(crate) fn begin_tick(&self, tick: u32) -> u32 {
        if self.help_wanted.load(Ordering::Relaxed) {
            self.help_wanted.store(false, Ordering::Relaxed);
        }
        self.pools.iter().map(|pool| pool.begin_tick(tick)).sum()
    }

    /// Takes a slab off the pool's list that its last freer, the caller, has claimed there.
    pub(crate) fn unpool_slab(&self, class: Class, g: Granule) {
        let pool = &self.pools[usize::from(class.0)];
        pool.lock.hold(|| {
            // SAFETY: the lock is held; the slab is on the list until its claimer unlinks it.
            unsafe { pool.unlink(self, g) };
        });
    }

    /// Claims a slab from the pool, if there is one. Waits if somebody else is at the pool just
    /// now: a new slab in its place would hardly ever go away again, since the objects of the class
    /// are then spread over more slabs, and memory would grow each time that threads meet here.
    pub(crate) fn claim_pooled_slab<'a, L: Ledger + 'a>(
        &'a self,
        class: Class,
        word: impl Fn(Granule) -> &'a SlabWord<L>,
    ) -> Option<Granule> {
        let g = self.claim_first_pooled(class, |_| true, word)?;
        // SAFETY: the slab is the caller's, who will take objects from it.
        unsafe { (*self.local(g)).purged = 0 };
        Some(g)
    }

    /// Claims the slab that has been in the pool longest, if it has been there for so many ticks:
    /// for the background thread, whose last tick has this number.
    pub(crate) fn claim_slab_pooled_for<'a, L: Ledger + 'a>(
        &'a self,
        class: Class,
        (ticks, last): (u32, u32),
        word: impl Fn(Granule) -> &'a SlabWord<L>,
    ) -> Option<Granule> {
        // SAFETY: the pool's lock, which is held, protects what is read here of slabs on the list.
        let since = |g| last.saturating_sub(unsafe { (*self.local(g)).pooled_at });
        self.claim_first_pooled(class, |g| since(g) >= ticks, word)
    }

    /// Claims a slab of medium objects that was left in its pool whole, if there is one.
    pub(crate) fn claim_whole_slab(&self, class: Class) -> Option<Granule> {
        let pool = &self.pools[usize::from(class.0)];
        pool.lock.hold(|| {
            let mut at = target(pool.first.load(Ordering::Relaxed));
            while let Some(g) = at {
                let word = self.word(g).mask();
                // SAFETY: the lock is held, and the slab is on the list.
                unsafe {
                    at = target((*self.local(g)).next);
                    if word.look().1.count() == i32::from(class.info().capacity)
                        && word.claim_pooled()
                    {
                        pool.unlink(self, g);
                        return Some(g);
                    }
                }
            }
            None
        })
    }

    /// Claims the first slab of a pool that can be claimed, as long as they are `wanted`, which is
    /// asked with the pool's lock held.
    fn claim_first_pooled<'a, L: Ledger + 'a>(
        &'a self,
        class: Class,
        wanted: impl Fn(Granule) -> bool,
        word: impl Fn(Granule) -> &'a SlabWord<L>,
    ) -> Option<Granule> {
        let pool = &self.pools[usize::from(class.0)];
        if pool.first.load(Ordering::Relaxed) == 0 {
            return None;
        }
        pool.lock.hold(|| {
            let mut at = target(pool.first.load(Ordering::Relaxed));
            // A slab that cannot be claimed has just become whole, and its claimer waits for the
            // lock.
            while let Some(g) = at.filter(|&g| wanted(g)) {
                // SAFETY: the lock is held, and the slab is on the list.
                unsafe {
                    if word(g).claim_pooled() {
                        pool.unlink(self, g);
                        return Some(g);
                    }
                    at = target((*self.local(g)).next);
                }
            }
            None
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_pool_is_zeros_but_for_its_locks_rank() {
        let Pool { lock, first, last, entered, tick } = Pool::new();
        let numbers = [first, last, entered, tick].map(AtomicU32::into_inner);
        assert_eq!((numbers, lock.waits()), ([0; 4], 0));
    }
}
