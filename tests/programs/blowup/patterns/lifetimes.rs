//! Blocks that live for a moment or for long, nobody knows before, and of which now small and now
//! larger ones are wanted: what lives long is scattered among what has gone, and the next sizes do
//! not fit where the last ones were.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::block::{Block, Sizes};
use crate::memory::Meter;

const THREADS: usize = 4;
/// A block lives for 1 to twice this power of two of its thread's allocations, each power of two
/// about as often as any other.
const LONGEST: usize = 15;
/// How far ahead ends are known.
const SLOTS: usize = 4 << LONGEST;
/// Allocations after which other sizes are wanted: so many that the longest lives span some such
/// changes.
const SEASON: usize = 20_000;
/// The largest of most sizes in each of four seasons.
const MOST: [usize; 4] = [100, 400, 1_600, 200];

/// Runs for so long.
pub(crate) fn run(meter: &Meter, duration: Duration) {
    let time_is_over = AtomicBool::new(false);
    let time_is_over = &time_is_over;
    thread::scope(|scope| {
        for n in 0..THREADS {
            scope.spawn(move || live_and_let_die(meter, n, time_is_over));
        }
        Meter::watch(duration);
        time_is_over.store(true, Ordering::Relaxed);
    });
}

fn live_and_let_die(meter: &Meter, n: usize, time_is_over: &AtomicBool) {
    let mut random = Sizes::new(n, 16, 100);
    // For each of the allocations to come the block that ends with it.
    let mut ends: Vec<Option<Block>> = (0..SLOTS).map(|_| None).collect();
    meter.add(SLOTS * size_of::<Option<Block>>());
    let mut now = 0;
    while !time_is_over.load(Ordering::Relaxed) {
        if let Some(block) = ends[now % SLOTS].take() {
            block.free(meter);
        }
        let most = MOST[now / SEASON % MOST.len()];
        let size = match random.below(1000) {
            0 => 40_000 + random.below(400_000),
            1..50 => 1_000 + random.below(20_000),
            _ => 1 + random.below(most),
        };
        let power = 1 << random.below(LONGEST + 1);
        let mut end = now + power + random.below(power);
        while ends[end % SLOTS].is_some() {
            end += 1;
        }
        ends[end % SLOTS] = Some(Block::new(meter, size));
        now += 1;
    }
    for block in ends.into_iter().flatten() {
        block.free(meter);
    }
}
