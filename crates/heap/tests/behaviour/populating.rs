//! What is populated before it is used.

use crate::support::{Estate, Thread};
use freehold_heap::layout::{BLOCK, GRANULE, at};
use freehold_heap::policy::populate::BLOCKS_UNTIL_GIVEN_UP;
use freehold_sys::HugePages;
use freehold_sys::fake::Fake;

const SIZE: usize = 1024;

/// As many objects as fill so many MiB.
fn take(thread: &mut Thread<Fake>, mebibytes: usize) -> Vec<usize> {
    (0..(mebibytes << 20) / SIZE).map(|_| thread.alloc(SIZE).unwrap()).collect()
}

/// As many objects as fill so many MiB, written to.
fn fill(thread: &mut Thread<Fake>, mebibytes: usize) -> Vec<usize> {
    let all = take(thread, mebibytes);
    for &object in &all {
        // SAFETY: just allocated, and larger than that.
        unsafe { at::<u8>(object).write(1) };
    }
    all
}

/// Lets the heap grow by so many MiB, a MiB at a time, while the background thread looks; how much
/// is populated meanwhile, in MiB.
fn grow_by(
    thread: &mut Thread<Fake>,
    estate: &Estate<Fake>,
    mebibytes: usize,
    grow: fn(&mut Thread<Fake>, usize) -> Vec<usize>,
) -> (Vec<usize>, usize) {
    let before = estate.arena().system().populated();
    let mut all = Vec::new();
    for _ in 0..mebibytes {
        all.append(&mut grow(thread, 1));
        estate.arena().purge_left();
    }
    (all, (estate.arena().system().populated() - before) >> 20)
}

#[test]
fn a_program_that_does_not_write_to_what_it_allocates_is_not_populated() {
    let estate = Estate::new(Fake::new());
    estate.arena().set_helped(true);
    let mut thread = Thread::new(&estate);
    let (unused, populated) = grow_by(&mut thread, &estate, 200, take);
    assert!(populated <= 4, "{populated} MiB");
    let (used, populated) = grow_by(&mut thread, &estate, 200, fill);
    assert!((100..200).contains(&populated), "then it writes, and {populated} MiB are populated");
    let (unused_again, populated) = grow_by(&mut thread, &estate, 400, take);
    assert!(populated < 150, "then it does not, and {populated} MiB are populated");
    for all in [unused, used, unused_again] {
        thread.free_all(all);
    }
}

#[test]
fn a_block_that_nobody_fills_is_not_waited_for_for_ever() {
    let estate = Estate::new(Fake::new());
    estate.arena().set_helped(true);
    // Opens the first block that counts, and rests; others leave it alone, since it is its home.
    let mut resting = Thread::new(&estate);
    let begun = take(&mut resting, 9);
    let mut thread = Thread::new(&estate);
    let (unused, populated) = grow_by(&mut thread, &estate, 400, take);
    let wait = (BLOCKS_UNTIL_GIVEN_UP as usize * BLOCK) >> 20;
    assert!((1..=wait).contains(&populated), "{populated} MiB");
    resting.free_all(begun);
    thread.free_all(unused);
}

#[test]
fn where_nobody_knows_what_is_resident_a_heap_is_populated() {
    let estate = Estate::new(Fake::new());
    estate.arena().set_helped(true);
    estate.arena().system().tell_resident(false);
    let mut thread = Thread::new(&estate);
    let (all, populated) = grow_by(&mut thread, &estate, 200, take);
    assert!(populated >= 100, "{populated} MiB");
    thread.free_all(all);
}

#[test]
fn a_heap_that_is_populated_is_reason_enough_for_a_background_thread() {
    for threads in 1..=2 {
        let estate = Estate::new(Fake::new());
        let mut other = Thread::new(&estate);
        let object = (threads == 2).then(|| other.alloc(100).unwrap());
        let mut thread = Thread::new(&estate);
        let mut all = take(&mut thread, 14);
        assert!(!thread.cache.take_wish_for_help());
        all.append(&mut take(&mut thread, 14));
        assert_eq!(thread.cache.take_wish_for_help(), threads == 2, "{threads} threads");
        thread.free_all(all);
        other.free_all(object);
    }
}

