//! Much memory for a moment, by several threads, which free it and stay. What remains resident must
//! not be the peak: neither if they free everything, nor if they keep a block here and there.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use crate::block::{Block, Sizes};
use crate::memory::{Meter, resident};

const THREADS: usize = 4;
/// How long all threads are idle before what remains is looked at.
const IDLE: Duration = Duration::from_secs(2);
/// Bytes that each thread has at the peak.
const BYTES: usize = 100 << 20;

/// One block in so many is kept, if any is.
const KEPT: usize = 64;

/// One burst, of which nothing is kept; the duration does not matter.
pub(crate) fn run(meter: &Meter, _duration: Duration) {
    burst(meter, |_| false);
}

/// One burst, of which a block here and there is kept.
pub(crate) fn run_scattered(meter: &Meter, _duration: Duration) {
    burst(meter, |n| n % KEPT == 0);
}

fn burst(meter: &Meter, is_kept: fn(usize) -> bool) {
    let (full, empty, over) =
        (&Barrier::new(THREADS), &Barrier::new(THREADS + 1), &Barrier::new(THREADS + 1));
    thread::scope(|scope| {
        for n in 0..THREADS {
            scope.spawn(move || {
                let blocks = allocate(meter, n);
                full.wait();
                let mut kept = Vec::new();
                for (n, block) in blocks.into_iter().enumerate() {
                    if is_kept(n) {
                        kept.push(block);
                    } else {
                        block.free(meter);
                    }
                }
                empty.wait();
                over.wait();
                for block in kept {
                    block.free(meter);
                }
            });
        }
        empty.wait();
        thread::sleep(IDLE);
        println!("settled: {}", resident());
        println!("live then: {}", meter.live());
        over.wait();
    });
    println!("at the end: {}", resident());
}

/// Blocks of all sizes.
fn allocate(meter: &Meter, n: usize) -> Vec<Block> {
    let mut sizes = Sizes::new(n, 16, 400);
    let (mut blocks, mut bytes) = (Vec::new(), 0);
    while bytes < BYTES {
        let size = match sizes.below(1000) {
            0 => 100_000 + sizes.below(1_000_000),
            1..100 => 1_000 + sizes.below(20_000),
            _ => sizes.next(),
        };
        blocks.push(Block::new(meter, size));
        bytes += size;
    }
    blocks
}
