//! Runs that a thread frees and takes again.

use crate::support::{Estate, Thread};
use freehold_heap::invalid::Invalid;
use freehold_heap::layout::GRANULE;
use freehold_heap::purge::Watch;
use freehold_sys::System;
use freehold_sys::fake::Fake;

const SIZE: usize = 200_000;

/// Granules that are claimed, hot runs among them.
pub(crate) fn claimed(estate: &Estate<Fake>) -> usize {
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
    let small = thread.alloc(1000).unwrap();
    let run = thread.alloc(SIZE).unwrap();
    thread.free(run);
    assert_eq!(thread.alloc_aligned(SIZE, 4096), Some(run));
    thread.free(run);
    assert_eq!(thread.resize(small, SIZE), Some(run));
    thread.free(run);
    // A run begins at a granule, and at no larger multiple but by chance.
    let aligned = thread.alloc_aligned(SIZE, 16 * GRANULE).unwrap();
    assert_eq!(aligned % (16 * GRANULE), 0);
    thread.free(aligned);
}

#[test]
fn a_hot_run_is_not_allocated_for_whoever_names_it() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    // With others in use there is room for it a second time.
    let others = [0; 2].map(|_| thread.alloc(SIZE).unwrap());
    let run = thread.alloc(SIZE).unwrap();
    thread.free(run);
    for address in [run, run + 16, run + GRANULE, run + 3 * GRANULE + 8] {
        assert_eq!(thread.try_free(address), Err(Invalid::NotAllocated { address }));
        let size = estate.arena().usable_size(address);
        assert_eq!(size, Err(Invalid::NotAllocated { address }));
    }
    assert_eq!(thread.alloc(SIZE), Some(run));
    thread.free(run);
    thread.free_all(others);
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
fn runs_of_many_lengths_are_found_again_and_make_room_for_each_other() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let lengths = [1, 2, 3, 5, 9, 17];
    for _ in 0..3 {
        let runs = lengths.map(|n| thread.alloc(40_000 + (n - 1) * GRANULE).unwrap());
        thread.free_all(runs);
        for (n, run) in lengths.into_iter().zip(runs) {
            assert_eq!(thread.alloc(40_000 + (n - 1) * GRANULE), Some(run));
        }
        thread.free_all(runs);
    }
    let first = claimed(&estate);
    // As many others as may be: none of the first is left.
    for _ in 0..3 {
        let others: Vec<_> = (0..21).map(|_| thread.alloc(12 * GRANULE).unwrap()).collect();
        thread.free_all(others);
    }
    assert_eq!(first, 2 + 3 + 4 + 6 + 10 + 18);
    assert!(claimed(&estate) >= 20 * 12);
    let runs = lengths.map(|n| thread.alloc(40_000 + (n - 1) * GRANULE).unwrap());
    thread.free_all(runs);
    assert!(claimed(&estate) <= (8 << 20) / GRANULE);
}

#[test]
fn a_run_that_is_hardly_longer_serves_and_a_shorter_one_does_not() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let longer = thread.alloc(17 * GRANULE).unwrap();
    thread.free(longer);
    assert_eq!(thread.alloc(16 * GRANULE), Some(longer));
    assert_eq!(thread.usable(longer), 18 * GRANULE);
    let shorter = thread.alloc(16 * GRANULE).unwrap();
    thread.free(shorter);
    let other = thread.alloc(17 * GRANULE).unwrap();
    assert!(other != shorter && thread.usable(other) == 18 * GRANULE);
    thread.free_all([other, longer]);
}

#[test]
fn a_run_serves_that_is_a_quarter_longer_where_none_is_hardly_longer() {
    let cases = [(8, 9, true), (8, 10, true), (8, 11, false), (96, 120, true), (96, 128, false)];
    for (wanted, hot, serves) in cases {
        let estate = Estate::new(Fake::new());
        let mut thread = Thread::new(&estate);
        let [much, longer] =
            [(8 << 20) + GRANULE, hot * GRANULE].map(|size| thread.alloc(size).unwrap());
        thread.free(longer);
        let before = claimed(&estate);
        let run = thread.alloc(wanted * GRANULE).unwrap();
        assert_eq!(run == longer, serves, "{hot} granules hot, {wanted} wanted");
        let expected = if serves { hot } else { wanted };
        assert_eq!(thread.usable(run), expected * GRANULE);
        assert_eq!(claimed(&estate) == before, serves);
        // What begins at a granule may begin at no larger multiple.
        thread.free(run);
        let aligned = thread.alloc_aligned(wanted * GRANULE, 4 * GRANULE).unwrap();
        assert!(aligned.is_multiple_of(4 * GRANULE));
        thread.free_all([much, aligned]);
    }
}

