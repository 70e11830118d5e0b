//! Where the next slabs are of threads that have released some.

use crate::support::{Estate, Random, Thread};
use freehold_heap::layout::GRANULE;
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
    // In the same blocks, since they take turns.
    let (mut ones, mut others) = (Vec::new(), Vec::new());
    for _ in 0..50 {
        ones.extend(allocate(&mut one, 1));
        others.extend(allocate(&mut other, 1));
    }
    let of_one = free_slabs(&estate, &mut one, &mut ones, 20);
    let of_other = free_slabs(&estate, &mut other, &mut others, 20);
    let again = allocate(&mut one, 16);
    assert!(slabs_of(&again).is_disjoint(&of_other), "one takes what the other has released");
    let (new, of) = (slabs_of(&again), slabs_of(&ones));
    let elsewhere = new.difference(&of).filter(|slab| !of_one.contains(slab)).count();
    assert!(elsewhere <= 1, "{elsewhere} slabs where it has released none");
    one.free_all(ones.into_iter().chain(again));
    other.free_all(others);
}
