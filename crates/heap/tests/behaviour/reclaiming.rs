//! Taking what threads have at hand while they are not in the allocator.

use crate::many_threads::trade_beside;
use crate::support::{Estate, Random, Thread};
use freehold_heap::layout::{BLOCK, GRANULE};
use freehold_heap::magazine::ROUNDS;
use freehold_heap::policy::purge::{TICK_MILLISECONDS, TICKS_REMEMBERED, TICKS_TO_RECLAIM};
use freehold_heap::purge::Watch;
use freehold_sys::System;
use freehold_sys::fake::Fake;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// One arena reclaims at a time: the others of a process go without.
static ALONE: Mutex<()> = Mutex::new(());

pub(crate) fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether something can be taken from a thread here. If not, says that the test is skipped.
pub(crate) fn can_summon(estate: &Estate<Fake>) -> bool {
    let can = estate.arena().system().barrier();
    if !can {
        eprintln!("skipped: no membarrier(2) here, or a filter of system calls");
    }
    can
}

/// Reclaims until all is over, and purges what heaps have that nobody does; how often something was
/// taken from a thread. `None` without a barrier.
fn reclaim(estate: &Estate<Fake>, over: &AtomicBool) -> Option<usize> {
    let mut taken = 0;
    while !over.load(SeqCst) {
        // SAFETY: the threads stay where they are, and mark themselves.
        taken += unsafe { estate.arena().reclaim() }.unwrap();
        estate.arena().purge_heaps();
        // Or whoever has waited would be called again before it is awake.
        thread::sleep(Duration::from_micros(10));
    }
    estate.arena().system().barrier().then_some(taken)
}

fn something_was_taken(taken: Option<usize>) {
    match taken {
        Some(taken) => assert!(taken > 0, "nothing was taken from anybody"),
        None => eprintln!("skipped: no membarrier(2) here, or a filter of system calls"),
    }
}

#[test]
fn threads_that_trade_lose_nothing_when_what_they_have_at_hand_is_taken() {
    let _alone = alone();
    something_was_taken(trade_beside(reclaim, 4, 40_000, 3000, Fake::new()));
    something_was_taken(trade_beside(reclaim, 4, 10_000, 500_000, Fake::new()));
}

#[test]
fn nor_do_more_threads_than_there_are_heaps_for_that_begin_and_end() {
    let _alone = alone();
    let one_processor = || Fake::new().with_processors(1);
    let rounds = (0..4).map(|_| trade_beside(reclaim, 48, 1000, 2000, one_processor()));
    something_was_taken(rounds.sum());
}

/// Sizes of which the fast path keeps nothing, but for the first.
const SIZES: [usize; 6] = [200, 1500, 3000, 9000, 20_000, 2 * GRANULE];

/// One of two threads that do little but allocate and free, and now and then what the other has
/// put into a place that they share.
fn hurry(estate: &Estate<Fake>, mut random: Random, shared: &[AtomicUsize]) {
    let mut thread = Thread::new(estate);
    let mut own = [0_usize; 32];
    for _ in 0..2_000_000 {
        let slot = random.below(own.len());
        let object = core::mem::replace(&mut own[slot], 0);
        if object == 0 {
            let address = thread.alloc(SIZES[random.below(SIZES.len())]).unwrap();
            mark(address, address);
            own[slot] = address;
            continue;
        }
        let before =
            if slot < 4 { shared[random.below(shared.len())].swap(object, SeqCst) } else { object };
        if before != 0 {
            assert_eq!(mark(before, 0), before, "somebody else has it as well");
            thread.free(before);
        }
    }
    thread.free_all(own.into_iter().filter(|&object| object != 0));
}

/// Writes into an object what it was marked with, and returns what was there.
fn mark(object: usize, with: usize) -> usize {
    // SAFETY: an object of at least a word that the calling thread owns.
    unsafe { core::ptr::with_exposed_provenance_mut::<usize>(object).replace(with) }
}

#[test]
fn nobody_gets_an_object_twice_while_it_is_taken_what_busy_threads_have_at_hand() {
    let _alone = alone();
    let estate = Estate::new(Fake::new());
    let over = AtomicBool::new(false);
    let shared: [AtomicUsize; 8] = Default::default();
    let mut random = Random::new();
    let taken = thread::scope(|scope| {
        let reclaiming = scope.spawn(|| reclaim(&estate, &over));
        let hurrying = [random.fork(), random.fork()]
            .map(|random| scope.spawn(|| hurry(&estate, random, &shared)));
        let ended = hurrying.map(thread::ScopedJoinHandle::join);
        over.store(true, SeqCst);
        ended.into_iter().for_each(Result::unwrap);
        reclaiming.join().unwrap()
    });
    something_was_taken(taken);
    let mut last = Thread::new(&estate);
    last.free_all(shared.into_iter().map(AtomicUsize::into_inner).filter(|&object| object != 0));
    drop(last);
    // SAFETY: all threads are gone.
    let census = unsafe { estate.arena().check() };
    assert_eq!((census.objects_out, census.run_granules), (0, 0), "something was lost");
}

