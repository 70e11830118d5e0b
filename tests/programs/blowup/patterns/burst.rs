//! Much memory for a moment, by several threads, which free it and stay. What remains resident must
//! not be the peak.

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

/// One burst; the duration does not matter.
pub(crate) fn run(meter: &Meter, _duration: Duration) {
    let (full, empty, over) =
        (&Barrier::new(THREADS), &Barrier::new(THREADS + 1), &Barrier::new(THREADS + 1));
    thread::scope(|scope| {
        for n in 0..THREADS {
            scope.spawn(move || {
                let blocks = allocate(meter, n);
                full.wait();
                for block in blocks {
                    block.free(meter);
                }
                empty.wait();
                over.wait();
            });
        }
        empty.wait();
        thread::sleep(IDLE);
        println!("settled: {}", resident());
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
