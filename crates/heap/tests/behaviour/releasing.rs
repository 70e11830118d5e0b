//! Where the next slabs are of threads that have released some.

use crate::support::{Estate, Random, Thread};
use freehold_heap::layout::{BLOCK, GRANULE};
use freehold_sys::fake::Fake;
use std::collections::HashSet;

const SIZE: usize = 256;
const IN_SLAB: usize = GRANULE / SIZE;

fn slabs_of(objects: &[usize]) -> HashSet<usize> {
    objects.iter().map(|&object| object / GRANULE).collect()
}

fn allocate(thread: &mut Thread<Fake>, slabs: usize) -> Vec<usize> {
    (0..slabs * IN_SLAB).map(|_| thread.alloc(SIZE).unwrap()).collect()
}

/// Frees whole slabs, so many of those that objects are of, in no order.
fn free_slabs(
    estate: &Estate<Fake>,
    thread: &mut Thread<Fake>,
    objects: &mut Vec<usize>,
    slabs: usize,
) -> HashSet<usize> {
    let mut all: Vec<_> = slabs_of(objects).into_iter().collect();
    all.sort_unstable();
    let freed: HashSet<_> = all.into_iter().step_by(2).take(slabs).collect();
    let mut go: Vec<_> =
        objects.extract_if(.., |object| freed.contains(&(*object / GRANULE))).collect();
    let mut random = Random::new();
    for n in (1..go.len()).rev() {
        go.swap(n, random.below(n + 1));
    }
    thread.free_all(go);
    thread.cache.flush(estate.arena()).unwrap();
    freed
}

#[test]
fn they_are_where_the_same_thread_has_released_some_and_not_another() {
    let estate = Estate::new(Fake::new());
    let (mut one, mut other) = (Thread::new(&estate), Thread::new(&estate));
    // So many that there is no room left in the blocks that they would look into first.
    let (mut ones, mut others) = (Vec::new(), Vec::new());
    for _ in 0..128 {
        ones.extend(allocate(&mut one, 1));
        others.extend(allocate(&mut other, 1));
    }
    let of_one = free_slabs(&estate, &mut one, &mut ones, 20);
    let of_other = free_slabs(&estate, &mut other, &mut others, 20);
    for (thread, own, foreign) in [(&mut other, &of_other, &of_one), (&mut one, &of_one, &of_other)]
    {
        let again = allocate(thread, 16);
        let slabs = slabs_of(&again);
        assert!(slabs.is_disjoint(foreign), "it takes what the other has released");
        let reused = slabs.intersection(own).count();
        assert!(reused >= 15, "{reused} of {} slabs are where it has released some", slabs.len());
        thread.free_all(again);
    }
    one.free_all(ones);
    other.free_all(others);
}

/// Where a thread has its objects the second time, of those that it had first, in parts of a
/// hundred, when two threads have freed all of theirs, as many blocks as `blocks`, and allocate
/// again, the one that had its blocks last first.
fn found_again(size: usize, blocks: usize) -> [usize; 2] {
    let estate = Estate::new(Fake::new());
    // Nothing is purged by threads then.
    estate.arena().set_helped(true);
    let mut threads = [Thread::new(&estate), Thread::new(&estate)];
    let take = |thread: &mut Thread<Fake>| -> Vec<usize> {
        (0..blocks * BLOCK / size).map(|_| thread.alloc(size).unwrap()).collect()
    };
    let first = threads.each_mut().map(take);
    let had = first.each_ref().map(|objects| slabs_of(objects));
    for (thread, objects) in threads.iter_mut().zip(first) {
        thread.free_all(objects);
        thread.cache.trim(estate.arena()).unwrap();
    }
    let [one, other] = &mut threads;
    let again = [other, one].map(take);
    let share = |n: usize| {
        let now = slabs_of(&again[1 - n]);
        now.intersection(&had[n]).count() * 100 / now.len()
    };
    let shares = [share(0), share(1)];
    for (thread, objects) in threads.iter_mut().rev().zip(again) {
        thread.free_all(objects);
    }
    shares
}

#[test]
fn blocks_that_a_thread_has_emptied_are_its_own_again() {
    for (size, blocks) in [(SIZE, 3), (2000, 3), (16_000, 8), (5000, 5)] {
        let shares = found_again(size, blocks);
        assert!(shares.iter().all(|&share| share >= 80), "{shares:?} % of {size} bytes");
    }
}
