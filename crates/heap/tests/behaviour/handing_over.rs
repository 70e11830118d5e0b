//! Medium objects that one thread allocates and another frees.

use crate::many_threads::trade_beside;
use crate::reclaiming::{alone, can_summon};
use crate::support::{Estate, Random, Thread};
use freehold_heap::class::{MEDIUM_MAX, SMALL_MAX};
use freehold_heap::invalid::Invalid;
use freehold_heap::policy::purge::TICK_MILLISECONDS;
use freehold_heap::policy::retain;
use freehold_heap::purge::Watch;
use freehold_sys::fake::Fake;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

const SIZE: usize = 3000;

/// Bytes that are out, as far as slabs know.
fn out(estate: &Estate<Fake>) -> usize {
    estate.arena().usage().in_use()
}

/// A thread that allocates objects of a size, and one that frees them and has had no use for so
/// many that others are to have the next ones.
fn maker_and_freer(estate: &Estate<Fake>, size: usize) -> (Thread<'_, Fake>, Thread<'_, Fake>) {
    let (mut maker, mut freer) = (Thread::new(estate), Thread::new(estate));
    claim_and_free(estate, (&mut maker, &mut freer), size);
    (maker, freer)
}

/// Makes two threads such ones, which stay where they are.
fn claim_and_free(
    estate: &Estate<Fake>,
    (maker, freer): (&mut Thread<'_, Fake>, &mut Thread<'_, Fake>),
    size: usize,
) {
    estate.arena().set_helped(true);
    // Threads that have taken nothing do not make several.
    let own = freer.alloc(100).unwrap();
    freer.free(own);
    let first = alloc_some(maker, 250, size);
    freer.free_all(first);
}

fn alloc_some(thread: &mut Thread<'_, Fake>, count: usize, size: usize) -> Vec<usize> {
    (0..count).map(|_| thread.alloc(size).unwrap()).collect()
}

fn tick(estate: &Estate<Fake>, watch: &mut Watch) {
    estate.arena().system().advance(TICK_MILLISECONDS);
    estate.arena().purge_idle(watch).unwrap();
}

