//! What many threads can expect of the heap together.

use crate::support::{Estate, Random, Thread, check, fill};
use freehold_heap::cache::Holding;
use freehold_heap::class::{MEDIUM_MAX, SMALL_MAX};
use freehold_heap::layout::GRANULE;
use freehold_sys::fake::Fake;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// An object on its way from thread to thread.
struct Message {
    address: usize,
    size: usize,
    tag: u64,
}

/// One of several threads that allocate, check, send objects to each other, and free.
fn trade(
    estate: &Estate<Fake>,
    mut random: Random,
    steps: usize,
    max: usize,
    mailbox: &Receiver<Message>,
    others: &[Sender<Message>],
) {
    let mut thread = Thread::new(estate);
    let mut live: Vec<Message> = Vec::new();
    for step in 0..steps {
        for message in mailbox.try_iter().take(8) {
            check(message.address, message.size, message.tag);
            live.push(message);
        }
        let choice = random.below(10);
        if choice < 5 && live.len() < 400 {
            let (size, tag) = (random.size(max), random.next());
            let address = thread.alloc(size).unwrap();
            fill(address, size, tag);
            live.push(Message { address, size, tag });
        } else if let Some(nth) = live.len().checked_sub(1).map(|n| random.below(n + 1)) {
            let mut message = live.swap_remove(nth);
            check(message.address, message.size, message.tag);
            if choice == 9 && step % 7 == 0 {
                let size = random.size(max).max(1);
                message.address = thread.resize(message.address, size).unwrap();
                message.size = size;
                fill(message.address, size, message.tag);
            }
            if choice < 8 {
                thread.free(message.address);
            } else {
                let to = &others[random.below(others.len())];
                if let Err(unsent) = to.send(message) {
                    thread.free(unsent.0.address);
                }
            }
        }
    }
    for message in live {
        check(message.address, message.size, message.tag);
        thread.free(message.address);
    }
}

/// Lets `threads` of them trade, and checks at the end that nothing was lost.
fn trade_among(threads: usize, steps: usize, max: usize, system: Fake) {
    trade_beside(|_, _| (), threads, steps, max, system);
}

/// Likewise, while `another` thread does something until it is told that all is over. Returns what
/// that returns.
pub(crate) fn trade_beside<R: Send>(
    another: impl FnOnce(&Estate<Fake>, &AtomicBool) -> R + Send,
    threads: usize,
    steps: usize,
    max: usize,
    system: Fake,
) -> R {
    let estate = Estate::new(system);
    let over = AtomicBool::new(false);
    let mut random = Random::new();
    let (senders, mailboxes): (Vec<_>, Vec<_>) = (0..threads).map(|_| channel()).unzip();
    let (mailboxes, result): (Vec<_>, _) = thread::scope(|scope| {
        let another = scope.spawn(|| another(&estate, &over));
        let traders: Vec<_> = mailboxes
            .into_iter()
            .map(|mailbox| {
                let (estate, senders, random) = (&estate, senders.clone(), random.fork());
                scope.spawn(move || {
                    trade(estate, random, steps, max, &mailbox, &senders);
                    mailbox
                })
            })
            .collect();
        let ended: Vec<_> = traders.into_iter().map(thread::ScopedJoinHandle::join).collect();
        over.store(true, SeqCst);
        let mailboxes = ended.into_iter().map(Result::unwrap).collect();
        (mailboxes, another.join().unwrap())
    });
    let mut last = Thread::new(&estate);
    for message in mailboxes.iter().flat_map(Receiver::try_iter) {
        check(message.address, message.size, message.tag);
        last.free(message.address);
    }
    drop(last);
    estate.arena().let_go_of_shared().unwrap();
    // SAFETY: all threads are gone.
    let census = unsafe { estate.arena().check() };
    assert_eq!(census.objects_out, 0, "objects were lost");
    assert_eq!(census.run_granules, 0, "runs were lost");
    result
}

#[test]
fn objects_that_change_hands_keep_their_contents_and_none_is_lost() {
    trade_among(8, 40_000, 3000, Fake::new());
}

#[test]
fn objects_of_all_sizes_change_hands() {
    trade_among(4, 15_000, 500_000, Fake::new());
}

#[test]
fn more_threads_than_heaps_share() {
    trade_among(64, 4000, 2000, Fake::new().with_processors(1));
}

