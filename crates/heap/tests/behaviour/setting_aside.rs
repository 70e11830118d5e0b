//! What becomes of more freed objects than a magazine holds, and which frees are watched.

use crate::support::{Estate, Thread};
use freehold_heap::class::Class;
use freehold_heap::invalid::Invalid;
use freehold_heap::magazine::ROUNDS;
use freehold_heap::policy::retain;
use freehold_sys::fake::Fake;
use std::collections::BTreeSet;

const SIZE: usize = 48;

fn class() -> Class {
    Class::of_small(SIZE)
}

/// Objects, of which as many are free as a magazine holds: in the magazine.
fn with_full_magazine(thread: &mut Thread<Fake>, count: usize) -> Vec<usize> {
    let mut objects = Vec::new();
    while objects.len() < count || thread.cache.at_hand(class()) > 0 {
        objects.push(thread.alloc(SIZE).unwrap());
    }
    for _ in 0..ROUNDS {
        thread.free(objects.pop().unwrap());
    }
    assert_eq!(thread.cache.at_hand(class()), ROUNDS);
    objects
}

#[test]
fn objects_come_back_last_freed_first_beyond_what_a_magazine_holds() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let mut objects = with_full_magazine(&mut thread, 200);
    let freed = objects.split_off(objects.len() - 100);
    thread.free_all(freed.iter().copied());
    for &object in freed.iter().rev() {
        assert_eq!(thread.alloc(SIZE), Some(object));
    }
    thread.free_all(objects.into_iter().chain(freed));
}

#[test]
fn at_the_edges_of_a_magazine_there_is_room_for_half_of_it_either_way() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let mut objects = with_full_magazine(&mut thread, 200);
    // Some are set aside already, so that there is something to fetch.
    for _ in 0..2 * ROUNDS {
        thread.free(objects.pop().unwrap());
    }
    while thread.cache.at_hand(class()) < ROUNDS {
        thread.free(objects.pop().unwrap());
    }
    thread.free(objects.pop().unwrap());
    assert_eq!(thread.cache.at_hand(class()), ROUNDS / 2 + 1);
    while thread.cache.at_hand(class()) > 0 {
        objects.push(thread.alloc(SIZE).unwrap());
    }
    objects.push(thread.alloc(SIZE).unwrap());
    assert_eq!(thread.cache.at_hand(class()), ROUNDS / 2 - 1);
    thread.free_all(objects);
}

/// Allocates so many objects and frees them all, some times.
pub(crate) fn come_and_go(thread: &mut Thread<Fake>, size: usize, count: usize, times: usize) {
    for _ in 0..times {
        let objects: Vec<_> = (0..count).map(|_| thread.alloc(size).unwrap()).collect();
        thread.free_all(objects);
    }
}

/// Objects that are not in slabs.
pub(crate) fn out(estate: &Estate<Fake>) -> usize {
    // SAFETY: the test's only thread is here.
    unsafe { estate.arena().check() }.objects_out
}

/// Times after which a thread has set aside all that comes and goes, if it may.
const LONG: usize = 10;

#[test]
fn objects_that_come_and_go_are_set_aside_however_many_were_at_first() {
    let cases = [(16, 15_000), (48, 1500), (100, 5000), (500, 400), (1200, 700), (2000, 450)];
    for (size, count) in cases {
        let estate = Estate::new(Fake::new());
        let mut thread = Thread::new(&estate);
        let before = out(&estate);
        come_and_go(&mut thread, size, count, 1);
        let at_first = out(&estate) - before;
        assert!(at_first < count / 2, "{at_first} of {count} objects of {size} bytes");
        come_and_go(&mut thread, size, count, LONG);
        let free = estate.arena().usage().free_objects;
        assert!(out(&estate) - before >= count, "of {count} objects of {size} bytes");
        come_and_go(&mut thread, size, count, 3);
        assert_eq!(estate.arena().usage().free_objects, free);
    }
}

#[test]
fn medium_objects_that_come_and_go_are_taken_from_those_that_were_to_go_home() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    for (size, count) in [(4000, 40), (9000, 100), (30_000, 50)] {
        come_and_go(&mut thread, size, count, LONG);
        let free = estate.arena().usage().free_objects;
        let objects: Vec<_> = (0..count).map(|_| thread.alloc(size).unwrap()).collect();
        let known: BTreeSet<_> = objects.iter().copied().collect();
        assert_eq!(known.len(), count);
        thread.free_all(objects);
        let again: Vec<_> = (0..count).map(|_| thread.alloc(size).unwrap()).collect();
        let same = again.iter().filter(|object| known.contains(object)).count();
        assert!(same >= count / 2, "{same} of {count} of {size} bytes are those of before");
        thread.free_all(again);
        assert_eq!(estate.arena().usage().free_objects, free, "of {size} bytes some went home");
    }
}

#[test]
fn a_medium_object_that_went_home_and_is_freed_again_is_found_out_at_once() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let size = 4000;
    let mut objects: Vec<_> = (0..100).map(|_| thread.alloc(size).unwrap()).collect();
    // One of each few stays, and with it the slabs.
    let stay: Vec<_> = objects.iter().copied().step_by(5).collect();
    objects.retain(|object| !stay.contains(object));
    thread.free_all(objects.iter().copied());
    thread.cache.trim(estate.arena()).unwrap();
    let address = objects[40];
    assert_eq!(thread.try_free(address), Err(Invalid::FreedTwice { address }));
    thread.cache.trim(estate.arena()).unwrap();
    thread.free_all(stay);
}

