//! What hardened mode does with large objects, and where the system has no memory for it.

use freehold_heap::arena::Arena;
use freehold_heap::hardened::{Secret, Thread};
use freehold_sys::fake::Fake;

/// Objects of these many bytes have a run of their own, and wait when they are freed; of the last
/// more than may wait together.
const SIZES: [usize; 3] = [40_000, 1 << 20, 20 << 20];

/// More than may wait.
const COUNT: usize = 40;

#[test]
fn what_cannot_be_made_accessible_again_waits_until_it_can() {
    for size in SIZES {
        let arena = Arena::create_hardened(Fake::new(), Secret::new([1, 2])).unwrap();
        {
            // SAFETY: made just now, and destroyed below.
            let arena = unsafe { arena.as_ref() };
            let mut thread = Thread::new(arena, 1);
            let allocate = |thread: &mut Thread| -> Vec<usize> {
                (0..COUNT).map(|_| thread.allocate(arena, size, 16).unwrap().unwrap()).collect()
            };
            let free = |thread: &mut Thread, all: Vec<usize>| {
                for address in all {
                    // SAFETY: allocated by this test, which does not use it any longer.
                    unsafe { thread.free(arena, address) }.unwrap();
                }
            };
            // As many as may wait: for these there is a place.
            let mut all = allocate(&mut thread);
            let rest = all.split_off(8);
            arena.system().keep_guarded(true);
            free(&mut thread, all);
            thread.trim(arena).unwrap();
            arena.purge_all();
            let waiting = arena.granules_in_use().used;
            arena.system().keep_guarded(false);
            free(&mut thread, rest);
            thread.trim(arena).unwrap();
            arena.purge_all();
            assert!(waiting > 0);
            assert_eq!(arena.granules_in_use().used, 0, "{size} bytes");
            // Among others, that what is counted of freed runs is none.
            // SAFETY: no thread is inside the allocator.
            unsafe { arena.check() };
            thread.end(arena).unwrap();
        }
        // SAFETY: nobody uses it any longer.
        unsafe { Arena::destroy(arena) };
    }
}

#[test]
fn what_cannot_be_made_accessible_when_its_thread_ends_can_be_had_later() {
    let refusals: [fn(&Fake, bool); 2] = [Fake::keep_guarded, Fake::keep_hidden];
    for (refuse, size) in refusals.into_iter().flat_map(|it| SIZES.map(|size| (it, size))) {
        let arena = Arena::create_hardened(Fake::new(), Secret::new([1, 2])).unwrap();
        {
            // SAFETY: made just now, and destroyed below.
            let arena = unsafe { arena.as_ref() };
            let mut thread = Thread::new(arena, 1);
            let all: Vec<usize> =
                (0..COUNT).map(|_| thread.allocate(arena, size, 16).unwrap().unwrap()).collect();
            refuse(arena.system(), true);
            for address in all {
                // SAFETY: allocated by this test, which writes to the last byte and frees it.
                unsafe {
                    (address as *mut u8).add(size - 1).write(0);
                    (address as *mut u8).write(1);
                    thread.free(arena, address).unwrap();
                }
            }
            thread.end(arena).unwrap();
            refuse(arena.system(), false);
            arena.purge_all();
            assert_eq!(arena.granules_in_use().used, 0, "{size} bytes");
            // SAFETY: no thread is inside the allocator.
            unsafe { arena.check() };
            let mut thread = Thread::new(arena, 2);
            let address = thread.allocate(arena, size, 16).unwrap().unwrap();
            // SAFETY: allocated by this test.
            assert_eq!(unsafe { (address as *mut u8).replace(1) }, 0, "{size} bytes");
            // SAFETY: as above.
            unsafe { thread.free(arena, address) }.unwrap();
            thread.end(arena).unwrap();
        }
        // SAFETY: nobody uses it any longer.
        unsafe { Arena::destroy(arena) };
    }
}