#[test]
fn what_is_about_as_long_takes_the_same_runs() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let run = thread.alloc(33 * GRANULE).unwrap();
    for granules in [33, 34, 35, 36, 33] {
        thread.free(run);
        assert_eq!(thread.alloc(granules * GRANULE - 100), Some(run));
        assert_eq!(thread.usable(run), 36 * GRANULE);
    }
    // Also where it is resized, and then is nothing to be had of what is over.
    assert_eq!(thread.resize(run, 33 * GRANULE), Some(run));
    assert_eq!(thread.usable(run), 36 * GRANULE);
    assert_eq!(thread.resize(run, 32 * GRANULE), Some(run));
    assert_eq!(thread.usable(run), 32 * GRANULE);
    thread.free(run);
}

#[test]
fn where_there_is_no_more_memory_a_row_serves_that_is_just_long_enough() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    // Of 33 granules, as it was made longer by one, in a block that is full.
    let run = thread.alloc(32 * GRANULE).unwrap();
    assert_eq!(thread.resize(run, 33 * GRANULE), Some(run));
    assert_eq!(thread.usable(run), 33 * GRANULE);
    let full: Vec<_> = (0..31).map(|_| thread.alloc(40_000)).collect();
    thread.free(run);
    thread.cache.trim(estate.arena()).unwrap();
    estate.arena().system().fail_after(0);
    let others: Vec<_> = core::iter::from_fn(|| thread.alloc(36 * GRANULE)).collect();
    let last = thread.alloc(33 * GRANULE);
    assert_eq!(last.map(|last| thread.usable(last)), Some(33 * GRANULE));
    estate.arena().system().recover();
    thread.free_all(full.into_iter().chain([last]).flatten().chain(others));
}

/// Has threads claim and free runs of ever other lengths, and tells how many bytes they keep.
fn kept_by(threads: usize, helped: bool) -> usize {
    let estate = Estate::new(Fake::new());
    estate.arena().set_helped(helped);
    let mut threads: Vec<_> = (0..threads).map(|_| Thread::new(&estate)).collect();
    let much = threads[0].alloc(64 << 20).unwrap();
    for round in 0..20 {
        for thread in &mut threads {
            // Of several sizes, so that each has use for more than one.
            let sizes = [40_000, 70_000, SIZE, 400_000, 1 << 20, 2 << 20];
            let runs = sizes.map(|size| thread.alloc(size + round % 3 * GRANULE).unwrap());
            thread.free_all(runs);
        }
    }
    let kept = claimed(&estate) * GRANULE - (64 << 20);
    threads[0].free(much);
    kept
}

#[test]
fn all_threads_together_keep_two_mebibytes_and_a_little_each() {
    for threads in [2, 8, 30] {
        let kept = kept_by(threads, false);
        let most = (2 << 20) + threads * (64 << 10);
        assert!(0 < kept && kept <= most, "{threads} threads keep {kept} bytes");
    }
}

#[test]
fn the_only_thread_keeps_up_to_eight_mebibytes() {
    let kept = kept_by(1, false);
    assert!((3 << 20..=8 << 20).contains(&kept), "it keeps {kept} bytes");
}

#[test]
fn a_thread_is_the_only_one_again_when_the_others_have_ended() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let _small = thread.alloc(16).unwrap();
    assert!(!estate.arena().has_several_threads());
    for _ in 0..3 {
        let mut others = [0; 3].map(|_| Thread::new(&estate));
        let smalls = others.each_mut().map(|other| other.alloc(16).unwrap());
        assert!(estate.arena().has_several_threads());
        others.iter_mut().zip(smalls).for_each(|(other, small)| other.free(small));
        drop(others);
        assert!(!estate.arena().has_several_threads());
    }
}

#[test]
fn a_run_that_is_too_much_is_given_back_itself_if_the_one_that_would_make_room_is_as_long() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let size = 1 << 20;
    let runs: Vec<_> = (0..12).map(|_| thread.alloc(size).unwrap()).collect();
    thread.free_all(runs.iter().copied());
    // Those freed first stayed, and come again: the last of them first.
    let again: Vec<_> = (0..8).map(|_| thread.alloc(size).unwrap()).collect();
    assert!(again.iter().eq(runs[..8].iter().rev()));
    thread.free_all(again);
    // Runs of another length take their places all the same, one by one.
    for round in 0..20 {
        let others = [0; 3].map(|_| thread.alloc(2 * size).unwrap());
        thread.free_all(others);
        if round == 19 {
            let before = claimed(&estate);
            let others = [0; 3].map(|_| thread.alloc(2 * size).unwrap());
            assert_eq!(claimed(&estate), before, "they are not hot yet");
            thread.free_all(others);
        }
    }
}

