//! What the background thread purges.

use crate::support::{Estate, Thread};
use freehold_heap::layout::{BLOCK, GRANULE};
use freehold_heap::policy::purge::{LOOK_MILLISECONDS, STEP, TICK_MILLISECONDS, TRIM_MILLISECONDS};
use freehold_heap::purge::Watch;
use freehold_sys::fake::Fake;

const RUN: usize = 64 * GRANULE;

/// Threads, so many that each keeps one run hot and no more.
fn threads(estate: &Estate<Fake>) -> [Thread<'_, Fake>; 4] {
    std::array::from_fn(|_| {
        let mut thread = Thread::new(estate);
        let objects = [16, RUN].map(|size| thread.alloc(size).unwrap());
        thread.free_all(objects);
        thread
    })
}

/// Allocates and frees so many MiB, in runs.
fn burst(thread: &mut Thread<Fake>, mebibytes: usize) {
    let all: Vec<_> =
        (0..mebibytes << 20).step_by(RUN).map(|_| thread.alloc(RUN).unwrap()).collect();
    thread.free_all(all);
}

/// One look of the background thread; what is dirty afterwards, in MiB, and whether it goes on.
fn tick(estate: &Estate<Fake>, watch: &mut Watch) -> (usize, bool) {
    estate.arena().system().advance(TICK_MILLISECONDS);
    let more = estate.arena().purge_idle(watch).unwrap();
    ((estate.arena().granules_in_use().dirty * GRANULE) >> 20, more)
}

#[test]
fn what_nobody_claims_is_returned_within_a_second() {
    let estate = Estate::new(Fake::new());
    estate.arena().set_helped(true);
    let (mut thread, mut watch) = (Thread::new(&estate), Watch::default());
    burst(&mut thread, 100);
    assert!(estate.arena().granules_in_use().dirty * GRANULE > 80 << 20);
    let seen: Vec<_> = (0..10).map(|_| tick(&estate, &mut watch)).collect();
    assert_eq!(seen[9].0, 0, "{seen:?}");
    let looks = seen.iter().take_while(|(_, more)| *more).count();
    assert!(looks < 10, "{seen:?}");
}

#[test]
fn most_of_what_is_claimed_in_every_tick_stays() {
    let estate = Estate::new(Fake::new());
    // Nobody writes to it.
    estate.arena().system().tell_resident(false);
    estate.arena().set_helped(true);
    let (mut thread, mut watch) = (Thread::new(&estate), Watch::default());
    burst(&mut thread, 60);
    for _ in 0..50 {
        burst(&mut thread, 60);
        assert!(tick(&estate, &mut watch).1);
    }
    let purged = estate.arena().purged_bytes() >> 20;
    assert!(purged < 50 * 60 / 4, "{purged} MiB were purged");
}

#[test]
fn what_comes_and_goes_many_times_a_second_stays_as_a_whole() {
    let estate = Estate::new(Fake::new());
    estate.arena().set_helped(true);
    let mut thread = Thread::new(&estate);
    burst(&mut thread, 60);
    for _ in 0..50 {
        estate.arena().system().advance(TRIM_MILLISECONDS / 2);
        burst(&mut thread, 60);
    }
    assert_eq!(estate.arena().purged_bytes(), 0);
}

/// Makes so many MiB of holes that are too short for what is asked for next: as much is in use as
/// before, and more is resident. Returns what is in use.
fn holes(thread: &mut Thread<Fake>, mebibytes: usize) -> Vec<usize> {
    holes_of(thread, RUN / 4, mebibytes)
}

/// The same with holes of so many bytes.
fn holes_of(thread: &mut Thread<Fake>, hole: usize, mebibytes: usize) -> Vec<usize> {
    let count = (mebibytes << 20) / hole;
    let blocks: Vec<_> = (0..2 * count).map(|_| thread.alloc(hole).unwrap()).collect();
    let (stay, go): (Vec<_>, Vec<_>) = blocks.iter().enumerate().partition(|(n, _)| n % 2 == 0);
    thread.free_all(go.into_iter().map(|(_, &block)| block));
    let larger = (0..count / 2).map(|_| thread.alloc(2 * hole).unwrap());
    stay.into_iter().map(|(_, &block)| block).chain(larger).collect()
}

#[test]
fn most_of_what_is_more_than_was_ever_in_use_goes_by_and_by() {
    let estate = Estate::new(Fake::new());
    estate.arena().set_helped(true);
    let [thread, ..] = &mut threads(&estate);
    let dirty = |estate: &Estate<Fake>| estate.arena().granules_in_use().dirty * GRANULE;
    let stay = holes(thread, 32);
    burst(thread, 4);
    let mut seen = vec![dirty(&estate)];
    for _ in 0..8 {
        burst(thread, 4);
        estate.arena().purge_left();
        seen.push(dirty(&estate));
        estate.arena().system().advance(TRIM_MILLISECONDS);
    }
    assert!(seen[0] > 24 << 20 && seen[1] > 12 << 20 && seen[8] < 8 << 20, "{seen:?}");
    thread.free_all(stay);
}

