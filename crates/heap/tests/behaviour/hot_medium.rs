//! Medium objects that a thread keeps hot: how many, and when it lets go of them.

use crate::setting_aside::{come_and_go, out};
use crate::support::{Estate, Thread};
use freehold_heap::class::Class;
use freehold_heap::invalid::Invalid;
use freehold_heap::policy::retain;
use freehold_sys::fake::Fake;
use std::collections::BTreeSet;

/// Times after which a thread keeps all that comes and goes, if it may.
const LONG: usize = 10;

/// Objects of a size that a thread has at hand.
fn at_hand(thread: &mut Thread<Fake>, size: usize) -> usize {
    thread.cache.at_hand(Class::of_medium(size))
}

#[test]
fn medium_objects_that_come_and_go_stay_hot_however_many_were_at_first() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    for (size, count) in [(2100, 300), (5000, 150), (9000, 100), (32_768, 30)] {
        come_and_go(&mut thread, size, count, 1);
        let first = at_hand(&mut thread, size);
        assert!(first < count / 2, "{first} of {count} objects of {size} bytes");
        come_and_go(&mut thread, size, count, LONG);
        let free = estate.arena().usage().free_objects;
        let objects: Vec<_> = (0..count).map(|_| thread.alloc(size).unwrap()).collect();
        thread.free_all(objects.iter().copied());
        assert_eq!(estate.arena().usage().free_objects, free, "of {size} bytes");
        assert!(at_hand(&mut thread, size) >= count);
        let again: Vec<_> = (0..count).map(|_| thread.alloc(size).unwrap()).collect();
        let all = |objects: &[usize]| objects.iter().copied().collect::<BTreeSet<_>>();
        assert_eq!(all(&again), all(&objects));
        thread.free_all(again);
    }
}

#[test]
fn objects_that_come_and_go_stay_hot_where_all_of_them_are_of_one_slab() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    for (size, count) in [(2500, 24), (3000, 20), (5000, 18)] {
        assert!(count <= Class::of_medium(size).info().capacity.into());
        let allocate = |thread: &mut Thread<Fake>| -> Vec<_> {
            (0..count).map(|_| thread.alloc(size).unwrap()).collect()
        };
        let is_as_it_was = |thread: &mut Thread<Fake>| {
            let objects = allocate(thread);
            thread.free_all(objects.iter().copied());
            let again = allocate(thread);
            let is_as_it_was = again.iter().eq(objects.iter().rev());
            thread.free_all(again);
            is_as_it_was
        };
        assert!(!is_as_it_was(&mut thread), "so many of {size} bytes are hot at first");
        come_and_go(&mut thread, size, count, 5 * LONG);
        assert!(is_as_it_was(&mut thread), "{count} objects of {size} bytes");
    }
}

#[test]
fn a_medium_object_that_is_hot_and_is_freed_again_is_found_out() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let (size, count) = (3000, 200);
    come_and_go(&mut thread, size, count, LONG);
    let objects: Vec<_> = (0..count).map(|_| thread.alloc(size).unwrap()).collect();
    thread.free_all(objects.iter().copied());
    for &address in &objects {
        assert_eq!(thread.try_free(address), Err(Invalid::FreedTwice { address }));
    }
    thread.cache.trim(estate.arena()).unwrap();
    assert_eq!(out(&estate), 0);
}

#[test]
fn a_medium_object_that_was_never_given_out_is_not_kept() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let objects = [0; 2].map(|_| thread.alloc(5000).unwrap());
    let address = objects[1] + (objects[1] - objects[0]);
    assert_eq!(thread.try_free(address), Err(Invalid::FreedTwice { address }));
    thread.free_all(objects);
}

#[test]
fn medium_objects_that_only_go_do_not_stay_hot_beyond_a_few() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let size = 4000;
    let objects: Vec<_> = (0..2000).map(|_| thread.alloc(size).unwrap()).collect();
    thread.free_all(objects);
    let slab = usize::from(Class::of_medium(size).info().capacity);
    let most = 11 + slab;
    assert!(at_hand(&mut thread, size) <= most, "{} are", at_hand(&mut thread, size));
}

#[test]
fn what_stays_hot_is_bounded_for_each_size_and_for_all_together() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let sizes = [2304, 3000, 4000, 5000, 6000, 7000, 8192, 10_000, 14_000, 20_000, 32_768];
    for size in sizes {
        come_and_go(&mut thread, size, (3 << 20) / size, LONG);
        let slab = usize::from(Class::of_medium(size).info().capacity);
        // More where there are phases, as there are.
        let most = retain::hot_most_of_swing(size) + slab;
        assert!(at_hand(&mut thread, size) <= most, "of {size} bytes");
    }
    let bytes = |size: usize| {
        let class = Class::of_medium(size);
        // The rest of a slab may be there as well, and a few in any case.
        let slab = usize::from(class.info().capacity);
        thread.cache.at_hand(class).saturating_sub(11 + slab) * class.size()
    };
    let all: usize = sizes.into_iter().map(bytes).sum();
    let usual = retain::hot_bytes(retain::depot_bytes(0, 1), false);
    let used = estate.arena().usage().in_use();
    assert!(all <= usual + retain::swing_bytes(used), "{all} bytes of {used}");
}

#[test]
fn medium_sizes_that_are_not_used_any_longer_make_room_for_those_that_are() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let (used, count) = (3000, 300);
    // More than may be of all together; and a size that is used all the time.
    for size in [2304, 4000, 5000, 6000, 7000, 8192, 10_000] {
        for _ in 0..10 * LONG {
            come_and_go(&mut thread, size, (1 << 20) / size, 1);
            come_and_go(&mut thread, used, count, 1);
        }
        for (size, count) in [(used, count), (size, (1 << 20) / size)] {
            let free = estate.arena().usage().free_objects;
            come_and_go(&mut thread, size, count, 3);
            let now = estate.arena().usage().free_objects;
            assert_eq!(now, free, "of {size} bytes some went home");
        }
    }
}