#[test]
fn with_a_background_thread_all_threads_together_keep_up_to_eight_mebibytes() {
    for threads in [1, 2, 8, 30] {
        let kept = kept_by(threads, true);
        let most = (8 << 20) + threads * (64 << 10);
        assert!(3 << 20 < kept && kept <= most, "{threads} threads keep {kept} bytes");
    }
}

/// Has a thread allocate and free so many bytes in runs, again and again.
fn come_and_go(thread: &mut Thread<Fake>, bytes: usize) {
    for _ in 0..20 {
        let runs: Vec<_> = (0..bytes / SIZE).map(|_| thread.alloc(SIZE).unwrap()).collect();
        thread.free_all(runs);
    }
}

#[test]
fn threads_that_take_no_runs_or_rest_leave_their_share_to_those_that_do() {
    let estate = Estate::new(Fake::new());
    estate.arena().set_helped(true);
    let mut threads: Vec<_> = (0..3).map(|_| Thread::new(&estate)).collect();
    let small: Vec<_> = threads.iter_mut().map(|thread| thread.alloc(100).unwrap()).collect();
    let much = threads[0].alloc(64 << 20).unwrap();
    threads[0].cache.trim(estate.arena()).unwrap();
    let before = claimed(&estate);
    let kept = || (claimed(&estate) - before) * GRANULE;
    let all = 6 << 20..=8 << 20;
    come_and_go(&mut threads[1], 8 << 20);
    assert!(all.contains(&kept()), "{} bytes are kept by the only one that takes any", kept());
    // A second comes: each may keep half, also the first, as soon as it frees any.
    come_and_go(&mut threads[2], 8 << 20);
    come_and_go(&mut threads[1], SIZE);
    assert!(all.contains(&kept()), "{} bytes are kept by two", kept());
    threads[1].cache.trim(estate.arena()).unwrap();
    assert!((3 << 20..=4 << 20).contains(&kept()), "{} bytes are kept by the second", kept());
    come_and_go(&mut threads[2], 8 << 20);
    assert!(all.contains(&kept()), "{} bytes are kept by one again", kept());
    threads[2].cache.trim(estate.arena()).unwrap();
    assert_eq!(kept(), 0);
    threads[0].free(much);
    for (thread, object) in threads.iter_mut().zip(small) {
        thread.free(object);
    }
}

#[test]
fn the_only_thread_keeps_up_to_sixteen_mebibytes_that_come_and_go_unless_others_are_wanted() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let kept = || claimed(&estate) * GRANULE;
    come_and_go(&mut thread, 14 << 20);
    assert!(kept() >= 14 << 20, "{} bytes", kept());
    come_and_go(&mut thread, 20 << 20);
    // Less at times by what goes at once.
    assert!((14 << 20..=16 << 20).contains(&kept()), "{} bytes", kept());
    for n in 0..40 {
        let other = thread.alloc(SIZE + n * GRANULE).unwrap();
        thread.free(other);
    }
    assert!(kept() <= 8 << 20, "{} bytes, of which others are wanted", kept());
    // Of two threads none keeps that much.
    let mut other = Thread::new(&estate);
    let small = other.alloc(100).unwrap();
    come_and_go(&mut thread, 14 << 20);
    assert!(kept() <= 3 << 20, "{} bytes of two threads", kept());
    other.free(small);
}

#[test]
fn of_the_only_thread_all_runs_stay_that_are_all_it_has() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    for _ in 0..20 {
        let runs = [0; 100].map(|_| thread.alloc(40_000).unwrap());
        thread.free_all(runs);
    }
    assert_eq!(claimed(&estate), 200);
}

#[test]
fn where_the_only_thread_keeps_more_runs_less_is_free_and_dirty() {
    let dirty_beside = |hot: usize| {
        let estate = Estate::new(Fake::new());
        let mut thread = Thread::new(&estate);
        // Longer than any that stays hot.
        let much = thread.alloc(9 << 20).unwrap();
        come_and_go(&mut thread, hot);
        thread.free(much);
        estate.arena().granules_in_use().dirty * GRANULE
    };
    let (usual, more) = (dirty_beside(7 << 20), dirty_beside(14 << 20));
    assert!(usual >= 7 << 20 && more <= 2 << 20, "{usual} bytes, and {more}");
}