#[test]
fn a_thread_that_does_nothing_gives_up_what_it_has_at_hand_and_goes_on_later() {
    let _alone = alone();
    let estate = Estate::new(Fake::new());
    if !can_summon(&estate) {
        return;
    }
    estate.arena().set_helped(true);
    let (mut thread, mut other) = (Thread::new(&estate), Thread::new(&estate));
    // SAFETY: all is done by this thread, one thing after the other.
    let mut watch = unsafe { Watch::reclaiming() };
    let mut use_all = || {
        for size in SIZES {
            let objects: Vec<_> = (0..600).map(|_| thread.alloc(size).unwrap()).collect();
            let (mine, given) = objects.split_at(500);
            thread.free_all(mine.iter().copied());
            other.free_all(given.iter().copied());
        }
    };
    use_all();
    let left = |estate: &Estate<Fake>| estate.arena().granules_in_use();
    assert!(left(&estate).used > 40, "{:?} stay at hand", left(&estate));
    for _ in 0..10 {
        estate.arena().system().advance(TICK_MILLISECONDS);
        if !estate.arena().purge_idle(&mut watch).unwrap() {
            break;
        }
    }
    // What is left is in magazines, and slabs of small objects that the heap is attached to.
    assert!(left(&estate).used <= 8 && left(&estate).dirty == 0, "{:?}", left(&estate));
    use_all();
}

#[test]
fn what_a_sleeping_thread_and_its_heap_need_for_it_is_returned_as_well() {
    let _alone = alone();
    let estate = Estate::new(Fake::new());
    if !can_summon(&estate) {
        return;
    }
    let mut threads = [0; 4].map(|_| Thread::new(&estate));
    let purged = || estate.arena().system().purged();
    for _ in 0..3 {
        for n in 0..threads.len() {
            for size in (16..2048).step_by(48).chain(SIZES) {
                let objects: Vec<_> = (0..100).map(|_| threads[n].alloc(size).unwrap()).collect();
                threads[(n + 1) % 4].free_all(objects);
            }
        }
        let before = purged();
        // SAFETY: all is done by this thread, one thing after the other.
        assert_eq!(unsafe { estate.arena().reclaim() }.unwrap(), 8, "four heaps and outboxes");
        // Of each thread nine pages of its heap, its map among them, and four of its outbox.
        let more = purged() - before;
        assert!(more > 4 * 10 * estate.arena().system().page_size(), "{more} bytes");
    }
}

#[test]
fn however_much_a_thread_has_set_aside_all_of_it_goes_back() {
    let _alone = alone();
    let estate = Estate::new(Fake::new());
    if !can_summon(&estate) {
        return;
    }
    let mut thread = Thread::new(&estate);
    for _ in 0..10 {
        let objects: Vec<_> = (0..1900).map(|_| thread.alloc(48).unwrap()).collect();
        thread.free_all(objects);
    }
    // SAFETY: all is done by this thread, one thing after the other.
    let out = |estate: &Estate<Fake>| unsafe { estate.arena().check() }.objects_out;
    assert!(out(&estate) >= 1900);
    // SAFETY: as above.
    assert_eq!(unsafe { estate.arena().reclaim() }.unwrap(), 2, "a heap and an outbox");
    assert!(out(&estate) <= ROUNDS, "{} are left", out(&estate));
}

#[test]
fn of_a_program_that_goes_on_what_sleepers_have_at_hand_goes_back_now_and_then() {
    let _alone = alone();
    let estate = Estate::new(Fake::new());
    if !can_summon(&estate) {
        return;
    }
    estate.arena().set_helped(true);
    let (mut sleeper, mut other) = (Thread::new(&estate), Thread::new(&estate));
    // SAFETY: all is done by this thread, one thing after the other.
    let mut watch = unsafe { Watch::reclaiming() };
    let objects: Vec<_> =
        (0..600).map(|n| sleeper.alloc(SIZES[n % SIZES.len()]).unwrap()).collect();
    // Some stay in use, so that slabs go to their pools.
    let (stay, go) = objects.split_at(60);
    sleeper.free_all(go.iter().copied());
    let mut used = Vec::new();
    let mut tick = || {
        estate.arena().system().advance(TICK_MILLISECONDS);
        let more = estate.arena().purge_idle(&mut watch).unwrap();
        used.push(estate.arena().granules_in_use().used);
        more
    };
    for _ in 0..TICKS_TO_RECLAIM {
        let block = other.alloc(3 * BLOCK).unwrap();
        other.free(block);
        assert!(tick());
    }
    // That it put slabs into pools does not make the program busy.
    let rest = (1..20).find(|_| !tick());
    let last = TICKS_TO_RECLAIM as usize - 1;
    assert!(used[last] < used[last - 1] * 2 / 3, "{used:?}");
    assert_eq!(rest, Some(TICKS_REMEMBERED), "{used:?}");
    sleeper.free_all(stay.iter().copied());
}