#[test]
fn buffers_are_reason_enough_for_a_background_thread_too() {
    let estate = Estate::new(Fake::new());
    let mut other = Thread::new(&estate);
    let object = other.alloc(100).unwrap();
    let mut thread = Thread::new(&estate);
    let all: Vec<_> = (0..200).map(|_| thread.alloc(256 << 10).unwrap()).collect();
    assert!(thread.cache.take_wish_for_help());
    thread.free_all(all);
    other.free_all([object]);
}

#[test]
fn where_nobody_can_look_only_what_is_no_larger_than_a_page_is_populated() {
    for looks in [false, true] {
        for (size, is_dense) in [(4096, true), (6000, false), (20_000, false), (256 << 10, false)] {
            let estate = Estate::new(Fake::new());
            estate.arena().system().tell_resident(false);
            let mut thread = Thread::new(&estate);
            let mut all = Vec::new();
            for _ in 0..(200 << 20) / size {
                all.push(thread.alloc(size).unwrap());
                if looks {
                    estate.arena().set_helped(true);
                    estate.arena().purge_left();
                }
            }
            assert_eq!(estate.arena().system().populated() > 0, is_dense, "{size}, {looks}");
            thread.free_all(all);
        }
    }
}

#[test]
fn buffers_are_populated_where_somebody_sees_that_the_program_writes_to_them() {
    let estate = Estate::new(Fake::new());
    estate.arena().set_helped(true);
    let mut thread = Thread::new(&estate);
    let mut populated = Vec::new();
    let mut all = Vec::new();
    for part in [1, 16] {
        let before = estate.arena().system().populated();
        for _ in 0..400 {
            let size = 256 << 10;
            let object = thread.alloc(size).unwrap();
            // SAFETY: just allocated, and as large as that.
            unsafe { at::<u8>(object).write_bytes(1, size / part) };
            all.push(object);
            estate.arena().purge_left();
        }
        populated.push((estate.arena().system().populated() - before) >> 20);
    }
    assert!(populated[0] >= 50 && populated[1] < 50, "{populated:?} MiB of 100");
    thread.free_all(all);
}

#[test]
fn a_large_heap_is_populated_ahead_by_an_eighth_at_most() {
    for huge_pages in [HugePages::OnRequest, HugePages::Always] {
        let estate = Estate::new(Fake::new().with_huge_pages(huge_pages));
        let mut thread = Thread::new(&estate);
        let all = fill(&mut thread, 300);
        let now = estate.arena().granules_in_use();
        assert!(now.dirty * GRANULE <= now.used * GRANULE / 8, "{now:?}");
        let populated = estate.arena().system().populated();
        assert!(populated >= 200 << 20, "{populated} bytes were populated");
        thread.free_all(all);
    }
}

#[test]
fn many_threads_together_populate_no_more_ahead_than_one() {
    let estate = Estate::new(Fake::new());
    let mut threads: Vec<_> = (0..30).map(|_| Thread::new(&estate)).collect();
    let all: Vec<_> = threads.iter_mut().map(|thread| fill(thread, 5)).collect();
    let now = estate.arena().granules_in_use();
    assert!(now.dirty * GRANULE <= now.used * GRANULE / 8 + BLOCK, "{now:?}");
    for (thread, all) in threads.iter_mut().zip(all) {
        thread.free_all(all);
    }
}

#[test]
fn small_heaps_are_never_populated() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let all = fill(&mut thread, 14);
    assert_eq!(estate.arena().system().populated(), 0);
    thread.free_all(all);
}

#[test]
fn where_huge_pages_take_longer_than_small_ones_those_are_populated() {
    let estate = Estate::new(Fake::new());
    estate.arena().system().set_page_costs(1000, 10_000);
    let mut thread = Thread::new(&estate);
    let all = fill(&mut thread, 600);
    let populated = estate.arena().system().populated();
    assert!(populated >= 450 << 20, "{populated} bytes were populated");
    let huge = estate.arena().system().populated_as_huge();
    assert!((BLOCK..20 * BLOCK).contains(&huge), "{huge} bytes in huge pages");
    thread.free_all(all);
}