#[test]
fn who_only_frees_medium_objects_holds_back_no_more_than_before() {
    let estate = Estate::new(Fake::new());
    let (mut maker, mut freer) = (Thread::new(&estate), Thread::new(&estate));
    let size = 4000;
    for _ in 0..LONG {
        let objects: Vec<_> = (0..500).map(|_| maker.alloc(size).unwrap()).collect();
        freer.free_all(objects);
    }
    // The maker has the rest of a slab at most.
    let most = retain::outbox_bytes(4 << 20, 1) / size + 56;
    assert!(out(&estate) <= most, "{} objects, {most} at most", out(&estate));
}

#[test]
fn where_far_more_comes_and_goes_than_can_be_set_aside_little_is() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    come_and_go(&mut thread, SIZE, 1500, LONG);
    assert!(out(&estate) >= 1500);
    // Nor where so many were that all could be.
    come_and_go(&mut thread, SIZE, 50_000, 3 * LONG);
    assert!(out(&estate) >= 50_000);
    come_and_go(&mut thread, SIZE, 200_000, LONG);
    let usual = (1 + usize::from(class().info().depot)) * ROUNDS;
    assert!(out(&estate) <= usual, "{} objects, {usual} as usual", out(&estate));
}

#[test]
fn objects_that_only_go_are_not_set_aside_beyond_the_usual() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let objects: Vec<_> = (0..20_000).map(|_| thread.alloc(SIZE).unwrap()).collect();
    thread.free_all(objects);
    let usual = (1 + usize::from(class().info().depot)) * ROUNDS;
    assert!(out(&estate) <= usual, "{} objects, {usual} as usual", out(&estate));
}

#[test]
fn what_is_set_aside_beyond_the_usual_goes_back_when_the_thread_trims_and_is_not_set_aside_again() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    come_and_go(&mut thread, SIZE, 1500, LONG);
    assert!(out(&estate) >= 1500);
    thread.cache.trim(estate.arena()).unwrap();
    assert_eq!(out(&estate), 0);
    come_and_go(&mut thread, SIZE, 1500, 1);
    let usual = (1 + usize::from(class().info().depot)) * ROUNDS;
    assert!(out(&estate) <= usual, "{} objects, {usual} as usual", out(&estate));
}

#[test]
fn sizes_that_are_not_used_any_longer_make_room_for_those_that_are() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let most = retain::depot_bytes(0, 1);
    // As much of each as may be of one: of all together that is more than may be.
    for size in (112..=1024).step_by(16) {
        // And a size that is used all the time.
        for _ in 0..LONG {
            come_and_go(&mut thread, size, (200 << 10) / size, 6);
            come_and_go(&mut thread, SIZE, 1500, 1);
        }
        for (size, count) in [(SIZE, 1500), (size, (200 << 10) / size)] {
            let free = estate.arena().usage().free_objects;
            come_and_go(&mut thread, size, count, 1);
            assert_eq!(estate.arena().usage().free_objects, free, "{size} bytes");
        }
        let usual: usize = (0..=class_of(size).0).map(|n| usual_bytes(Class(n))).sum();
        let at_hand = estate.arena().usage().in_use();
        assert!(at_hand <= usual + most, "{at_hand} bytes at hand, {usual} as usual");
    }
}

fn class_of(size: usize) -> Class {
    Class::of_small(size)
}

/// Bytes of objects of a class that a thread may have at hand in any case.
fn usual_bytes(class: Class) -> usize {
    (1 + usize::from(class.info().depot)) * ROUNDS * class.size()
}

/// How many frees of its class a thread looks at, of those that it makes at first.
fn watched(thread: &mut Thread<Fake>) -> usize {
    let objects: Vec<_> = (0..ROUNDS / 2).map(|_| thread.alloc(SIZE).unwrap()).collect();
    let is_watched = |thread: &Thread<Fake>| thread.cache.magic[usize::from(class().0)] == 0;
    let mut watched = 0;
    for object in objects {
        watched += usize::from(is_watched(thread));
        thread.free(object);
    }
    watched
}

#[test]
fn of_those_who_have_a_heap_one_after_the_other_the_first_is_watched_longest() {
    let estate = Estate::new(Fake::new());
    let mut counts = Vec::new();
    for _ in 0..3 {
        let mut thread = Thread::new(&estate);
        counts.push(watched(&mut thread));
    }
    assert_eq!(counts, [8, 2, 2]);
}

#[test]
fn a_second_free_is_refused_at_once_if_it_is_the_first_thing_a_thread_does() {
    let estate = Estate::new(Fake::new());
    for _ in 0..3 {
        let mut thread = Thread::new(&estate);
        let object = thread.alloc(SIZE).unwrap();
        thread.free(object);
        let refused = thread.try_free(object);
        assert!(matches!(refused, Err(Invalid::FreedTwice { address }) if address == object));
    }
}
