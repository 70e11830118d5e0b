//! What becomes of more freed objects than a magazine holds, and which frees are watched.

use crate::support::{Estate, Thread};
use freehold_heap::class::Class;
use freehold_heap::invalid::Invalid;
use freehold_heap::magazine::ROUNDS;
use freehold_sys::fake::Fake;

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
