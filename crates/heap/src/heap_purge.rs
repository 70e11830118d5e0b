//! Purging what heaps, magazines and outboxes take that nobody has.
//!
//! A heap that waits for the next thread has some ten pages that were used by the last one: places
//! for objects at hand, inboxes, depots, its map, and empty magazines, which take as much again. Of
//! a program that had a hundred threads these are megabytes. So, whenever the background thread
//! reclaims, such a heap gives back its magazines, and the pages of it that say nothing are purged;
//! then those of magazines and outboxes that nobody has. So do the heap and the outbox of a thread
//! from which what it has at hand is [taken](Arena::reclaim).
//!
//! Invariants: a heap is purged in its holder's turn; or with its lock held while nobody has the
//! lease, which begins with that lock held. And a page of a heap, a map or an outbox is purged only
//! if it is zero, so that whoever reads it sees no difference.

use crate::arena::Arena;
use crate::heap::Heap;
use crate::layout::at;
use crate::magazine::Magazine;
use crate::outbox::Outbox;
use crate::policy::purge;
use freehold_sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use freehold_sync::inbox::Inbox;
use freehold_sys::System;

impl<S: System> Arena<S> {
    /// Purges what exclusive heaps take that nobody has the lease of, and what magazines and
    /// outboxes do that nobody has.
    pub fn purge_heaps(&self) {
        for heap in self.all_heaps().filter(|heap| heap.is_exclusive() && heap.is_worn()) {
            heap.lock.hold(|| {
                if !heap.is_leased() {
                    heap.note_purged();
                    // SAFETY: nobody has the lease, nor comes to have it while the lock is held.
                    unsafe { self.purge_heap(heap) };
                }
            });
        }
        self.magazines.purge_idle(&self.system, |_| true);
        let page = self.system.page_size();
        // SAFETY: a page of outboxes that nobody has, which the caller owns meanwhile.
        self.outboxes.purge_idle(&self.system, |at| unsafe { are_zero_words(at, page) });
    }

    /// Purges what a heap takes that has nothing at hand.
    ///
    /// # Safety
    /// The caller has its holder's turn; or nobody has the lease, nor comes to have it meanwhile.
    pub(crate) unsafe fn purge_heap(&self, heap: &Heap) {
        let give_back = |magazine: *mut Magazine| {
            // SAFETY: it was the heap's, which has forgotten it.
            unsafe { self.magazines.give_back(magazine) };
        };
        heap.take_spares().for_each(give_back);
        // SAFETY: the caller's promise.
        unsafe {
            heap.with_depots(|it| it.close(self));
            heap.forget_near_slots();
        }
        let (from, to) = heap.place();
        let page = self.system.page_size();
        let mapped = heap.mapped().next_multiple_of(page).min(purge::MAP_PAGES_LOOKED_AT * page);
        // SAFETY: all of this is committed. Nobody but the leaseholder, who is not there, writes to
        // a heap but to its first page, which is never zero; to lists of slabs that it keeps, as
        // long as there are some; and to its own pools, with their lock held. And whoever else
        // writes to its map writes zeros.
        unsafe {
            heap.own_pooling.lock.hold(|| {
                self.purge_zeros((from, to), |at| are_zero_words(at, page));
            });
            self.purge_zeros((heap.map(), heap.map() + mapped), |at| are_zero_bytes(at, page));
        }
    }

    /// Purges what an outbox takes that is empty.
    ///
    /// # Safety
    /// The caller has its holder's turn.
    pub(crate) unsafe fn purge_outbox(&self, outbox: *mut Outbox) {
        let (from, page) = (outbox.expose_provenance(), self.system.page_size());
        // SAFETY: committed, and nobody writes to it but the holder, who is not there.
        unsafe {
            self.purge_zeros((from, from + size_of::<Outbox>()), |at| are_zero_words(at, page));
        }
    }

    /// Purges those of the pages between two places that `are_zero`.
    ///
    /// # Safety
    /// They are committed, and as long as this lasts nobody writes anything but zeros there.
    unsafe fn purge_zeros(&self, (from, to): (usize, usize), are_zero: impl Fn(usize) -> bool) {
        let page = self.system.page_size();
        let (mut at, to) = (from.next_multiple_of(page), to / page * page);
        while at < to {
            let bytes = (at..to).step_by(page).take_while(|&at| are_zero(at)).count() * page;
            if bytes > 0 {
                // SAFETY: the caller's promise: who reads finds zero before and after.
                unsafe { self.system.purge(at, bytes) };
            }
            at += bytes + page;
        }
    }
}

impl Heap {
    /// Takes out the empty magazines that it has. For the leaseholder, in whose turn all inboxes
    /// have been closed, or who keeps others from leasing.
    fn take_spares(&self) -> impl Iterator<Item = *mut Magazine> {
        let own = self.magazines.iter().map(|place| {
            let magazine = place.load(Ordering::Relaxed);
            if magazine != 0 {
                place.store(0, Ordering::Relaxed);
            }
            magazine
        });
        let own = own.filter(|&magazine| magazine != 0);
        own.chain(self.inboxes.iter().flat_map(Inbox::take_spares)).map(at)
    }