/// Has both give up all that they have at hand or have gathered, so that what is out is what waits,
/// when nothing is in use.
fn trim(estate: &Estate<Fake>, threads: [&mut Thread<'_, Fake>; 2]) {
    for thread in threads {
        thread.cache.trim(estate.arena()).unwrap();
    }
}

#[test]
fn what_another_thread_has_freed_is_taken_without_having_gone_home() {
    for size in [SMALL_MAX + 1, SIZE, 9000, MEDIUM_MAX] {
        let estate = Estate::new(Fake::new());
        let (mut maker, mut freer) = maker_and_freer(&estate, size);
        let mut taken = 0;
        for _ in 0..20 {
            let objects = alloc_some(&mut maker, 60, size);
            let before = out(&estate);
            freer.free_all(objects.iter().copied());
            assert!(
                before - out(&estate) <= 16 * size,
                "size {size}: {} went home",
                (before - out(&estate)) / size
            );
            let known: BTreeSet<_> = objects.into_iter().collect();
            let again = alloc_some(&mut maker, 60, size);
            taken += again.iter().filter(|object| known.contains(object)).count();
            freer.free_all(again);
        }
        assert!(taken > 20 * 40, "size {size}: {taken} of 1200");
    }
}

#[test]
fn a_thread_that_has_never_allocated_hands_over_as_well() {
    let estate = Estate::new(Fake::new());
    let (mut maker, _freer) = maker_and_freer(&estate, SIZE);
    let mut freer = Thread::new(&estate);
    for n in 0..20 {
        let objects = alloc_some(&mut maker, 60, SIZE);
        let before = out(&estate);
        freer.free_all(objects.iter().copied());
        // It gets its outbox first.
        assert!(n == 0 || out(&estate) == before, "{} bytes went home", before - out(&estate));
        for address in objects {
            assert_eq!(freer.try_free(address), Err(Invalid::FreedTwice { address }));
        }
    }
    trim(&estate, [&mut maker, &mut freer]);
    assert!(out(&estate) > 20 * SIZE, "{} bytes wait", out(&estate));
}

#[test]
fn what_waits_is_not_freed_twice_by_whoever_would_send_it_home() {
    let estate = Estate::new(Fake::new());
    let (mut maker, mut freer) = maker_and_freer(&estate, SIZE);
    let mut other = Thread::new(&estate);
    let own = other.alloc(100).unwrap();
    let mut objects = alloc_some(&mut maker, 100, SIZE);
    // Some of the same slabs wait for others of them.
    let posted: Vec<_> = (0..10).map(|n| objects.remove(9 * n)).collect();
    other.free_all(posted);
    freer.free_all(objects.iter().copied());
    for address in objects {
        assert_eq!(freer.try_free(address), Err(Invalid::FreedTwice { address }));
        assert_eq!(other.try_free(address), Err(Invalid::FreedTwice { address }));
    }
    other.free(own);
}

#[test]
fn a_second_free_is_found_at_once_whether_there_is_room_for_a_lot_or_not() {
    let estate = Estate::new(Fake::new());
    let (mut maker, mut freer) = maker_and_freer(&estate, SIZE);
    let mut random = Random::new();
    for (n, address) in alloc_some(&mut maker, 4000, SIZE).into_iter().enumerate() {
        freer.free(address);
        // Not all of them, so that it is now one and now another before room is looked for again.
        if random.below(3) == 0 {
            // As freed twice, or as nothing, if its slab has gone.
            assert!(freer.try_free(address).is_err(), "object {n} was freed twice");
        }
    }
}

#[test]
fn what_waits_and_went_home_by_a_second_free_is_given_out_once() {
    let estate = Estate::new(Fake::new());
    let mut keeper = Thread::new(&estate);
    let own = keeper.alloc(SIZE).unwrap();
    let (mut maker, mut freer) = maker_and_freer(&estate, SIZE);
    let objects = alloc_some(&mut maker, 100, SIZE);
    freer.free_all(objects.iter().copied());
    // Who keeps objects of the class does not look whether they wait.
    assert_eq!(keeper.try_free(objects[90]), Ok(()));
    keeper.cache.trim(estate.arena()).unwrap();
    let again = alloc_some(&mut maker, 300, SIZE);
    assert_eq!(again.iter().collect::<BTreeSet<_>>().len(), again.len());
    maker.free_all(again);
    keeper.free(own);
}

#[test]
fn the_mark_of_what_was_freed_twice_is_gone_with_its_slab() {
    let estate = Estate::new(Fake::new());
    let mut keeper = Thread::new(&estate);
    let own = keeper.alloc(SIZE).unwrap();
    let (mut maker, mut freer) = maker_and_freer(&estate, SIZE);
    trim(&estate, [&mut maker, &mut freer]);
    estate.arena().purge_all();
    // So that what is known of the block is not purged with it.
    let stays = maker.alloc(100).unwrap();
    let objects = alloc_some(&mut maker, 120, SIZE);
    let (first, others) = objects.split_first().unwrap();
    freer.free(*first);
    assert_eq!(keeper.try_free(*first), Ok(()));
    keeper.free(own);
    maker.free_all(others.iter().copied());
    trim(&estate, [&mut maker, &mut keeper]);
    // Now its slab is nobody's, although the first thread has gathered it.
    estate.arena().purge_all();
    assert_eq!(estate.arena().granules_in_use().used, 1);
    let mut small: BTreeSet<_> = (0..20_000).map(|_| maker.alloc(16).unwrap()).collect();
    // Every other one comes and goes by way of the slabs' bits.
    let some: Vec<_> = small.iter().copied().step_by(2).collect();
    for object in &some {
        small.remove(object);
    }
    let count = some.len();
    maker.free_all(some);
    maker.cache.trim(estate.arena()).unwrap();
    for _ in 0..count {
        assert!(small.insert(maker.alloc(16).unwrap()), "given out twice");
    }
    trim(&estate, [&mut maker, &mut freer]);
    let again = alloc_some(&mut maker, 200, SIZE);
    assert_eq!(again.iter().collect::<BTreeSet<_>>().len(), again.len());
    maker.free_all(again.into_iter().chain(small).chain([stays]));
    drop((maker, freer, keeper));
    estate.arena().purge_all();
    // SAFETY: all threads are gone.
    let census = unsafe { estate.arena().check() };
    assert_eq!((census.objects_out, census.slab_granules), (0, 0));
}

#[test]
fn who_allocates_what_it_frees_leaves_none_to_others() {
    let estate = Estate::new(Fake::new());
    let (mut maker, mut freer) = maker_and_freer(&estate, SIZE);
    trim(&estate, [&mut maker, &mut freer]);
    estate.arena().purge_all();
    let mut thread = Thread::new(&estate);
    for _ in 0..20 {
        let objects = alloc_some(&mut thread, 50, SIZE);
        thread.free_all(objects);
    }
    thread.cache.trim(estate.arena()).unwrap();
    assert_eq!(out(&estate), 0);
}

#[test]
fn what_was_fetched_and_freed_by_the_hundred_is_not_handed_over_until_far_more_is_freed() {
    let estate = Estate::new(Fake::new());
    let (mut maker, mut other) = maker_and_freer(&estate, SIZE);
    for _ in 0..20 {
        let objects = alloc_some(&mut maker, 400, SIZE);
        maker.free_all(objects);
    }
    trim(&estate, [&mut maker, &mut other]);
    assert!(out(&estate) <= 32 * SIZE, "{} bytes wait", out(&estate));
    // Nor are a few of others', beside what it has fetched itself; but more are.
    let mut objects = alloc_some(&mut other, 3000, SIZE);
    trim(&estate, [&mut maker, &mut other]);
    let before = out(&estate);
    maker.free_all(objects.drain(..200));
    trim(&estate, [&mut maker, &mut other]);
    assert!(before - out(&estate) > 160 * SIZE, "{} bytes went home", before - out(&estate));
    maker.free_all(objects);
    trim(&estate, [&mut maker, &mut other]);
    assert!(out(&estate) > 100 * SIZE, "{} bytes wait", out(&estate));
}

#[test]
fn who_frees_a_few_sends_them_home() {
    let estate = Estate::new(Fake::new());
    let (mut maker, mut freer) = maker_and_freer(&estate, SIZE);
    trim(&estate, [&mut maker, &mut freer]);
    estate.arena().purge_all();
    let mut other = Thread::new(&estate);
    let own = other.alloc(100).unwrap();
    let objects = alloc_some(&mut maker, 40, SIZE);
    other.free_all(objects);
    other.free(own);
    trim(&estate, [&mut maker, &mut other]);
    // Less than a lot: what is left of slabs beside their objects.
    assert!(out(&estate) < 8 * SIZE, "{} bytes are out", out(&estate));
}

#[test]
fn nothing_waits_where_nobody_would_send_it_home() {
    let estate = Estate::new(Fake::new());
    let (mut maker, mut freer) = maker_and_freer(&estate, SIZE);
    trim(&estate, [&mut maker, &mut freer]);
    estate.arena().purge_all();
    estate.arena().set_helped(false);
    let objects = alloc_some(&mut maker, 400, SIZE);
    freer.free_all(objects);
    trim(&estate, [&mut maker, &mut freer]);
    // Less than a lot: what is left of slabs beside their objects.
    assert!(out(&estate) < 8 * SIZE, "{} bytes are out", out(&estate));
}

#[test]
fn what_waits_is_bounded_whatever_is_freed() {
    let estate = Estate::new(Fake::new());
    let sizes = [SIZE, 6000, 9000, 12_000, 16_000, 20_000, 24_000, MEDIUM_MAX];
    let (mut maker, mut freer) = maker_and_freer(&estate, SIZE);
    let objects: Vec<_> =
        sizes.iter().flat_map(|&size| alloc_some(&mut maker, (6 << 20) / size, size)).collect();
    freer.free_all(objects);
    trim(&estate, [&mut maker, &mut freer]);
    let (waiting, most) = (out(&estate), retain::handed_over(48 << 20));
    assert!(waiting <= most && waiting > most / 2, "{waiting} of {most} bytes wait");
}

#[test]
fn they_go_home_when_none_was_taken_for_a_tick_and_when_the_program_trims() {
    let estate = Estate::new(Fake::new());
    let (mut maker, mut freer) = maker_and_freer(&estate, SIZE);
    let mut watch = Watch::default();
    let mut leave_some = || {
        let objects = alloc_some(&mut maker, 200, SIZE);
        freer.free_all(objects);
        trim(&estate, [&mut maker, &mut freer]);
        out(&estate)
    };
    assert!(leave_some() > 0);
    tick(&estate, &mut watch);
    tick(&estate, &mut watch);
    assert_eq!(out(&estate), 0, "after ticks");
    assert!(leave_some() > 0);
    estate.arena().purge_all();
    assert_eq!(out(&estate), 0, "trimmed");
}

#[test]
fn as_long_as_some_are_taken_others_stay_and_there_is_somebody_at_work() {
    let estate = Estate::new(Fake::new());
    let (mut maker, mut freer) = maker_and_freer(&estate, SIZE);
    let mut watch = Watch::default();
    for _ in 0..20 {
        for _ in 0..2 {
            let objects = alloc_some(&mut maker, 100, SIZE);
            freer.free_all(objects);
        }
        tick(&estate, &mut watch);
        assert!(watch.has_seen_somebody());
        assert!(out(&estate) > 50 * SIZE, "{} bytes stayed", out(&estate));
    }
}

/// Has the second thread gather eight objects.
fn gather_some(maker: &mut Thread<'_, Fake>, freer: &mut Thread<'_, Fake>) -> usize {
    let objects = alloc_some(maker, 8, SIZE);
    freer.free_all(objects);
    8 * SIZE
}

#[test]
fn what_a_thread_has_gathered_goes_home_when_it_trims_and_when_it_ends() {
    let estate = Estate::new(Fake::new());
    let (mut maker, mut freer) = maker_and_freer(&estate, SIZE);
    trim(&estate, [&mut maker, &mut freer]);
    let gathered = gather_some(&mut maker, &mut freer);
    let before = out(&estate);
    freer.cache.flush(estate.arena()).unwrap();
    assert!(out(&estate) <= before - gathered);
    let gathered = gather_some(&mut maker, &mut freer);
    let before = out(&estate);
    drop(freer);
    assert!(out(&estate) <= before - gathered);
}

#[test]
fn what_a_thread_has_gathered_goes_home_in_the_child_of_a_fork_as_does_what_waits() {
    let estate = Estate::new(Fake::new());
    let (mut maker, mut freer) = maker_and_freer(&estate, SIZE);
    let objects = alloc_some(&mut maker, 200, SIZE);
    freer.free_all(objects);
    trim(&estate, [&mut maker, &mut freer]);
    gather_some(&mut maker, &mut freer);
    maker.cache.trim(estate.arena()).unwrap();
    assert!(out(&estate) > 100 * SIZE);
    estate.arena().lock_all();
    maker.cache.after_fork_in_child(estate.arena());
    maker.cache.trim(estate.arena()).unwrap();
    assert!(out(&estate) < 4 * SIZE, "{} bytes are out", out(&estate));
    core::mem::forget(freer);
}

#[test]
fn what_a_thread_has_gathered_is_taken_from_it_when_the_program_rests() {
    let _alone = alone();
    let estate = Estate::new(Fake::new());
    if !can_summon(&estate) {
        return;
    }
    let (mut maker, mut freer) = (Thread::new(&estate), Thread::new(&estate));
    claim_and_free(&estate, (&mut maker, &mut freer), SIZE);
    gather_some(&mut maker, &mut freer);
    assert!(out(&estate) > 0);
    // SAFETY: all is done by this thread, one thing after the other.
    let mut watch = unsafe { Watch::reclaiming() };
    // More often than it takes: somebody else may be summoned just then.
    for _ in 0..1000 {
        tick(&estate, &mut watch);
        if out(&estate) < SIZE {
            return;
        }
    }
    panic!("{} bytes are out", out(&estate));
}

#[test]
fn they_are_given_up_before_memory_is_refused() {
    let estate = Estate::new(Fake::new().with_address_space(64 << 20));
    let (mut maker, mut freer) = maker_and_freer(&estate, SIZE);
    let mut other = Thread::new(&estate);
    let mut all_of_them = || {
        let all: Vec<_> = core::iter::from_fn(|| other.alloc(200_000)).collect();
        let count = all.len();
        other.free_all(all);
        other.cache.trim(estate.arena()).unwrap();
        estate.arena().purge_all();
        count
    };
    trim(&estate, [&mut maker, &mut freer]);
    estate.arena().purge_all();
    let without = all_of_them();
    let objects = alloc_some(&mut maker, 2000, SIZE);
    let mut random = Random::new();
    let mut left = objects;
    while !left.is_empty() {
        freer.free(left.swap_remove(random.below(left.len())));
    }
    trim(&estate, [&mut maker, &mut freer]);
    let waiting = out(&estate);
    assert!(waiting > 100 * SIZE, "{waiting} bytes wait");
    let with = all_of_them();
    assert!(with >= without - without / 100 - 1, "{with} of {without}, {waiting} bytes waited");
}

#[test]
fn each_is_in_one_hand_at_a_time_whatever_the_sizes_and_the_order() {
    let estate = Estate::new(Fake::new());
    let (maker, mut freer) = maker_and_freer(&estate, SIZE);
    let (mut makers, mut random) = ([maker, Thread::new(&estate)], Random::new());
    let mut watch = Watch::default();
    let (mut live, mut known) = (Vec::new(), BTreeSet::new());
    for n in 0..40_000 {
        if live.is_empty() || random.below(100) < 50 && live.len() < 600 {
            let size = SMALL_MAX + 1 + random.below(MEDIUM_MAX - SMALL_MAX);
            let address = makers[random.below(2)].alloc(size).unwrap();
            assert!(known.insert(address), "{n}: {address:#x} is out");
            live.push(address);
        } else {
            let address = live.swap_remove(random.below(live.len()));
            known.remove(&address);
            if random.below(10) == 0 { makers[0].free(address) } else { freer.free(address) }
        }
        if n % 5000 == 0 {
            tick(&estate, &mut watch);
        }
    }
    freer.free_all(live);
    drop((makers, freer));
    estate.arena().purge_all();
    // SAFETY: all threads are gone.
    let census = unsafe { estate.arena().check() };
    assert_eq!((census.objects_out, census.slab_granules), (0, 0));
}

#[test]
fn what_threads_hand_over_keeps_its_contents_and_none_is_lost_while_unused_lots_go_home() {
    let tick_until = |estate: &Estate<Fake>, over: &AtomicBool| {
        estate.arena().set_helped(true);
        let mut watch = Watch::default();
        while !over.load(SeqCst) {
            tick(estate, &mut watch);
            thread::yield_now();
        }
        estate.arena().set_helped(false);
        estate.arena().purge_all();
    };
    trade_beside(tick_until, 6, 30_000, MEDIUM_MAX, Fake::new());
}
