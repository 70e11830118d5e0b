//! Programs that have phases: how much of what comes and goes stays at hand, and when it makes
//! room.

use crate::reclaiming::{alone, can_summon};
use crate::setting_aside::{come_and_go, out};
use crate::support::{Estate, Random, Thread};
use freehold_heap::invalid::Invalid;
use freehold_heap::magazine::ROUNDS;
use freehold_heap::policy::retain;
use freehold_heap::purge::Watch;
use freehold_sys::fake::Fake;

/// Times after which a thread keeps all that comes and goes, if it may.
const LONG: usize = 14;

/// Sizes of small and medium objects, and how many are more than usually stay at hand.
const SWINGS: [(usize, usize); 5] =
    [(48, 50_000), (256, 10_000), (3000, 4000), (16_000, 900), (2000, 3000)];

#[test]
fn what_comes_and_goes_in_phases_stays_at_hand_beyond_what_does_usually() {
    for (size, count) in SWINGS {
        let estate = Estate::new(Fake::new());
        let mut thread = Thread::new(&estate);
        come_and_go(&mut thread, size, count, LONG);
        assert!(out(&estate) >= count, "{} of {count} of {size} bytes", out(&estate));
        let free = estate.arena().usage().free_objects;
        let objects: Vec<_> = (0..count).map(|_| thread.alloc(size).unwrap()).collect();
        assert_eq!(estate.arena().usage().free_objects, free, "some of {size} bytes were fetched");
        thread.free_all(objects);
        assert_eq!(estate.arena().usage().free_objects, free, "some of {size} bytes went home");
    }
}

#[test]
fn of_small_phases_hardly_any_is_fetched_from_the_third_time_on() {
    for (size, count) in [(8, 10_000), (64, 2000), (100, 1200)] {
        let estate = Estate::new(Fake::new());
        let mut thread = Thread::new(&estate);
        come_and_go(&mut thread, size, count, 2);
        let stay = out(&estate);
        assert!(stay >= count * 19 / 20, "{stay} of {count} of {size} bytes");
    }
}

#[test]
fn where_there_are_no_phases_twice_as_much_stays_at_hand_each_time() {
    let (size, count) = (100, 700);
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    come_and_go(&mut thread, size, count, 2);
    let stay = out(&estate);
    assert!(stay < count * 19 / 20, "{stay} of {count}");
    come_and_go(&mut thread, size, count, LONG);
    assert!(out(&estate) >= count);
}

#[test]
fn it_makes_room_for_as_much_as_is_fetched_of_another_class_or_claimed_as_runs() {
    let others = [(500, 24_000), (5000, 2400), (100_000, 120), (2 << 20, 40)];
    for ((size, count), (other, others)) in
        SWINGS.into_iter().flat_map(|swing| others.map(|other| (swing, other)))
    {
        let estate = Estate::new(Fake::new());
        let mut thread = Thread::new(&estate);
        come_and_go(&mut thread, size, count, LONG);
        let before = out(&estate);
        let fetched: Vec<_> = (0..others).map(|_| thread.alloc(other).unwrap()).collect();
        let of_runs = fetched.len() * usize::from(other > 32 << 10);
        let at_hand = out(&estate) + of_runs - fetched.len();
        let gone = (before - at_hand.min(before)) * size;
        let owed = (others * other).min(before * size);
        assert!(gone >= owed / 4, "{gone} bytes of {size} for {owed} of {other}");
        assert!(
            at_hand > 0 || others * other > count * size,
            "all of {size} went for {owed} of {other}"
        );
        thread.free_all(fetched);
    }
}

#[test]
fn no_more_goes_than_is_fetched_once_it_lies_idle() {
    let (size, count) = SWINGS[1];
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    come_and_go(&mut thread, size, count, LONG);
    let before = out(&estate);
    // Some of which are fetched before it does. What is counted is more than what is fetched, by
    // less than half.
    let fetched: Vec<_> = (0..4000).map(|_| thread.alloc(500).unwrap()).collect();
    let gone = (before + fetched.len()).saturating_sub(out(&estate)) * size;
    assert!((1..2_200_000).contains(&gone), "{gone} bytes of {}", count * size);
    thread.free_all(fetched);
}

