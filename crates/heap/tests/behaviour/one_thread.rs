//! What one thread can expect of the heap.

use crate::support::{Estate, Random, Thread, check, check_start, fill};
use freehold_heap::class::{MEDIUM_MAX, SMALL_MAX};
use freehold_heap::invalid::Invalid;
use freehold_heap::layout::{BLOCK, GRANULE};
use freehold_sys::fake::Fake;
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn objects_of_all_sizes_do_not_overlap_and_keep_their_contents() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let mut random = Random::new();
    let mut live: BTreeMap<usize, (usize, u64)> = BTreeMap::new();
    for step in 0..60_000_u64 {
        if live.len() > 2000 || (step > 50_000 && !live.is_empty()) {
            let nth = random.below(live.len());
            let (&address, &(size, tag)) = live.iter().nth(nth).unwrap();
            live.remove(&address);
            check(address, size, tag);
            thread.free(address);
            continue;
        }
        let size = random.size(if step % 50 == 0 { 8 << 20 } else { 64 << 10 });
        let align = 1 << random.below(13);
        let address = match random.below(4) {
            0 => thread.alloc_zeroed(size).inspect(|&a| {
                // SAFETY: the object has `size` bytes.
                let bytes = unsafe { std::slice::from_raw_parts(a as *const u8, size) };
                assert!(
                    bytes.iter().all(|&b| b == 0),
                    "calloc of {size} gave a byte that is not 0"
                );
            }),
            1 => thread.alloc_aligned(size, align).inspect(|a| assert_eq!(a % align, 0)),
            _ => thread.alloc(size),
        };
        let address = address.unwrap();
        assert_eq!(address % 16, 0);
        let usable = thread.usable(address);
        assert!(usable >= size);
        if let Some((&before, &(size, _))) = live.range(..=address).next_back() {
            assert!(before + size.max(1) <= address, "{before:#x}+{size} and {address:#x}");
        }
        if let Some((&after, _)) = live.range(address..).next() {
            assert!(address + usable <= after, "{address:#x}+{usable} and {after:#x}");
        }
        fill(address, usable, step);
        live.insert(address, (usable, step));
    }
    for (address, (size, tag)) in live {
        check(address, size, tag);
        thread.free(address);
    }
}

#[test]
fn resizing_keeps_the_contents_whatever_the_sizes() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let mut random = Random::new();
    for round in 0..40 {
        let mut size = 1;
        let mut address = thread.alloc(size).unwrap();
        fill(address, size, round);
        for _ in 0..60 {
            let new = random.size(12 << 20).max(1);
            address = thread.resize(address, new).unwrap();
            check_start(address, size.min(new), size, round);
            size = new;
            fill(address, size, round);
        }
        thread.free(address);
    }
}

#[test]
fn what_resizing_frees_stays_with_the_thread_while_there_is_room() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let mut small: Vec<_> = (0..40).map(|_| thread.alloc(24).unwrap()).collect();
    // The magazine is neither full afterwards nor so short that all of it would stay anyway.
    thread.free_all(small.drain(..15));
    let larger = thread.alloc(600).unwrap();
    thread.free(larger);
    let given_back = estate.arena().usage().free_objects;
    let moved = thread.resize(small.pop().unwrap(), 600).unwrap();
    assert_eq!(estate.arena().usage().free_objects, given_back);
    thread.free(moved);
    thread.free_all(small);
}

#[test]
fn freed_memory_is_used_again_before_untouched_memory() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    // Two magazines and what fills an outbox, which a thread holds back of the largest small size.
    let held_back = 96;
    for size in [16, 100, 1000, 3000, 30_000, 300_000] {
        let first: Vec<_> = (0..200).map(|_| thread.alloc(size).unwrap()).collect();
        let highest = *first.iter().max().unwrap();
        for &address in &first {
            thread.free(address);
        }
        for _ in 0..20 {
            let again: Vec<_> = (0..200).map(|_| thread.alloc(size).unwrap()).collect();
            assert!(again.iter().all(|&a| a <= highest + held_back * size), "{size} moves on");
            thread.free_all(again);
        }
    }
}

