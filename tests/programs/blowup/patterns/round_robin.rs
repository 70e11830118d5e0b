//! Threads take turns: what one allocates the next one frees. What is in use stays the same; heaps
//! that keep what was allocated from them end up with as much each.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use crate::block::{Block, Sizes};
use crate::memory::Meter;

const THREADS: usize = 8;
/// Blocks that are allocated in a turn: about 20 MB.
const BLOCKS: usize = 20_000;

/// Runs for so long.
pub(crate) fn run(meter: &Meter, duration: Duration) {
    let time_is_over = AtomicBool::new(false);
    let time_is_over = &time_is_over;
    thread::scope(|scope| {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| sync_channel(1)).unzip();
        senders[0].send(Vec::new()).expect("there is room for one");
        for (n, receiver) in receivers.into_iter().enumerate() {
            let next = senders[(n + 1) % THREADS].clone();
            scope.spawn(move || take_turns(meter, n, &receiver, &next, time_is_over));
        }
        drop(senders);
        Meter::watch(duration);
        time_is_over.store(true, Ordering::Relaxed);
    });
}

fn take_turns(
    meter: &Meter,
    n: usize,
    turns: &Receiver<Vec<Block>>,
    next: &SyncSender<Vec<Block>>,
    time_is_over: &AtomicBool,
) {
    let mut sizes = Sizes::new(n, 16, 2048);
    for blocks in turns {
        for block in blocks {
            block.free(meter);
        }
        if time_is_over.load(Ordering::Relaxed) {
            // The next one finds that nobody can send to it any longer, and so on.
            return;
        }
        let blocks = (0..BLOCKS).map(|_| Block::new(meter, sizes.next())).collect();
        if next.send(blocks).is_err() {
            return;
        }
    }
}