#[test]
fn threads_past_the_exclusive_heaps_share_and_know_it() {
    let estate = Estate::new(Fake::new().with_processors(1));
    let mut threads: Vec<_> = (0..40).map(|_| Thread::new(&estate)).collect();
    let objects: Vec<_> = threads.iter_mut().map(|t| t.alloc(100).unwrap()).collect();
    let exclusive = threads.iter().filter(|t| t.cache.holding() == Holding::Exclusive).count();
    let shared = threads.iter().filter(|t| t.cache.holding() == Holding::Shared).count();
    assert_eq!((exclusive, shared), (32, 8));
    for (thread, object) in threads.iter_mut().rev().zip(objects) {
        thread.free(object);
    }
}

#[test]
fn a_heap_goes_to_the_next_thread_with_its_map() {
    let estate = Estate::new(Fake::new());
    let mut first = Thread::new(&estate);
    let objects: Vec<_> = (0..500).map(|_| first.alloc(64).unwrap()).collect();
    let heap = first.cache.heap().unwrap().id();
    drop(first);
    let mut second = Thread::new(&estate);
    let own = second.alloc(64).unwrap();
    assert_eq!(second.cache.heap().unwrap().id(), heap);
    // The predecessor's objects are the successor's own: the fast path keeps them.
    for object in objects {
        second.free(object);
        assert_eq!(second.alloc(64), Some(object));
        second.free(object);
    }
    second.free(own);
}

#[test]
fn a_thread_that_only_frees_needs_no_heap_and_strands_nothing() {
    let estate = Estate::new(Fake::new());
    let mut maker = Thread::new(&estate);
    let mut freer = Thread::new(&estate);
    for round in 0..50 {
        let all: Vec<_> = (0..3000).map(|i| maker.alloc(16 + i % 900).unwrap()).collect();
        freer.free_all(all);
        assert_eq!(freer.cache.holding(), Holding::None);
        let used = estate.arena().granules_in_use().used * GRANULE;
        assert!(used < 8 << 20, "{} KiB in use after round {round}", used >> 10);
    }
}

/// Threads that allocate `bytes` each in turn, the next one freeing what the last one allocated:
/// live memory never exceeds that of one thread.
#[test]
fn round_robin_does_not_multiply_memory_by_the_number_of_threads() {
    let estate = Estate::new(Fake::new());
    let (bytes, size) = (4 << 20, 100);
    let mut threads: Vec<_> = (0..16).map(|_| Thread::new(&estate)).collect();
    let mut peak = 0;
    let mut live: Vec<usize> = Vec::new();
    for step in 0..160 {
        let thread = &mut threads[step % 16];
        for address in live.drain(..) {
            thread.free(address);
        }
        live.extend((0..bytes / size).map(|_| thread.alloc(size).unwrap()));
        peak = peak.max(estate.arena().granules_in_use().used * GRANULE);
    }
    threads[0].free_all(live);
    assert!(peak < 3 * bytes, "{} MiB for {} MiB live", peak >> 20, bytes >> 20);
}

#[test]
fn slabs_freed_by_others_are_used_again_though_their_maker_is_idle() {
    let estate = Estate::new(Fake::new());
    let mut idle = Thread::new(&estate);
    let mut busy = Thread::new(&estate);
    for size in [48, 700, 5000] {
        let count = (16 << 20) / size;
        let all: Vec<_> = (0..count).map(|_| idle.alloc(size).unwrap()).collect();
        let used = estate.arena().granules_in_use().used;
        // Every second object: no slab becomes empty.
        all.iter().step_by(2).for_each(|&a| busy.free(a));
        let again: Vec<_> = (0..count * 2 / 5).map(|_| busy.alloc(size).unwrap()).collect();
        let now = estate.arena().granules_in_use().used;
        assert!(now <= used + used / 20 + 4, "size {size}: {used} granules became {now}");
        all.iter().skip(1).step_by(2).for_each(|&a| busy.free(a));
        busy.free_all(again);
    }
}