#[test]
fn a_loop_of_malloc_and_free_reuses_the_same_object() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    for size in [16, 512, 1024, 4096, 32_768, 200_000] {
        let first = thread.alloc(size).unwrap();
        thread.free(first);
        for _ in 0..2000 {
            let again = thread.alloc(size).unwrap();
            assert_eq!(again, first, "size {size}");
            thread.free(again);
        }
    }
}

#[test]
fn neighbours_in_time_are_neighbours_in_space() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    for size in [16, 48, 256, 1024, 2048] {
        let all: Vec<_> = (0..16).map(|_| thread.alloc(size).unwrap()).collect();
        assert!(all.windows(2).all(|w| w[0] < w[1]), "size {size}: {all:x?}");
    }
}

#[test]
fn invalid_frees_are_refused_and_say_why() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let small = thread.alloc(100).unwrap();
    let medium = thread.alloc(5000).unwrap();
    let large = thread.alloc(100_000).unwrap();
    for (object, inside) in [(small, 16), (small, 1), (medium, 64), (large, 4096), (large, GRANULE)]
    {
        let refused = thread.try_free(object + inside).unwrap_err();
        let Invalid::Interior { address, start, .. } = refused else { panic!("{refused:?}") };
        assert_eq!((address, start), (object + inside, object));
    }
    let local = 7_u64;
    for foreign in [std::ptr::from_ref(&local).addr(), 8, 1 << 60, usize::MAX - 100] {
        let refused = thread.try_free(foreign).unwrap_err();
        assert_eq!(refused, Invalid::Foreign { address: foreign });
    }
    thread.free(medium);
    assert_eq!(thread.try_free(medium), Err(Invalid::FreedTwice { address: medium }));
    thread.free(large);
    assert!(matches!(thread.try_free(large), Err(Invalid::NotAllocated { .. })));
    thread.free(small);
}

#[test]
fn a_second_free_among_objects_in_no_order_is_refused_as_they_go_home() {
    const COUNT: usize = 4000;
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let objects: Vec<_> = (0..COUNT).map(|_| thread.alloc(256).unwrap()).collect();
    // Each of another slab than the one before it: a slab has 128. Of each some stay, so that none
    // has more free objects than it has objects.
    let mut order: Vec<_> = (0..COUNT / 2).map(|n| objects[n * 131 % COUNT]).collect();
    order.insert(COUNT / 4 + 3, order[COUNT / 4]);
    let mut refused: Vec<_> = order.iter().filter_map(|&it| thread.try_free(it).err()).collect();
    refused.extend(thread.cache.trim(estate.arena()).err());
    assert!(matches!(refused[..], [Invalid::FreedTwice { .. }]), "{refused:?}");
}

#[test]
fn second_frees_of_small_objects_are_refused_among_the_first_and_now_and_then_later() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let [small, other] = [(); 2].map(|()| thread.alloc(100).unwrap());
    let twice = Err(Invalid::FreedTwice { address: small });
    thread.free(small);
    assert_eq!(thread.try_free(small), twice);
    thread.free(other);
    assert_eq!(thread.try_free(small), twice);
    let never = other + 50 * (other - small);
    assert_eq!(thread.try_free(never), Err(Invalid::NotAllocated { address: never }));
    for _ in 0..10 {
        let object = thread.alloc(100).unwrap();
        thread.free(object);
    }
    // Objects are fetched often enough for one more free to be watched.
    let many: Vec<_> = (0..640).map(|_| thread.alloc(100).unwrap()).collect();
    let never = many[639] / GRANULE * GRANULE + 290 * 112;
    assert!(!many.contains(&never));
    assert_eq!(thread.try_free(never), Err(Invalid::NotAllocated { address: never }));
    thread.free_all(many);
}

