//! Pools of a heap's own: slabs of medium objects that the heap's thread has taken from last.
//!
//! A slab of medium objects is nobody's once a thread has taken its free objects; who wakes it puts
//! it into a pool. If that were always the one that all threads share, a slab whose thread frees
//! what it allocates would come back to another one half of the time, and with it the lines of its
//! objects, of what is known of it, and of the pool. So it goes into a pool of the heap that has
//! taken from it last, whoever wakes it, and a thread looks there first.
//!
//! Nothing is kept from others by that:
//!
//! * a slab in such a pool is in the same state as one in the shared pool: who frees the last
//!   object takes it out;
//! * who finds nothing in both takes from another heap's, unless a new slab is to be made
//!   ([`Arena::may_make_slab`]) and there is memory for it;
//! * what has waited for long goes into the shared pool with a tick of the background thread, all
//!   of it when the program is at rest, or when the thread ends.
//!
//! Invariants: the tag of a slab of medium objects names the exclusive heap that has taken from it
//! last, or none; as long as it is in a pool, the heap in whose pool it is, or none if that is the
//! shared one. It is changed by who has claimed the slab. The lists are protected by a lock of the
//! heap's of their own. A process of one thread puts nothing in, so that one which always had one
//! does not touch them; what is in from before is taken first.

use crate::arena::Arena;
use crate::class::{Class, MEDIUM_CLASSES};
use crate::heap::Heap;
use crate::layout::{GRANULE, Granule};
use crate::medium::medium_classes;
use crate::order;
use crate::policy::purge;
use crate::pool::List;
use crate::slab_list::SlabList;
use crate::tally::Account;
use freehold_sync::atomic::{AtomicU32, Ordering};
use freehold_sync::lock::Lock;
use freehold_sys::System;

/// How many slabs come into a heap's pools before it asks for a background thread.
const SLABS_WORTH_A_THREAD: u32 = (purge::SLABS_WORTH_A_THREAD / GRANULE) as u32;

/// For so many heaps that were found to have none a granule of new slabs is made before others are
/// asked again: to look at a line or two of each takes less than to touch that for the first time.
const HEAPS_A_GRANULE: u32 = 16;

/// The pools of a heap. All zero: there is nothing in them.
pub(crate) type OwnPools = [SlabList; MEDIUM_CLASSES];

/// What belongs to them and is never zero, or stays: apart from them, whose page is to be purged.
pub(crate) struct OwnPooling {
    /// Protects them.
    pub(crate) lock: Lock,
    /// Slabs that came in, ever. Changed with the lock held; Relaxed, since others only add up.
    entered: AtomicU32,
    /// Granules of medium slabs that may be made before it is looked again how much others have.
    /// Used by the leaseholder alone, or with the lock of a shared heap held.
    pub(crate) left: AtomicU32,
    /// Granules of whole slabs that stay there.
    whole: AtomicU32,
}

impl OwnPooling {
    /// That of pools with nothing in them.
    pub(crate) fn new() -> Self {
        let lock = Lock::new(order::POOL);
        let [entered, left, whole] = [const { AtomicU32::new(0) }; 3];
        Self { lock, entered, left, whole }
    }
}

impl Heap {
    /// Its own pool of a medium class.
    fn own_pool(&self, class: Class) -> List<'_> {
        List { lock: &self.own_pooling.lock, slabs: &self.own_pools[class.medium_index()] }
    }

    /// Granules of whole slabs that stay in its own pools.
    pub(crate) fn whole_granules(&self) -> &AtomicU32 {
        &self.own_pooling.whole
    }

    /// Slabs that have come into its own pools, ever.
    pub(crate) fn slabs_pooled(&self) -> u32 {
        self.own_pooling.entered.load(Ordering::Relaxed)
    }
}

impl<S: System> Arena<S> {
    /// The heap that a slab of medium objects names. For who has claimed it.
    pub(crate) fn medium_owner(&self, g: Granule) -> Option<&Heap> {
        let owner = self.tag(g).owner();
        (owner != 0).then(|| self.heap(owner))
    }

    /// Notes which heap has taken from a slab of medium objects, or has it in its pool: 0 for none.
    /// For who has claimed it. The line of the tag, which others read, is written to only if that
    /// is news.
    pub(crate) fn set_medium_owner(&self, g: Granule, owner: u16) {
        if self.tag(g).owner() != owner {
            self.tag(g).set_owner(owner);
        }
    }

    /// Notes that a heap takes from a slab of medium objects.
    pub(crate) fn take_medium_over(&self, g: Granule, heap: &Heap) {
        self.set_medium_owner(g, if heap.is_exclusive() { heap.id() } else { 0 });
    }

    /// Puts a claimed slab into the pool of the heap that has taken from it last. Returns false if
    /// there is no such heap, or no thread has it, or if the slab has become complete meanwhile: it
    /// is the caller's still.
    #[must_use]
    pub(crate) fn pool_at_owner(&self, class: Class, g: Granule) -> bool {
        let Some(heap) = self.medium_owner(g) else { return false };
        if !self.has_several_threads() {
            return false;
        }
        let pool = heap.own_pool(class);
        let tick = self.pools[usize::from(class.0)].tick();
        let entered = &heap.own_pooling.entered;
        let is_in = pool.lock.hold(|| {
            // SAFETY: the lock is held, and the slab is claimed by the caller and in no list.
            let is_in = heap.is_leased()
                && unsafe { self.put_last(&pool, class, g, self.word(g).mask(), tick) };
            if is_in {
                let before = entered.load(Ordering::Relaxed);
                entered.store(before.wrapping_add(1), Ordering::Relaxed);
            }
            is_in
        });
        if is_in
            && entered.load(Ordering::Relaxed).is_multiple_of(SLABS_WORTH_A_THREAD)
            && !self.is_helped()
            && !self.help_wanted.load(Ordering::Relaxed)
        {
            self.want_help();
        }
        is_in
    }

