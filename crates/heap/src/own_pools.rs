//! Pools of a heap's own: slabs of medium objects that the heap's thread has taken from and woken.
//!
//! A slab of medium objects is nobody's once a thread has taken its free objects; who wakes it puts
//! it into a pool. If that were always the one that all threads share, a slab whose thread frees
//! what it allocates would come back to another one half of the time, and with it the lines of its
//! objects, of what is known of it, and of the pool. So a thread puts what it has taken from itself
//! into a pool of its heap, where it looks first.
//!
//! Nothing is kept from others by that:
//!
//! * a slab in such a pool is in the same state as one in the shared pool: who frees the last
//!   object takes it out;
//! * who finds nothing in both takes from another heap's, if more is kept in those and of small
//!   objects than a share of what is in use ([`Arena::may_make_slab`]). Until then it makes a new
//!   one;
//! * what has waited for long goes into the shared pool with a tick of the background thread, all
//!   of it when the program is at rest, or when the thread ends.
//!
//! Invariants: the tag of a slab of medium objects names the exclusive heap that has taken from it
//! last, or none; as long as it is in a pool, the heap in whose pool it is, or none if that is the
//! shared one. It is changed by who has claimed the slab. The lists are protected by a lock of the
//! heap's of their own. In a process of one thread, which is not to touch them, they are empty.

use crate::arena::Arena;
use crate::class::{Class, MEDIUM_CLASSES};
use crate::heap::Heap;
use crate::layout::{GRANULE, Granule};
use crate::policy::{purge, retain};
use crate::pool::List;
use crate::slab_list::SlabList;
use crate::tally::Account;
use freehold_sync::atomic::{AtomicU32, Ordering};
use freehold_sys::System;

/// How many slabs come into a heap's pools before it asks for a background thread.
const SLABS_WORTH_A_THREAD: u32 = (purge::SLABS_WORTH_A_THREAD / GRANULE) as u32;

/// How many slabs come until it is looked again how much may stay there whole.
const SLABS_BETWEEN_LOOKS: u32 = 16;

/// The pools of a heap. All zero: there is nothing in them. The numbers are changed with the lock
/// held; Relaxed, since others only add up.
#[repr(C)]
pub(crate) struct OwnPools {
    slabs: [SlabList; MEDIUM_CLASSES],
    /// Granules of the slabs that are here.
    granules: AtomicU32,
    /// Slabs that came here, ever.
    entered: AtomicU32,
    /// How many granules there may be for a slab all of whose objects are free to stay.
    most: AtomicU32,
}

impl Heap {
    /// Its own pool of a medium class.
    fn own_pool(&self, class: Class) -> List<'_> {
        List { lock: &self.own_pools_lock, slabs: &self.own_pools.slabs[class.medium_index()] }
    }

    pub(crate) fn medium_left(&self) -> &AtomicU32 {
        &self.own_pools.most
    }

    /// Bytes of slabs in its own pools. A hint.
    pub(crate) fn own_pooled(&self) -> usize {
        self.own_pools.granules.load(Ordering::Relaxed) as usize * GRANULE
    }

    /// Slabs that have come there, ever.
    pub(crate) fn own_pooled_ever(&self) -> u32 {
        self.own_pools.entered.load(Ordering::Relaxed)
    }

    /// Counts a slab that comes. Returns how many came before. With the lock held, as below.
    fn note_entered(&self, class: Class) -> u32 {
        let OwnPools { granules, entered, .. } = &self.own_pools;
        let more = u32::from(class.info().granules);
        granules.store(granules.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        let before = entered.load(Ordering::Relaxed);
        entered.store(before.wrapping_add(1), Ordering::Relaxed);
        before
    }

    /// Counts a slab that has gone.
    fn note_left(&self, class: Class) {
        let granules = &self.own_pools.granules;
        let less = u32::from(class.info().granules);
        granules.store(granules.load(Ordering::Relaxed) - less, Ordering::Relaxed);
    }
}

impl<S: System> Arena<S> {
    /// The heap in whose own pool a slab of medium objects is, if it is in one. For who has claimed
    /// it there.
    fn own_pool_of(&self, g: Granule) -> Option<&Heap> {
        let owner = self.tag(g).owner();
        (owner != 0).then(|| self.heap(owner))
    }

    /// Notes which heap takes from a slab of medium objects, or has it in its pool: for who has
    /// claimed it. The tag's line is written to only if that is news.
    pub(crate) fn set_medium_owner(&self, g: Granule, owner: u16) {
        if self.tag(g).owner() != owner {
            self.tag(g).set_owner(owner);
        }
    }

    /// Whether a slab of medium objects, which a heap's thread has claimed by a free, may go into
    /// the heap's own pool: it is one that it has taken from last.
    fn is_own(&self, heap: &Heap, g: Granule) -> bool {
        heap.is_exclusive() && self.has_several_threads()
    }

    /// Puts a slab that the heap's thread has claimed by a free into the heap's own pool, if it has
    /// taken from it last. Returns false if not, or if the slab has become complete meanwhile: it
    /// is the caller's still.
    #[must_use]
    pub(crate) fn pool_own_slab(&self, class: Class, g: Granule) -> bool {
        let Some(heap) = self.own_pool_of(g) else { return false };
        if !heap.is_leased() || !self.has_several_threads() {
            return false;
        }
        let pool = heap.own_pool(class);
        let tick = self.pools[usize::from(class.0)].tick();
        let entered = pool.lock.hold(|| {
            // SAFETY: the lock is held, and the slab is claimed by the caller and in no list.
            let put = unsafe { self.put_last(&pool, class, g, self.word(g).mask(), tick) };
            put.then(|| heap.note_entered(class))
        });
        if entered.is_some_and(|before| before % SLABS_WORTH_A_THREAD == SLABS_WORTH_A_THREAD - 1)
            && !self.is_helped()
            && !self.help_wanted.load(Ordering::Relaxed)
        {
            self.want_help();
        }
        entered.is_some()
    }

