//! Slabs that a heap keeps for its thread.

use crate::support::{Estate, Random, Thread, check, fill};
use freehold_heap::invalid::Invalid;
use freehold_heap::layout::GRANULE;
use freehold_heap::magazine::ROUNDS;
use freehold_heap::policy::retain::WAKES_UNKEPT;
use freehold_sys::fake::Fake;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

/// A size of which more goes home than stays at hand.
const SIZE: usize = 256;
/// Objects in a slab.
const IN_SLAB: usize = GRANULE / SIZE;
const SLABS: usize = 60;

fn slab_of(object: usize) -> usize {
    object / GRANULE
}

fn slabs_of(objects: &[usize]) -> HashSet<usize> {
    objects.iter().map(|&object| slab_of(object)).collect()
}

fn shuffle<T>(random: &mut Random, all: &mut [T]) {
    for n in (1..all.len()).rev() {
        all.swap(n, random.below(n + 1));
    }
}

fn allocate(thread: &mut Thread<Fake>, size: usize, count: usize) -> Vec<usize> {
    (0..count).map(|_| thread.alloc(size).unwrap()).collect()
}

fn fill_all(objects: &[(usize, u64)], size: usize) {
    for &(object, n) in objects {
        fill(object, size, n);
    }
}

/// Frees all but one object in so many, in no order. Returns those.
fn free_but(thread: &mut Thread<Fake>, mut all: Vec<usize>, stays: usize) -> Vec<usize> {
    all.sort_unstable();
    let (stay, mut go): (Vec<_>, Vec<_>) =
        all.into_iter().enumerate().partition(|(n, _)| n % stays == 0);
    shuffle(&mut Random::new(), &mut go);
    thread.free_all(go.into_iter().map(|(_, object)| object));
    stay.into_iter().map(|(_, object)| object).collect()
}

#[test]
fn what_a_thread_frees_in_no_order_it_takes_again_and_others_take_none_of_it() {
    let estate = Estate::new(Fake::new());
    let (mut one, mut other) = (Thread::new(&estate), Thread::new(&estate));
    let all = allocate(&mut one, SIZE, SLABS * IN_SLAB);
    let slabs = slabs_of(&all);
    let stay = free_but(&mut one, all, 2);
    let others = allocate(&mut other, SIZE, SLABS * IN_SLAB / 4);
    assert!(slabs_of(&others).is_disjoint(&slabs), "a slab was taken that is kept");
    let again = allocate(&mut one, SIZE, SLABS * IN_SLAB / 4);
    assert!(slabs_of(&again).is_subset(&slabs), "a new slab beside those that are kept");
    one.free_all(stay.into_iter().chain(again));
    other.free_all(others);
}

#[test]
fn contents_stay_while_slabs_of_all_sizes_are_kept_and_taken_again() {
    let mut random = Random::new();
    for size in [8, 16, 32, 48, 64, 80, 112, 176, 256, 640, 2048] {
        let estate = Estate::new(Fake::new());
        let (mut one, _other) = (Thread::new(&estate), Thread::new(&estate));
        let count = (2 << 20) / size.max(16);
        let mut all: Vec<_> = (0..count).map(|n| (one.alloc(size).unwrap(), n as u64)).collect();
        fill_all(&all, size);
        for turn in 0..6 {
            shuffle(&mut random, &mut all);
            let keep = all.len() * (turn % 3) / 4;
            for (object, n) in all.drain(keep..) {
                check(object, size, n);
                one.free(object);
            }
            let more = (keep..count).map(|n| (one.alloc(size).unwrap(), (turn * count + n) as u64));
            let more: Vec<_> = more.collect();
            fill_all(&more, size);
            all.extend(more);
            // SAFETY: nobody is inside the allocator.
            unsafe { estate.arena().check() };
        }
        for (object, n) in all {
            check(object, size, n);
            one.free(object);
        }
    }
}

#[test]
fn a_slab_that_others_free_of_is_released_with_its_last_object() {
    let estate = Estate::new(Fake::new());
    let (mut one, mut other) = (Thread::new(&estate), Thread::new(&estate));
    let all = allocate(&mut one, SIZE, SLABS * IN_SLAB);
    let claimed = estate.arena().usage().claimed;
    // What each slab has left is freed by another thread, and the first does nothing any more.
    let stay = free_but(&mut one, all, 4);
    one.cache.flush(estate.arena()).unwrap();
    other.free_all(stay);
    other.cache.flush(estate.arena()).unwrap();
    let left = estate.arena().usage().claimed;
    assert!(left <= claimed / 10, "{left} bytes of {claimed} are left");
}