#[test]
fn where_threads_that_rest_give_them_up_all_runs_that_come_and_go_stay_unless_others_are_wanted() {
    let estate = Estate::new(Fake::new());
    // Nobody writes to them.
    estate.arena().system().tell_resident(false);
    estate.arena().set_helped(true);
    let mut threads: Vec<_> = (0..2).map(|_| Thread::new(&estate)).collect();
    let small: Vec<_> = threads.iter_mut().map(|thread| thread.alloc(100).unwrap()).collect();
    let before = claimed(&estate);
    let kept = || (claimed(&estate) - before) * GRANULE;
    come_and_go(&mut threads[0], 24 << 20);
    assert!(kept() <= 8 << 20, "{} bytes, which nobody would take from a thread at rest", kept());
    // SAFETY: threads stay where they are, and mark themselves as busy.
    let mut watch = unsafe { Watch::reclaiming() };
    assert!(estate.arena().purge_idle(&mut watch).unwrap());
    if !estate.arena().system().barrier() {
        return eprintln!("skipped: no membarrier(2) here");
    }
    come_and_go(&mut threads[0], 24 << 20);
    assert!(kept() >= 24 << 20, "{} bytes", kept());
    let others: Vec<_> =
        (0..40).map(|n| threads[0].alloc(SIZE + n % 20 * GRANULE).unwrap()).collect();
    threads[0].free_all(others);
    assert!(kept() <= 8 << 20, "{} bytes, of which others are wanted", kept());
    for (thread, object) in threads.iter_mut().zip(small) {
        thread.free(object);
    }
}

/// Has one of so many threads allocate and free so many runs again and again without a background
/// thread, and tells whether it wishes for one.
fn wishes_for_help(threads: usize, runs: usize) -> bool {
    let estate = Estate::new(Fake::new());
    let mut threads: Vec<_> = (0..threads).map(|_| Thread::new(&estate)).collect();
    let small: Vec<_> = threads.iter_mut().map(|thread| thread.alloc(100).unwrap()).collect();
    for _ in 0..3 {
        come_and_go(&mut threads[0], runs * SIZE);
    }
    let wishes = threads[0].cache.take_wish_for_help();
    for (thread, object) in threads.iter_mut().zip(small) {
        thread.free(object);
    }
    wishes
}

#[test]
fn runs_that_do_not_stay_hot_again_and_again_are_reason_enough_for_a_background_thread() {
    assert!(wishes_for_help(2, 12));
    assert!(!wishes_for_help(2, 8), "so many stay");
    assert!(!wishes_for_help(1, 50), "there is one thread");
}

#[test]
fn what_a_program_grows_by_is_taken_from_hot_runs() {
    for size in [64, 5000, 40_000] {
        let estate = Estate::new(Fake::new());
        let mut thread = Thread::new(&estate);
        let runs = [0; 6].map(|_| thread.alloc(10 * GRANULE).unwrap());
        thread.free_all(runs);
        assert_eq!(claimed(&estate), 60);
        let objects: Vec<_> =
            (0..60 * GRANULE / size).map(|_| thread.alloc(size).unwrap()).collect();
        // What is left of one run, and of slabs, may still be there; those of two granules hardly
        // have 40,000 bytes.
        let most = if size > GRANULE { 120 } else { 80 };
        assert!(claimed(&estate) <= most, "{} granules, with {size} bytes", claimed(&estate));
        thread.free_all(objects);
    }
}

#[test]
fn half_of_the_hot_runs_make_room_for_runs_of_another_length() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let much = thread.alloc(64 << 20).unwrap();
    // Free and dirty, so that what is taken is not what the program grows by.
    let dirty = thread.alloc(7 << 20).unwrap();
    let runs: Vec<_> = (0..35).map(|_| thread.alloc(7 * GRANULE).unwrap()).collect();
    thread.cache.trim(estate.arena()).unwrap();
    thread.free(dirty);
    thread.cache.trim(estate.arena()).unwrap();
    let before = claimed(&estate) - 35 * 7;
    thread.free_all(runs);
    assert_eq!(claimed(&estate), before + 35 * 7, "of 8 MiB what is less than that stays");
    let other: Vec<_> = (0..10).map(|_| thread.alloc(10 * GRANULE).unwrap()).collect();
    let hot = claimed(&estate) - before - other.len() * 10;
    // Those of a run's length more or less.
    assert!((128 - 7..=128).contains(&hot), "{hot} granules are hot");
    let rest: Vec<_> = (0..10).map(|_| thread.alloc(10 * GRANULE).unwrap()).collect();
    let still = claimed(&estate) - before - (other.len() + rest.len()) * 10;
    assert_eq!(still, hot, "the other half stays");
    thread.free_all(other);
    thread.free_all(rest);
    thread.free(much);
}
