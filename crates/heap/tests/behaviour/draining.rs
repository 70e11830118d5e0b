//! When a thread sends home what is in its magazines.

use crate::reclaiming::{alone, can_summon};
use crate::sharing::with_two_that_share;
use crate::support::{Estate, Thread};
use freehold_heap::class::Class;
use freehold_heap::magazine::ROUNDS;
use freehold_heap::policy::retain::{
    CALL_BACK_AFTER_MILLISECONDS, CALLS_BACK, DRAINED_WORTH_A_THREAD, GONE_HOME_UNTIL_DRAINED,
    ON_ITS_WAY_MILLISECONDS,
};
use freehold_sys::fake::Fake;

/// Of objects that are freed by the thousand, of those of which some lie in a magazine meanwhile,
/// and of those that are fetched in between.
const MANY: usize = 48;
const FEW: usize = 200;
const FETCHED: usize = 100;

/// Of objects that are not set aside.
const LARGE: usize = 2000;

/// So many frees are more than what can be set aside and what overflows until a thread drains.
const LONG: usize = 10_000;

/// How many objects of a size are in the thread's magazine.
fn at_hand(thread: &mut Thread<Fake>, size: usize) -> usize {
    thread.cache.at_hand(Class::of_small(size))
}

/// Puts objects into the thread's magazine of [`FEW`], not more than it holds.
fn put_some_at_hand(thread: &mut Thread<Fake>) {
    let objects: Vec<_> = (0..ROUNDS / 2).map(|_| thread.alloc(FEW).unwrap()).collect();
    thread.free_all(objects);
    assert!(at_hand(thread, FEW) >= ROUNDS / 2);
}

/// Frees objects until nothing is left of [`FEW`]; returns how many that took.
fn free_until_drained(thread: &mut Thread<Fake>, objects: &mut Vec<usize>) -> Option<usize> {
    let before = objects.len();
    while at_hand(thread, FEW) > 0 {
        thread.free(objects.pop()?);
    }
    Some(before - objects.len())
}

fn alloc_many(thread: &mut Thread<Fake>, count: usize) -> Vec<usize> {
    (0..count).map(|_| thread.alloc(MANY).unwrap()).collect()
}

#[test]
fn who_only_frees_has_no_more_in_its_magazines_than_has_come_since_one_overflowed() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let mut objects = alloc_many(&mut thread, LONG);
    let few: Vec<_> = (0..ROUNDS).map(|_| thread.alloc(FEW).unwrap()).collect();
    put_some_at_hand(&mut thread);
    let frees = free_until_drained(&mut thread, &mut objects).expect("nothing went home");
    let least = usize::from(GONE_HOME_UNTIL_DRAINED) * ROUNDS / 2;
    assert!(frees > least, "{frees} frees are no reason");
    // From now on each time: one is there that had no room, and as many as there is room for come.
    let mut few = few;
    for _ in 0..3 {
        assert_eq!(at_hand(&mut thread, MANY), 1);
        thread.free(few.pop().unwrap());
        assert_eq!(free_until_drained(&mut thread, &mut objects), Some(ROUNDS));
    }
    thread.free_all(objects.into_iter().chain(few));
}

#[test]
fn the_magazine_that_overflowed_is_not_emptied_with_the_others_of_who_only_frees() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    // So large that none are set aside.
    let mut objects: Vec<_> = (0..LONG / 2).map(|_| thread.alloc(LARGE).unwrap()).collect();
    put_some_at_hand(&mut thread);
    free_until_drained(&mut thread, &mut objects).expect("nothing went home");
    assert_eq!(at_hand(&mut thread, LARGE), ROUNDS / 2 + 1);
    thread.free_all(objects);
}

#[test]
fn who_fetches_now_and_then_is_not_one_that_only_frees() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let mut objects = alloc_many(&mut thread, LONG);
    put_some_at_hand(&mut thread);
    let mut fetched = Vec::new();
    while !objects.is_empty() {
        for _ in 0..500 {
            thread.free(objects.pop().unwrap());
        }
        fetched.extend(fetch(&mut thread));
    }
    assert!(at_hand(&mut thread, FEW) >= ROUNDS / 2);
    thread.free_all(fetched);
}

/// Objects that are not in slabs.
fn out(estate: &Estate<Fake>) -> usize {
    // SAFETY: the test's only thread is here.
    unsafe { estate.arena().check() }.objects_out
}

#[test]
fn nor_is_who_uses_what_others_send_it() {
    let estate = Estate::new(Fake::new());
    let (mut thread, mut freer) = (Thread::new(&estate), Thread::new(&estate));
    let mut theirs: Vec<_> = (0..LONG / 4).map(|_| thread.alloc(FETCHED).unwrap()).collect();
    let mut objects = alloc_many(&mut thread, LONG);
    put_some_at_hand(&mut thread);
    freer.free(theirs.pop().unwrap());
    let mut received = Vec::new();
    while !objects.is_empty() {
        for _ in 0..500 {
            thread.free(objects.pop().unwrap());
        }
        // A parcel is sent with what is freed after it was full.
        freer.free_all(theirs.drain(..ROUNDS));
        while at_hand(&mut thread, FETCHED) > 0 {
            received.push(thread.alloc(FETCHED).unwrap());
        }
        let before = out(&estate);
        received.push(thread.alloc(FETCHED).unwrap());
        assert_eq!(out(&estate), before, "some were fetched from a slab");
    }
    assert!(at_hand(&mut thread, FEW) >= ROUNDS / 2);
    thread.free_all(received);
    freer.free_all(theirs);
}

