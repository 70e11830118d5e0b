//! What goes back to the system from slabs with objects in use.

use crate::support::{Estate, Thread, check, fill};
use freehold_heap::layout::{BLOCK, GRANULE};
use freehold_heap::policy::purge::{TICK_MILLISECONDS, TICKS_IN_POOL, TICKS_REMEMBERED};
use freehold_heap::purge::Watch;
use freehold_sys::fake::Fake;

/// Bytes that are allocated of each size.
const BYTES: usize = 8 << 20;
/// One object in so many stays in use.
const STAYS: usize = 100;

/// Allocates objects of a size, and frees all but one in so many. Returns those.
fn leave_some(thread: &mut Thread<Fake>, size: usize) -> Vec<usize> {
    let all: Vec<_> = (0..BYTES / size).map(|_| thread.alloc(size).unwrap()).collect();
    for (n, &object) in all.iter().enumerate() {
        fill(object, size, n as u64);
    }
    let (stay, go): (Vec<_>, Vec<_>) = all.iter().enumerate().partition(|(n, _)| n % STAYS == 0);
    thread.free_all(go.into_iter().map(|(_, &object)| object));
    stay.into_iter().map(|(_, &object)| object).collect()
}

fn check_all(objects: &[usize], size: usize) {
    for (n, &object) in objects.iter().enumerate() {
        check(object, size, (n * STAYS) as u64);
    }
}

#[test]
fn pages_of_free_objects_go_back_and_those_in_use_keep_their_contents() {
    for size in [48, 500, 1000, 2048, 3000, 8192, 20_000] {
        let estate = Estate::new(Fake::new());
        let mut thread = Thread::new(&estate);
        let stay = leave_some(&mut thread, size);
        estate.arena().purge_all();
        let before = estate.arena().system().purged();
        let purged = estate.arena().purge_within_slabs();
        assert_eq!(estate.arena().system().purged() - before, purged);
        // Of tiny objects most pages have one in use; of large ones most slabs have none, and are
        // released.
        let least = if size < 200 { 0 } else { (stay.len() * GRANULE / 2).min(BYTES / 4) };
        assert!(purged >= least && purged < BYTES, "{purged} bytes with objects of {size}");
        check_all(&stay, size);
        // Nothing is purged again before somebody takes from there.
        let calls = estate.arena().system().calls();
        assert_eq!(estate.arena().purge_within_slabs(), 0);
        assert_eq!(estate.arena().system().calls(), calls);
        let more = leave_some(&mut thread, size);
        assert!(purged == 0 || estate.arena().purge_within_slabs() > 0, "size {size}");
        check_all(&stay, size);
        check_all(&more, size);
        thread.free_all(stay);
        thread.free_all(more);
        // SAFETY: nobody is inside the allocator.
        unsafe { estate.arena().check() };
    }
}

#[test]
fn slabs_that_a_sleeping_thread_is_taking_from_are_not_left_out() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let run = thread.alloc(16 * GRANULE).unwrap();
    thread.free(run);
    thread.cache.trim(estate.arena()).unwrap();
    let one = thread.alloc(1000).unwrap();
    fill(one, 1000, 7);
    let purged = estate.arena().purge_within_slabs();
    assert!(purged >= GRANULE / 4, "{purged} bytes");
    check(one, 1000, 7);
    let more: Vec<_> = (0..60).map(|_| thread.alloc(1000).unwrap()).collect();
    for &object in &more {
        fill(object, 1000, 8);
    }
    for &object in &more {
        check(object, 1000, 8);
    }
    check(one, 1000, 7);
    thread.free_all(more.into_iter().chain([one]));
}

#[test]
fn what_was_never_touched_is_not_purged() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let one = thread.alloc(1000).unwrap();
    assert_eq!(estate.arena().purge_within_slabs(), 0);
    thread.free(one);
}

