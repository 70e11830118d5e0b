//! What threads can expect that share heaps, since all exclusive ones are leased.

use crate::support::{Estate, Thread};
use freehold_heap::cache::Holding;
use freehold_heap::class::{MEDIUM_MAX, SMALL_MAX};
use freehold_heap::invalid::Invalid;
use freehold_sys::fake::Fake;

/// More objects than a magazine holds, and fewer than may be set aside.
const SOME: usize = 100;

/// Runs `f` with two threads that share heaps, one for each of two processors.
pub(crate) fn with_two_that_share(f: impl FnOnce(&Estate<Fake>, Thread<Fake>, Thread<Fake>)) {
    let estate = Estate::new(Fake::new());
    let mut others: Vec<_> = (0..32).map(|_| Thread::new(&estate)).collect();
    let objects: Vec<_> = others.iter_mut().map(|thread| thread.alloc(100).unwrap()).collect();
    let two = [(); 2].map(|()| {
        let mut thread = Thread::new(&estate);
        let object = thread.alloc(100).unwrap();
        thread.free(object);
        assert_eq!(thread.cache.holding(), Holding::Shared);
        thread
    });
    let [one, other] = two;
    f(&estate, one, other);
    for (thread, object) in others.iter_mut().zip(objects) {
        thread.free(object);
    }
}

#[test]
fn who_shares_moves_into_a_heap_that_becomes_free_and_loses_nothing() {
    let estate = Estate::new(Fake::new());
    let mut owners: Vec<_> = (0..32).map(|_| Thread::new(&estate)).collect();
    let objects: Vec<_> = owners.iter_mut().map(|thread| thread.alloc(100).unwrap()).collect();
    let mut sharer = Thread::new(&estate);
    let sizes = [16, 100, 1500, 5000, 40_000];
    let mut of_shared: Vec<_> =
        sizes.iter().flat_map(|&size| alloc_some(&mut sharer, size)).collect();
    sharer.free_all(of_shared.split_off(of_shared.len() / 2));
    assert_eq!(sharer.cache.holding(), Holding::Shared);
    let mut owner = owners.pop().unwrap();
    owner.free(objects[31]);
    let heap = owner.cache.heap().unwrap().id();
    drop(owner);
    let of_own: Vec<_> = sizes.iter().flat_map(|&size| alloc_some(&mut sharer, size)).collect();
    assert_eq!(sharer.cache.holding(), Holding::Exclusive);
    assert_eq!(sharer.cache.heap().unwrap().id(), heap);
    // Who comes next has to share.
    let mut next = Thread::new(&estate);
    let object = next.alloc(100).unwrap();
    assert_eq!(next.cache.holding(), Holding::Shared);
    next.free(object);
    sharer.free_all(of_shared.into_iter().chain(of_own));
    for (thread, &object) in owners.iter_mut().zip(&objects) {
        thread.free(object);
    }
    drop((owners, sharer, next));
    estate.arena().let_go_of_shared().unwrap();
    // SAFETY: all threads are gone.
    let census = unsafe { estate.arena().check() };
    assert_eq!((census.objects_out, census.run_granules), (0, 0));
}

fn alloc_some(thread: &mut Thread<Fake>, size: usize) -> Vec<usize> {
    (0..SOME).map(|_| thread.alloc(size).unwrap()).collect()
}

#[test]
fn what_one_sets_aside_others_on_its_processor_use_next() {
    for size in [16, 48] {
        with_two_that_share(|estate, mut one, mut other| {
            let system = estate.arena().system();
            system.run_on(1);
            let first = alloc_some(&mut one, size);
            one.free_all(first.iter().copied());
            // Not from another processor, whose caches do not have it.
            system.run_on(0);
            let elsewhere = alloc_some(&mut other, size);
            assert!(elsewhere.iter().all(|object| !first.contains(object)));
            system.run_on(1);
            let again = alloc_some(&mut other, size);
            let known = again.iter().filter(|object| first.contains(object)).count();
            assert!(known >= 60, "{known} of {SOME} are what was set aside");
            other.free_all(elsewhere.into_iter().chain(again));
        });
    }
}

