//! Slabs of medium objects that are whole again and stay in their pools.

use crate::support::{Estate, Random, Thread};
use freehold_heap::class::{MEDIUM_MAX, SMALL_MAX};
use freehold_heap::layout::GRANULE;
use freehold_heap::policy::purge::{TICK_MILLISECONDS, TICKS_REMEMBERED};
use freehold_heap::policy::retain;
use freehold_heap::purge::Watch;
use freehold_sys::fake::Fake;
use std::collections::BTreeSet;

const SIZES: [usize; 3] = [SMALL_MAX + 1, 12_000, MEDIUM_MAX];

fn alloc_many(thread: &mut Thread<Fake>, bytes: usize, size: usize) -> Vec<usize> {
    (0..bytes / size).map(|_| thread.alloc(size).unwrap()).collect()
}

/// Bytes in use.
fn used(estate: &Estate<Fake>) -> usize {
    estate.arena().granules_in_use().used * GRANULE
}

/// A thread allocates so many bytes of objects, which another frees in no order, and both end:
/// whole slabs stay.
fn leave_some(estate: &Estate<Fake>, bytes: usize, size: usize) -> Vec<usize> {
    let (mut maker, mut freer) = (Thread::new(estate), Thread::new(estate));
    let objects = alloc_many(&mut maker, bytes, size);
    // Threads that have taken nothing do not make several.
    let own = freer.alloc(size).unwrap();
    freer.free(own);
    let (mut random, mut left) = (Random::new(), objects.clone());
    while !left.is_empty() {
        freer.free(left.swap_remove(random.below(left.len())));
    }
    objects
}

#[test]
fn what_another_thread_has_freed_is_taken_again_without_new_slabs() {
    for size in SIZES {
        let estate = Estate::new(Fake::new());
        let known: BTreeSet<_> = leave_some(&estate, 3 << 20, size).into_iter().collect();
        let left = used(&estate);
        // How many complete their slab in its pool, and not by a batch, depends on the order.
        assert!(left >= 1 << 20, "size {size}: {} KiB stay in use", left >> 10);
        let mut thread = Thread::new(&estate);
        let again = alloc_many(&mut thread, 3 << 18, size);
        assert!(again.iter().all(|address| known.contains(address)), "size {size}");
        assert!(used(&estate) <= left, "size {size}: slabs were made");
        thread.free_all(again);
    }
}

#[test]
fn they_are_bounded_whatever_was_in_use() {
    for size in SIZES {
        let estate = Estate::new(Fake::new());
        leave_some(&estate, 40 << 20, size);
        // Of each slab that did not stay all granules are back.
        let (left, most) = (used(&estate), retain::whole_slabs(40 << 20));
        assert!(left <= most, "size {size}: {} KiB of 40 MiB stay in use", left >> 10);
    }
}

#[test]
fn in_a_process_of_one_thread_none_stay() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let mut random = Random::new();
    for size in SIZES {
        let mut objects = alloc_many(&mut thread, 4 << 20, size);
        while !objects.is_empty() {
            thread.free(objects.swap_remove(random.below(objects.len())));
        }
        thread.cache.trim(estate.arena()).unwrap();
        assert_eq!(used(&estate), 0, "size {size}");
    }
}

#[test]
fn they_go_when_the_program_rests_and_when_it_trims() {
    for size in SIZES {
        let estate = Estate::new(Fake::new());
        leave_some(&estate, 3 << 20, size);
        assert!(used(&estate) > 0);
        let mut watch = Watch::default();
        for _ in 0..=TICKS_REMEMBERED {
            estate.arena().system().advance(TICK_MILLISECONDS);
            estate.arena().purge_idle(&mut watch).unwrap();
        }
        assert_eq!(used(&estate), 0, "size {size}: at rest");
        leave_some(&estate, 3 << 20, size);
        assert!(used(&estate) > 0);
        estate.arena().purge_all();
        assert_eq!(used(&estate), 0, "size {size}: trimmed");
    }
}

#[test]
fn they_are_given_up_before_memory_is_refused() {
    let estate = Estate::new(Fake::new().with_address_space(48 << 20));
    let mut thread = Thread::new(&estate);
    let mut all_of = |size: usize| {
        let all: Vec<_> = core::iter::from_fn(|| thread.alloc(size)).collect();
        let count = all.len();
        thread.free_all(all);
        thread.cache.trim(estate.arena()).unwrap();
        estate.arena().purge_all();
        count
    };
    for size in [2 << 20, 300_000, 5000] {
        let without = all_of(size);
        leave_some(&estate, 3 << 20, 12_000);
        let before = used(&estate);
        assert!(before > 0);
        let with = all_of(size);
        // What a slab or two take that others have made.
        let least = without - without / 100 - 1;
        assert!(with >= least, "size {size}: {with} of {without}, {before} bytes were whole");
    }
}

#[test]
fn objects_of_whole_slabs_that_are_freed_again_are_found_out() {
    let estate = Estate::new(Fake::new());
    let objects = leave_some(&estate, 2 << 20, 12_000);
    assert!(used(&estate) > 0);
    let mut thread = Thread::new(&estate);
    for address in objects {
        assert!(thread.try_free(address).is_err(), "{address:#x} was free");
    }
    let again = alloc_many(&mut thread, 1 << 20, 12_000);
    let different: BTreeSet<_> = again.iter().collect();
    assert_eq!(different.len(), again.len());
    thread.free_all(again);
}
