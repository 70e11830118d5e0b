//! Slabs of medium objects that are back in the pool of the heap whose thread has taken from them.

use crate::support::{Estate, Random, Thread};
use freehold_heap::class::{Class, MEDIUM_MAX, SMALL_MAX};
use freehold_heap::invalid::Invalid;
use freehold_heap::layout::GRANULE;
use freehold_heap::magazine::ROUNDS;
use freehold_heap::policy::retain;
use freehold_sys::fake::Fake;
use std::collections::HashSet;

const SIZES: [usize; 4] = [SMALL_MAX + 1, 5000, 16_000, MEDIUM_MAX];

fn allocate(thread: &mut Thread<Fake>, size: usize, slabs: usize) -> Vec<usize> {
    let in_slab = usize::from(Class::of_medium(size).info().capacity);
    (0..slabs * in_slab).map(|_| thread.alloc(size).unwrap()).collect()
}

fn slab_of(estate: &Estate<Fake>, object: usize) -> u32 {
    estate.arena().object_at(object).unwrap().slab.0
}

fn slabs_of(estate: &Estate<Fake>, objects: &[usize]) -> HashSet<u32> {
    objects.iter().map(|&object| slab_of(estate, object)).collect()
}

/// Has a thread free all but one object of each slab, in no order, and give up what it has at hand.
/// Returns those that stay.
fn free_but_one(
    estate: &Estate<Fake>,
    freer: &mut Thread<Fake>,
    objects: Vec<usize>,
) -> Vec<usize> {
    let mut seen = HashSet::new();
    let (stay, mut go): (Vec<_>, Vec<_>) =
        objects.into_iter().partition(|&object| seen.insert(slab_of(estate, object)));
    let mut random = Random::new();
    while !go.is_empty() {
        freer.free(go.swap_remove(random.below(go.len())));
    }
    freer.cache.flush(estate.arena()).unwrap();
    stay
}

/// Bytes in use.
fn used(estate: &Estate<Fake>) -> usize {
    estate.arena().granules_in_use().used * GRANULE
}

/// Checks all counts, when no thread is inside.
fn check(estate: &Estate<Fake>) {
    // SAFETY: the test's only thread is here.
    unsafe { estate.arena().check() };
}

#[test]
fn a_thread_takes_again_what_it_has_freed_and_another_makes_new_ones_meanwhile() {
    for size in SIZES {
        let estate = Estate::new(Fake::new());
        let (mut one, mut other) = (Thread::new(&estate), Thread::new(&estate));
        let (ones, mut others) = (allocate(&mut one, size, 200), allocate(&mut other, size, 200));
        let slabs = slabs_of(&estate, &ones);
        let stay = free_but_one(&estate, &mut one, ones);
        check(&estate);
        let more = allocate(&mut other, size, 2);
        assert!(slabs_of(&estate, &more).is_disjoint(&slabs), "size {size}: the other takes them");
        others.extend(more);
        let again = allocate(&mut one, size, 150);
        let is_again = |object: &&usize| slabs.contains(&slab_of(&estate, **object));
        let count = again.iter().filter(is_again).count();
        assert!(count * 10 >= again.len() * 9, "size {size}: {count} of {}", again.len());
        one.free_all(stay.into_iter().chain(again));
        other.free_all(others);
        check(&estate);
    }
}

#[test]
fn what_came_in_while_there_were_others_is_there_for_the_only_thread() {
    for size in SIZES {
        let estate = Estate::new(Fake::new());
        let (mut one, mut other) = (Thread::new(&estate), Thread::new(&estate));
        let own = other.alloc(size).unwrap();
        let ones = allocate(&mut one, size, 200);
        let slabs = slabs_of(&estate, &ones);
        let stay = free_but_one(&estate, &mut one, ones);
        other.free(own);
        drop(other);
        let again = allocate(&mut one, size, 150);
        let is_again = |object: &&usize| slabs.contains(&slab_of(&estate, **object));
        let count = again.iter().filter(is_again).count();
        assert!(count * 10 >= again.len() * 9, "size {size}: {count} of {}", again.len());
        one.free_all(stay.into_iter().chain(again));
        check(&estate);
    }
}