    /// Takes a slab off the list of its pool that its last freer, the caller, has claimed there, if
    /// that is a heap's own. Returns whether it is.
    #[must_use]
    pub(crate) fn unpool_at_owner(&self, class: Class, g: Granule) -> bool {
        let Some(heap) = self.medium_owner(g) else { return false };
        let pool = heap.own_pool(class);
        // SAFETY: the lock is held; the slab is on the list until its claimer unlinks it.
        pool.lock.hold(|| unsafe { pool.slabs.unlink(self, g) });
        true
    }

    /// Claims the first slab in a heap's own pool, as long as they are `wanted`, which is asked
    /// with the lock held.
    fn claim_own(
        &self,
        heap: &Heap,
        class: Class,
        wanted: impl Fn(Granule) -> bool,
    ) -> Option<Granule> {
        let pool = heap.own_pool(class);
        pool.slabs.first()?;
        // SAFETY: the lock is held.
        pool.lock.hold(|| unsafe { self.claim_first_in(&pool, wanted, |g| self.word(g).mask()) })
    }

    /// Claims a slab of medium objects for a heap to take from, if there is one in a pool: in its
    /// own, the shared one, or another heap's, if it is not to make one instead.
    #[inline(always)]
    pub(crate) fn claim_medium_slab(&self, heap: &Heap, class: Class) -> Option<Granule> {
        if self.has_several_threads() || heap.slabs_pooled() > 0 {
            self.claim_first_of_own(heap, class)
        } else {
            self.claim_pooled_medium(class)
        }
    }

    /// Likewise, where there are or were such pools. Apart from what every process runs.
    #[inline(never)]
    fn claim_first_of_own(&self, heap: &Heap, class: Class) -> Option<Granule> {
        // Its own, which threads that share it do not have: what came in when there were others is
        // there for the only thread as well.
        let has_any = heap.slabs_pooled() > 0;
        let own = if has_any { self.claim_own(heap, class, |_| true) } else { None };
        let g = own.or_else(|| self.claim_pooled_medium(class));
        let granules = class.info().granules.into();
        if g.is_some() || !self.has_several_threads() || self.may_make_medium_slab(heap, granules) {
            return g;
        }
        let g = self.claim_own_of_others(heap, class);
        if g.is_none() {
            // They have none: it is not worth looking again for each slab where they are many.
            let heaps = u32::from(self.leases.exclusive_made());
            heap.own_pooling.left.store(heaps / HEAPS_A_GRANULE, Ordering::Relaxed);
        }
        g
    }

    /// Claims a slab in the pool of another heap, the first that has one: also for who finds no
    /// memory for a new one.
    #[inline(never)]
    pub(crate) fn claim_own_of_others(&self, heap: &Heap, class: Class) -> Option<Granule> {
        for other in self.all_heaps() {
            if other.id() != heap.id()
                && let Some(g) = self.claim_own(other, class, |_| true)
            {
                return Some(g);
            }
        }
        None
    }

    /// Claims a slab that has been in a heap's own pool for so many ticks: for the background
    /// thread, whose last tick has this number.
    pub(crate) fn claim_slab_at_owner_for(
        &self,
        class: Class,
        (ticks, last): (u32, u32),
    ) -> Option<Granule> {
        // SAFETY: the lock, which is held, protects what is read here of slabs in the list.
        let since = |g| last.saturating_sub(unsafe { (*self.local(g)).pooled_at });
        for heap in self.all_heaps() {
            if let Some(g) = self.claim_own(heap, class, |g| since(g) >= ticks) {
                return Some(g);
            }
        }
        None
    }

    /// Claims a slab that was left whole in a heap's own pool, if there is one.
    pub(crate) fn claim_whole_slab_at_owner(&self, class: Class) -> Option<Granule> {
        for heap in self.all_heaps() {
            let pool = heap.own_pool(class);
            if pool.slabs.first().is_none() {
                continue;
            }
            // SAFETY: the lock is held.
            let g = pool.lock.hold(|| unsafe { self.claim_whole_in(&pool, class) });
            if g.is_some() {
                return g;
            }
        }
        None
    }

    /// Releases a slab of which every object is back, the last by a free of the thread with this
    /// heap, which looks there for its next ones if it has taken from the slab last.
    pub(crate) fn release_medium(
        &self,
        heap: Option<&Heap>,
        class: Class,
        g: Granule,
        account: &Account,
    ) {
        match heap {
            Some(heap) if self.tag(g).owner() == heap.id() => {
                self.release_own_slab(heap, class, g, account);
            }
            _ => self.release_slab(class, g, account),
        }
    }

    /// Moves all that is in a heap's own pools to the shared ones. If nobody leases it any longer
    /// nothing comes in afterwards.
    pub(crate) fn let_go_of_own_pools(&self, heap: &Heap, account: &Account) {
        // Who has the lock after this sees that nobody leases it, and what they did who had it
        // before is seen below without the lock.
        heap.own_pooling.lock.hold(|| ());
        for class in medium_classes() {
            while let Some(g) = self.claim_own(heap, class, |_| true) {
                let was_whole = self.note_claimed_from_pool(class, g);
                let stays = was_whole && self.leave_whole_here(class, g)
                    || self.put_into_pool(class, g, self.word(g).mask());
                if !stays {
                    self.release_slab(class, g, account);
                }
            }
        }
    }
}
