//! Runs that one thread claims and another frees.

use crate::hot_runs::claimed;
use crate::reclaiming::{alone, can_summon};
use crate::support::{Estate, Random, Thread};
use freehold_heap::layout::GRANULE;
use freehold_heap::policy::purge::TICK_MILLISECONDS;
use freehold_heap::policy::retain::{HOT_RUN_BYTES_MOST, Resident, exchanged_runs};
use freehold_heap::purge::Watch;
use freehold_sys::fake::Fake;
use std::collections::BTreeSet;

const SIZE: usize = 200_000;

/// Granules that may wait, gathered ones included, when little is in use.
fn most() -> usize {
    exchanged_runs(0, Resident::ALL) / GRANULE / 2 * 3
}

/// A thread that has claimed far more than it has given back, and one that frees what it has: all
/// that it frees is in no thread's hands any longer.
fn maker_and_freer(estate: &Estate<Fake>) -> (Thread<'_, Fake>, Thread<'_, Fake>) {
    let (mut maker, mut freer) = (Thread::new(estate), Thread::new(estate));
    claim_and_free(&mut maker, &mut freer);
    (maker, freer)
}

/// Makes two threads such ones, which stay where they are.
fn claim_and_free(maker: &mut Thread<'_, Fake>, freer: &mut Thread<'_, Fake>) {
    // Threads that have taken nothing do not make several.
    let own = freer.alloc(100).unwrap();
    freer.free(own);
    let many = 2 * HOT_RUN_BYTES_MOST / SIZE + 10;
    let first: Vec<_> = (0..many).map(|_| maker.alloc(SIZE).unwrap()).collect();
    freer.free_all(first);
}

fn tick(estate: &Estate<Fake>, watch: &mut Watch) {
    estate.arena().system().advance(TICK_MILLISECONDS);
    estate.arena().purge_idle(watch).unwrap();
}

#[test]
fn what_another_thread_has_freed_is_taken_again_and_stays_claimed_in_between() {
    let estate = Estate::new(Fake::new());
    let (mut maker, mut freer) = maker_and_freer(&estate);
    let mut taken_again = 0;
    for _ in 0..50 {
        let runs: Vec<_> = (0..8).map(|_| maker.alloc(SIZE).unwrap()).collect();
        let before = claimed(&estate);
        freer.free_all(runs.iter().copied());
        let after = claimed(&estate);
        let again: Vec<_> = (0..8).map(|_| maker.alloc(SIZE).unwrap()).collect();
        let known: BTreeSet<_> = runs.iter().collect();
        taken_again += again.iter().filter(|run| known.contains(run)).count();
        assert!(before - after <= 8 * 7 && after > 0);
        freer.free_all(again);
    }
    assert!(taken_again >= 50 * 3, "{taken_again} of 400");
}

#[test]
fn who_takes_one_run_of_a_lot_has_the_others_at_hand() {
    let estate = Estate::new(Fake::new());
    let (mut maker, mut freer) = maker_and_freer(&estate);
    let mut came_from_lots = 0;
    for _ in 0..50 {
        let runs: Vec<_> = (0..4).map(|_| maker.alloc(SIZE).unwrap()).collect();
        freer.free_all(runs);
        let before = claimed(&estate);
        let run = maker.alloc(SIZE).unwrap();
        // Of what is taken from elsewhere there would be more, of what is given back less.
        came_from_lots += usize::from(claimed(&estate) == before);
        freer.free(run);
    }
    assert!(came_from_lots >= 40, "{came_from_lots} of 50");
}

#[test]
fn each_is_in_one_hand_at_a_time_whatever_the_lengths_and_the_order() {
    let estate = Estate::new(Fake::new());
    let (maker, mut freer) = maker_and_freer(&estate);
    let (mut makers, mut random) = ([maker, Thread::new(&estate)], Random::new());
    let (mut out, mut where_they_are) = (Vec::new(), BTreeSet::new());
    for n in 0..20_000 {
        if out.is_empty() || random.below(100) < 50 && out.len() < 60 {
            let size = 33_000 + random.below(400_000);
            let run = makers[random.below(2)].alloc(size).unwrap();
            let granules = run / GRANULE..(run + size).div_ceil(GRANULE);
            assert!(granules.clone().all(|g| where_they_are.insert(g)), "{n}: {run:#x} is out");
            out.push((run, granules));
        } else {
            let (run, granules) = out.swap_remove(random.below(out.len()));
            granules.for_each(|g| assert!(where_they_are.remove(&g)));
            if random.below(10) == 0 { makers[0].free(run) } else { freer.free(run) }
        }
    }
    freer.free_all(out.into_iter().map(|(run, _)| run));
    drop((makers, freer));
    estate.arena().purge_all();
    assert_eq!(claimed(&estate), 0);
}