#[test]
fn threads_that_free_leave_what_is_too_much_to_the_background_thread() {
    let estate = Estate::new(Fake::new());
    estate.arena().set_helped(true);
    let [thread, ..] = &mut threads(&estate);
    let stay = holes(thread, 16);
    for _ in 0..100 {
        estate.arena().system().advance(TRIM_MILLISECONDS);
        burst(thread, 4);
    }
    assert_eq!(estate.arena().purged_bytes(), 0);
    assert!(estate.arena().purge_left());
    let purged = estate.arena().purged_bytes();
    assert!((1 << 20..=STEP).contains(&purged), "{purged}");
    thread.free_all(stay);
}

#[test]
fn the_background_thread_purges_in_steps_until_nothing_is_left_to_it() {
    let estate = Estate::new(Fake::new());
    estate.arena().set_helped(true);
    let [thread, ..] = &mut threads(&estate);
    let stay = holes(thread, 16);
    let mut looks = Vec::new();
    while looks.len() < 100 {
        let before = estate.arena().purged_bytes();
        let was_left = estate.arena().purge_left();
        looks.push(estate.arena().purged_bytes() - before);
        if !was_left {
            break;
        }
        estate.arena().system().advance(LOOK_MILLISECONDS.max(TRIM_MILLISECONDS));
    }
    assert!(looks.len() < 100 && looks.iter().all(|&purged| purged <= STEP), "{looks:?}");
    assert!(looks.iter().sum::<usize>() > 2 * STEP, "{looks:?}");
    thread.free_all(stay);
}

/// How much stays free and dirty, of more, when so many runs of 200 KiB are hot.
fn stays_beside_hot_runs(runs: usize) -> usize {
    let estate = Estate::new(Fake::new());
    estate.arena().set_helped(true);
    let thread = &mut Thread::new(&estate);
    let much = thread.alloc(160 << 20).unwrap();
    let stay = holes(thread, 32);
    // What the holes have left hot.
    thread.cache.trim(estate.arena()).unwrap();
    let hot: Vec<_> = (0..runs).map(|_| thread.alloc(200 << 10).unwrap()).collect();
    thread.free_all(hot);
    for _ in 0..100 {
        estate.arena().purge_left();
        estate.arena().system().advance(TRIM_MILLISECONDS);
    }
    let dirty = estate.arena().granules_in_use().dirty * GRANULE;
    thread.free_all(stay);
    thread.free(much);
    dirty
}

#[test]
fn less_stays_beyond_the_peak_where_runs_are_hot() {
    let (without, with) = (stays_beside_hot_runs(0), stays_beside_hot_runs(35));
    assert!(without > 5 << 20 && with < 3 << 20, "{without} without hot runs, {with} with");
}

#[test]
fn holes_too_short_to_be_worth_a_call_do_not_keep_the_background_thread_awake() {
    let estate = Estate::new(Fake::new());
    estate.arena().set_helped(true);
    let [thread, ..] = &mut threads(&estate);
    let stay = holes_of(thread, 4 * GRANULE, 16);
    let dirty = estate.arena().granules_in_use().dirty * GRANULE;
    assert!(dirty > 12 << 20, "{dirty}");
    let is_left = || {
        estate.arena().system().advance(TRIM_MILLISECONDS);
        estate.arena().purge_left()
    };
    assert!((0..100).any(|_| !is_left()), "it still looks");
    assert!(estate.arena().granules_in_use().dirty * GRANULE > dirty / 2, "few are long enough");
    thread.free_all(stay);
}

#[test]
fn what_becomes_too_much_for_the_background_thread_is_purged_by_those_who_free() {
    let estate = Estate::new(Fake::new());
    estate.arena().set_helped(true);
    let [thread, ..] = &mut threads(&estate);
    let stay = holes(thread, 64);
    for _ in 0..20 {
        burst(thread, 4);
    }
    let dirty = estate.arena().granules_in_use().dirty * GRANULE;
    assert!((16 << 20..32 << 20).contains(&dirty), "{dirty}");
    thread.free_all(stay);
}

#[test]
fn a_little_that_is_claimed_keeps_only_a_little() {
    let estate = Estate::new(Fake::new());
    estate.arena().set_helped(true);
    let mut watch = Watch::default();
    let [thread, ..] = &mut threads(&estate);
    burst(thread, 100);
    for _ in 0..10 {
        burst(thread, 4);
        tick(&estate, &mut watch);
    }
    burst(thread, 4);
    let (dirty, more) = tick(&estate, &mut watch);
    assert!((4..=8).contains(&dirty) && more, "{dirty} MiB");
}

/// Bytes of tables that were purged so far: what the system was asked for, without the rest.
fn purged_of_tables(estate: &Estate<Fake>) -> usize {
    estate.arena().system().purged() - estate.arena().purged_bytes()
}

