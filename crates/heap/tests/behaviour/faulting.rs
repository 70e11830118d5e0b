//! How many page faults the allocator's own tables take: one a page. Who reads a page that was
//! never written to gets the one of zeros, and who writes to it later takes a second fault, for
//! which all processors are stopped that the program runs on.

use crate::support::{Estate, Thread};
use freehold_heap::policy::grow::MAP_PAGES_TOUCHED;
use freehold_sys::fake::Fake;
use std::fs;

/// Page faults that this thread has taken so far, without those that wait for a disk
/// (`proc_pid_stat(5)`, the tenth field).
fn faults() -> u64 {
    let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    after_name.split_whitespace().nth(7).unwrap().parse().unwrap()
}

/// Page faults that `f` takes.
fn faults_in(f: impl FnOnce()) -> u64 {
    let before = faults();
    f();
    faults() - before
}

#[test]
fn the_bits_of_a_slab_take_no_fault_when_its_objects_are_freed() {
    let estate = Estate::new(Fake::new());
    let (mut owner, mut freer) = (Thread::new(&estate), Thread::new(&estate));
    // Of 512 objects in each of 640 slabs the last has a far bit: these are on 32 pages.
    let objects: Vec<_> = (0..640 * 512).map(|_| owner.alloc(64).unwrap()).collect();
    let far: Vec<_> = objects.iter().copied().filter(|object| object >> 6 & 511 == 511).collect();
    assert_eq!(far.len(), 640);
    let taken = faults_in(|| freer.free_all(far.iter().copied()));
    // 7 for the outbox of the thread that frees; 53 when the bits were read first.
    assert!(taken < 20, "{taken} page faults");
    owner.free_all(objects.into_iter().filter(|object| object >> 6 & 511 != 511));
}

#[test]
fn an_outbox_takes_one_fault_a_page() {
    let estate = Estate::new(Fake::new());
    let mut owner = Thread::new(&estate);
    // One object of each of 640 slabs for each thread.
    let objects: Vec<_> = (0..640 * 16).map(|_| owner.alloc(2048).unwrap()).collect();
    let mut freers: Vec<_> = (0..10).map(|_| Thread::new(&estate)).collect();
    let taken = faults_in(|| {
        for (n, freer) in freers.iter_mut().enumerate() {
            freer.free_all(objects.iter().copied().skip(n).step_by(16));
        }
    });
    // An outbox of 23 KiB is on seven pages at most. One of 20, on six, took 88 faults when they
    // were read first.
    assert!(taken < 80, "{taken} page faults of {} threads", freers.len());
    for n in freers.len()..16 {
        owner.free_all(objects.iter().copied().skip(n).step_by(16));
    }
}

#[test]
fn what_is_known_of_blocks_takes_one_fault_a_page() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let mut run = 0;
    // 2,048 blocks, which are known of on 32 pages.
    let taken = faults_in(|| run = thread.alloc(4 << 30).unwrap());
    // 9 for all else; 73 when they were read first.
    assert!(taken < 55, "{taken} page faults");
    thread.free(run);
}

#[test]
fn whether_a_thread_keeps_an_object_is_known_without_a_fault() {
    let estate = Estate::new(Fake::new());
    let (mut owner, mut freer) = (Thread::new(&estate), Thread::new(&estate));
    // Each on another page of a heap's map.
    let runs: Vec<_> = (0..20).map(|_| owner.alloc(128 << 20).unwrap()).collect();
    let own = freer.alloc(100).unwrap();
    let taken = faults_in(|| freer.free_all(runs.iter().copied()));
    // None; one for each page when the map was read first.
    assert!(taken < 10, "{taken} page faults");
    freer.free(own);
}

#[test]
fn a_map_that_is_extended_by_much_is_not_written_to_as_a_whole() {
    let estate = Estate::new(Fake::new());
    let (mut owner, mut other) = (Thread::new(&estate), Thread::new(&estate));
    // What a map tells of on three times as many pages.
    let run = owner.alloc(MAP_PAGES_TOUCHED * 3 * (128 << 20)).unwrap();
    let mut own = 0;
    let taken = faults_in(|| own = other.alloc(100).unwrap());
    let most = MAP_PAGES_TOUCHED as u64;
    assert!((most..2 * most).contains(&taken), "{taken} page faults");
    other.free(own);
    owner.free(run);
}

#[test]
fn tables_that_were_purged_take_one_fault_a_page_when_they_are_used_again() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    // Of 40 blocks, whose local parts and words are on a page each.
    let mut objects = vec![0; 40 * 64 * 16];
    let mut fill = |objects: &mut Vec<usize>| {
        for object in objects.iter_mut() {
            *object = thread.alloc(2048).unwrap();
        }
    };
    fill(&mut objects);
    Thread::new(&estate).free_all(objects.iter().copied());
    // What the thread has at hand keeps a block or two in use.
    estate.arena().purge_all();
    let taken = faults_in(|| fill(&mut objects));
    // 80 and 28 for all else. That a word is free before it is used, debug builds look at first.
    let most = if cfg!(debug_assertions) { 168 } else { 128 };
    assert!((80..most).contains(&taken), "{taken} page faults");
    thread.free_all(objects);
}