    /// Has a slab all of whose objects are free stay in the heap's own pool, for the heap's thread,
    /// whose free has completed it and who took from it last: it may be there already. Returns
    /// false if it cannot stay.
    #[must_use]
    pub(crate) fn leave_whole_own(
        &self,
        heap: &Heap,
        class: Class,
        g: Granule,
        is_there: bool,
    ) -> bool {
        if !self.is_own(heap, g) || self.hardening.is_on() {
            return false;
        }
        let pool = heap.own_pool(class);
        let tick = self.pools[usize::from(class.0)].tick();
        let more = if is_there { 0 } else { u32::from(class.info().granules) };
        pool.lock.hold(|| {
            let OwnPools { granules, entered, most, .. } = &heap.own_pools;
            if entered.load(Ordering::Relaxed).is_multiple_of(SLABS_BETWEEN_LOOKS) {
                let bytes = retain::whole_slabs(self.about_in_use().used * GRANULE);
                let heaps = usize::from(self.leases.exclusive_made()).max(1);
                most.store((bytes / GRANULE / heaps) as u32, Ordering::Relaxed);
            }
            if granules.load(Ordering::Relaxed) + more > most.load(Ordering::Relaxed) {
                return false;
            }
            if !is_there {
                // SAFETY: the lock is held, and the slab is claimed by the caller and in no list.
                unsafe {
                    (*self.local(g)).pooled_at = tick;
                    pool.slabs.append(self, g);
                }
                heap.note_entered(class);
            }
            self.word(g).mask().leave_in_pool();
            true
        })
    }

    /// Takes a slab off the list of its pool that its last freer, the caller, has claimed there, if
    /// that is a heap's own.
    #[must_use]
    pub(crate) fn unpool_own_slab(&self, class: Class, g: Granule) -> bool {
        let Some(heap) = self.own_pool_of(g) else { return false };
        let pool = heap.own_pool(class);
        pool.lock.hold(|| {
            // SAFETY: the lock is held; the slab is on the list until its claimer unlinks it.
            unsafe { pool.slabs.unlink(self, g) };
            heap.note_left(class);
        });
        true
    }

    /// Claims the first slab in a heap's own pool for which `wanted` holds, which is asked with the
    /// lock held.
    fn claim_own_pooled(
        &self,
        heap: &Heap,
        class: Class,
        wanted: impl Fn(Granule) -> bool,
    ) -> Option<Granule> {
        let pool = heap.own_pool(class);
        pool.slabs.first()?;
        pool.lock.hold(|| {
            // SAFETY: the lock is held.
            let g = unsafe { self.claim_first_in(&pool, wanted, |g| self.word(g).mask()) }?;
            heap.note_left(class);
            Some(g)
        })
    }

    /// Claims a slab of medium objects for a heap to take from, if there is one in a pool: in its
    /// own, the shared one, or another heap's, if so much is in those that this is not to grow.
    pub(crate) fn claim_medium_slab(&self, heap: &Heap, class: Class) -> Option<Granule> {
        let own = || self.claim_own_pooled(heap, class, |_| true);
        let shared = || self.claim_pooled_slab(class, |g| self.word(g).mask());
        let has_own = heap.is_exclusive() && self.has_several_threads();
        let g = if has_own {
            own().or_else(shared).or_else(|| self.claim_pooled_by_others(heap, class))
        } else {
            shared()
        }?;
        self.note_claimed_from_pool(class, g);
        // SAFETY: the slab is the caller's, who will take objects from it.
        unsafe { (*self.local(g)).purged = 0 };
        Some(g)
    }

    fn claim_pooled_by_others(&self, heap: &Heap, class: Class) -> Option<Granule> {
        if self.may_make_slab(heap, class.info().granules.into(), true) {
            return None;
        }
        let mut others = self.all_heaps().filter(|other| other.id() != heap.id());
        others.find_map(|other| self.claim_own_pooled(other, class, |_| true))
    }

    /// Claims a slab that has been in a heap's own pool for so many ticks: for the background
    /// thread, whose last tick has this number.
    pub(crate) fn claim_slab_in_own_pool_for(
        &self,
        class: Class,
        (ticks, last): (u32, u32),
    ) -> Option<Granule> {
        // SAFETY: the lock, which is held, protects what is read here of slabs in the list.
        let since = |g| last.saturating_sub(unsafe { (*self.local(g)).pooled_at });
        self.all_heaps().find_map(|heap| self.claim_own_pooled(heap, class, |g| since(g) >= ticks))
    }

    /// Claims a slab that was left whole in a heap's own pool, if there is one.
    pub(crate) fn claim_whole_own_slab(&self, class: Class) -> Option<Granule> {
        self.all_heaps().find_map(|heap| {
            let pool = heap.own_pool(class);
            pool.slabs.first()?;
            pool.lock.hold(|| {
                // SAFETY: the lock is held.
                let g = unsafe { self.claim_whole_in(&pool, class) }?;
                heap.note_left(class);
                Some(g)
            })
        })
    }

    /// Moves all that is in a heap's own pools to the shared ones: nobody leases it any longer.
    pub(crate) fn let_go_of_own_pools(&self, heap: &Heap, account: &Account) {
        for class in crate::medium::medium_classes() {
            while let Some(g) = self.claim_own_pooled(heap, class, |_| true) {
                let was_whole = self.note_claimed_from_pool(class, g);
                if was_whole || !self.put_into_pool(class, g, self.word(g).mask()) {
                    self.release_slab(class, g, account);
                }
            }
        }
    }
}