#[test]
fn the_tables_of_blocks_that_nobody_uses_are_returned_at_rest() {
    const BLOCKS: usize = 24;
    for page in [4 << 10, 16 << 10, 64 << 10] {
        let estate = Estate::new(Fake::new().with_page_size(page));
        estate.arena().set_helped(true);
        // Slabs of objects of 64 bytes have bits in every table.
        let use_all = || {
            let mut thread = Thread::new(&estate);
            let all: Vec<_> = (0..BLOCKS * BLOCK / 64).map(|_| thread.alloc(64).unwrap()).collect();
            thread.free_all(all);
        };
        use_all();
        let mut watch = Watch::default();
        while tick(&estate, &mut watch).1 {
            assert_eq!(purged_of_tables(&estate), 0, "it is not at rest yet");
        }
        // Of the tables 4, 4, and 12.5 KiB for each block; of sixteen, where pages are larger.
        let purged = purged_of_tables(&estate);
        let blocks = if page == 4 << 10 { BLOCKS } else { BLOCKS / 16 * 16 };
        assert!(purged >= blocks * (16 << 10), "pages of {page}: {purged} bytes of tables");
        if page == 4 << 10 {
            // A page that tells of two blocks goes as well, though not all are purged together.
            let all = BLOCKS * (4096 + 4096 + 12800);
            assert!(purged >= all, "{purged} of {all} bytes of tables");
        }
        estate.arena().purge_all();
        assert_eq!(purged_of_tables(&estate), purged, "what was purged was purged again");
        use_all();
        estate.arena().purge_all();
        let again = purged_of_tables(&estate) - purged;
        assert!(again >= blocks * (16 << 10), "pages of {page}: {again} bytes the second time");
        // SAFETY: all threads are gone.
        assert_eq!(unsafe { estate.arena().check() }.objects_out, 0);
    }
}

#[test]
fn what_waits_for_the_next_threads_is_returned_at_rest_and_serves_them_as_before() {
    let estate = Estate::new(Fake::new());
    estate.arena().set_helped(true);
    let mut watch = Watch::default();
    for _ in 0..4 {
        let mut threads: Vec<_> = (0..8).map(|_| Thread::new(&estate)).collect();
        for size in (16..40_000).step_by(499) {
            for n in 0..8 {
                let objects: Vec<_> = (0..70).map(|_| threads[n].alloc(size).unwrap()).collect();
                let (mine, given) = objects.split_at(35);
                threads[n].free_all(mine.iter().copied());
                threads[(n + 1) % 8].free_all(given.iter().copied());
            }
        }
        drop(threads);
        // Or it would count as what goes at rest.
        estate.arena().purge_all();
        let before = purged_of_tables(&estate);
        while tick(&estate, &mut watch).1 {}
        // SAFETY: all threads are gone.
        assert_eq!(unsafe { estate.arena().check() }.objects_out, 0);
        // Of each heap, with its outbox and its magazines, more than half of what they take.
        let purged = purged_of_tables(&estate) - before;
        assert!(purged > 8 * (32 << 10), "{purged} bytes");
    }
}

#[test]
fn no_tables_are_purged_where_the_region_has_no_blocks_to_offer_meanwhile() {
    // Of 96 MiB, or 48 blocks, 18 and 40 are committed then.
    for (blocks, is_purged) in [(16, true), (40, false)] {
        let estate = Estate::new(Fake::new().with_address_space(128 << 20));
        let mut thread = Thread::new(&estate);
        let all: Vec<_> = (0..blocks * BLOCK / 64).map(|_| thread.alloc(64).unwrap()).collect();
        thread.free_all(all);
        drop(thread);
        estate.arena().purge_all();
        assert_eq!(purged_of_tables(&estate) > 0, is_purged, "{blocks} of 48 blocks");
    }
}

#[test]
fn the_tables_of_a_block_of_which_something_is_in_use_stay() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let mut use_all =
        || -> Vec<_> { (0..24 * BLOCK / 64).map(|_| thread.alloc(64).unwrap()).collect() };
    // They have been wholly free before.
    let objects = use_all();
    Thread::new(&estate).free_all(objects);
    let objects = use_all();
    let is_kept = |n: usize| n.is_multiple_of(BLOCK / 64);
    let (kept, others): (Vec<_>, Vec<_>) =
        objects.into_iter().enumerate().partition(|&(n, _)| is_kept(n));
    thread.free_all(others.into_iter().map(|(_, object)| object));
    drop(thread);
    estate.arena().purge_all();
    assert!(estate.arena().purged_bytes() > 20 * BLOCK, "everything else was purged");
    assert_eq!(purged_of_tables(&estate), 0);
    Thread::new(&estate).free_all(kept.into_iter().map(|(_, object)| object));
    // SAFETY: all threads are gone.
    assert_eq!(unsafe { estate.arena().check() }.objects_out, 0);
}

#[test]
fn who_shortens_a_large_run_looks_whether_too_much_is_dirty() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let run = thread.alloc(256 << 20).unwrap();
    assert_eq!(thread.resize(run, 1 << 20), Some(run));
    let dirty = estate.arena().granules_in_use().dirty * GRANULE;
    assert!(dirty <= 8 << 20, "{dirty} bytes stay");
    thread.free(run);
}
