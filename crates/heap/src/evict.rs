//! Eviction: what becomes of the hot medium objects that are too many.
//!
//! Where a thread has as many hot objects of a class as it may, some of them go home at once, those
//! freed last, and make room for as many to come: so that the next ones are kept without more ado,
//! and those of one slab, which are mostly freed one after the other, go home together.
//!
//! That is so where a class may have more than at first. Where there are a few, they stay, and what
//! there is no room for waits in the outbox for others of its slab.

use crate::arena::Arena;
use crate::cache::ThreadCache;
use crate::class::Class;
use crate::free::InSlab;
use crate::heap::Heap;
use crate::invalid::Invalid;
use crate::layout::Granule;
use crate::medium::MediumBins;
use crate::tally::Tally;
use freehold_sys::System;

/// How many objects go at once.
pub(crate) const EVICTED: usize = 16;

/// Objects of a slab, by their bits.
type OfSlab = (Granule, u64);

/// The objects that go, of each slab that differs from the one before.
struct Evicted {
    slabs: [OfSlab; EVICTED],
    count: usize,
}

impl Evicted {
    fn add(&mut self, slab: Granule, bit: u64) {
        match self.slabs[..self.count].last_mut() {
            Some((last, bits)) if *last == slab => *bits |= bit,
            _ => {
                self.slabs[self.count] = (slab, bit);
                self.count += 1;
            }
        }
    }
}

impl<S: System> Arena<S> {
    /// Sends the hot objects of a class home that were freed last. Returns the granules released.
    /// Calls `twice` with what was free already.
    fn evict(
        &self,
        heap: &Heap,
        bins: &mut MediumBins,
        class: Class,
        twice: &mut dyn FnMut(Invalid),
    ) -> u32 {
        let mut evicted = Evicted { slabs: [(Granule(0), 0); EVICTED], count: 0 };
        for _ in 0..EVICTED {
            let Some(object) = bins.pop_hot(class) else { break };
            bins.note_overflow(class);
            let found = self.object_at(object).filter(|found| found.class == class);
            if let Some(InSlab { slab, index, .. }) = found {
                evicted.add(slab, 1 << index);
            } else {
                // It was one when it was kept: it was freed twice, and its slab was whole.
                twice(Invalid::FreedTwice { address: object });
            }
        }
        let mut released = 0;
        for &(slab, bits) in &evicted.slabs[..evicted.count] {
            let (these, mine) = ((class, slab, bits), Some((heap, &mut *bins)));
            released += self.send_hot_home(these, mine, &heap.tally, twice);
        }
        released
    }

    /// Returns hot objects of a slab to it: bits of its word. Returns the granules released. An
    /// object that another thread has freed as well may be free there by now: `twice` is called
    /// with it, and the others go home all the same. The rest is as for
    /// [`Arena::send_medium_home`].
    pub(crate) fn send_hot_home(
        &self,
        (class, slab, bits): (Class, Granule, u64),
        mut mine: Option<(&Heap, &mut MediumBins)>,
        tally: &Tally,
        twice: &mut dyn FnMut(Invalid),
    ) -> u32 {
        let mut send = |bits| {
            let mine = mine.as_mut().map(|(heap, bins)| (*heap, &mut **bins));
            self.send_medium_home(class, slab, bits, mine, tally)
        };
        if let Ok(released) = send(bits) {
            return released;
        }
        let free = bits & self.word(slab).mask().free_now().0;
        // Who takes from the slab may have taken it since: then it is one of those.
        let number = if free == 0 { bits } else { free }.trailing_zeros() as usize;
        twice(Invalid::FreedTwice { address: self.tables.address(slab) + number * class.size() });
        if bits == free { 0 } else { send(bits & !free).unwrap_or(0) }
    }
}

impl ThreadCache {
    /// Keeps a medium object for which there seemed to be no room, if there is some once others
    /// have gone home for it. It starts at `address`, and is not known to be free. Calls `twice`
    /// with each of those others that another thread has freed as well.
    ///
    /// # Safety
    /// As for [`ThreadCache::free_slow`]; it is of this class.
    #[inline(always)]
    #[must_use]
    pub unsafe fn keep_medium_instead<S: System>(
        &mut self,
        arena: &Arena<S>,
        class: Class,
        address: usize,
        mut twice: impl FnMut(Invalid),
    ) -> bool {
        let (Some(heap), Some(bins)) = (self.heap(), self.medium_bins()) else { return false };
        if !bins.is_crowded(class) || !bins.has_place(address) {
            return false;
        }
        let released = arena.evict(heap, bins, class, &mut twice);
        let kept = bins.keep_hot(class, address);
        self.note_released(arena, released);
        kept
    }
}
