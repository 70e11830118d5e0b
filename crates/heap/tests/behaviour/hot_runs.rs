//! Runs that a thread frees and takes again.

use crate::support::{Estate, Thread};
use freehold_heap::invalid::Invalid;
use freehold_heap::layout::GRANULE;
use freehold_sys::fake::Fake;

const SIZE: usize = 200_000;

/// Granules that are claimed, hot runs among them.
fn claimed(estate: &Estate<Fake>) -> usize {
    estate.arena().granules_in_use().used
}

#[test]
fn the_run_freed_last_is_taken_again_and_stays_claimed_in_between() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let first = thread.alloc(SIZE).unwrap();
    let before = claimed(&estate);
    for _ in 0..100 {
        thread.free(first);
        assert_eq!(claimed(&estate), before);
        assert_eq!(thread.alloc(SIZE), Some(first));
    }
    thread.free(first);
}

#[test]
fn every_way_to_allocate_finds_the_run_freed_last() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let run = thread.alloc(SIZE).unwrap();
    thread.free(run);
    assert_eq!(thread.alloc_aligned(SIZE, 4096), Some(run));
    thread.free(run);
    let zeroed = thread.alloc_zeroed(100_000).unwrap();
    let small = thread.alloc(1000).unwrap();
    assert_eq!(thread.resize(small, SIZE), Some(run));
    thread.free_all([run, zeroed]);
    // A run begins at a granule, and at no larger multiple but by chance.
    let aligned = thread.alloc_aligned(SIZE, 16 * GRANULE).unwrap();
    assert_eq!(aligned % (16 * GRANULE), 0);
    thread.free(aligned);
}

#[test]
fn a_hot_run_is_not_allocated_for_whoever_names_it() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let run = thread.alloc(SIZE).unwrap();
    thread.free(run);
    for address in [run, run + 16, run + GRANULE, run + 3 * GRANULE + 8] {
        assert_eq!(thread.try_free(address), Err(Invalid::NotAllocated { address }));
        let size = estate.arena().usable_size(address);
        assert_eq!(size, Err(Invalid::NotAllocated { address }));
    }
    assert_eq!(thread.alloc(SIZE), Some(run));
    thread.free(run);
}

#[test]
fn a_hot_run_does_not_count_as_in_use() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let run = thread.alloc(SIZE).unwrap();
    let (size, in_use) = (thread.usable(run), estate.arena().usage().in_use());
    thread.free(run);
    assert_eq!(estate.arena().usage().in_use(), in_use - size);
    assert!(estate.arena().usage().dirty >= size);
}

#[test]
fn a_thread_that_frees_what_others_allocate_keeps_none_of_it() {
    let estate = Estate::new(Fake::new());
    let (mut owner, mut other) = (Thread::new(&estate), Thread::new(&estate));
    let own = other.alloc(100).unwrap();
    let before = claimed(&estate);
    let runs: Vec<_> = (0..5).map(|_| owner.alloc(SIZE).unwrap()).collect();
    other.free_all(runs);
    assert_eq!(claimed(&estate), before);
    other.free(own);
}

#[test]
fn what_is_kept_goes_back_when_the_thread_ends_or_is_trimmed() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let run = thread.alloc(SIZE).unwrap();
    thread.free(run);
    assert!(claimed(&estate) > 0);
    thread.cache.trim(estate.arena()).unwrap();
    assert_eq!(claimed(&estate), 0);
    let run = thread.alloc(SIZE).unwrap();
    thread.free(run);
    drop(thread);
    assert_eq!(claimed(&estate), 0);
}

#[test]
fn all_threads_together_keep_two_mebibytes_and_a_little_each() {
    for threads in [1, 2, 8, 30] {
        let estate = Estate::new(Fake::new());
        let mut threads: Vec<_> = (0..threads).map(|_| Thread::new(&estate)).collect();
        for round in 0..20 {
            for thread in &mut threads {
                // Of several sizes, so that each has use for more than one.
                let sizes = [40_000, 70_000, SIZE, 400_000, 1 << 20, 2 << 20];
                let runs = sizes.map(|size| thread.alloc(size + round * GRANULE).unwrap());
                thread.free_all(runs);
            }
        }
        let kept = claimed(&estate) * GRANULE;
        let most = (2 << 20) + threads.len() * (64 << 10);
        assert!(0 < kept && kept <= most, "{} threads keep {kept} bytes", threads.len());
    }
}