#[test]
fn what_another_thread_has_freed_is_there_for_who_took_it() {
    for size in SIZES {
        let estate = Estate::new(Fake::new());
        let [mut one, mut freer, mut third] = [0; 3].map(|_| Thread::new(&estate));
        let thirds = allocate(&mut third, size, 1);
        // Threads that have taken nothing do not make several.
        let own = freer.alloc(size).unwrap();
        let ones = allocate(&mut one, size, 400);
        let slabs = slabs_of(&estate, &ones);
        let stay = free_but_one(&estate, &mut freer, ones);
        let more = allocate(&mut third, size, 2);
        assert!(slabs_of(&estate, &more).is_disjoint(&slabs), "size {size}: a third takes them");
        let again = allocate(&mut one, size, 150);
        let count = slabs_of(&estate, &again).intersection(&slabs).count();
        assert!(count >= 140, "size {size}: {count} slabs are taken again");
        one.free_all(stay.into_iter().chain(again));
        freer.free(own);
        third.free_all(thirds.into_iter().chain(more));
        check(&estate);
    }
}

#[test]
fn of_much_that_is_free_others_take_instead_of_new_slabs() {
    for size in SIZES {
        let estate = Estate::new(Fake::new());
        let (mut one, mut other) = (Thread::new(&estate), Thread::new(&estate));
        let bytes = usize::from(Class::of_medium(size).info().granules) * GRANULE;
        let mut others = allocate(&mut other, size, 1);
        let ones = allocate(&mut one, size, (64 << 20) / bytes);
        let slabs = slabs_of(&estate, &ones);
        let stay = free_but_one(&estate, &mut one, ones);
        let before = used(&estate);
        others.extend(allocate(&mut other, size, (16 << 20) / bytes));
        let grown = used(&estate).saturating_sub(before);
        assert!(grown <= 4 << 20, "size {size}: {grown} bytes more");
        let taken = slabs_of(&estate, &others).intersection(&slabs).count();
        assert!(taken >= (8 << 20) / bytes, "size {size}: {taken} slabs were taken");
        one.free_all(stay);
        other.free_all(others);
        check(&estate);
    }
}

#[test]
fn where_there_is_no_memory_for_a_new_slab_others_take_what_is_free() {
    for size in SIZES {
        let estate = Estate::new(Fake::new().with_address_space(48 << 20));
        let (mut one, mut other) = (Thread::new(&estate), Thread::new(&estate));
        let mut others = allocate(&mut other, size, 1);
        // All that there is, so that as much was live.
        let ones: Vec<_> = core::iter::from_fn(|| one.alloc(size)).collect();
        let slabs = slabs_of(&estate, &ones);
        let stay = free_but_one(&estate, &mut one, ones.clone());
        others.extend(core::iter::from_fn(|| other.alloc(size)));
        let taken = slabs_of(&estate, &others).intersection(&slabs).count();
        assert!(taken * 10 >= slabs.len() * 9, "size {size}: {taken} of {}", slabs.len());
        one.free_all(stay);
        other.free_all(others);
        check(&estate);
    }
}

#[test]
fn what_an_ended_thread_had_is_there_for_others() {
    for size in SIZES {
        let estate = Estate::new(Fake::new());
        let (mut one, mut other) = (Thread::new(&estate), Thread::new(&estate));
        let mut others = allocate(&mut other, size, 1);
        let ones = allocate(&mut one, size, 20);
        let slabs = slabs_of(&estate, &ones);
        let stay = free_but_one(&estate, &mut one, ones);
        one.cache.end(estate.arena()).unwrap();
        let more = allocate(&mut other, size, 15);
        assert!(slabs_of(&estate, &more).is_subset(&slabs), "size {size}: a new slab beside those");
        others.extend(more);
        other.free_all(stay.into_iter().chain(others));
        check(&estate);
    }
}

#[test]
fn what_nobody_has_taken_for_long_is_there_for_others() {
    for size in SIZES {
        let estate = Estate::new(Fake::new());
        let (mut one, mut other) = (Thread::new(&estate), Thread::new(&estate));
        let mut others = allocate(&mut other, size, 1);
        // So much is live for a while that the other may make slabs later.
        let much = one.alloc(64 << 20).unwrap();
        let ones = allocate(&mut one, size, 20);
        one.free(much);
        let slabs = slabs_of(&estate, &ones);
        let stay = free_but_one(&estate, &mut one, ones);
        let more = allocate(&mut other, size, 2);
        assert!(slabs_of(&estate, &more).is_disjoint(&slabs), "size {size}: not for long");
        others.extend(more);
        estate.arena().purge_within_slabs();
        check(&estate);
        let more = allocate(&mut other, size, 15);
        assert!(slabs_of(&estate, &more).is_subset(&slabs), "size {size}: a new slab beside those");
        others.extend(more);
        one.free_all(stay);
        other.free_all(others);
    }
}

