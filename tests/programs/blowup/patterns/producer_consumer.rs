//! Some threads allocate, others free: with heaps of the threads' own and nothing that flows back,
//! memory grows without bound.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use crate::block::{Block, Sizes};
use crate::memory::Meter;

const PAIRS: usize = 3;
/// Blocks on their way from a producer to its consumer, at most.
const ON_THEIR_WAY: usize = 5_000;
/// Blocks in a parcel.
const PARCEL: usize = 50;

type Parcel = Vec<Block>;

/// Runs for so long.
pub(crate) fn run(meter: &Meter, duration: Duration) {
    let time_is_over = AtomicBool::new(false);
    let time_is_over = &time_is_over;
    thread::scope(|scope| {
        for n in 0..PAIRS {
            let (sender, receiver) = sync_channel(ON_THEIR_WAY / PARCEL);
            scope.spawn(move || produce(meter, n, &sender, time_is_over));
            scope.spawn(move || consume(meter, &receiver));
        }
        Meter::watch(duration);
        time_is_over.store(true, Ordering::Relaxed);
    });
}

fn produce(meter: &Meter, n: usize, parcels: &SyncSender<Parcel>, time_is_over: &AtomicBool) {
    let mut sizes = Sizes::new(n, 16, 4096);
    while !time_is_over.load(Ordering::Relaxed) {
        let parcel = (0..PARCEL).map(|_| Block::new(meter, sizes.next())).collect();
        parcels.send(parcel).expect("the consumer receives until there is no producer");
    }
}

fn consume(meter: &Meter, parcels: &Receiver<Parcel>) {
    for parcel in parcels {
        for block in parcel {
            block.free(meter);
        }
    }
}