#[test]
fn what_waits_is_bounded_however_much_is_freed_and_by_however_many() {
    let estate = Estate::new(Fake::new());
    let (mut maker, first) = maker_and_freer(&estate);
    let mut freers = vec![first];
    freers.extend((0..12).map(|_| Thread::new(&estate)));
    let runs: Vec<_> = (0..2600).map(|_| maker.alloc(40_000).unwrap()).collect();
    for (n, run) in runs.into_iter().enumerate() {
        freers[n / 3 % 13].free(run);
    }
    let waiting = claimed(&estate);
    assert!(waiting > most() / 2, "{waiting} granules wait");
    // As much may wait as could when all were in use.
    let bound = exchanged_runs(usize::MAX, Resident::ALL) / GRANULE / 2 * 3;
    assert!(claimed(&estate) <= bound, "{} of {bound}", claimed(&estate));
}

#[test]
fn nothing_waits_where_who_claims_runs_gives_them_back() {
    let estate = Estate::new(Fake::new());
    let (mut maker, mut freer) = (Thread::new(&estate), Thread::new(&estate));
    let own = freer.alloc(100).unwrap();
    let before = claimed(&estate);
    let runs: Vec<_> = (0..5).map(|_| maker.alloc(SIZE).unwrap()).collect();
    for _ in 0..200 {
        let runs: Vec<_> = (0..3).map(|_| maker.alloc(SIZE).unwrap()).collect();
        maker.free_all(runs);
    }
    freer.free_all(runs);
    maker.cache.trim(estate.arena()).unwrap();
    assert_eq!(claimed(&estate), before);
    freer.free(own);
}

#[test]
fn a_thread_that_has_never_allocated_gathers_as_well() {
    let estate = Estate::new(Fake::new());
    let (mut maker, _freer) = maker_and_freer(&estate);
    let mut freer = Thread::new(&estate);
    let mut stayed = 0;
    for _ in 0..400 {
        let run = maker.alloc(SIZE).unwrap();
        let before = claimed(&estate);
        freer.free(run);
        stayed += usize::from(claimed(&estate) == before);
    }
    assert!(stayed > 200, "{stayed} of 400 stayed");
}

#[test]
fn a_run_that_waits_is_not_allocated_for_whoever_names_it() {
    let estate = Estate::new(Fake::new());
    let (mut maker, mut freer) = maker_and_freer(&estate);
    let runs: Vec<_> = (0..40).map(|_| maker.alloc(SIZE).unwrap()).collect();
    freer.free_all(runs.iter().copied());
    assert!(claimed(&estate) > 0);
    for address in runs {
        assert!(freer.try_free(address).is_err(), "{address:#x} was free");
        assert!(maker.try_free(address).is_err(), "{address:#x} was free");
        assert!(estate.arena().usable_size(address).is_err());
    }
}

#[test]
fn they_count_as_free_and_dirty() {
    let estate = Estate::new(Fake::new());
    let (mut maker, mut freer) = maker_and_freer(&estate);
    estate.arena().purge_all();
    let runs: Vec<_> = (0..20).map(|_| maker.alloc(SIZE).unwrap()).collect();
    let before = estate.arena().usage();
    freer.free_all(runs.iter().copied());
    assert!(claimed(&estate) > 0);
    let after = estate.arena().usage();
    assert_eq!(before.in_use() - after.in_use(), 20 * 7 * GRANULE);
    assert_eq!(after.dirty - before.dirty, 20 * 7 * GRANULE);
}