#[test]
fn what_shared_heaps_have_at_hand_goes_back_when_they_let_go_of_it() {
    with_two_that_share(|estate, mut one, other| {
        for size in (16..=SMALL_MAX).step_by(48).chain([3000, 9000, MEDIUM_MAX]) {
            let objects = alloc_some(&mut one, size);
            one.free_all(objects);
        }
        drop((one, other));
        // SAFETY: the test's one thread works for all, and is not in the middle of anything.
        let out = || unsafe { estate.arena().check() }.objects_out;
        let kept = out();
        estate.arena().let_go_of_shared().unwrap();
        // The 32 others have taken as many each as a magazine is filled with at first.
        assert_eq!(out(), 32 * 15);
        assert!(kept > out() + 500, "{kept} were out before");
    });
}

#[test]
fn who_shares_takes_no_lock_out_of_order_however_often_objects_go_back_to_a_slab() {
    with_two_that_share(|_, mut one, other| {
        for _ in 0..100 {
            // More than are hot, and not more than a slab has.
            let objects: Vec<_> = (0..18).map(|_| one.alloc(5000).unwrap()).collect();
            one.free_all(objects);
        }
        drop((one, other));
    });
}

#[test]
fn a_medium_object_that_one_frees_is_the_next_to_be_given_out_on_its_processor() {
    for size in [3000, 9000, MEDIUM_MAX] {
        with_two_that_share(|estate, mut one, mut other| {
            estate.arena().system().run_on(1);
            let objects = alloc_some(&mut one, size);
            one.free(objects[50]);
            assert_eq!(other.alloc(size), Some(objects[50]));
            one.free(objects[70]);
            assert_eq!(
                one.try_free(objects[70]),
                Err(Invalid::FreedTwice { address: objects[70] })
            );
            assert_eq!(other.alloc(size), Some(objects[70]));
            one.free_all(objects);
        });
    }
}

#[test]
fn an_object_that_was_set_aside_twice_is_reported_when_it_goes_back() {
    with_two_that_share(|estate, mut one, mut other| {
        estate.arena().system().run_on(1);
        let objects = alloc_some(&mut one, 64);
        one.free_all(objects[..40].iter().copied());
        // The first of them is in the depot by now, where nobody looks for it.
        let twice = objects[0];
        other.free(twice);
        other.free_all(objects[40..].iter().copied());
        one.cache.flush(estate.arena()).unwrap();
        let flushed = other.cache.flush(estate.arena());
        let let_go = estate.arena().let_go_of_shared();
        let refused = Err(Invalid::FreedTwice { address: twice });
        assert!(flushed == refused || let_go == refused, "{flushed:?}, {let_go:?}");
    });
}

#[test]
fn who_shares_takes_slabs_of_medium_objects_that_exclusive_heaps_have_free() {
    let estate = Estate::new(Fake::new());
    let mut owners: Vec<_> = (0..32).map(|_| Thread::new(&estate)).collect();
    let objects: Vec<_> = owners.iter_mut().map(|thread| thread.alloc(100).unwrap()).collect();
    let size = 5000;
    let count = (64 << 20) / size;
    let ones: Vec<_> = (0..count).map(|_| owners[0].alloc(size).unwrap()).collect();
    let (stay, go): (Vec<_>, Vec<_>) = ones.into_iter().enumerate().partition(|it| it.0 % 8 == 0);
    owners[0].free_all(go.into_iter().map(|(_, object)| object));
    owners[0].cache.flush(estate.arena()).unwrap();
    let mut sharer = Thread::new(&estate);
    let before = estate.arena().usage().claimed;
    let shared: Vec<_> = (0..count / 2).map(|_| sharer.alloc(size).unwrap()).collect();
    assert_eq!(sharer.cache.holding(), Holding::Shared);
    let grown = estate.arena().usage().claimed - before;
    assert!(grown < 4 << 20, "{grown} bytes more");
    sharer.free_all(shared.into_iter().chain(stay.into_iter().map(|(_, object)| object)));
    for (thread, object) in owners.iter_mut().zip(objects) {
        thread.free(object);
    }
}
