//! Where a heap that grows takes its granules from.

use crate::support::{Estate, Thread};
use freehold_heap::layout::GRANULE;
use freehold_sys::fake::Fake;

const SIZE: usize = 64;

/// As many objects as fill so many granules.
fn fill(thread: &mut Thread<Fake>, granules: usize) -> Vec<usize> {
    fill_with(thread, SIZE, granules)
}

fn fill_with(thread: &mut Thread<Fake>, size: usize, granules: usize) -> Vec<usize> {
    (0..granules * GRANULE / size).map(|_| thread.alloc(size).unwrap()).collect()
}

#[test]
fn what_is_free_in_the_home_of_another_thread_is_used_before_much_more_is_touched() {
    let estate = Estate::new(Fake::new());
    let (mut waiting, mut growing) = (Thread::new(&estate), Thread::new(&estate));
    // Each has a block for a home, and there is room in it.
    let here = fill(&mut growing, 1);
    let there = fill(&mut waiting, 40);
    waiting.free_all(there);
    let before = estate.arena().granules_in_use();
    assert!(before.dirty > 30, "{before:?}");
    let more = fill(&mut growing, 60);
    let after = estate.arena().granules_in_use();
    let touched = (after.used + after.dirty) - (before.used + before.dirty);
    assert!(touched < 30, "{touched} granules were touched, though {} were free", before.dirty);
    growing.free_all(here);
    growing.free_all(more);
}

#[test]
fn slabs_and_runs_of_several_granules_are_made_of_what_is_free_elsewhere() {
    for size in [8 << 10, 2 * GRANULE] {
        let estate = Estate::new(Fake::new());
        let (mut waiting, mut growing) = (Thread::new(&estate), Thread::new(&estate));
        let here = fill_with(&mut growing, size, 4);
        let there = fill(&mut waiting, 40);
        waiting.free_all(there);
        let before = estate.arena().granules_in_use();
        assert!(before.dirty > 30, "{before:?}");
        let more = fill_with(&mut growing, size, 40);
        let after = estate.arena().granules_in_use();
        let touched = (after.used + after.dirty) - (before.used + before.dirty);
        assert!(touched < 20, "objects of {size} bytes: {touched} granules were touched");
        growing.free_all(here);
        growing.free_all(more);
    }
}

#[test]
fn what_is_wanted_at_an_alignment_is_not_taken_just_anywhere() {
    let estate = Estate::new(Fake::new());
    let (mut waiting, mut growing) = (Thread::new(&estate), Thread::new(&estate));
    let there = fill(&mut waiting, 40);
    waiting.free_all(there);
    let mut all = Vec::new();
    // More runs of one granule than make a heap look for what lies idle elsewhere.
    for _ in 0..60 {
        let run = growing.alloc_aligned(SIZE, 2 * GRANULE).unwrap();
        assert!(run.is_multiple_of(2 * GRANULE), "{run:x}");
        all.push(run);
    }
    growing.free_all(all);
}

#[test]
fn a_thread_that_needs_little_stays_at_home() {
    let estate = Estate::new(Fake::new());
    let (mut waiting, mut growing) = (Thread::new(&estate), Thread::new(&estate));
    let here = fill(&mut growing, 1);
    let there = fill(&mut waiting, 40);
    waiting.free_all(there);
    let before = estate.arena().granules_in_use();
    let more = fill(&mut growing, 1);
    assert_eq!(estate.arena().granules_in_use().dirty, before.dirty);
    growing.free_all(here);
    growing.free_all(more);
}
