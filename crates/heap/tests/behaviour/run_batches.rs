//! Runs that go back and come back by the batch.

use crate::hot_runs::claimed;
use crate::support::{Estate, Random, Thread};
use freehold_heap::invalid::Invalid;
use freehold_heap::layout::GRANULE;
use freehold_sys::HugePages;
use freehold_sys::fake::Fake;

/// Of four granules.
const SIZE: usize = 4 * GRANULE;
/// How many may be hot in the only thread of a process, 8 MiB, and more than that.
const HOT: usize = 64;
const MANY: usize = 160;
/// Granules of a batch.
const BATCH: usize = 32;

fn alloc(thread: &mut Thread<Fake>, count: usize) -> Vec<usize> {
    (0..count).map(|_| thread.alloc(SIZE).unwrap()).collect()
}

/// Frees runs, and returns how many granules went back each time that any did.
fn steps_down(estate: &Estate<Fake>, thread: &mut Thread<Fake>, runs: Vec<usize>) -> Vec<usize> {
    let steps = runs.into_iter().map(|run| {
        let before = claimed(estate);
        thread.free(run);
        before - claimed(estate)
    });
    steps.filter(|&step| step > 0).collect()
}

/// Allocates so many runs. Returns them, and how many granules were claimed each time that any
/// were.
fn steps_up(
    estate: &Estate<Fake>,
    thread: &mut Thread<Fake>,
    count: usize,
) -> (Vec<usize>, Vec<usize>) {
    let mut steps = vec![];
    let runs = (0..count).map(|_| {
        let before = claimed(estate);
        let run = thread.alloc(SIZE).unwrap();
        steps.push(claimed(estate) - before);
        run
    });
    let runs = runs.collect();
    steps.retain(|&step| step > 0);
    (runs, steps)
}

#[test]
fn runs_for_which_there_is_no_room_go_back_by_the_batch() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let runs = alloc(&mut thread, MANY);
    assert_eq!(claimed(&estate), 4 * MANY);
    let steps = steps_down(&estate, &mut thread, runs);
    assert_eq!(steps, vec![BATCH; (MANY - HOT).div_ceil(8)]);
    // Most of what may stay does.
    assert!((4 * HOT - BATCH..=4 * HOT).contains(&claimed(&estate)), "{}", claimed(&estate));
}

#[test]
fn as_many_come_back_by_the_batch_as_have_gone_so_and_others_one_by_one() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    // Who has freed none gets no more than it asks for.
    let (runs, steps) = steps_up(&estate, &mut thread, MANY);
    assert_eq!(steps, vec![4; MANY]);
    thread.free_all(runs);
    let hot = claimed(&estate) / 4;
    let (runs, steps) = steps_up(&estate, &mut thread, MANY);
    assert_eq!(steps.iter().sum::<usize>(), 4 * (MANY - hot));
    // But for the first of each block, and what had been purged.
    let by_batch: usize = steps.iter().filter(|&&step| step > 4).sum();
    assert!(by_batch > 4 * (MANY - hot) / 2, "{steps:?}");
    // What is more than that was never there.
    let (others, steps) = steps_up(&estate, &mut thread, 40);
    assert_eq!(steps, vec![4; 40]);
    assert_eq!(claimed(&estate), 4 * (MANY + 40));
    thread.free_all(runs);
    thread.free_all(others);
}

#[test]
fn nothing_that_was_purged_comes_by_the_batch() {
    // Where nothing is populated.
    let estate = Estate::new(Fake::new().with_huge_pages(HugePages::Never));
    let mut thread = Thread::new(&estate);
    let runs = alloc(&mut thread, MANY);
    thread.free_all(runs);
    thread.cache.trim(estate.arena()).unwrap();
    estate.arena().purge_all();
    let (runs, steps) = steps_up(&estate, &mut thread, MANY);
    assert_eq!(steps, vec![4; MANY]);
    thread.free_all(runs);
}

#[test]
fn runs_of_another_length_than_those_that_went_come_one_by_one() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let runs = alloc(&mut thread, MANY);
    thread.free_all(runs);
    let before = claimed(&estate);
    let longer = 7 * GRANULE;
    // Hot ones make room for them.
    let others = [0; 4].map(|_| thread.alloc(longer).unwrap());
    assert!(claimed(&estate) <= before);
    thread.cache.trim(estate.arena()).unwrap();
    assert_eq!(claimed(&estate), 4 * 7);
    for n in 0..5 {
        let one = thread.alloc(longer).unwrap();
        assert_eq!(claimed(&estate), 4 * 7 + 7, "{n}");
        thread.free(one);
        thread.cache.trim(estate.arena()).unwrap();
    }
    thread.free_all(others);
}

#[test]
fn the_longest_go_and_come_one_by_one() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let mut runs: Vec<_> = (0..20).map(|_| thread.alloc(32 * GRANULE).unwrap()).collect();
    assert_eq!(steps_down(&estate, &mut thread, runs.split_off(8)), vec![32; 4]);
    thread.free_all(runs);
}

#[test]
fn a_second_free_is_found_out_of_what_went_and_of_what_came_by_the_batch() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let runs = alloc(&mut thread, MANY);
    thread.free_all(runs.iter().copied());
    let refused = |thread: &mut Thread<Fake>, address| {
        assert_eq!(thread.try_free(address), Err(Invalid::NotAllocated { address }));
    };
    for &run in &runs {
        refused(&mut thread, run);
    }
    // Some are in use now, some are hot after they came with those, and some are where they went.
    let mut free: std::collections::BTreeSet<_> = runs.into_iter().collect();
    let again = alloc(&mut thread, HOT + 10);
    assert!(again.iter().all(|run| free.remove(run)));
    for &run in &free {
        refused(&mut thread, run);
    }
    thread.free_all(again);
}

#[test]
fn next_to_nothing_is_purged_of_what_comes_and_goes_all_the_time() {
    let estate = Estate::new(Fake::new());
    // At the start of time nothing was purged a moment ago.
    estate.arena().system().advance(1000);
    let mut thread = Thread::new(&estate);
    let mut come_and_go = |times| {
        for _ in 0..times {
            let runs = alloc(&mut thread, 200);
            thread.free_all(runs);
        }
        estate.arena().purged_bytes()
    };
    let before = come_and_go(20);
    let purged = come_and_go(50) - before;
    assert!(purged < 50 * 8 * GRANULE, "{purged} bytes");
}

#[test]
fn whatever_the_order_each_granule_goes_back_once() {
    let mut random = Random::new();
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    for round in 0..30 {
        // Of any length that goes by the batch, and one that does not.
        let granules = [2, 4, 7, 10, 16, 18][random.below(6)];
        let size = granules * GRANULE;
        let count = (12 << 20) / size + random.below(30);
        let mut runs: Vec<_> = (0..count).map(|_| thread.alloc(size).unwrap()).collect();
        let mut sorted = runs.clone();
        sorted.sort_unstable();
        assert!(sorted.windows(2).all(|two| two[1] - two[0] >= size), "two have the same memory");
        match round % 3 {
            0 => {}
            1 => runs.reverse(),
            _ => (1..count).for_each(|n| runs.swap(n, random.below(n + 1))),
        }
        thread.free_all(runs);
        assert!(claimed(&estate) <= (16 << 20) / GRANULE);
    }
    thread.cache.trim(estate.arena()).unwrap();
    assert_eq!(claimed(&estate), 0);
}