#[test]
fn a_thread_that_trims_keeps_no_medium_objects_and_only_a_few_until_it_needs_more() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let (size, count) = (4000, 200);
    come_and_go(&mut thread, size, count, LONG);
    assert!(at_hand(&mut thread, size) >= count);
    thread.cache.trim(estate.arena()).unwrap();
    assert_eq!((at_hand(&mut thread, size), out(&estate)), (0, 0));
    come_and_go(&mut thread, size, count, 1);
    let slab = usize::from(Class::of_medium(size).info().capacity);
    assert!(at_hand(&mut thread, size) <= 11 + slab);
    come_and_go(&mut thread, size, count, LONG);
    assert!(at_hand(&mut thread, size) >= count, "it keeps as many as before again");
}

#[test]
fn what_a_thread_keeps_is_given_up_before_memory_is_refused() {
    let estate = Estate::new(Fake::new().with_address_space(48 << 20));
    let mut thread = Thread::new(&estate);
    let mut all_of = |size: usize, keep: &mut dyn FnMut(&mut Thread<Fake>)| {
        keep(&mut thread);
        let all: Vec<_> = core::iter::from_fn(|| thread.alloc(size)).collect();
        let count = all.len();
        thread.free_all(all);
        thread.cache.trim(estate.arena()).unwrap();
        count
    };
    let mut keep = |thread: &mut Thread<Fake>| {
        come_and_go(thread, 4000, 250, LONG);
        come_and_go(thread, 1000, 500, LONG);
        come_and_go(thread, 400_000, 5, LONG);
    };
    for size in [2 << 20, 300_000, 20_000, 1500] {
        let without = all_of(size, &mut |_| ());
        let with = all_of(size, &mut keep);
        // Some slabs may be missing: what is in a magazine keeps others there.
        let least = without - without / 40 - 1;
        assert!(with >= least, "{with} objects of {size} bytes, not {without}");
    }
}

/// So many objects of a size that were hot before they were given out.
fn hot_before(thread: &mut Thread<Fake>, size: usize, count: usize) -> Vec<usize> {
    come_and_go(thread, size, count, LONG);
    (0..count).map(|_| thread.alloc(size).unwrap()).collect()
}

#[test]
fn where_another_thread_freed_an_object_its_place_may_be_of_another_size() {
    for (before, after) in [(16_384, 4096), (4096, 16_384), (9216, 3072), (3072, 9216)] {
        let estate = Estate::new(Fake::new());
        let (mut first, mut second) = (Thread::new(&estate), Thread::new(&estate));
        let objects = hot_before(&mut first, before, 64);
        first.cache.trim(estate.arena()).unwrap();
        second.free_all(objects.iter().copied());
        second.cache.trim(estate.arena()).unwrap();
        // What is there now is of the other thread's, of another size, and freed by the first.
        let others: Vec<_> = (0..1000).map(|_| second.alloc(after).unwrap()).collect();
        let again: Vec<_> =
            others.iter().copied().filter(|other| objects.contains(other)).collect();
        assert!(again.len() > 5, "{} of {before} bytes, then {after}", again.len());
        first.free_all(again.iter().copied());
        let taken: Vec<_> = (0..100).map(|_| first.alloc(before).unwrap()).collect();
        for &address in &taken {
            assert_eq!(first.usable(address), Class::of_medium(before).size());
        }
        let left = others.into_iter().filter(|other| !again.contains(other));
        second.free_all(left);
        first.free_all(taken);
    }
}

#[test]
fn an_object_that_another_thread_has_freed_already_is_found_out() {
    let estate = Estate::new(Fake::new());
    let (mut first, mut second) = (Thread::new(&estate), Thread::new(&estate));
    let size = 4096;
    let objects = hot_before(&mut first, size, 64);
    // Some of each slab stay, so that no slab goes.
    let (gone, left): (Vec<_>, Vec<_>) =
        objects.iter().partition(|&address| address / size % 4 > 0);
    second.free_all(gone.iter().copied());
    second.cache.trim(estate.arena()).unwrap();
    for &address in &gone {
        assert_eq!(first.try_free(address), Err(Invalid::FreedTwice { address }));
    }
    // Likewise where the first thread is about to take them again.
    let class = Class::of_medium(size);
    assert_eq!(first.cache.at_hand(class), 0);
    let taken = first.alloc(size).unwrap();
    assert!(gone.contains(&taken) && first.cache.at_hand(class) > 0);
    for &address in gone.iter().filter(|&&address| address != taken) {
        assert_eq!(first.try_free(address), Err(Invalid::FreedTwice { address }));
    }
    first.free_all(left);
    first.free(taken);
}

#[test]
fn an_object_that_two_threads_have_at_hand_is_found_out_as_it_goes_home_and_others_go_home() {
    let estate = Estate::new(Fake::new());
    let (mut first, mut second) = (Thread::new(&estate), Thread::new(&estate));
    let size = 4096;
    let own = second.alloc(size).unwrap();
    let objects: Vec<_> = (0..8).map(|_| first.alloc(size).unwrap()).collect();
    let twice = objects[3];
    second.free(twice);
    first.free_all(objects);
    second.cache.trim(estate.arena()).unwrap();
    assert_eq!(first.cache.trim(estate.arena()), Err(Invalid::FreedTwice { address: twice }));
    second.free(own);
    second.cache.trim(estate.arena()).unwrap();
    estate.arena().purge_all();
    assert_eq!(estate.arena().granules_in_use().used, 0);
}