#[test]
fn where_huge_pages_are_quick_there_are_no_others() {
    let estate = Estate::new(Fake::new());
    estate.arena().system().set_page_costs(1000, 200);
    let mut thread = Thread::new(&estate);
    let all = fill(&mut thread, 600);
    let system = estate.arena().system();
    assert_eq!(system.populated_as_huge(), system.populated());
    assert!(system.populated() >= 450 << 20, "{} bytes were populated", system.populated());
    thread.free_all(all);
}

#[test]
fn where_there_are_no_huge_pages_small_ones_are_populated() {
    let estate = Estate::new(Fake::new().with_huge_pages(HugePages::Never));
    let mut thread = Thread::new(&estate);
    let all = fill(&mut thread, 300);
    let system = estate.arena().system();
    assert_eq!(system.populated_as_huge(), 0);
    assert!(system.populated() >= 200 << 20, "{} bytes were populated", system.populated());
    thread.free_all(all);
}

#[test]
fn a_block_that_cannot_be_populated_is_used_as_it_is() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let all = fill(&mut thread, 100);
    estate.arena().system().fail_after(0);
    // What is committed will do for some time.
    let more = fill(&mut thread, 4);
    estate.arena().system().recover();
    thread.free_all(all);
    thread.free_all(more);
}

#[test]
fn populated_memory_counts_as_free_and_is_purged_like_any_other() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let all = fill(&mut thread, 100);
    assert!(estate.arena().system().populated() > 0);
    thread.free_all(all);
    thread.cache.trim(estate.arena()).unwrap();
    estate.arena().purge_all();
    assert_eq!(estate.arena().granules_in_use().dirty, 0);
}

#[test]
fn where_huge_pages_are_everywhere_they_are_on_request_alone_once_something_was_purged() {
    let estate = Estate::new(Fake::new().with_huge_pages(HugePages::Always));
    let system = estate.arena().system();
    let mut thread = Thread::new(&estate);
    let all = fill(&mut thread, 100);
    assert!(system.populated() > 0);
    assert_eq!(system.populated_as_huge(), 0, "nobody has to ask");
    thread.free_all(all);
    thread.cache.trim(estate.arena()).unwrap();
    estate.arena().purge_all();
    // Long enough for the program to be taken to grow again.
    system.advance(60_000);
    let all = fill(&mut thread, 200);
    assert!(system.populated_as_huge() > 0);
    thread.free_all(all);
}

#[test]
fn where_huge_pages_are_everywhere_what_surrounds_freed_memory_is_purged_with_it() {
    // Each takes a block and a half, and the kernel backs the other half as well.
    const LARGE: usize = BLOCK + BLOCK / 2;
    for (huge_pages, expected) in [(HugePages::Always, 2 * BLOCK), (HugePages::OnRequest, LARGE)] {
        let estate = Estate::new(Fake::new().with_huge_pages(huge_pages));
        let mut thread = Thread::new(&estate);
        let below = thread.alloc(16 << 20).unwrap();
        let all: Vec<_> = (0..20).map(|_| thread.alloc(LARGE).unwrap()).collect();
        thread.free_all(all);
        thread.cache.trim(estate.arena()).unwrap();
        estate.arena().purge_all();
        let purged = estate.arena().system().purged();
        assert!(purged >= 20 * expected, "{huge_pages:?}: {purged} bytes");
        assert!(purged < 20 * expected + BLOCK, "{huge_pages:?}: {purged} bytes");
        thread.free_all(vec![below]);
    }
}

#[test]
fn where_huge_pages_are_larger_than_a_block_trimming_purges_what_nobody_has_touched() {
    const PAGE: usize = 16 << 10;
    let system = Fake::new().with_page_size(PAGE).with_huge_pages(HugePages::Always);
    let estate = Estate::new(system);
    let mut thread = Thread::new(&estate);
    let all: Vec<_> = (0..20).map(|_| thread.alloc(BLOCK).unwrap()).collect();
    thread.free_all(all);
    estate.arena().purge_all();
    let first = estate.arena().system().purged();
    estate.arena().purge_all();
    let second = estate.arena().system().purged() - first;
    // All is clean by now. What lies below is never backed by huge pages.
    assert!(second >= 10 * BLOCK, "{second} bytes");
}