#[test]
fn they_go_when_none_was_taken_for_a_tick_and_when_the_program_trims() {
    let estate = Estate::new(Fake::new());
    let (mut maker, mut freer) = maker_and_freer(&estate);
    let mut watch = Watch::default();
    let mut leave_some = || {
        let runs: Vec<_> = (0..60).map(|_| maker.alloc(SIZE).unwrap()).collect();
        freer.free_all(runs);
        // What it has gathered stays with it.
        freer.cache.trim(estate.arena()).unwrap();
        claimed(&estate)
    };
    assert!(leave_some() > 0);
    tick(&estate, &mut watch);
    tick(&estate, &mut watch);
    assert_eq!(claimed(&estate), 0, "after ticks");
    assert!(leave_some() > 0);
    estate.arena().purge_all();
    assert_eq!(claimed(&estate), 0, "trimmed");
}

#[test]
fn as_long_as_some_are_taken_they_stay() {
    let estate = Estate::new(Fake::new());
    let (mut maker, mut freer) = maker_and_freer(&estate);
    let mut watch = Watch::default();
    tick(&estate, &mut watch);
    let mut stayed = 0;
    for _ in 0..20 {
        for _ in 0..2 {
            let runs: Vec<_> = (0..30).map(|_| maker.alloc(SIZE).unwrap()).collect();
            freer.free_all(runs);
        }
        tick(&estate, &mut watch);
        // More than the one that the thread may have gathered, which stays with it.
        stayed += usize::from(claimed(&estate) > SIZE.div_ceil(GRANULE));
    }
    assert!(stayed >= 15, "{stayed} of 20 ticks");
}

/// Granules of a run of `SIZE` bytes.
const GRANULES: usize = SIZE.div_ceil(GRANULE);

/// Has the second thread free runs that the first one claims until it has gathered one.
fn leave_one_gathered(
    estate: &Estate<Fake>,
    maker: &mut Thread<'_, Fake>,
    freer: &mut Thread<'_, Fake>,
) {
    estate.arena().purge_all();
    // Some go back at once, since there was no room before; two make up a lot, which is purged.
    let gathered = (0..100).any(|_| {
        let run = maker.alloc(SIZE).unwrap();
        let before = claimed(estate);
        freer.free(run);
        estate.arena().purge_all();
        claimed(estate) == before
    });
    assert!(gathered, "each went back");
}

#[test]
fn what_a_thread_has_gathered_goes_back_when_it_trims_and_when_it_ends() {
    let estate = Estate::new(Fake::new());
    let (mut maker, mut freer) = maker_and_freer(&estate);
    leave_one_gathered(&estate, &mut maker, &mut freer);
    let before = claimed(&estate);
    freer.cache.flush(estate.arena()).unwrap();
    assert_eq!(claimed(&estate), before - GRANULES);
    leave_one_gathered(&estate, &mut maker, &mut freer);
    let before = claimed(&estate);
    drop(freer);
    assert!(claimed(&estate) <= before - GRANULES);
}

#[test]
fn what_a_thread_has_gathered_is_taken_from_it_when_the_program_rests() {
    let _alone = alone();
    let estate = Estate::new(Fake::new());
    if !can_summon(&estate) {
        return;
    }
    estate.arena().set_helped(true);
    let (mut maker, mut freer) = (Thread::new(&estate), Thread::new(&estate));
    claim_and_free(&mut maker, &mut freer);
    leave_one_gathered(&estate, &mut maker, &mut freer);
    assert!(claimed(&estate) >= GRANULES);
    // SAFETY: all is done by this thread, one thing after the other.
    let mut watch = unsafe { Watch::reclaiming() };
    // More often than it takes: somebody else may be summoned just then.
    for _ in 0..1000 {
        estate.arena().system().advance(TICK_MILLISECONDS);
        estate.arena().purge_idle(&mut watch).unwrap();
        if claimed(&estate) < GRANULES {
            return;
        }
    }
    panic!("{} granules are left", claimed(&estate));
}

#[test]
fn what_a_thread_has_gathered_goes_back_in_the_child_of_a_fork_where_it_is_not() {
    let estate = Estate::new(Fake::new());
    let (mut maker, mut freer) = maker_and_freer(&estate);
    leave_one_gathered(&estate, &mut maker, &mut freer);
    let before = claimed(&estate);
    estate.arena().lock_all();
    maker.cache.after_fork_in_child(estate.arena());
    assert!(claimed(&estate) <= before - GRANULES);
    core::mem::forget(freer);
}