#[test]
fn objects_of_no_bytes_are_different_addresses_with_nothing_to_use() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let mut all: Vec<_> = (0..5000).map(|_| thread.alloc(0).unwrap()).collect();
    assert!(all.iter().all(|&object| thread.usable(object) == 0));
    let grown = thread.resize(all.pop().unwrap(), 50).unwrap();
    fill(grown, 50, 1);
    let mut different = all.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), all.len());
    thread.free_all(all);
    thread.free(grown);
    // Memory that they lay in serves others.
    thread.cache.trim(estate.arena()).unwrap();
    let others: Vec<_> = (0..5000).map(|_| thread.alloc(100).unwrap()).collect();
    for &other in &others {
        fill(other, 100, 2);
    }
    thread.free_all(others);
}

#[test]
fn random_addresses_are_refused_without_a_fault() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let kept: Vec<_> = (0..100).map(|i| thread.alloc(i * 50).unwrap()).collect();
    let mut random = Random::new();
    for i in 0..300_000 {
        let wild = match i % 3 {
            0 => random.next() as usize,
            1 => random.next() as usize >> 17,
            // Inside the region, but never the start of an object.
            _ => estate.arena().region() + (random.below(1 << 40) | 1),
        };
        assert!(thread.try_free(wild).is_err(), "{wild:#x}");
    }
    thread.free_all(kept);
}

#[test]
fn alignments_up_to_many_blocks_are_kept() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let mut all = Vec::new();
    for shift in 4..=26 {
        let align = 1_usize << shift;
        for size in [1, align / 2, align, align + 1, 3 * align] {
            let address = thread.alloc_aligned(size, align).unwrap();
            assert_eq!(address % align, 0, "{size} bytes at {align}");
            fill(address, size.min(10_000), 3);
            all.push(address);
        }
    }
    thread.free_all(all);
}

#[test]
fn running_out_of_memory_gives_none_and_everything_goes_on() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let before = thread.alloc(100).unwrap();
    estate.arena().system().fail_after(0);
    let mut got = Vec::new();
    for size in [100, 5000, 100_000, 3 << 20] {
        while let Some(address) = thread.alloc(size) {
            fill(address, size, 9);
            got.push((address, size));
        }
    }
    assert!(!got.is_empty());
    for (address, size) in got {
        check(address, size, 9);
        thread.free(address);
    }
    estate.arena().system().recover();
    let after = thread.alloc(64 << 20).unwrap();
    thread.free(after);
    thread.free(before);
}

#[test]
fn memory_that_the_system_does_not_take_back_is_given_back_later() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let system = estate.arena().system();
    let all: Vec<_> = (0..8).map(|_| thread.alloc(3 << 20).unwrap()).collect();
    system.fail_after(0);
    thread.free_all(all);
    thread.cache.trim(estate.arena()).unwrap();
    assert_eq!(estate.arena().purge_all(), 0);
    system.recover();
    assert_eq!(estate.arena().purge_all(), 24 << 20);
}

#[test]
fn an_object_can_become_smaller_when_there_is_no_memory() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let sizes = [1000, 20_000, 1 << 20];
    let all = sizes.map(|size| thread.alloc(size).unwrap());
    estate.arena().system().fail_after(0);
    let full: Vec<_> = std::iter::from_fn(|| thread.alloc(48)).collect();
    let smaller = all.map(|address| thread.resize(address, 40));
    assert!(smaller.iter().all(Option::is_some), "{smaller:?}");
    thread.free_all(smaller.into_iter().flatten());
    thread.free_all(full);
}

#[test]
fn every_call_to_the_system_may_fail_without_harm() {
    for n in 0..60 {
        let estate = Estate::new(Fake::new());
        let mut thread = Thread::new(&estate);
        estate.arena().system().fail_after(n);
        let mut got = Vec::new();
        for i in 0..400 {
            let size = [40, 2000, 40_000, 9 << 20][i % 4];
            got.extend(thread.alloc(size).inspect(|&a| fill(a, size.min(9999), 1)));
            if i % 3 == 0
                && let Some(address) = got.pop()
            {
                got.extend(thread.resize(address, size * 2).or(Some(address)));
            }
        }
        estate.arena().system().recover();
        thread.free_all(got);
    }
}