#[test]
fn what_was_freed_twice_is_found_out_and_given_out_once_when_it_goes_home_to_make_room() {
    let (size, count) = SWINGS[1];
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    come_and_go(&mut thread, size, count, LONG);
    let objects: Vec<_> = (0..count).map(|_| thread.alloc(size).unwrap()).collect();
    let (twice, others) = objects.split_last().unwrap();
    thread.free(*twice);
    // The first that is not refused at once.
    let was_kept = (0..100).any(|_| thread.try_free(*twice).is_ok());
    assert!(was_kept, "each was watched");
    thread.free_all(others.iter().copied());
    let fetched: Vec<_> = (0..24_000).map(|_| thread.alloc(500).unwrap()).collect();
    let found = thread.cache.take_found_late().expect("it was found out");
    assert_eq!(estate.arena().place_of(found.address()).map(|it| it.size), Some(size));
    assert_eq!(thread.cache.take_found_late(), None, "said once");
    // Whatever was lost with it: a half magazine.
    assert!(out(&estate) <= fetched.len() + 3 * ROUNDS);
    let again: Vec<_> = (0..count).map(|_| thread.alloc(size).unwrap()).collect();
    let different: std::collections::HashSet<_> = again.iter().collect();
    assert_eq!(different.len(), count);
    thread.free_all(again.into_iter().chain(fetched));
}

#[test]
fn a_medium_object_that_two_threads_freed_is_found_out_as_it_makes_room() {
    let (size, count) = SWINGS[2];
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    come_and_go(&mut thread, size, count, LONG);
    let objects: Vec<_> = (0..count).map(|_| thread.alloc(size).unwrap()).collect();
    let (at_hand, others) = objects.split_at(100);
    let twice = at_hand[50];
    let mut other = Thread::new(&estate);
    let own = other.alloc(size).unwrap();
    other.free(twice);
    other.free(own);
    thread.free_all(at_hand.iter().copied());
    other.cache.trim(estate.arena()).unwrap();
    assert_eq!(thread.cache.take_found_late(), None);
    let fetched: Vec<_> = (0..48_000).map(|_| thread.alloc(500).unwrap()).collect();
    let found = Some(Invalid::FreedTwice { address: twice });
    assert_eq!(thread.cache.take_found_late(), found);
    thread.free_all(fetched.iter().chain(others).copied());
}

#[test]
fn a_little_of_something_else_lets_a_little_go() {
    for (size, count) in SWINGS {
        let estate = Estate::new(Fake::new());
        let mut thread = Thread::new(&estate);
        come_and_go(&mut thread, size, count, LONG);
        let before = out(&estate);
        let objects: Vec<_> = (0..100).map(|_| thread.alloc(100).unwrap()).collect();
        let gone = (before + 100).saturating_sub(out(&estate)) * size;
        assert!(gone <= 40_000 + 30 * size, "{gone} bytes of {size}");
        thread.free_all(objects);
    }
}

#[test]
fn a_little_of_something_else_does_not_end_a_swing() {
    for (size, count) in SWINGS {
        let estate = Estate::new(Fake::new());
        let mut thread = Thread::new(&estate);
        come_and_go(&mut thread, size, count, LONG);
        // More than there is room for, of which some is missed right after something else was.
        let objects: Vec<_> = (0..count + count / 8).map(|_| thread.alloc(size).unwrap()).collect();
        thread.free_all(objects);
        let other = if size > 2048 { 5000 } else { 500 };
        let objects: Vec<_> = (0..100).map(|_| thread.alloc(other).unwrap()).collect();
        come_and_go(&mut thread, size, count + count / 8, 1);
        let at_hand = out(&estate) - objects.len();
        assert!(at_hand >= count - count / 8, "{at_hand} of {count} of {size} bytes are left");
        thread.free_all(objects);
    }
}

#[test]
fn classes_that_come_and_go_together_stay_at_hand_together() {
    for swings in [[SWINGS[0], SWINGS[1]], [SWINGS[2], SWINGS[3]], [SWINGS[1], SWINGS[2]]] {
        let estate = Estate::new(Fake::new());
        let mut thread = Thread::new(&estate);
        let mut free = 0;
        for _ in 0..2 * LONG {
            free = estate.arena().usage().free_objects;
            let mut objects = Vec::new();
            for n in 0..swings[0].1.max(swings[1].1) {
                let wanted = swings.iter().filter(|&&(_, count)| n < count / 2);
                objects.extend(wanted.map(|&(size, _)| thread.alloc(size).unwrap()));
            }
            thread.free_all(objects);
        }
        let all = usize::midpoint(swings[0].1, swings[1].1);
        let gone = estate.arena().usage().free_objects.abs_diff(free);
        assert!(gone <= all / 50, "{gone} of {swings:?} went home");
        let at_hand = out(&estate);
        assert!(at_hand >= all - all / 20, "{at_hand} of {swings:?} stay");
    }
}

