//! Objects that two threads have freed, which is found out when the second of them sends it home,
//! whatever it does then, and whatever has the object's place by that time.

use crate::setting_aside::{come_and_go, out};
use crate::support::{Estate, Thread};
use freehold_heap::invalid::Invalid;
use freehold_sys::fake::Fake;

/// Times after which a thread keeps what comes and goes, if it may.
const LONG: usize = 10;

/// What two threads freed, of which one has sent it home: it is hot still in the first, which has
/// nothing else there.
fn hot_although_home(estate: &Estate<Fake>, size: usize) -> (Thread<'_, Fake>, usize) {
    let (mut first, mut second) = (Thread::new(estate), Thread::new(estate));
    let twice = first.alloc(size).unwrap();
    second.free(twice);
    first.free(twice);
    second.cache.trim(estate.arena()).unwrap();
    (first, twice)
}

#[test]
fn what_two_threads_freed_is_found_out_when_the_second_of_them_ends() {
    let estate = Estate::new(Fake::new());
    let (mut first, twice) = hot_although_home(&estate, 4096);
    let found = Err(Invalid::FreedTwice { address: twice });
    assert_eq!(first.cache.end(estate.arena()), found);
}

#[test]
fn what_two_threads_freed_is_found_out_as_it_goes_for_others_that_are_wanted() {
    let estate = Estate::new(Fake::new());
    let (mut first, mut second) = (Thread::new(&estate), Thread::new(&estate));
    // So that what each may have at hand is less than what comes and goes.
    let mut others: Vec<_> = (0..6).map(|_| Thread::new(&estate)).collect();
    let theirs: Vec<_> = others.iter_mut().map(|it| it.alloc(16).unwrap()).collect();
    // Too few at a time for phases.
    let few = 15;
    come_and_go(&mut first, 24_576, few, LONG);
    let twice = first.alloc(24_576).unwrap();
    second.free(twice);
    first.free(twice);
    second.cache.trim(estate.arena()).unwrap();
    let sizes = (3..=32).map(|n| n << 10).filter(|&size| size != 24_576);
    let found = sizes.cycle().take(1000).find_map(|size| {
        come_and_go(&mut first, size, few, 1);
        first.cache.take_found_late()
    });
    assert_eq!(found, Some(Invalid::FreedTwice { address: twice }));
    others.iter_mut().zip(theirs).for_each(|(other, its)| other.free(its));
}

#[test]
fn what_two_threads_freed_is_found_out_as_it_makes_room_for_what_is_freed() {
    let estate = Estate::new(Fake::new());
    let (mut first, mut second) = (Thread::new(&estate), Thread::new(&estate));
    let size = 9216;
    come_and_go(&mut first, size, 40, LONG);
    let mut objects: Vec<_> = (0..400).map(|_| first.alloc(size).unwrap()).collect();
    let theirs: Vec<_> = objects.drain(100..300).collect();
    let twice = theirs[100];
    first.free_all(objects.drain(..30));
    first.free(twice);
    second.free_all(theirs);
    second.cache.trim(estate.arena()).unwrap();
    let others: Vec<_> = (0..3000).map(|_| second.alloc(3072).unwrap()).collect();
    assert!(others.iter().any(|it| (*it..it + 3072).contains(&twice)));
    let mut found = Vec::new();
    for object in objects {
        found.extend(first.try_free(object).err());
    }
    assert_eq!(found, [Invalid::FreedTwice { address: twice }]);
    second.free_all(others);
}

#[test]
fn what_two_threads_freed_is_found_out_for_want_of_memory() {
    let estate = Estate::new(Fake::new().with_address_space(48 << 20));
    let (mut first, twice) = hot_although_home(&estate, 4096);
    let all: Vec<_> = core::iter::from_fn(|| first.alloc(2 << 20)).collect();
    let found = Some(Invalid::FreedTwice { address: twice });
    assert_eq!(first.cache.take_found_late(), found);
    first.free_all(all);
}

const SIZES: [usize; 8] = [16, 100, 1000, 2000, 3000, 9216, 20_000, 32_768];

#[test]
fn what_two_threads_freed_is_not_freed_in_place_of_what_is_there_when_it_goes_home() {
    let mut reused = 0;
    for (before, after) in SIZES.into_iter().flat_map(|it| SIZES.map(|after| (it, after))) {
        let estate = Estate::new(Fake::new());
        let (mut first, mut second) = (Thread::new(&estate), Thread::new(&estate));
        let count = (6_usize << 16).div_ceil(before);
        let objects: Vec<_> = (0..count).map(|_| first.alloc(before).unwrap()).collect();
        first.cache.trim(estate.arena()).unwrap();
        let twice = objects[count / 2];
        first.free(twice);
        second.free_all(objects);
        second.cache.trim(estate.arena()).unwrap();
        let others: Vec<_> = (0..(2 << 20) / after).map(|_| second.alloc(after).unwrap()).collect();
        let is_used = others.iter().any(|it| (*it..it + after).contains(&twice));
        if before == after || !is_used {
            _ = first.cache.trim(estate.arena());
            continue;
        }
        reused += 1;
        let are_out = out(&estate);
        let found = first.cache.trim(estate.arena()).expect_err("it was found out");
        // Where its slab was.
        assert!((twice - (512 << 10)..=twice).contains(&found.address()), "{found} of {twice:#x}");
        assert_eq!(out(&estate), are_out, "{before} bytes, then {after}");
        second.free_all(others);
    }
    assert!(reused > 30, "the place of {reused} was used again");
}

#[test]
fn nor_is_what_was_set_aside_when_it_goes_for_want_of_memory() {
    let estate = Estate::new(Fake::new().with_address_space(48 << 20));
    let (mut first, mut second) = (Thread::new(&estate), Thread::new(&estate));
    let objects: Vec<_> = (0..2000).map(|_| first.alloc(100).unwrap()).collect();
    first.cache.trim(estate.arena()).unwrap();
    come_and_go(&mut first, 100, 400, LONG);
    let own: Vec<_> = (0..400).map(|_| first.alloc(100).unwrap()).collect();
    let twice = objects[1000];
    // Not among those that are looked at more closely.
    first.free_all(own[..60].iter().copied());
    first.free(twice);
    first.free_all(own[60..].iter().copied());
    second.free_all(objects);
    second.cache.trim(estate.arena()).unwrap();
    let others: Vec<_> = (0..30_000).map(|_| second.alloc(48).unwrap()).collect();
    assert!(others.iter().any(|it| (*it..it + 48).contains(&twice)));
    let all: Vec<_> = core::iter::from_fn(|| first.alloc(2 << 20)).collect();
    let found = Some(Invalid::FreedTwice { address: twice });
    assert_eq!(first.cache.take_found_late(), found);
    first.free_all(all);
    second.free_all(others);
}