#[test]
fn of_runs_that_were_ready_and_could_not_be_given_back_nothing_stays_counted() {
    for size in [40_000, 128 << 10] {
        let arena = Arena::create_hardened(Fake::new(), Secret::new([1, 2])).unwrap();
        {
            // SAFETY: made just now, and destroyed below.
            let arena = unsafe { arena.as_ref() };
            let mut thread = Thread::new(arena, 1);
            let all: Vec<usize> =
                (0..COUNT).map(|_| thread.allocate(arena, size, 16).unwrap().unwrap()).collect();
            for address in all {
                // SAFETY: allocated by this test, which does not use it any longer.
                unsafe { thread.free(arena, address) }.unwrap();
            }
            // Those that have waited longest are ready by now, and have their fences.
            arena.system().keep_guarded(true);
            arena.purge_all();
            thread.end(arena).unwrap();
            arena.purge_all();
            assert!(arena.granules_in_use().used > 0, "{size} bytes: fences were taken away");
            arena.system().keep_guarded(false);
            arena.purge_all();
            assert_eq!(arena.granules_in_use().used, 0, "{size} bytes");
            // SAFETY: no thread is inside the allocator.
            unsafe { arena.check() };
        }
        // SAFETY: nobody uses it any longer.
        unsafe { Arena::destroy(arena) };
    }
}

#[test]
fn an_object_of_no_bytes_that_is_a_run_can_be_freed_like_any_other() {
    let arena = Arena::create_hardened(Fake::new(), Secret::new([1, 2])).unwrap();
    {
        // SAFETY: made just now, and destroyed below.
        let arena = unsafe { arena.as_ref() };
        let mut thread = Thread::new(arena, 1);
        for _ in 0..COUNT {
            let address = thread.allocate(arena, 0, 1 << 20).unwrap().unwrap();
            // The system double refuses empty ranges.
            // SAFETY: allocated just now.
            unsafe { thread.free(arena, address) }.unwrap();
        }
        thread.end(arena).unwrap();
        assert_eq!(arena.granules_in_use().used, 0);
    }
    // SAFETY: nobody uses it any longer.
    unsafe { Arena::destroy(arena) };
}

#[test]
fn large_objects_that_come_and_go_in_two_threads_call_nobody_once_there_are_enough() {
    for size in [40_000, 128 << 10] {
        let arena = Arena::create_hardened(Fake::new(), Secret::new([1, 2])).unwrap();
        {
            // SAFETY: made just now, and destroyed below.
            let arena = unsafe { arena.as_ref() };
            let mut threads = [Thread::new(arena, 1), Thread::new(arena, 2)];
            let mut turns = |count: usize| {
                for n in 0..count {
                    // Each frees what the other has allocated.
                    let address = threads[n % 2].allocate(arena, size, 16).unwrap().unwrap();
                    // SAFETY: allocated just now, and freed once it was filled.
                    unsafe {
                        (address as *mut u8).write_bytes(1, size);
                        threads[(n + 1) % 2].free(arena, address).unwrap();
                    }
                }
            };
            turns(100);
            let before = arena.system().times_access_changed();
            turns(1000);
            assert_eq!(arena.system().times_access_changed(), before, "{size} bytes");
            for thread in &mut threads {
                thread.end(arena).unwrap();
            }
            // What is ready stays when its threads end, and goes when memory is wanted back.
            assert!(arena.granules_in_use().used > 0);
            arena.purge_all();
            assert_eq!(arena.granules_in_use().used, 0);
        }
        // SAFETY: nobody uses it any longer.
        unsafe { Arena::destroy(arena) };
    }
}

#[test]
fn what_is_too_large_to_wait_is_not_made_inaccessible_for_nothing() {
    let arena = Arena::create_hardened(Fake::new(), Secret::new([1, 2])).unwrap();
    {
        // SAFETY: made just now, and destroyed below.
        let arena = unsafe { arena.as_ref() };
        let mut thread = Thread::new(arena, 1);
        // How often access changes for an object of so many bytes, of which all are zero again.
        let mut changes = |size: usize| {
            let before = arena.system().times_access_changed();
            let address = thread.allocate(arena, size, 16).unwrap().unwrap();
            let last = (address + size - 1) as *mut u8;
            // SAFETY: allocated just now; what is freed does not wait, and stays mapped.
            unsafe {
                assert_eq!(last.replace(1), 0);
                thread.free(arena, address).unwrap();
            }
            assert_eq!(arena.granules_in_use().used, 0);
            arena.system().times_access_changed() - before
        };
        // The fence, which comes and goes, and what is committed at first.
        changes(64 << 20);
        assert_eq!(changes(64 << 20), 2);
        assert_eq!(changes(32 << 20), 2);
        thread.end(arena).unwrap();
    }
    // SAFETY: nobody uses it any longer.
    unsafe { Arena::destroy(arena) };
}
