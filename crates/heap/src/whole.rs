//! Whole slabs that stay in their pool: slabs of medium objects the last of which came back while
//! they were in one.
//!
//! Where one thread allocates and another frees, slabs empty as fast as they are wanted: each would
//! be unlinked, given back granule by granule, claimed again and described anew. So some stay where
//! they are, with all their objects free, for who comes for a slab of the class next.
//!
//! They are in use as far as everybody else can tell. So they are bounded in bytes, all classes
//! together (`policy/retain.rs`), those in the shared pools, and those in heaps' own with a share
//! for each; the background thread releases those that nobody has claimed for
//! a while, and all when the program rests, as does who trims or finds no memory. In a
//! process of one thread, and in hardened mode, none stay.
//!
//! Invariant: a slab's local part says that it is whole from when it was left until it is claimed,
//! and as long its granules count here. (In the child of a fork some may count that are not.)

use crate::arena::Arena;
use crate::class::{CLASSES, Class};
use crate::layout::{GRANULE, Granule};
use crate::policy::retain;
use crate::tally::Account;
use freehold_sync::atomic::{AtomicU32, Ordering};
use freehold_sys::System;

/// Granules of whole slabs in the shared pools. Written often: apart from what is read all the
/// time.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct WholeSlabs {
    granules: AtomicU32,
}

impl<S: System> Arena<S> {
    /// Leaves a slab of medium objects in its pool, for whose free has completed it there. If it
    /// cannot stay the caller takes it off and releases it.
    #[must_use]
    pub(crate) fn leave_whole(&self, class: Class, g: Granule) -> bool {
        if self.hardening.is_on() || !self.has_several_threads() {
            return false;
        }
        let may_stay = self.count_whole(class, g);
        if may_stay {
            self.word(g).mask().leave_in_pool();
        }
        may_stay
    }

    /// Puts a slab that was left whole in another pool, from which the caller has claimed it, into
    /// the shared one. Returns false if it cannot stay.
    #[must_use]
    pub(crate) fn leave_whole_here(&self, class: Class, g: Granule) -> bool {
        self.set_medium_owner(g, 0);
        let may_stay = self.count_whole(class, g);
        if may_stay {
            let pool = &self.pools[usize::from(class.0)];
            // SAFETY: the lock is held, and the slab is claimed by the caller and in no list.
            pool.lock.hold(|| unsafe { self.put_whole_last(&pool.list(), g, pool.tick()) });
        }
        may_stay
    }

    /// Counts a slab that is to stay somewhere whole, which the caller has claimed. Returns false
    /// if there are too many.
    fn count_whole(&self, class: Class, g: Granule) -> bool {
        let count = u32::from(class.info().granules);
        let (granules, heaps) = self.whole_beside(g);
        let most = retain::whole_slabs(self.about_in_use().used * GRANULE) / GRANULE / heaps;
        // Relaxed here and below: how many they are says how many may stay, and nothing else.
        let before = granules.fetch_add(count, Ordering::Relaxed);
        if (before + count) as usize > most {
            granules.fetch_sub(count, Ordering::Relaxed);
            return false;
        }
        // SAFETY: the slab is claimed by the caller.
        unsafe { (*self.local(g)).whole = true };
        true
    }

    /// Notes that the caller has claimed a slab from its pool. Returns whether it was left there
    /// whole.
    pub(crate) fn note_claimed_from_pool(&self, class: Class, g: Granule) -> bool {
        // SAFETY: the slab is claimed by the caller.
        let was_whole = unsafe { core::mem::take(&mut (*self.local(g)).whole) };
        if was_whole {
            let (granules, _) = self.whole_beside(g);
            granules.fetch_sub(class.info().granules.into(), Ordering::Relaxed);
        }
        was_whole
    }

    /// How many granules of whole slabs are in the pool that a slab is in, which the caller has
    /// claimed there, and how many such pools there are: heaps' own, or the shared one.
    fn whole_beside(&self, g: Granule) -> (&AtomicU32, usize) {
        match self.medium_owner(g) {
            Some(heap) => (heap.whole_granules(), self.leases.exclusive_made().max(1).into()),
            None => (&self.whole.granules, 1),
        }
    }

    /// Releases all whole slabs in pools.
    #[cold]
    pub(crate) fn release_whole_slabs(&self, account: &Account) {
        for class in (1..CLASSES as u8).map(Class).filter(|class| class.is_medium()) {
            while let Some(g) = self.claim_whole_slab(class) {
                self.note_claimed_from_pool(class, g);
                self.release_slab(class, g, account);
            }
        }
    }
}