#[test]
fn what_a_thread_has_gathered_is_given_up_before_it_is_refused_memory() {
    let estate = Estate::new(Fake::new().with_address_space(64 << 20));
    let (mut maker, mut freer) = maker_and_freer(&estate);
    let all_of_them = |thread: &mut Thread<'_, Fake>| {
        let all: Vec<_> = core::iter::from_fn(|| thread.alloc(5000)).collect();
        let count = all.len();
        thread.free_all(all);
        thread.cache.trim(estate.arena()).unwrap();
        estate.arena().purge_all();
        count
    };
    freer.cache.trim(estate.arena()).unwrap();
    let without = all_of_them(&mut freer);
    leave_one_gathered(&estate, &mut maker, &mut freer);
    let with = all_of_them(&mut freer);
    assert!(with + GRANULES * GRANULE / 5000 / 2 > without, "{with} of {without}");
}

#[test]
fn who_frees_what_it_has_claimed_itself_leaves_none_for_others() {
    let estate = Estate::new(Fake::new());
    let (_maker, mut freer) = maker_and_freer(&estate);
    freer.cache.trim(estate.arena()).unwrap();
    estate.arena().purge_all();
    let before = claimed(&estate);
    let mut thread = Thread::new(&estate);
    let runs: Vec<_> = (0..300).map(|_| thread.alloc(SIZE).unwrap()).collect();
    thread.free_all(runs);
    thread.cache.trim(estate.arena()).unwrap();
    assert_eq!(claimed(&estate), before);
}

#[test]
fn who_claims_its_first_run_leaves_what_waits_to_those_who_keep_some() {
    let estate = Estate::new(Fake::new());
    let (mut maker, mut freer) = maker_and_freer(&estate);
    let runs: Vec<_> = (0..60).map(|_| maker.alloc(SIZE).unwrap()).collect();
    freer.free_all(runs);
    let before = claimed(&estate);
    assert!(before > 2 * GRANULES);
    let mut thread = Thread::new(&estate);
    let run = thread.alloc(SIZE).unwrap();
    assert_eq!(claimed(&estate), before + GRANULES);
    thread.free(run);
}

#[test]
fn a_run_longer_than_a_quarter_of_what_may_wait_goes_back() {
    let estate = Estate::new(Fake::new());
    let (mut maker, mut freer) = maker_and_freer(&estate);
    let size = exchanged_runs(usize::MAX, Resident::ALL) / 2;
    let runs: Vec<_> = (0..40).map(|_| maker.alloc(size).unwrap()).collect();
    for run in runs {
        let before = claimed(&estate);
        freer.free(run);
        assert!(claimed(&estate) < before);
    }
}

#[test]
fn they_are_given_up_before_memory_is_refused() {
    let estate = Estate::new(Fake::new().with_address_space(64 << 20));
    let (mut maker, mut freer) = maker_and_freer(&estate);
    let mut other = Thread::new(&estate);
    let mut all_of_them = |size: usize| {
        let all: Vec<_> = core::iter::from_fn(|| other.alloc(size)).collect();
        let count = all.len();
        other.free_all(all);
        other.cache.trim(estate.arena()).unwrap();
        estate.arena().purge_all();
        count
    };
    freer.cache.trim(estate.arena()).unwrap();
    estate.arena().purge_all();
    let without = all_of_them(5000);
    for run in (0..100).map(|_| maker.alloc(SIZE).unwrap()).collect::<Vec<_>>() {
        freer.free(run);
    }
    freer.cache.trim(estate.arena()).unwrap();
    let waiting = claimed(&estate);
    assert!(waiting > most() / 3, "{waiting} granules wait");
    let with = all_of_them(5000);
    // What a slab takes that others have made.
    assert!(with >= without - without / 200, "{with} of {without}, {waiting} granules waited");
}

#[test]
fn in_the_child_of_a_fork_nothing_waits() {
    let estate = Estate::new(Fake::new());
    let (mut maker, mut freer) = maker_and_freer(&estate);
    let runs: Vec<_> = (0..60).map(|_| maker.alloc(SIZE).unwrap()).collect();
    freer.free_all(runs);
    freer.cache.trim(estate.arena()).unwrap();
    assert!(claimed(&estate) > 0);
    estate.arena().lock_all();
    maker.cache.after_fork_in_child(estate.arena());
    assert_eq!(claimed(&estate), 0);
    let run = maker.alloc(SIZE).unwrap();
    maker.free(run);
}