#[test]
fn whoever_frees_the_last_object_of_such_a_slab_releases_it() {
    for size in SIZES {
        let estate = Estate::new(Fake::new());
        let (mut one, mut other) = (Thread::new(&estate), Thread::new(&estate));
        let ones = allocate(&mut one, size, 200);
        let before = used(&estate);
        let stay = free_but_one(&estate, &mut one, ones);
        assert!(used(&estate) >= before / 2, "size {size}");
        other.free_all(stay);
        other.cache.trim(estate.arena()).unwrap();
        // Some may stay whole, and the first has some at hand.
        let most = retain::whole_slabs(before) + (before - used(&estate)).min(2 << 20);
        assert!(used(&estate) <= most, "size {size}: {} of {before}", used(&estate));
        check(&estate);
    }
}

#[test]
fn what_there_is_no_room_for_among_many_hot_ones_waits_nowhere() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let (size, class) = (16_000, Class::of_medium(16_000));
    for _ in 0..12 {
        let objects: Vec<_> = (0..2000).map(|_| thread.alloc(size).unwrap()).collect();
        thread.free_all(objects);
    }
    let at_hand = thread.cache.at_hand(class);
    assert!(at_hand < 1500, "all {at_hand} stay hot");
    // SAFETY: the test's only thread is here.
    let out = unsafe { estate.arena().check() }.objects_out;
    assert_eq!(out, at_hand, "what is neither at home nor at hand");
}

#[test]
fn an_object_that_another_thread_has_freed_too_is_found_out_when_it_is_evicted() {
    let estate = Estate::new(Fake::new());
    let (mut one, mut other) = (Thread::new(&estate), Thread::new(&estate));
    let (size, count) = (16_000, 1000);
    // So that it takes nothing up that it frees.
    let own = other.alloc(size).unwrap();
    for _ in 0..12 {
        let objects: Vec<_> = (0..count).map(|_| one.alloc(size).unwrap()).collect();
        one.free_all(objects);
    }
    let objects: Vec<_> = (0..count).map(|_| one.alloc(size).unwrap()).collect();
    // As many as fit are hot: the last of them goes home with the next ones.
    let mut found = Vec::new();
    let mut twice = None;
    for (n, &object) in objects.iter().enumerate() {
        found.extend(one.try_free(object).err());
        if n == 900 {
            _ = other.try_free(object);
            other.cache.trim(estate.arena()).unwrap();
            twice = Some(object);
        }
    }
    other.free(own);
    other.cache.trim(estate.arena()).unwrap();
    found.extend(one.cache.trim(estate.arena()).err());
    let address = twice.unwrap();
    assert_eq!(found, [Invalid::FreedTwice { address }]);
    // SAFETY: the test's only thread is here.
    let out = unsafe { estate.arena().check() }.objects_out;
    assert!(out <= 2 * ROUNDS, "{out} are lost");
}

#[test]
fn more_than_may_stay_hot_goes_home_by_the_lot_and_all_of_it_is_there_again() {
    // So much that some lie as far apart as the filter reaches.
    for (size, count) in [(3000, 20_000), (16_000, 4000), (MEDIUM_MAX, 3000)] {
        for threads in [1, 2] {
            let estate = Estate::new(Fake::new());
            let mut one = Thread::new(&estate);
            let mut other = Thread::new(&estate);
            if threads == 2 {
                let own = other.alloc(100).unwrap();
                other.free(own);
            }
            for _ in 0..12 {
                let objects: Vec<_> = (0..count).map(|_| one.alloc(size).unwrap()).collect();
                let different: HashSet<_> = objects.iter().collect();
                assert_eq!(different.len(), count);
                one.free_all(objects);
            }
            let class = Class::of_medium(size);
            let at_hand = one.cache.at_hand(class) * class.size();
            let few = (11 + usize::from(class.info().capacity)) * class.size();
            let usual = retain::hot_bytes(retain::depot_bytes(0, threads), threads > 1);
            let most = usual + retain::swing_bytes(2 * count * size);
            assert!(at_hand > few, "size {size}: {at_hand} bytes stay at hand");
            assert!(at_hand <= most + few, "size {size}: {at_hand} bytes stay at hand");
            check(&estate);
            one.cache.trim(estate.arena()).unwrap();
            // SAFETY: the test's only thread is here.
            let out = unsafe { estate.arena().check() }.objects_out;
            assert!(out <= 2 * ROUNDS, "size {size}: {out}");
        }
    }
}
