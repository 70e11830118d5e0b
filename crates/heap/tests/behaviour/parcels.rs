//! What becomes of small objects that are freed by another thread than the one that uses their
//! class.

use crate::support::{Estate, Random, Thread};
use freehold_heap::class::SMALL_MAX;
use freehold_heap::layout::GRANULE;
use freehold_sys::fake::Fake;
use std::collections::BTreeSet;

fn alloc_many(thread: &mut Thread<Fake>, count: usize, size: usize) -> Vec<usize> {
    (0..count).map(|_| thread.alloc(size).unwrap()).collect()
}

/// Fails unless everything is free and known to be free.
fn check_all_is_back(estate: &Estate<Fake>) {
    // SAFETY: all threads are gone.
    let census = unsafe { estate.arena().check() };
    assert_eq!((census.objects_out, census.slab_granules), (0, 0));
}

#[test]
fn what_another_thread_frees_is_what_the_owner_uses_next() {
    let estate = Estate::new(Fake::new());
    let (mut owner, mut freer) = (Thread::new(&estate), Thread::new(&estate));
    for size in [16, 100, SMALL_MAX] {
        // The first round opens the inbox.
        let first = alloc_many(&mut owner, 100, size);
        freer.free_all(first);
        let second = alloc_many(&mut owner, 400, size);
        let known: BTreeSet<_> = second.iter().copied().collect();
        let used = estate.arena().granules_in_use().used;
        freer.free_all(second);
        let third = alloc_many(&mut owner, 150, size);
        let again = third.iter().filter(|address| known.contains(address)).count();
        assert!(again >= 100, "size {size}: of 150 objects {again} were used before");
        assert!(estate.arena().granules_in_use().used <= used, "size {size}: slabs were made");
        owner.free_all(third);
    }
}

#[test]
fn what_waits_for_a_thread_goes_home_when_the_thread_ends() {
    let estate = Estate::new(Fake::new());
    let (mut owner, mut freer) = (Thread::new(&estate), Thread::new(&estate));
    for size in [16, 100, SMALL_MAX] {
        let first = alloc_many(&mut owner, 100, size);
        freer.free_all(first);
        let second = alloc_many(&mut owner, 1000, size);
        freer.free_all(second);
    }
    drop(owner);
    drop(freer);
    check_all_is_back(&estate);
}

#[test]
fn what_was_on_its_way_to_a_thread_that_has_ended_goes_home() {
    let estate = Estate::new(Fake::new());
    let (mut owner, mut freer) = (Thread::new(&estate), Thread::new(&estate));
    let objects = alloc_many(&mut owner, 1000, 64);
    let (early, late) = objects.split_at(500);
    freer.free_all(early.iter().copied());
    drop(owner);
    freer.free_all(late.iter().copied());
    drop(freer);
    check_all_is_back(&estate);
}

#[test]
fn a_thread_that_stops_allocating_is_not_sent_without_bound() {
    let estate = Estate::new(Fake::new());
    let (mut owner, mut freer) = (Thread::new(&estate), Thread::new(&estate));
    for size in [16, 256, SMALL_MAX] {
        let objects = alloc_many(&mut owner, (32 << 20) / size, size);
        freer.free_all(objects);
        let left = estate.arena().granules_in_use().used * GRANULE;
        assert!(left <= 6 << 20, "size {size}: {} KiB of 32 MiB are still in use", left >> 10);
    }
}

#[test]
fn a_thread_that_takes_nothing_is_sent_one_parcel_of_a_class_and_others_more() {
    let estate = Estate::new(Fake::new());
    // SAFETY: no thread is doing anything when this is asked.
    let out = || unsafe { estate.arena().check() }.objects_out;
    for (size, parcel) in [(16, 30), (100, 30), (500, 30), (1024, 16)] {
        let mut owner = Thread::new(&estate);
        let objects = alloc_many(&mut owner, 3000, size);
        let at_hand = out() - objects.len();
        // What a thread that ends had on its way goes home, but for what was sent.
        Thread::new(&estate).free_all(objects);
        assert_eq!(out() - at_hand, parcel, "size {size}: what waits for who has taken nothing");
        let objects = alloc_many(&mut owner, 3000, size);
        let at_hand = out() - objects.len();
        Thread::new(&estate).free_all(objects);
        let waiting = out() - at_hand;
        assert!(waiting >= 4 * parcel, "size {size}: {waiting} wait for who has taken some");
        drop(owner);
        assert_eq!(out(), 0, "size {size}");
    }
}

#[test]
fn objects_of_many_owners_find_their_ways() {
    let estate = Estate::new(Fake::new());
    let mut random = Random::new();
    let mut owners: Vec<_> = (0..5).map(|_| Thread::new(&estate)).collect();
    let mut freer = Thread::new(&estate);
    let mut live = Vec::new();
    for step in 0..200_000 {
        let n = random.below(owners.len());
        if live.len() < 2000 || random.below(2) == 0 {
            live.push(owners[n].alloc(1 + random.below(SMALL_MAX)).unwrap());
        }
        if live.len() > 1000 {
            let address = live.swap_remove(random.below(live.len()));
            if step % 10 == 0 { owners[n].free(address) } else { freer.free(address) }
        }
        if step % 20_000 == 19_999 {
            owners[n] = Thread::new(&estate);
        }
    }
    freer.free_all(live);
    drop((owners, freer));
    check_all_is_back(&estate);
}

#[test]
fn in_the_child_of_a_fork_what_waits_for_a_vanished_thread_goes_home() {
    let estate = Estate::new(Fake::new());
    let (mut owner, mut freer) = (Thread::new(&estate), Thread::new(&estate));
    let first = alloc_many(&mut owner, 100, 64);
    freer.free_all(first);
    let second = alloc_many(&mut owner, 1000, 64);
    freer.free_all(second);
    drop(freer);
    // SAFETY: at rest.
    let before = unsafe { estate.arena().check() };
    estate.arena().lock_all();
    estate.arena().after_fork_in_child(None);
    // SAFETY: at rest.
    let after = unsafe { estate.arena().check() };
    // What is left is what the owner had at hand.
    assert!(after.objects_out < before.objects_out && after.objects_out <= 64, "{after:?}");
    // The thread does not exist in the child.
    std::mem::forget(owner);
}
