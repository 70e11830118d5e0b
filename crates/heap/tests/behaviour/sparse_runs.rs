//! How many runs stay hot where the program hardly writes to them.

use crate::hot_runs::claimed;
use crate::support::{Estate, Thread};
use freehold_heap::layout::GRANULE;
use freehold_sys::fake::Fake;

/// Has a thread allocate and free so many bytes in runs of ever other lengths, and write to all of
/// it, or to nothing.
fn come_and_go_of_many_lengths(
    thread: &mut Thread<Fake>,
    (bytes, written): (usize, bool),
    random: &mut u64,
) {
    for _ in 0..10 {
        let (mut runs, mut taken) = (Vec::new(), 0);
        while taken < bytes {
            *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let size = (40 << 10) + (*random >> 33) as usize % (1 << 20);
            let run = thread.alloc(size).unwrap();
            for page in (0..if written { size } else { 0 }).step_by(4096) {
                // SAFETY: a run of so many bytes.
                unsafe { ((run + page) as *mut u8).write(1) };
            }
            runs.push(run);
            taken += size;
        }
        thread.free_all(runs);
    }
}

#[test]
fn of_runs_of_many_lengths_more_stay_where_next_to_none_of_it_is_resident() {
    let estate = Estate::new(Fake::new());
    estate.arena().set_helped(true);
    let mut threads: Vec<_> = (0..2).map(|_| Thread::new(&estate)).collect();
    let small: Vec<_> = threads.iter_mut().map(|thread| thread.alloc(100).unwrap()).collect();
    let before = claimed(&estate);
    let kept = || (claimed(&estate) - before) * GRANULE;
    let thread = &mut threads[0];
    let mut random = 1;
    let mut look = |written| {
        come_and_go_of_many_lengths(thread, (40 << 20, written), &mut random);
        estate.arena().purge_left();
        kept()
    };
    let first = look(false);
    assert!(first <= 8 << 20, "{first} bytes, of which nothing is known yet");
    let looks: Vec<_> = (0..20).map(|_| look(false)).collect();
    assert!(looks[19] > 30 << 20 && looks[19] <= 128 << 20, "{looks:?}: none is written to");
    let looks_on = || (0..100).filter(|_| estate.arena().purge_left()).count();
    assert_eq!(looks_on(), 100, "the program may begin to write to it");
    let looks: Vec<_> = (0..3).map(|_| look(true)).collect();
    assert!(looks[2] <= 10 << 20, "{looks:?}: all is written to");
    assert!(looks_on() < 50);
    for (thread, object) in threads.iter_mut().zip(small) {
        thread.free(object);
    }
}

#[test]
fn where_pages_are_larger_than_granules_those_that_runs_have_of_their_own_are_looked_at() {
    let estate = Estate::new(Fake::new().with_page_size(1 << 16));
    estate.arena().set_helped(true);
    let mut thread = Thread::new(&estate);
    let mut random = 1;
    for size in [40_000, 100_000] {
        let runs: Vec<_> = (0..301).map(|_| thread.alloc(size).unwrap()).collect();
        thread.free_all(runs);
        estate.arena().purge_left();
    }
    for _ in 0..20 {
        come_and_go_of_many_lengths(&mut thread, (40 << 20, false), &mut random);
        estate.arena().purge_left();
    }
    let kept = claimed(&estate) * GRANULE;
    assert!(kept > 30 << 20, "{kept} bytes");
}

#[test]
fn runs_that_are_hot_and_begin_to_be_written_to_go_though_no_other_is_wanted() {
    let estate = Estate::new(Fake::new());
    estate.arena().set_helped(true);
    let mut thread = Thread::new(&estate);
    let mut look = |written| {
        let runs = [0; 60].map(|_| thread.alloc(1 << 20).unwrap());
        for run in runs.into_iter().filter(|_| written) {
            // SAFETY: a run of so many bytes.
            unsafe { (run as *mut u8).write_bytes(1, 1 << 20) };
        }
        thread.free_all(runs);
        estate.arena().purge_left();
        (claimed(&estate) * GRANULE) >> 20
    };
    let unwritten: Vec<_> = (0..20).map(|_| look(false)).collect();
    assert_eq!(unwritten[19], 60, "{unwritten:?} MiB");
    let written: Vec<_> = (0..5).map(|_| look(true)).collect();
    assert!(written[4] <= 10, "{written:?} MiB");
}

/// Has a thread write to runs that it takes and frees, after so many rounds in which it did not.
/// Tells how many bytes are hot, or free and dirty, after some more looks.
fn stays_after(unwritten: usize) -> usize {
    let estate = Estate::new(Fake::new());
    estate.arena().set_helped(true);
    let mut thread = Thread::new(&estate);
    let mut random = 1;
    for n in 0..=unwritten {
        come_and_go_of_many_lengths(&mut thread, (40 << 20, n == unwritten), &mut random);
        estate.arena().purge_left();
    }
    // When it takes another the thread gives back what is too much.
    let other = thread.alloc(5 << 20).unwrap();
    thread.free(other);
    (0..15).for_each(|_| _ = estate.arena().purge_left());
    let in_use = estate.arena().granules_in_use();
    (in_use.used + in_use.dirty) * GRANULE
}

#[test]
fn what_stayed_as_next_to_none_of_it_was_resident_is_not_what_stays_when_it_is() {
    let (always, at_last) = (stays_after(0), stays_after(20));
    assert!(always > 30 << 20, "{always} bytes: as much was in use a moment ago");
    assert!(at_last < 18 << 20, "{at_last} bytes");
}

#[test]
fn where_nobody_looks_any_more_as_many_runs_stay_as_if_all_was_resident() {
    let estate = Estate::new(Fake::new());
    estate.arena().set_helped(true);
    let mut thread = Thread::new(&estate);
    let mut random = 1;
    let mut kept = || {
        come_and_go_of_many_lengths(&mut thread, (40 << 20, false), &mut random);
        estate.arena().purge_left();
        claimed(&estate) * GRANULE
    };
    let looked_at = (0..20).map(|_| kept()).last().unwrap();
    assert!(looked_at > 30 << 20, "{looked_at} bytes");
    estate.arena().set_helped(false);
    let alone = kept();
    assert!(alone <= 16 << 20, "{alone} bytes");
}

#[test]
fn where_nobody_knows_what_is_resident_as_many_runs_stay_as_if_all_was() {
    let estate = Estate::new(Fake::new());
    estate.arena().set_helped(true);
    estate.arena().system().tell_resident(false);
    let mut thread = Thread::new(&estate);
    let mut random = 1;
    for _ in 0..20 {
        come_and_go_of_many_lengths(&mut thread, (40 << 20, false), &mut random);
        estate.arena().purge_left();
        assert!(claimed(&estate) * GRANULE <= 8 << 20);
    }
}