#[test]
fn the_background_thread_does_it_when_nothing_is_claimed_any_more() {
    let estate = Estate::new(Fake::new());
    let (mut thread, mut watch) = (Thread::new(&estate), Watch::default());
    let stay = leave_some(&mut thread, 1000);
    let mut purged = Vec::new();
    for _ in 0..=TICKS_REMEMBERED {
        estate.arena().system().advance(TICK_MILLISECONDS);
        estate.arena().purge_idle(&mut watch).unwrap();
        purged.push(estate.arena().system().purged());
    }
    let last = purged[TICKS_REMEMBERED] - purged[TICKS_REMEMBERED - 1];
    assert!(last > BYTES / 4, "{purged:?}");
    check_all(&stay, 1000);
    thread.free_all(stay);
}

#[test]
fn where_the_system_refuses_nothing_is_lost_and_it_is_tried_again() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let stay = leave_some(&mut thread, 1000);
    estate.arena().system().fail_after(3);
    let some = estate.arena().purge_within_slabs();
    estate.arena().system().recover();
    let rest = estate.arena().purge_within_slabs();
    assert!(some < rest && some + rest > BYTES / 4, "{some} and {rest} bytes");
    check_all(&stay, 1000);
    thread.free_all(stay);
}

#[test]
fn while_the_program_goes_on_only_slabs_that_waited_for_seconds_are_purged() {
    let estate = Estate::new(Fake::new());
    estate.arena().set_helped(true);
    let (mut thread, mut watch) = (Thread::new(&estate), Watch::default());
    let stay = leave_some(&mut thread, 1000);
    // So much that a sixteenth of it, which may stay, is more than what comes and goes below.
    let much = thread.alloc(96 * BLOCK).unwrap();
    estate.arena().purge_all();
    let before = estate.arena().system().purged();
    let mut purged = Vec::new();
    for _ in 0..TICKS_IN_POOL {
        // Blocks of their own, which nothing of what is looked at here is in; more than stay hot.
        let block = thread.alloc(5 * BLOCK).unwrap();
        thread.free(block);
        estate.arena().system().advance(TICK_MILLISECONDS);
        assert!(estate.arena().purge_idle(&mut watch).unwrap());
        purged.push(estate.arena().system().purged() - before);
    }
    let last = purged.len() - 1;
    assert!(purged[last - 1] < BYTES / 8 && purged[last] > BYTES / 4, "{purged:?}");
    thread.free(much);
    check_all(&stay, 1000);
    thread.free_all(stay);
}

/// Lets slabs of these sizes gather, and checks whether a thread is wished for then.
fn gather(sizes: &[usize]) {
    for threads in 1..=2 {
        let estate = Estate::new(Fake::new());
        let mut other = Thread::new(&estate);
        let object = (threads == 2).then(|| other.alloc(100).unwrap());
        let mut thread = Thread::new(&estate);
        // Each slab of 32 or more keeps one: nothing is released, so nothing is free and dirty.
        let of_each = BYTES / sizes.len();
        let all_sizes = sizes.iter().flat_map(|&size| (0..of_each / size).map(move |_| size));
        let all: Vec<_> = all_sizes.map(|size| thread.alloc(size).unwrap()).collect();
        let (stay, go): (Vec<_>, Vec<_>) = all.iter().enumerate().partition(|(n, _)| n % 16 == 0);
        thread.free_all(go.into_iter().map(|(_, &object)| object));
        assert!(estate.arena().granules_in_use().dirty * GRANULE < BYTES / 8);
        assert_eq!(thread.cache.take_wish_for_help(), threads == 2, "{threads} threads");
        thread.free_all(stay.into_iter().map(|(_, &object)| object));
        other.free_all(object);
    }
}

#[test]
fn slabs_that_gather_are_reason_enough_for_a_background_thread() {
    gather(&[1000]);
}

#[test]
fn so_are_slabs_of_many_sizes_together() {
    gather(&[64, 100, 200, 300, 400, 500, 600, 800, 1000]);
}

#[test]
fn several_who_purge_at_the_same_time_come_to_an_end() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let stay = leave_some(&mut thread, 1000);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..300 {
                    estate.arena().purge_within_slabs();
                }
            });
        }
    });
    check_all(&stay, 1000);
    thread.free_all(stay);
}
