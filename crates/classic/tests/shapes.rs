//! What each design is known for, shown by counts and never by time: bytes taken from the system,
//! chunks looked at, threads that wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;

use freehold_classic::{Exclusive, Model, Mtmalloc, Ownership, Private, Serial};

/// Blocks of a batch, and the size of each.
const BATCH: usize = 1000;
const BYTES: usize = 1024;

/// What a batch asks for.
const LIVE: usize = BATCH * BYTES;

/// Addresses of blocks, which may go to other threads.
type Batch = Vec<usize>;

fn allocate(model: &impl Model, blocks: usize, bytes: usize) -> Batch {
    (0..blocks)
        .map(|_| {
            let block = model.allocate(bytes);
            assert!(!block.is_null());
            block.expose_provenance()
        })
        .collect()
}

fn free(model: &impl Model, batch: Batch) {
    for block in batch {
        // SAFETY: the block is from `allocate`, and freed once since the batch is consumed.
        unsafe { model.deallocate(std::ptr::with_exposed_provenance_mut(block)) };
    }
}

/// One thread allocates batch after batch, and another frees each before the next is made.
fn produce_and_consume(model: &impl Model, batches: usize) {
    let (send, receive) = sync_channel::<Batch>(0);
    let (done, wait) = sync_channel(0);
    thread::scope(|scope| {
        scope.spawn(move || {
            for batch in receive {
                free(model, batch);
                done.send(()).expect("the producer waits");
            }
        });
        for _ in 0..batches {
            send.send(allocate(model, BATCH, BYTES)).expect("the consumer waits");
            wait.recv().expect("the consumer goes on");
        }
        drop(send);
    });
}

/// Threads take turns: each frees what the one before it allocated, and allocates as much.
fn take_turns(model: &impl Model, threads: usize, rounds: usize) {
    thread::scope(|scope| {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..threads).map(|_| sync_channel(1)).unzip();
        let (last, result) = sync_channel::<Batch>(1);
        for (n, receiver) in receivers.into_iter().enumerate() {
            let next = senders[(n + 1) % threads].clone();
            let last = last.clone();
            scope.spawn(move || {
                for round in 0..rounds {
                    free(model, receiver.recv().expect("a turn"));
                    let batch = allocate(model, BATCH, BYTES);
                    let is_last = round + 1 == rounds && n + 1 == threads;
                    if is_last { &last } else { &next }.send(batch).expect("somebody's turn");
                }
            });
        }
        senders[0].send(Vec::new()).expect("there is room");
        free(model, result.recv().expect("the last turn ends"));
    });
}

#[test]
fn pure_private_heaps_grow_with_everything_that_is_produced() {
    static MODEL: Private = Private::new();
    produce_and_consume(&MODEL, 10);
    let after_10 = MODEL.taken();
    produce_and_consume(&MODEL, 40);
    // Nothing that the consumer freed was ever used again.
    assert!(after_10 >= 10 * LIVE, "{after_10}");
    assert!(MODEL.taken() >= 45 * LIVE, "{}", MODEL.taken());
}

#[test]
fn heaps_with_ownership_do_not_grow_while_one_thread_produces_and_another_consumes() {
    static MODEL: Ownership = Ownership::new();
    produce_and_consume(&MODEL, 50);
    assert!(MODEL.taken() < LIVE * 5 / 4, "{}", MODEL.taken());
}

#[test]
fn heaps_with_ownership_take_as_many_times_the_memory_as_threads_take_turns() {
    static MODEL: Ownership = Ownership::new();
    take_turns(&MODEL, 8, 5);
    assert!((8 * LIVE..10 * LIVE).contains(&MODEL.taken()), "{}", MODEL.taken());
}

#[test]
fn one_heap_for_all_takes_the_memory_once() {
    static MODEL: Serial = Serial::new();
    take_turns(&MODEL, 8, 5);
    assert!(MODEL.taken() < LIVE * 5 / 4, "{}", MODEL.taken());
}

