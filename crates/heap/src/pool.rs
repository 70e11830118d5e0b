//! Slabs with free objects that no heap is attached to, by class: for any heap that needs one.
//!
//! A list, under a lock of its own. Whether a slab is in it, its word says: `Pooled`, or `Claimed`
//! by the thread that freed its last object and is waiting for the lock to unlink it. The slab that
//! has waited longest is taken first: frees have gone on meanwhile, so it has the most to give, or
//! has become whole and left.

use crate::arena::Arena;
use crate::class::Class;
use crate::layout::{GRANULE, Granule};
use crate::order;
use crate::policy::purge;
use crate::slab_list::SlabList;
use freehold_sync::atomic::{AtomicU16, AtomicU32, Ordering};
use freehold_sync::lock::Lock;
use freehold_sync::word::{Ledger, SlabWord};
use freehold_sys::System;

/// The pool of one class. Changed with the lock held. Relaxed, since that orders everything but a
/// glance whether there is anything. Two or three share a line: with a line of its own for each, 16
/// and 64 simulated processors took as many from each other.
pub(crate) struct Pool {
    pub(crate) lock: Lock,
    slabs: SlabList,
    /// Slabs that were put in since the last tick, as far as can be counted, and which that was:
    /// slabs remember it.
    entered: AtomicU16,
    tick: AtomicU32,
    /// How many heaps keep slabs of the class.
    pub(crate) keepers: AtomicU16,
}

/// The list of a pool, and the lock that protects it and the links of the slabs in it.
pub(crate) struct List<'a> {
    pub(crate) lock: &'a Lock,
    pub(crate) slabs: &'a SlabList,
}

/// Bytes of a slab.
fn slab_bytes(class: Class) -> usize {
    usize::from(class.info().granules) * GRANULE
}

impl Pool {
    /// An empty pool.
    pub(crate) const fn new() -> Self {
        Self {
            lock: Lock::new(order::POOL),
            slabs: SlabList::new(),
            entered: AtomicU16::new(0),
            tick: AtomicU32::new(0),
            keepers: AtomicU16::new(0),
        }
    }

    /// The background thread's last tick.
    pub(crate) fn tick(&self) -> u32 {
        self.tick.load(Ordering::Relaxed)
    }

    /// Bytes of the slabs that were put in since the last tick, if this is the class's pool.
    fn entered_bytes(&self, class: Class) -> usize {
        usize::from(self.entered.load(Ordering::Relaxed)) * slab_bytes(class)
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
        entered.into()
    }

    pub(crate) fn list(&self) -> List<'_> {
        List { lock: &self.lock, slabs: &self.slabs }
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
        if !class.is_small() {
            self.set_medium_owner(g, 0);
        }
        let pool = &self.pools[usize::from(class.0)];
        // SAFETY: the lock is held, and the slab is claimed by the caller and in no list.
        pool.lock.hold(|| unsafe { self.put_last(&pool.list(), class, g, word, pool.tick()) })
    }

    /// Puts a claimed slab last in a list, in the background thread's tick of this number. Returns
    /// false when the slab has become complete meanwhile: it is still claimed, and in no list.
    ///
    /// # Safety
    /// The lock is held, and the slab is claimed by the caller and in no list.
    #[must_use]
    pub(crate) unsafe fn put_last<L: Ledger>(
        &self,
        list: &List,
        class: Class,
        g: Granule,
        word: &SlabWord<L>,
        tick: u32,
    ) -> bool {
        // SAFETY: the caller's promise: the slab's links are the caller's to set before it becomes
        // `Pooled`.
        unsafe {
            (*self.local(g)).pooled_at = tick;
            list.slabs.append(self, g);
        }
        let pooled = word.pool(class.info().capacity.into());
        if !pooled {
            // SAFETY: as above.
            unsafe { list.slabs.unlink(self, g) };
        }
        pooled
    }

    /// Puts a claimed slab of medium objects last in a list that is whole and stays so, in the
    /// background thread's tick of this number.
    ///
    /// # Safety
    /// As for [`Arena::put_last`].
    pub(crate) unsafe fn put_whole_last(&self, list: &List, g: Granule, tick: u32) {
        // SAFETY: the caller's promise.
        unsafe {
            (*self.local(g)).pooled_at = tick;
            list.slabs.append(self, g);
        }
        self.word(g).mask().leave_in_pool();
    }

    /// Counts a slab that was put into a pool, and notes when it is time for somebody to look at
    /// them. Threads that count at the same time may count one slab instead of two.
    fn note_pooled(&self, class: Class) {
        let entered = &self.pools[usize::from(class.0)].entered;
        let count = entered.load(Ordering::Relaxed).saturating_add(1);
        entered.store(count, Ordering::Relaxed);
        let between = purge::slabs_between_looks(slab_bytes(class));
        let is_time = usize::from(count).is_multiple_of(between);
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
        if !class.is_small() && self.unpool_at_owner(class, g) {
            return;
        }
        let pool = &self.pools[usize::from(class.0)];
        pool.lock.hold(|| {
            // SAFETY: the lock is held; the slab is on the list until its claimer unlinks it.
            unsafe { pool.slabs.unlink(self, g) };
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

    /// Likewise, a slab of medium objects.
    #[inline(never)]
    pub(crate) fn claim_pooled_medium(&self, class: Class) -> Option<Granule> {
        self.claim_pooled_slab(class, |g| self.word(g).mask())
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
        // SAFETY: the lock is held.
        let shared = pool.lock.hold(|| unsafe { self.claim_whole_in(&pool.list(), class) });
        shared.or_else(|| self.claim_whole_slab_at_owner(class))
    }

    /// Claims a slab of medium objects that was left in a pool whole, if there is one in its list.
    ///
    /// # Safety
    /// The lock is held.
    pub(crate) unsafe fn claim_whole_in(&self, list: &List, class: Class) -> Option<Granule> {
        let mut at = list.slabs.first();
        while let Some(g) = at {
            let word = self.word(g).mask();
            // SAFETY: the lock is held, and the slab is on the list.
            unsafe {
                at = SlabList::after(self, g);
                if word.look().1.count() == i32::from(class.info().capacity) && word.claim_pooled()
                {
                    list.slabs.unlink(self, g);
                    return Some(g);
                }
            }
        }
        None
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
        pool.slabs.first()?;
        // SAFETY: the lock is held.
        pool.lock.hold(|| unsafe { self.claim_first_in(&pool.list(), wanted, word) })
    }

    /// Likewise of a list.
    ///
    /// # Safety
    /// The lock is held.
    pub(crate) unsafe fn claim_first_in<'a, L: Ledger + 'a>(
        &'a self,
        list: &List,
        wanted: impl Fn(Granule) -> bool,
        word: impl Fn(Granule) -> &'a SlabWord<L>,
    ) -> Option<Granule> {
        let mut at = list.slabs.first();
        // A slab that cannot be claimed has just become whole, and its claimer waits for the lock.
        while let Some(g) = at.filter(|&g| wanted(g)) {
            // SAFETY: the lock is held, and the slab is on the list.
            unsafe {
                if word(g).claim_pooled() {
                    list.slabs.unlink(self, g);
                    return Some(g);
                }
                at = SlabList::after(self, g);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_pool_is_zeros_but_for_its_locks_rank() {
        let Pool { lock, slabs, entered, tick, keepers } = Pool::new();
        let counts = [entered, keepers].map(AtomicU16::into_inner);
        assert_eq!((slabs.into_ends(), counts), ([0; 2], [0; 2]));
        assert_eq!((tick.into_inner(), lock.waits()), (0, 0));
    }
}