#[test]
fn what_a_thread_leaves_behind_is_used_by_others() {
    let estate = Estate::new(Fake::new());
    let mut used = Vec::new();
    for _ in 0..200 {
        let mut thread = Thread::new(&estate);
        let all: Vec<_> = (0..2000).map(|i| thread.alloc(i % SMALL_MAX).unwrap()).collect();
        let medium: Vec<_> = (0..50).map(|i| thread.alloc(i * 600).unwrap()).collect();
        all.into_iter().chain(medium).for_each(|a| thread.free(a));
        drop(thread);
        used.push(estate.arena().granules_in_use().used);
    }
    assert_eq!(used.iter().max(), Some(&0), "granules stay in use after their thread");
}

#[test]
fn generations_of_threads_hand_their_objects_on_without_growth() {
    let estate = Estate::new(Fake::new());
    let mut random = Random::new();
    let mut slots: Vec<usize> = Vec::new();
    let mut peak = 0;
    for generation in 0..1000 {
        let mut thread = Thread::new(&estate);
        if generation == 0 {
            slots = (0..1000).map(|_| thread.alloc(10 + random.below(500)).unwrap()).collect();
        }
        for _ in 0..500 {
            let slot = random.below(slots.len());
            thread.free(slots[slot]);
            slots[slot] = thread.alloc(10 + random.below(500)).unwrap();
        }
        peak = peak.max(estate.arena().granules_in_use().used * GRANULE);
    }
    let live = 1000 * 260;
    assert!(peak < 8 * live, "{} KiB for {} KiB live", peak >> 10, live >> 10);
    let mut last = Thread::new(&estate);
    last.free_all(slots);
}

#[test]
fn no_two_threads_get_objects_on_one_line() {
    let estate = Estate::new(Fake::new());
    let mut makers: Vec<_> = (0..4).map(|_| Thread::new(&estate)).collect();
    // Passive: one thread allocates neighbours and gives one to each thread, which frees it first.
    for n in 0..64 {
        let object = makers[0].alloc(8).unwrap();
        makers[n % 4].free(object);
    }
    // Active: threads allocate in turn.
    let mut lines = std::collections::BTreeMap::new();
    let mut all = Vec::new();
    for n in 0..4000 {
        let address = makers[n % 4].alloc(8).unwrap();
        let owner = *lines.entry(address / 64).or_insert(n % 4);
        assert_eq!(owner, n % 4, "threads {owner} and {} share a line", n % 4);
        all.push((n % 4, address));
    }
    for (n, address) in all {
        makers[n].free(address);
    }
}

#[test]
fn all_locks_can_be_taken_while_threads_work() {
    let estate = Estate::new(Fake::new());
    let stop = AtomicUsize::new(0);
    let start = Barrier::new(5);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut thread = Thread::new(&estate);
                start.wait();
                while stop.load(SeqCst) == 0 {
                    let some: Vec<_> =
                        (0..200).map(|i| thread.alloc(i * 7 % 3000).unwrap()).collect();
                    thread.free_all(some);
                }
            });
        }
        let mut me = Thread::new(&estate);
        let mine: Vec<_> = (0..100).map(|i| me.alloc(i * 100).unwrap()).collect();
        start.wait();
        for _ in 0..100 {
            // What a fork does around the copy.
            estate.arena().lock_all();
            estate.arena().unlock_all();
        }
        stop.store(1, SeqCst);
        me.free_all(mine);
    });
}

#[test]
fn medium_objects_freed_by_others_come_back_in_whole_slabs() {
    let estate = Estate::new(Fake::new());
    let mut maker = Thread::new(&estate);
    let mut freer = Thread::new(&estate);
    for size in [SMALL_MAX + 1, 4096, 10_000, MEDIUM_MAX] {
        for _ in 0..20 {
            let all: Vec<_> = (0..300).map(|_| maker.alloc(size).unwrap()).collect();
            freer.free_all(all);
        }
        let used = estate.arena().granules_in_use().used * GRANULE;
        assert!(used < 4 << 20, "size {size}: {} KiB stay in use", used >> 10);
    }
}

#[test]
fn once_the_arena_is_made_nobody_asks_how_much_address_space_is_left() {
    let estate = Estate::new(Fake::new());
    let before = estate.arena().system().times_asked_for_space();
    let (mut one, mut other) = (Thread::new(&estate), Thread::new(&estate));
    let all: Vec<_> = (0..20_000).map(|n| one.alloc(1 + n % 3000).unwrap()).collect();
    other.free_all(all);
    assert!(before > 0);
    assert_eq!(estate.arena().system().times_asked_for_space(), before);
}