#[test]
fn many_classes_of_which_some_are_hardly_used_stay_at_hand_together() {
    let estate = Estate::new(Fake::new());
    let (mut thread, mut random) = (Thread::new(&estate), Random::new());
    let sizes: Vec<_> = (0..20_000).map(|_| 1 + random.below(1000)).collect();
    for _ in 0..LONG {
        let objects: Vec<_> = sizes.iter().map(|&size| thread.alloc(size).unwrap()).collect();
        thread.free_all(objects);
    }
    let at_hand = out(&estate);
    assert!(at_hand >= sizes.len() - sizes.len() / 20, "{at_hand} of {}", sizes.len());
}

#[test]
fn where_one_object_goes_for_each_that_comes_no_more_is_at_hand_than_usually() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let seasons = [48, 200, 500, 900];
    let mut live = std::collections::VecDeque::new();
    for n in 0..400_000 {
        live.push_back(thread.alloc(seasons[n / 20_000 % seasons.len()]).unwrap());
        if live.len() > 30_000 {
            thread.free(live.pop_front().unwrap());
        }
    }
    let at_hand = out(&estate) - live.len();
    thread.free_all(live);
    // Of one class a mebibyte at most, or a little in any case.
    let most = seasons.map(|size| (1 << 20) / size + 10 * ROUNDS).iter().sum();
    assert!(at_hand < most, "{at_hand} objects, {most} usually");
}

#[test]
fn swings_of_all_heaps_are_bounded_together_and_what_one_gives_up_another_may_have() {
    const HEAPS: usize = 10;
    let _alone = alone();
    let (size, count) = SWINGS[1];
    let estate = Estate::new(Fake::new());
    let mut threads: Vec<_> = (0..HEAPS).map(|_| Thread::new(&estate)).collect();
    for thread in &mut threads {
        come_and_go(thread, size, 1, 1);
    }
    come_and_go(&mut threads[0], size, count, LONG);
    assert!(out(&estate) < count / 2, "{} stay where nobody takes them", out(&estate));
    if !can_summon(&estate) {
        return;
    }
    estate.arena().set_helped(true);
    // SAFETY: the threads stay where they are, and mark themselves.
    let mut watch = unsafe { Watch::reclaiming() };
    estate.arena().find_out_whether_reclaimed(&mut watch);
    let swung = |thread: &mut Thread<Fake>| {
        let before = out(&estate);
        come_and_go(thread, size, count, LONG);
        // What it had before is among them.
        out(&estate) >= before + count - 2 * ROUNDS
    };
    let have: Vec<_> = threads.iter_mut().map(swung).collect();
    assert!(have[0] && have[1] && !have[HEAPS - 1], "{have:?}");
    let bytes = out(&estate) * size;
    let most = retain::swing_bytes(bytes) + HEAPS * retain::depot_bytes(bytes, HEAPS);
    assert!(bytes <= most, "{bytes} bytes, {most} at most");
    for thread in &mut threads {
        thread.cache.trim(estate.arena()).unwrap();
    }
    assert_eq!(out(&estate), 0);
    come_and_go(&mut threads[HEAPS - 1], size, count, LONG);
    assert!(out(&estate) >= count, "{} of {count}", out(&estate));
}

#[test]
fn nothing_more_is_granted_once_nobody_can_take_it_any_longer() {
    let _alone = alone();
    let (size, count) = SWINGS[1];
    let estate = Estate::new(Fake::new());
    if !can_summon(&estate) {
        return;
    }
    estate.arena().set_helped(true);
    for filtered in [true, false] {
        let mut threads = [Thread::new(&estate), Thread::new(&estate)];
        for thread in &mut threads {
            come_and_go(thread, size, 1, 1);
        }
        // Somebody would keep more, so that it is found out.
        come_and_go(&mut threads[1], size, count, LONG);
        threads[1].cache.trim(estate.arena()).unwrap();
        // SAFETY: the threads stay where they are, and mark themselves.
        let mut watch = unsafe { Watch::reclaiming() };
        estate.arena().find_out_whether_reclaimed(&mut watch);
        if filtered {
            estate.arena().system().fail_after(0);
            // SAFETY: no thread uses the arena meanwhile.
            unsafe { estate.arena().reclaim() }.unwrap();
            estate.arena().system().recover();
        }
        come_and_go(&mut threads[0], size, count, LONG);
        assert_eq!(out(&estate) < count / 2, filtered, "{} of {count}", out(&estate));
        threads[0].cache.trim(estate.arena()).unwrap();
    }
}