/// Has the background thread's work done for idle threads, and all threads asked.
fn reclaim(estate: &Estate<Fake>) {
    // SAFETY: no thread uses the arena meanwhile.
    unsafe { estate.arena().reclaim() }.unwrap();
}

#[test]
fn who_is_asked_drains_once_when_it_overflows_again_and_nobody_who_comes_later_does() {
    let _alone = alone();
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let mut objects = alloc_many(&mut thread, 600);
    put_some_at_hand(&mut thread);
    thread.free_all(objects.drain(..100));
    assert!(at_hand(&mut thread, FEW) > 0, "it was not asked yet");
    reclaim(&estate);
    let frees = free_until_drained(&mut thread, &mut objects).expect("nothing went home");
    assert!(frees <= 3 * ROUNDS, "it took {frees} frees");
    for thread in [&mut thread, &mut Thread::new(&estate)] {
        put_some_at_hand(thread);
        let mut others = alloc_many(thread, 200);
        assert_eq!(free_until_drained(thread, &mut others), None);
    }
    thread.free_all(objects);
}

/// Frees objects until the magazine of those overflows.
fn overflow(thread: &mut Thread<Fake>, objects: &mut Vec<usize>) {
    let mut before = 0;
    while at_hand(thread, MANY) >= before {
        before = at_hand(thread, MANY);
        thread.free(objects.pop().unwrap());
    }
}

/// Fetches objects, and leaves them to the caller.
fn fetch(thread: &mut Thread<Fake>) -> Vec<usize> {
    (0..=ROUNDS).map(|_| thread.alloc(FETCHED).unwrap()).collect()
}

#[test]
fn who_was_asked_and_has_fetched_something_since_one_overflowed_waits_for_the_next() {
    let _alone = alone();
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let mut objects = alloc_many(&mut thread, 600);
    put_some_at_hand(&mut thread);
    reclaim(&estate);
    let mut fetched = Vec::new();
    for _ in 0..4 {
        fetched.extend(fetch(&mut thread));
        overflow(&mut thread, &mut objects);
        assert!(at_hand(&mut thread, FEW) > 0);
    }
    let frees = free_until_drained(&mut thread, &mut objects).expect("nothing went home");
    assert!(frees <= 3 * ROUNDS, "it took {frees} frees");
    thread.free_all(objects.into_iter().chain(fetched));
}

#[test]
fn what_many_magazines_held_is_worth_a_background_thread_that_looks_at_its_slabs_now_and_then() {
    let _alone = alone();
    let estate = Estate::new(Fake::new());
    // Beside another, or nobody would be wanted.
    let (mut other, mut thread) = (Thread::new(&estate), Thread::new(&estate));
    let theirs = other.alloc(FEW).unwrap();
    let many = DRAINED_WORTH_A_THREAD / ROUNDS * 2;
    let (soon, later) = (ON_ITS_WAY_MILLISECONDS, CALL_BACK_AFTER_MILLISECONDS);
    // Not one that is there, or nobody would be called back when it has gone.
    let mut cases = vec![(5, 1, false, false), (many, 0, true, false), (many, 0, false, true)];
    cases.push((many, soon - 1, false, false));
    cases.push((many, 1, false, true));
    cases.extend([(many, soon, false, true); CALLS_BACK as usize - 2]);
    cases.extend([(many, soon, false, false), (many, later - soon, false, true)]);
    cases.push((many, soon, false, true));
    for (classes, milliseconds, is_there, wanted) in cases {
        estate.arena().system().advance(milliseconds);
        estate.arena().set_helped(is_there);
        let mut objects = alloc_many(&mut thread, 300);
        put_some_at_hand(&mut thread);
        for class in (1..).map(Class).filter(|&class| class != Class::of_small(MANY)).take(classes)
        {
            let some: Vec<_> = (0..ROUNDS).map(|_| thread.alloc(class.size()).unwrap()).collect();
            thread.free_all(some);
        }
        reclaim(&estate);
        thread.cache.take_wish_for_help();
        free_until_drained(&mut thread, &mut objects).expect("nothing went home");
        let wish = thread.cache.take_wish_for_help();
        assert_eq!(wish, wanted, "{classes} classes, after {milliseconds} ms");
        thread.free_all(objects);
    }
    other.free(theirs);
}

#[test]
fn what_was_taken_from_the_depot_has_no_place_there_until_its_thread_has_drained() {
    let _alone = alone();
    let estate = Estate::new(Fake::new());
    if !can_summon(&estate) {
        return;
    }
    let mut thread = Thread::new(&estate);
    let mut objects = alloc_many(&mut thread, 1000);
    put_some_at_hand(&mut thread);
    // As many as are set aside in any case.
    thread.free_all(objects.drain(..200));
    reclaim(&estate);
    let frees = free_until_drained(&mut thread, &mut objects).expect("nothing went home");
    assert!(frees <= 3 * ROUNDS, "it took {frees} frees");
    thread.free_all(objects);
}

#[test]
fn threads_that_share_heaps_are_asked_as_well() {
    let _alone = alone();
    with_two_that_share(|estate, mut thread, other| {
        let mut objects = alloc_many(&mut thread, 600);
        put_some_at_hand(&mut thread);
        reclaim(estate);
        let frees = free_until_drained(&mut thread, &mut objects).expect("nothing went home");
        assert!(frees <= 4 * ROUNDS, "it took {frees} frees");
        thread.free_all(objects);
        drop((thread, other));
    });
}
