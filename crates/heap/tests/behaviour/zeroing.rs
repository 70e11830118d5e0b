//! Memory that is zero when it is given out, and how it comes to be so.

use crate::support::{Estate, Random, Thread};
use freehold_heap::layout::GRANULE;
use freehold_sys::fake::Fake;

/// Large enough to be given back to the system.
const LARGE: usize = 1 << 20;

fn is_zero(address: usize, size: usize) -> bool {
    // SAFETY: memory that the test was just given.
    let bytes = unsafe { std::slice::from_raw_parts(address as *const u8, size) };
    bytes.iter().all(|&byte| byte == 0)
}

fn write(address: usize, size: usize) {
    // SAFETY: memory that the test was given.
    unsafe { std::ptr::write_bytes(address as *mut u8, 0xA5, size) };
}

/// Takes zeroed memory, writes to so many bytes of it and frees it, so often. Returns the bytes
/// that were given back to the system for it.
fn rounds(estate: &Estate<Fake>, thread: &mut Thread<Fake>, count: usize, written: usize) -> usize {
    rounds_of(&[LARGE], estate, thread, count, written)
}

/// The same of objects of several sizes in turn.
fn rounds_of(
    sizes: &[usize],
    estate: &Estate<Fake>,
    thread: &mut Thread<Fake>,
    count: usize,
    written: usize,
) -> usize {
    let before = estate.arena().system().purged();
    for &size in sizes.iter().cycle().take(count * sizes.len()) {
        let object = thread.alloc_zeroed(size).unwrap();
        assert!(is_zero(object, size));
        write(object, written);
        thread.free(object);
    }
    estate.arena().system().purged() - before
}

#[test]
fn large_memory_that_is_hardly_written_to_is_given_back_instead_of_cleared() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let purged = rounds(&estate, &mut thread, 100, 100);
    assert!(purged >= 95 * LARGE, "{purged} bytes were given back");
}

#[test]
fn large_memory_that_is_written_to_is_cleared_once_that_is_known() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let purged = rounds(&estate, &mut thread, 100, LARGE);
    assert!(purged <= LARGE, "{purged} bytes were given back");
}

#[test]
fn memory_around_the_size_from_which_it_is_given_back_is_cleared() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let (small, large) = (100 << 10, 300 << 10);
    let purged = rounds_of(&[large], &estate, &mut thread, 100, 100);
    assert!(purged >= 90 * large, "{purged} bytes were given back");
    // A quarter of it is too small.
    let purged = rounds_of(&[small, large], &estate, &mut thread, 1000, 100);
    assert!(purged <= 500 * large, "{purged} bytes were given back");
    assert_eq!(rounds_of(&[small, large], &estate, &mut thread, 100, 100), 0);
    // What is much larger is given back all the same.
    let purged = rounds_of(&[small, LARGE, small], &estate, &mut thread, 100, 100);
    assert!(purged >= 95 * LARGE, "{purged} bytes were given back");
}

#[test]
fn what_is_known_follows_the_program() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    rounds(&estate, &mut thread, 100, LARGE);
    rounds(&estate, &mut thread, 20, 100);
    assert!(rounds(&estate, &mut thread, 10, 100) >= 10 * LARGE);
    rounds(&estate, &mut thread, 2, LARGE);
    assert_eq!(rounds(&estate, &mut thread, 10, LARGE), 0);
}

#[test]
fn memory_that_is_resized_tells_nothing() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    rounds(&estate, &mut thread, 100, LARGE);
    // Resized so that its pages are moved elsewhere: what is left behind is zero.
    for _ in 0..20 {
        let object = thread.alloc_zeroed(4 * LARGE).unwrap();
        write(object, 4 * LARGE);
        let fence = thread.alloc(LARGE).unwrap();
        let object = thread.resize(object, 64 * LARGE).unwrap();
        thread.free_all([object, fence]);
    }
    // It is still known that this program writes to all of it: so it is given memory that was used.
    thread.cache.trim(estate.arena()).unwrap();
    let dirty = estate.arena().granules_in_use().dirty;
    let object = thread.alloc_zeroed(LARGE).unwrap();
    assert_eq!(estate.arena().granules_in_use().dirty, dirty - LARGE / GRANULE);
    thread.free(object);
}

#[test]
fn memory_that_the_system_does_not_take_back_is_cleared() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    // Until all that is left in the block has been used, and each object is given back.
    assert!(rounds(&estate, &mut thread, 20, 100) >= 15 * LARGE);
    let system = estate.arena().system();
    let (calls, purged) = (system.calls(), system.purged());
    system.fail_after(0);
    let object = thread.alloc_zeroed(LARGE).unwrap();
    system.recover();
    assert!(system.calls() > calls, "the system was not asked");
    assert_eq!(system.purged(), purged);
    assert!(is_zero(object, LARGE));
    thread.free(object);
}

#[test]
fn memory_of_any_size_is_zero_on_systems_with_any_pages() {
    for page in [4 << 10, 16 << 10, 64 << 10] {
        let estate = Estate::new(Fake::new().with_page_size(page));
        let mut thread = Thread::new(&estate);
        let mut random = Random::new();
        for _ in 0..300 {
            let size = random.size(8 << 20);
            let (used, object) = (thread.alloc(size).unwrap(), thread.alloc_zeroed(size).unwrap());
            assert!(is_zero(object, size), "{size} bytes with pages of {page}");
            write(used, size);
            if random.below(2) == 0 {
                write(object, size);
            }
            thread.free_all([object, used]);
        }
    }
}