#[test]
fn small_address_spaces_and_large_pages_work() {
    for page in [4096, 16 << 10, 64 << 10] {
        for space in [20 << 20, 64 << 20, 300 << 20, usize::MAX] {
            let estate = Estate::new(Fake::new().with_page_size(page).with_address_space(space));
            let mut thread = Thread::new(&estate);
            let mut random = Random::new();
            let mut live = Vec::new();
            for i in 0..3000 {
                let size = random.size(400_000);
                if let Some(address) = thread.alloc(size) {
                    fill(address, size, i);
                    live.push((address, size, i));
                }
                if live.len() > 60 {
                    let (address, size, tag) = live.swap_remove(random.below(60));
                    check(address, size, tag);
                    thread.free(address);
                }
            }
            assert!(live.len() > 30, "page {page}, space {space}");
            for (address, ..) in live {
                thread.free(address);
            }
            estate.arena().purge_all();
        }
    }
}

#[test]
fn runs_grow_and_shrink_in_place_where_there_is_room() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let first = thread.alloc(40_000).unwrap();
    let mut address = first;
    for size in [100_000, BLOCK - GRANULE, 50_000, 400_000] {
        address = thread.resize(address, size).unwrap();
        assert_eq!(address, first, "resizing to {size}");
    }
    // A run of whole blocks grows over the blocks that follow.
    let large = thread.alloc(3 * BLOCK).unwrap();
    let grown = thread.resize(large, 40 * BLOCK).unwrap();
    assert_eq!(large, grown);
    let shrunk = thread.resize(grown, BLOCK + 1).unwrap();
    assert_eq!(large, shrunk);
    thread.free(shrunk);
    thread.free(address);
}

#[test]
fn purging_returns_what_is_free_and_leaves_what_lives() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let kept: Vec<_> = (0..50).map(|_| thread.alloc(20_000).unwrap()).collect();
    for &a in &kept {
        fill(a, 20_000, 5);
    }
    let large: Vec<_> = (0..20).map(|_| thread.alloc(3 << 20).unwrap()).collect();
    for &a in &large {
        fill(a, 3 << 20, 6);
    }
    thread.free_all(large);
    thread.cache.trim(estate.arena()).unwrap();
    estate.arena().purge_all();
    assert_eq!(estate.arena().granules_in_use().dirty, 0);
    assert!(estate.arena().purged_bytes() >= 60 << 20);
    for &a in &kept {
        check(a, 20_000, 5);
    }
    thread.free_all(kept);
}

#[test]
fn dirty_free_memory_stays_within_its_bound_without_anybody_asking() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    for size in [800, MEDIUM_MAX, 100_000, 5 << 20] {
        let count = (256 << 20) / size;
        let all: Vec<_> = (0..count).map(|_| thread.alloc(size).unwrap()).collect();
        estate.arena().system().advance(10_000);
        thread.free_all(all);
        let dirty = estate.arena().granules_in_use().dirty * GRANULE;
        assert!(dirty <= 12 << 20, "{} MiB stay dirty after size {size}", dirty >> 20);
    }
}

#[test]
fn usable_sizes_are_those_of_the_classes() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    for size in [0, 1, 16, 17, 1000, SMALL_MAX, SMALL_MAX + 1, MEDIUM_MAX, MEDIUM_MAX + 1] {
        let address = thread.alloc(size).unwrap();
        let usable = thread.usable(address);
        assert!(usable >= size);
        // A resize to the usable size changes nothing.
        assert_eq!(thread.resize(address, usable), Some(address));
        thread.free(address);
    }
}