/// Whether slabs are kept of which others have freed while they were kept, after their own thread
/// has taken all of them and freed half so many times.
fn is_kept_after(times: usize) -> bool {
    let estate = Estate::new(Fake::new());
    let (mut one, mut other) = (Thread::new(&estate), Thread::new(&estate));
    let mut all = allocate(&mut one, SIZE, SLABS * IN_SLAB);
    let slabs = slabs_of(&all);
    all = free_but(&mut one, all, 2);
    // One object of each slab.
    let mut seen = HashSet::new();
    let (go, stay): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|&object| seen.insert(slab_of(object)));
    other.free_all(go);
    other.cache.flush(estate.arena()).unwrap();
    all = stay;
    for _ in 0..=times {
        let missing = SLABS * IN_SLAB - all.len();
        all.extend(allocate(&mut one, SIZE, missing));
        all = free_but(&mut one, all, 2);
        one.cache.flush(estate.arena()).unwrap();
    }
    let others = allocate(&mut other, SIZE, SLABS * IN_SLAB / 4);
    let is_kept = slabs_of(&others).is_disjoint(&slabs);
    one.free_all(all);
    other.free_all(others);
    is_kept
}

#[test]
fn a_slab_that_others_freed_of_is_not_kept_for_a_while() {
    assert!(!is_kept_after(0), "kept although others free of it");
    assert!(is_kept_after(2 * usize::from(WAKES_UNKEPT)), "not kept any more");
}

#[test]
fn of_much_that_is_kept_others_take_instead_of_new_slabs() {
    let estate = Estate::new(Fake::new());
    let (mut one, mut other) = (Thread::new(&estate), Thread::new(&estate));
    // So much that what stays is no reason to let others make slabs.
    let count = (32 << 20) / SIZE;
    let all = allocate(&mut one, SIZE, count);
    let stay = free_but(&mut one, all, 4);
    let claimed = estate.arena().usage().claimed;
    let others = allocate(&mut other, SIZE, count / 2);
    let grown = estate.arena().usage().claimed - claimed;
    assert!(grown < count * SIZE / 16, "{grown} bytes more");
    let taken = slabs_of(&others).intersection(&slabs_of(&stay)).count();
    assert!(taken > 16, "{taken} slabs were taken");
    // Objects of slabs that were taken are others' then, whoever has them.
    one.free_all(others);
    other.free_all(stay);
}

#[test]
fn what_an_ended_thread_had_kept_is_there_for_others() {
    let estate = Estate::new(Fake::new());
    let (mut one, mut other) = (Thread::new(&estate), Thread::new(&estate));
    let mut others = allocate(&mut other, SIZE, IN_SLAB);
    let all = allocate(&mut one, SIZE, SLABS * IN_SLAB);
    let stay = free_but(&mut one, all, 8);
    let slabs = slabs_of(&stay);
    one.cache.end(estate.arena()).unwrap();
    // What is left of its own slab comes first.
    others.extend(allocate(&mut other, SIZE, 2 * IN_SLAB));
    let more = allocate(&mut other, SIZE, SLABS * IN_SLAB / 2);
    assert!(slabs_of(&more).is_subset(&slabs), "a new slab beside those that were kept");
    others.extend(more);
    other.free_all(stay.into_iter().chain(others));
}

#[test]
fn an_object_of_a_kept_slab_that_is_freed_twice_is_found_out() {
    for size in [16, 64, SIZE] {
        let in_slab = GRANULE / size;
        // Before the slab was kept, and since.
        for first in [in_slab / 16, in_slab / 2] {
            let estate = Estate::new(Fake::new());
            let (mut one, _other) = (Thread::new(&estate), Thread::new(&estate));
            let slabs = 40 * ROUNDS / in_slab + 40;
            let mut all = allocate(&mut one, size, slabs * in_slab);
            all.sort_unstable();
            let mut go: Vec<_> = all.iter().copied().filter(|&it| it / size % 4 != 0).collect();
            shuffle(&mut Random::new(), &mut go);
            let twice = go[first];
            let mut found = Vec::new();
            for object in go {
                found.extend(one.try_free(object).err());
            }
            assert_eq!(found, []);
            found.extend(one.try_free(twice).err());
            found.extend(one.cache.flush(estate.arena()).err());
            assert!(is_found_out(&found), "size {size}: {found:?}");
            all.retain(|&object| object / size % 4 == 0);
            one.free_all(all);
        }
    }
}