    /// Forgets which objects were hot, none of which is any longer.
    ///
    /// # Safety
    /// The caller has the leaseholder's turn, or keeps others from leasing.
    unsafe fn forget_near_slots(&self) {
        // SAFETY: the caller's promise.
        let slots = unsafe { &mut *self.near_slots.get() };
        for slot in slots.as_flattened_mut().iter_mut().filter(|slot| **slot != 0) {
            *slot = 0;
        }
    }

    /// Where it is: from where to where.
    fn place(&self) -> (usize, usize) {
        let from = core::ptr::from_ref(self).expose_provenance();
        (from, from + size_of::<Self>())
    }
}

/// Whether so many bytes are zero, the page at a place.
///
/// # Safety
/// It is committed, and nobody writes to it.
unsafe fn are_zero_words(place: usize, bytes: usize) -> bool {
    // Relaxed: whoever wrote there is known to have done so before.
    let is_zero = |word: &AtomicUsize| word.load(Ordering::Relaxed) == 0;
    // SAFETY: the caller's promise. Atomic, since others may read there so.
    (0..bytes / size_of::<usize>()).all(|n| is_zero(unsafe { &*at::<AtomicUsize>(place).add(n) }))
}

/// Likewise, if others write there, but nothing but bytes of zero.
///
/// # Safety
/// It is committed.
unsafe fn are_zero_bytes(place: usize, bytes: usize) -> bool {
    // Relaxed: as above.
    let is_zero = |byte: &AtomicU8| byte.load(Ordering::Relaxed) == 0;
    // SAFETY: the caller's promise.
    (0..bytes).all(|n| is_zero(unsafe { &*at::<AtomicU8>(place).add(n) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::Prefer;
    use crate::cache::ThreadCache;
    use crate::class::{Class, SMALL_CLASSES};
    use crate::layout::{Granule, at};
    use freehold_sync::word::State;
    use freehold_sys::fake::Fake;
    use std::sync::atomic::{AtomicUsize as Number, Ordering::SeqCst};
    use std::vec::Vec;

    const PAGE: usize = 4096;

    /// Runs a test with an arena.
    fn with_arena(test: impl FnOnce(&Arena<Fake>)) {
        let place = Arena::create(Fake::new().with_page_size(PAGE)).unwrap();
        // SAFETY: it lives until the end of the test.
        test(unsafe { place.as_ref() });
        // SAFETY: nobody uses it any more.
        unsafe { Arena::destroy(place) };
    }

    fn small_classes() -> impl Iterator<Item = Class> {
        (1..=SMALL_CLASSES as u8).map(Class)
    }

    /// Threads that allocate and free an object of each small class, and medium ones and a run.
    fn threads(arena: &Arena<Fake>, count: usize) -> Vec<ThreadCache> {
        let mut threads: Vec<_> = (0..count).map(|_| ThreadCache::new()).collect();
        for cache in &mut threads {
            let sizes = small_classes().map(Class::size).chain([3 << 10, 20 << 10, 100 << 10]);
            for size in sizes {
                let given = cache.take(arena, size, 16, crate::blocks::Prefer::Dirty).unwrap();
                // SAFETY: just given out, and used by nobody.
                unsafe { cache.free_slow(arena, given.address) }.unwrap();
            }
        }
        threads
    }

    fn end_all(arena: &Arena<Fake>, threads: Vec<ThreadCache>) {
        for mut cache in threads {
            cache.end(arena).unwrap();
        }
    }

    fn resident(arena: &Arena<Fake>, (from, to): (usize, usize)) -> usize {
        arena.system.resident(from, to - from).unwrap()
    }

    /// What is resident of each exclusive heap that was made, and of its map.
    fn resident_of_heaps(arena: &Arena<Fake>) -> Vec<(usize, usize)> {
        let heaps = arena.all_heaps().filter(|heap| heap.is_exclusive());
        let map = |heap: &Heap| (heap.map(), heap.map() + heap.mapped().next_multiple_of(PAGE));
        heaps.map(|heap| (resident(arena, heap.place()), resident(arena, map(heap)))).collect()
    }

    #[test]
    fn a_heap_that_nobody_has_takes_a_page_and_its_map_none() {
        with_arena(|arena| {
            let all = threads(arena, 4);
            let stays = threads(arena, 1);
            let before = resident_of_heaps(arena);
            assert!(before.iter().all(|&(heap, map)| heap > 5 * PAGE && map > 0), "{before:?}");
            end_all(arena, all);
            arena.purge_heaps();
            let after = resident_of_heaps(arena);
            assert_eq!(after[..4], [(PAGE, 0); 4]);
            assert_eq!(after[4], before[4], "somebody has that");
            end_all(arena, stays);
            arena.purge_heaps();
            assert_eq!(resident_of_heaps(arena), [(PAGE, 0); 5]);
        });
    }

    #[test]
    fn it_is_not_purged_again_before_somebody_had_it() {
        with_arena(|arena| {
            end_all(arena, threads(arena, 3));
            arena.purge_heaps();
            let purged = arena.system.purged();
            assert!(purged > 3 * 10 * PAGE, "{purged}");
            arena.purge_heaps();
            assert_eq!(arena.system.purged(), purged);
            end_all(arena, threads(arena, 1));
            arena.purge_heaps();
            assert!(arena.system.purged() > purged);
        });
    }

    #[test]
    fn the_magazines_that_it_gave_back_are_those_of_the_next_threads() {
        with_arena(|arena| {
            let mut made = Vec::new();
            for _ in 0..10 {
                end_all(arena, threads(arena, 5));
                made.push(arena.magazines.made());
                arena.purge_heaps();
                assert_eq!(arena.magazines.resident(&arena.system), 0);
            }
            assert!(made[0] >= 5 * SMALL_CLASSES);
            assert!(made.iter().all(|&n| n == made[0]), "{made:?}");
        });
    }

    #[test]
    fn what_its_map_says_of_objects_in_use_stays() {
        with_arena(|arena| {
            let (class, mut cache) = (Class::of_small(100), ThreadCache::new());
            let object = cache.refill(arena, class).addr();
            let (map, granule) = (cache.heap().unwrap().map(), arena.granule_of(object).unwrap());
            // SAFETY: the map is committed there.
            let entry = || unsafe { at::<u8>(map + granule.0 as usize).read() };
            assert_eq!(entry(), class.0);
            cache.end(arena).unwrap();
            arena.purge_heaps();
            assert_eq!(entry(), class.0);
            // SAFETY: given out above, and used by nobody.
            unsafe { cache.free_slow(arena, object) }.unwrap();
            assert_eq!(entry(), 0);
        });
    }

    #[test]
    fn what_lay_in_an_inbox_as_a_spare_magazine_goes_back_too() {
        with_arena(|arena| {
            let heap = arena.lease().unwrap();
            let class = Class::of_small(64);
            let spare = arena.magazines.lease(&arena.system).unwrap();
            let inbox = heap.inbox(class).unwrap();
            inbox.open();
            assert_eq!(inbox.put(spare.addr(), 1), Some(0));
            // SAFETY: leased above, and not used any more.
            unsafe { arena.end_lease(heap, |_| ()) };
            arena.purge_heaps();
            assert_eq!(arena.magazines.lease(&arena.system), Some(spare));
        });
    }

    #[test]
    fn a_slab_that_comes_into_a_heap_s_own_pool_while_its_pages_are_purged_is_not_lost() {
        const SIZE: usize = 20 << 10;
        static ARENA: Number = Number::new(0);
        static SLAB: Number = Number::new(0);
        static LIST: Number = Number::new(0);
        static PURGED: Number = Number::new(0);
        static SENT: Number = Number::new(0);
        let class = Class::of_medium(SIZE);
        with_arena(|arena| {
            if !arena.system.barrier() {
                return std::eprintln!("skipped: this kernel has no membarrier");
            }
            let take = |cache: &mut ThreadCache| {
                cache.set_busy(true);
                let given = cache.take(arena, SIZE, 16, Prefer::Dirty);
                cache.set_busy(false);
                given.unwrap().address
            };
            let (mut one, mut two) = (ThreadCache::new(), ThreadCache::new());
            let objects: Vec<_> = (0..class.info().capacity).map(|_| take(&mut one)).collect();
            take(&mut two);
            let slab = arena.object_at(objects[0]).unwrap().slab;
            let list = &one.heap().unwrap().own_pools[class.medium_index()];
            ARENA.store(core::ptr::from_ref(arena).expose_provenance(), SeqCst);
            SLAB.store(slab.0 as usize, SeqCst);
            LIST.store(core::ptr::from_ref(list).addr(), SeqCst);
            // What a thread without a heap does, which frees some of them, as soon as the page of
            // that list was found to be zero.
            arena.system.before_purge(|from, bytes| {
                let is_there = (from..from + bytes).contains(&LIST.load(SeqCst));
                if !is_there || PURGED.swap(1, SeqCst) != 0 {
                    return;
                }
                std::thread::spawn(|| {
                    // SAFETY: the arena of the test that waits for this.
                    let arena = unsafe { &*at::<Arena<Fake>>(ARENA.load(SeqCst)) };
                    let (slab, class) = (Granule(SLAB.load(SeqCst) as u32), Class::of_medium(SIZE));
                    let bits = (1 << class.info().wake) - 1;
                    arena.send_medium_home(class, slab, bits, None, &arena.tally).unwrap();
                    SENT.store(1, SeqCst);
                });
                // Longer than that takes if nothing is in its way.
                std::thread::sleep(std::time::Duration::from_millis(50));
            });
            // SAFETY: both threads stay where they are, and mark their turns.
            unsafe { arena.reclaim() }.unwrap();
            arena.system.before_purge(|_, _| ());
            assert_eq!(PURGED.load(SeqCst), 1, "the page was to be purged");
            while SENT.load(SeqCst) == 0 {
                std::thread::yield_now();
            }
            assert_eq!(arena.word(slab).mask().look().0, State::Pooled);
            assert_eq!(list.first(), Some(slab), "it is in no list");
        });
    }
}