#[test]
fn a_loop_over_a_hundred_objects_leaves_slabs_alone() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    for size in [16, 64] {
        let objects: Vec<_> = (0..100).map(|_| thread.alloc(size).unwrap()).collect();
        let known: BTreeSet<_> = objects.iter().copied().collect();
        thread.free_all(objects);
        let free = estate.arena().usage().free_objects;
        for _ in 0..10 {
            let objects: Vec<_> = (0..100).map(|_| thread.alloc(size).unwrap()).collect();
            assert_eq!(objects.iter().copied().collect::<BTreeSet<_>>(), known, "size {size}");
            thread.free_all(objects);
        }
        assert_eq!(estate.arena().usage().free_objects, free);
    }
}

#[test]
fn what_was_set_aside_goes_home_when_the_thread_ends() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    for size in (16..=SMALL_MAX).step_by(16) {
        let objects: Vec<_> = (0..300).map(|_| thread.alloc(size).unwrap()).collect();
        thread.free_all(objects);
    }
    drop(thread);
    // SAFETY: the only thread is gone.
    let census = unsafe { estate.arena().check() };
    assert_eq!((census.objects_out, census.slab_granules), (0, 0));
}

#[test]
fn what_is_counted_from_outside_is_what_the_heap_counts() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let mut random = Random::new();
    let mut live = Vec::new();
    for step in 0..30_000 {
        if live.len() > 1500 || (step > 20_000 && live.len() > 300) {
            let nth = random.below(live.len());
            thread.free(live.swap_remove(nth));
        } else {
            let size = random.size(if step % 50 == 0 { 4 << 20 } else { 64 << 10 });
            live.push(thread.alloc(size).unwrap());
        }
        if step % 3000 == 0 {
            agree(&estate);
        }
    }
    thread.free_all(live);
    agree(&estate);
}

/// Compares the figures of the arena with those that are counted in its tables.
fn agree(estate: &Estate<Fake>) {
    let inside = estate.arena().usage();
    let mut read = |address: u64, into: &mut [u8]| {
        // SAFETY: the tables of the arena, which nobody writes to at this moment.
        let bytes = unsafe { std::slice::from_raw_parts(address as *const u8, into.len()) };
        into.copy_from_slice(bytes);
        Some(())
    };
    let outside = freehold_stats::count(&estate.arena().signpost(), &mut read).unwrap();
    let expected = freehold_stats::Count {
        committed: inside.committed as u64,
        claimed: inside.claimed as u64,
        free_in_slabs: inside.free_in_slabs as u64,
        free_objects: inside.free_objects as u64,
        dirty: inside.dirty as u64,
    };
    assert_eq!(outside, expected);
}

#[test]
fn slabs_of_nothing_that_stay_inaccessible_are_given_to_nobody_until_they_are_not() {
    const COUNT: usize = 20_000;
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let nothing: Vec<usize> = (0..COUNT).map(|_| thread.alloc(0).unwrap()).collect();
    let used = estate.arena().granules_in_use().used;
    estate.arena().system().keep_guarded(true);
    thread.free_all(nothing.iter().copied());
    thread.cache.trim(estate.arena()).unwrap();
    estate.arena().purge_all();
    for address in nothing {
        assert_eq!(thread.try_free(address), Err(Invalid::NotAllocated { address }));
    }
    let shut = estate.arena().granules_in_use().used;
    assert!(shut > 5 && shut <= used, "{shut} granules");
    // Written to by the test's own checks, where they are.
    let all: Vec<usize> = (0..COUNT).map(|_| thread.alloc(64).unwrap()).collect();
    for &address in &all {
        // SAFETY: allocated just now.
        unsafe { (address as *mut u64).write(1) };
    }
    estate.arena().system().keep_guarded(false);
    thread.free_all(all);
    thread.cache.trim(estate.arena()).unwrap();
    estate.arena().purge_all();
    assert_eq!(estate.arena().granules_in_use().used, 0);
}
