//! Whether a heap may make a new slab although others have some of the class with free objects.
//!
//! Where each thread's objects stay in slabs of its own, none takes lines from the others, and has
//! to send home what they allocated. But what each heap keeps, or has in pools of its own, is spare
//! as far as the others can tell. So there may be some of that: a share of what is in use; and as
//! much as takes no more memory than was needed lately: what is in use and not free in such slabs
//! had a peak, up to which memory may grow again, since the threads of a program that frees and
//! allocates anew what it has freed do so at different times.
//!
//! That peak is forgotten by and by, as the background thread ticks. All of it is about how much
//! there is: all accesses are Relaxed.

use crate::arena::Arena;
use crate::heap::Heap;
use crate::layout::GRANULE;
use crate::policy::retain::{self, Slabs};
use crate::tally::Tally;
use freehold_sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use freehold_sys::System;

/// The most bytes lately that were in use and not free in slabs that heaps keep, or in slabs of
/// medium objects.
#[derive(Default)]
pub(crate) struct LivePeak(AtomicUsize);

/// How much of it is spare.
struct Spare {
    used: usize,
    free: usize,
}

impl Spare {
    fn live(&self) -> usize {
        self.used.saturating_sub(self.free)
    }
}

impl<S: System> Arena<S> {
    /// Looks at a line of each heap.
    fn spare(&self) -> Spare {
        let mut free = Tally::free_medium(self.every_tally());
        for heap in self.all_heaps() {
            free += heap.bytes_kept();
        }
        Spare { used: self.granules_in_use().used * GRANULE, free }
    }

    /// Whether a heap may make a new slab of small objects. For who holds its lock.
    pub(crate) fn may_make_small_slab(&self, heap: &Heap) -> bool {
        self.may_make_slab(&heap.keeping.left, 1, Slabs::Small)
    }

    /// Whether a heap may make a new slab of medium objects, of so many granules. For its
    /// leaseholder, or who holds its lock since it is shared.
    pub(crate) fn may_make_medium_slab(&self, heap: &Heap, granules: u32) -> bool {
        self.may_make_slab(&heap.own_pooling.left, granules, Slabs::Medium)
    }

    /// Whether somebody may make a new slab who is left so many granules for that. It is looked
    /// seldom how much others have.
    fn may_make_slab(&self, left: &AtomicU32, granules: u32, slabs: Slabs) -> bool {
        let before = left.load(Ordering::Relaxed);
        if before >= granules {
            left.store(before - granules, Ordering::Relaxed);
            return true;
        }
        let (spare, peak) = (self.spare(), &self.live_peak.0);
        let most = peak.load(Ordering::Relaxed).max(spare.live());
        if most != peak.load(Ordering::Relaxed) {
            peak.store(most, Ordering::Relaxed);
        }
        let heaps = self.all_heaps().count();
        let may = retain::granules_beside_spare(slabs, (spare.used, spare.free, most), heaps);
        left.store(may.saturating_sub(granules), Ordering::Relaxed);
        may > 0
    }

    /// Forgets a part of the peak: for the background thread, once in a tick.
    pub(crate) fn forget_live_peak(&self) {
        let peak = &self.live_peak.0;
        let before = peak.load(Ordering::Relaxed);
        if before != 0 {
            let after = retain::live_peak_after_tick(before, self.spare().live());
            peak.store(after, Ordering::Relaxed);
        }
    }
}
