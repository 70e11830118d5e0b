//! When medium objects that a thread frees go home to their slabs.

use crate::support::{Estate, Random, Thread};
use freehold_heap::class::{MEDIUM_MAX, SMALL_MAX};
use freehold_heap::invalid::Invalid;
use freehold_sys::fake::Fake;

/// Objects that are out as far as their slabs know.
fn out(estate: &Estate<Fake>) -> usize {
    // SAFETY: the test's one thread works for all, and is not in the middle of anything.
    unsafe { estate.arena().check() }.objects_out
}

/// Objects of a size, in no order.
fn in_no_order(thread: &mut Thread<Fake>, count: usize, size: usize) -> Vec<usize> {
    let mut random = Random::new();
    let mut all: Vec<_> = (0..count).map(|_| thread.alloc(size).unwrap()).collect();
    for n in 1..all.len() {
        all.swap(n, random.below(n + 1));
    }
    all
}

#[test]
fn objects_of_many_slabs_freed_in_no_order_do_not_wait_for_company() {
    for (size, count) in [(SMALL_MAX + 1, 30_000), (5000, 12_000), (MEDIUM_MAX, 5000)] {
        let estate = Estate::new(Fake::new());
        let (mut maker, mut freer) = (Thread::new(&estate), Thread::new(&estate));
        let mut all = in_no_order(&mut maker, count, size);
        let at_hand = out(&estate) - all.len();
        freer.free_all(all.drain(..1000));
        let (mut looks, mut nothing_waited) = (0, 0);
        while all.len() > count / 4 {
            freer.free_all(all.drain(all.len() - 50..));
            looks += 1;
            nothing_waited += usize::from(out(&estate) == all.len() + at_hand);
        }
        // But for those by which it is tried again whether it is worth it.
        assert!(nothing_waited * 10 > looks * 8, "size {size}: {nothing_waited} of {looks}");
        maker.free_all(all);
    }
}

#[test]
fn objects_freed_by_the_slab_wait_for_each_other() {
    let estate = Estate::new(Fake::new());
    let (mut maker, mut freer) = (Thread::new(&estate), Thread::new(&estate));
    let mut all: Vec<_> = (0..6000).map(|_| maker.alloc(3000).unwrap()).collect();
    let mut waited = 0;
    while let Some(object) = all.pop() {
        let before = out(&estate);
        freer.free(object);
        waited += usize::from(out(&estate) == before);
        let some = all.len().saturating_sub(30);
        freer.free_all(all.drain(some..));
    }
    assert!(waited > 100, "{waited} of 194 waited");
}

#[test]
fn a_second_free_of_an_object_that_went_alone_is_refused() {
    let estate = Estate::new(Fake::new());
    let (mut maker, mut freer) = (Thread::new(&estate), Thread::new(&estate));
    let mut all = in_no_order(&mut maker, 3000, 5000);
    freer.free_all(all.drain(..1000));
    for _ in 0..300 {
        let address = all.pop().unwrap();
        freer.free(address);
        assert_eq!(freer.try_free(address), Err(Invalid::FreedTwice { address }));
    }
    freer.free_all(all);
}

#[test]
fn an_object_of_another_heaps_slab_that_was_taken_last_comes_back_and_goes_home_in_the_end() {
    const SIZE: usize = 1100;
    let estate = Estate::new(Fake::new());
    let (mut thread, mut other) = (Thread::new(&estate), Thread::new(&estate));
    let mut mine: Vec<_> = (0..400).map(|_| thread.alloc(SIZE).unwrap()).collect();
    for n in (0..10).rev() {
        thread.free(mine.remove(20 * n));
    }
    other.free_all(mine.drain(..300));
    other.cache.flush(estate.arena()).unwrap();
    let theirs: Vec<_> = (0..400).map(|_| other.alloc(SIZE).unwrap()).collect();
    let mut times = Vec::new();
    for _ in 0..10 {
        // As a handler does that interrupts malloc.
        let first = thread.alloc(SIZE).unwrap();
        thread.free(first);
        let again = (0..100_000).take_while(|_| {
            let object = thread.alloc(SIZE).unwrap();
            thread.free(object);
            object == first
        });
        times.push(again.count());
        mine.push(thread.alloc(SIZE).unwrap());
    }
    let others = times.iter().filter(|&&times| times < 100_000).count();
    assert!(others > 0, "{times:?}");
    assert!(times.iter().all(|&times| times > 65_000), "{times:?}");
    thread.free_all(mine);
    other.free_all(theirs);
}