/// Gove's program: of the blocks of each round every other one is kept for ever. Returns how many
/// chunks were looked at in vain for each block, in the first and in the second half of the rounds.
fn chunk_scan(pages: usize) -> [f64; 2] {
    const ROUNDS: usize = 40;
    const BLOCKS: usize = 8000;
    let model = Mtmalloc::made_for(1, pages);
    let mut before = 0;
    [(); 2].map(|()| {
        for _ in 0..ROUNDS / 2 {
            let batch = allocate(&model, BLOCKS, 512);
            let short_lived = batch.into_iter().step_by(2).collect();
            free(&model, short_lived);
        }
        let looked_at = model.chunks_looked_at() - before;
        before = model.chunks_looked_at();
        looked_at as f64 / (ROUNDS / 2 * BLOCKS) as f64 - 1.0
    })
}

#[test]
fn a_search_through_full_chunks_grows_with_their_number_and_falls_with_their_size() {
    let [nine, twenty, thirty] = [9, 20, 30].map(chunk_scan);
    for [first, second] in [nine, twenty, thirty] {
        assert!(second > 1.5 * first, "{first} {second}");
    }
    // A chunk of n times the size is found n times as rarely full, among n times as few.
    let squared = (464_f64 / 136.0).powi(2);
    let ratio = nine[1] / thirty[1];
    assert!((squared / 2.0..squared * 2.0).contains(&ratio), "{nine:?} {twenty:?} {thirty:?}");
    assert!(nine[1] > twenty[1] && twenty[1] > thirty[1], "{nine:?} {twenty:?} {thirty:?}");
}

#[test]
fn the_later_search_looks_at_fewer_chunks_since_they_are_larger() {
    let model = Exclusive::made_for(64, 0);
    for _ in 0..40 {
        let batch = allocate(&model, 8000, 512);
        free(&model, batch.into_iter().step_by(2).collect());
    }
    let looked_at = model.counts_looked_at() as f64 / (40.0 * 8000.0) - 1.0;
    let [_, classic] = chunk_scan(9);
    assert!(looked_at < classic, "{looked_at} {classic}");
}

/// Whether a thread that has allocated before gets on while every lock of the model is held.
fn gets_on_without_locks(model: &impl Model) -> bool {
    let [is_ready, may_go, is_done] = [const { AtomicBool::new(false) }; 3];
    let wait_for = |flag: &AtomicBool| {
        while !flag.load(Ordering::SeqCst) {
            thread::yield_now();
        }
    };
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            free(model, allocate(model, 1, 100));
            is_ready.store(true, Ordering::SeqCst);
            wait_for(&may_go);
            for _ in 0..1000 {
                free(model, allocate(model, 1, 100));
            }
            is_done.store(true, Ordering::SeqCst);
        });
        wait_for(&is_ready);
        model.each_lock(&mut |lock| lock.acquire_among_peers());
        may_go.store(true, Ordering::SeqCst);
        // Until it is done, or stands at a lock.
        let mut waits = 0;
        while !is_done.load(Ordering::SeqCst) && waits == 0 {
            thread::yield_now();
            model.each_lock(&mut |lock| waits += lock.waits());
        }
        let result = is_done.load(Ordering::SeqCst);
        model.each_lock(&mut |lock| lock.release());
        worker.join().expect("no panic");
        result
    })
}

#[test]
fn only_private_heaps_and_exclusive_buckets_do_without_locks() {
    static PRIVATE: Private = Private::new();
    static OWNERSHIP: Ownership = Ownership::new();
    assert!(gets_on_without_locks(&PRIVATE));
    assert!(gets_on_without_locks(&Exclusive::made_for(64, 0)));
    assert!(!gets_on_without_locks(&OWNERSHIP));
    assert!(!gets_on_without_locks(&Mtmalloc::made_for(64, 0)));
    assert!(!gets_on_without_locks(&Serial::new()));
}

#[test]
fn threads_that_come_too_late_for_a_bucket_of_their_own_wait_for_a_shared_one() {
    let model = Exclusive::made_for(1, 0);
    // Two are exclusive at most, whatever other tests have run.
    for _ in 0..2 {
        thread::scope(|scope| scope.spawn(|| free(&model, allocate(&model, 1, 100))).join())
            .expect("no panic");
    }
    assert!(!gets_on_without_locks(&model));
    assert!(model.waits() > 0);
}