/// Whether a second free was found out, in what came of some frees.
fn is_found_out(found: &[Invalid]) -> bool {
    found.iter().any(|it| matches!(it, Invalid::FreedTwice { .. }))
}

#[test]
fn an_object_that_its_thread_and_another_free_is_found_out() {
    for size in [16, 64, SIZE, 1000] {
        // The thread whose slab it is before the other, or after it; of slabs that are kept, or
        // that the heap takes from; and of one that has let go of them.
        for (own_first, slabs, ends) in [
            (true, 40, false),
            (true, 1, false),
            (true, 40, true),
            (true, 1, true),
            (false, 40, false),
            (false, 1, false),
        ] {
            // What is refused together with such an object is lost, so that nothing adds up.
            let estate: &Estate<_> = Box::leak(Box::new(Estate::new(Fake::new())));
            let (mut one, mut other) = (Thread::new(estate), Thread::new(estate));
            let mut all = allocate(&mut one, size, slabs * GRANULE / size * 3 / 4);
            all.sort_unstable();
            let mut go: Vec<_> = all.iter().copied().filter(|it| it / size % 4 != 0).collect();
            shuffle(&mut Random::new(), &mut go);
            let twice = go[go.len() / 2];
            if !own_first {
                other.free(twice);
                other.cache.flush(estate.arena()).unwrap();
            }
            let mut found = Vec::new();
            for object in go {
                found.extend(one.try_free(object).err());
            }
            found.extend(one.cache.flush(estate.arena()).err());
            if ends {
                one.cache.end(estate.arena()).unwrap();
                one = Thread::new(estate);
            }
            if own_first {
                assert_eq!(found, []);
                found.extend(other.try_free(twice).err());
                found.extend(other.cache.flush(estate.arena()).err());
            }
            assert!(is_found_out(&found), "size {size}, {own_first}, {slabs}: {found:?}");
            // What is free is given out once, and nothing else.
            all.retain(|it| it / size % 4 == 0);
            all.extend(allocate(&mut one, size, slabs * GRANULE / size));
            let places: HashSet<_> = all.iter().collect();
            assert_eq!(places.len(), all.len(), "size {size}: given out twice");
        }
    }
}

#[test]
fn what_is_in_use_is_known_though_others_free_the_last_objects_of_slabs_that_are_kept() {
    // Counting goes wrong for good if two threads do it in one tally.
    let estate = Estate::new(Fake::new());
    let mut one = Thread::new(&estate);
    let all = allocate(&mut one, SIZE, 20 * SLABS * IN_SLAB);
    let mut seen = HashSet::new();
    let (stay, go): (Vec<_>, Vec<_>) = all.into_iter().partition(|&it| seen.insert(slab_of(it)));
    one.free_all(go);
    one.cache.flush(estate.arena()).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut other = Thread::new(&estate);
            for object in stay {
                other.free(object);
                other.cache.flush(estate.arena()).unwrap();
            }
            other.cache.end(estate.arena()).unwrap();
            is_over.store(true, Ordering::SeqCst);
        });
        while !is_over.load(Ordering::SeqCst) {
            // Counted without a lock.
            let run = one.alloc(9 << 20).unwrap();
            one.free(run);
        }
    });
    one.cache.end(estate.arena()).unwrap();
    assert_eq!(estate.arena().granules_in_use().used, 0);
}

#[test]
fn where_there_is_no_memory_for_a_new_slab_others_take_one_that_is_kept() {
    let estate = Estate::new(Fake::new().with_address_space(48 << 20));
    let (mut one, mut other) = (Thread::new(&estate), Thread::new(&estate));
    let mut others = allocate(&mut other, SIZE, IN_SLAB);
    let ones: Vec<_> = core::iter::from_fn(|| one.alloc(SIZE)).collect();
    let slabs = slabs_of(&ones);
    let stay = free_but(&mut one, ones, 16);
    others.extend(core::iter::from_fn(|| other.alloc(SIZE)));
    let taken = slabs_of(&others).intersection(&slabs).count();
    assert!(taken * 10 >= slabs.len() * 9, "{taken} of {}", slabs.len());
    one.free_all(stay);
    other.free_all(others);
}
