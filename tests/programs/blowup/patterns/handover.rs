//! Generations of threads that hand their blocks on, after Larson and Krishnan: each replaces
//! random blocks that its predecessors have allocated, starts a successor, and ends.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use crate::block::{Block, Sizes};
use crate::memory::Meter;

const LINES: usize = 4;
const BLOCKS: usize = 20_000;
const REPLACEMENTS: usize = 4_000;
const GENERATIONS: usize = 1_000;

struct Common<'a> {
    meter: &'a Meter,
    time_is_over: AtomicBool,
    generations: AtomicUsize,
}

/// Runs until the time is over and there have been enough generations.
pub(crate) fn run(meter: &Meter, duration: Duration) {
    let common =
        Common { meter, time_is_over: AtomicBool::new(false), generations: AtomicUsize::new(0) };
    thread::scope(|scope| {
        let (sender, receiver) = channel();
        // The first thread allocates the blocks of all, interleaved.
        let mut sizes = Sizes::new(0, 10, 1000);
        let mut lines: [Vec<Block>; LINES] = [const { Vec::new() }; LINES];
        for _ in 0..BLOCKS {
            for blocks in &mut lines {
                blocks.push(Block::new(meter, sizes.next()));
            }
        }
        for (n, blocks) in lines.into_iter().enumerate() {
            start(scope, &common, blocks, Sizes::new(n + 1, 10, 1000), &sender);
        }
        drop(sender);
        let watcher = scope.spawn(|| {
            Meter::watch(duration);
            common.time_is_over.store(true, Ordering::Relaxed);
        });
        // Threads are joined as they end, so that their stacks go.
        for handle in receiver {
            handle.join().expect("generations do not panic");
        }
        watcher.join().expect("the watcher does not panic");
    });
    println!("generations: {}", common.generations.into_inner());
}

type Handle<'scope> = ScopedJoinHandle<'scope, ()>;

fn start<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    common: &'env Common<'env>,
    blocks: Vec<Block>,
    sizes: Sizes,
    handles: &Sender<Handle<'scope>>,
) {
    let sender = handles.clone();
    let handle = scope.spawn(move || live(scope, common, blocks, sizes, &sender));
    handles.send(handle).expect("the first thread receives");
}

fn live<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    common: &'env Common<'env>,
    mut blocks: Vec<Block>,
    mut sizes: Sizes,
    handles: &Sender<Handle<'scope>>,
) {
    for _ in 0..REPLACEMENTS {
        let victim = sizes.below(blocks.len());
        blocks.swap_remove(victim).free(common.meter);
        blocks.push(Block::new(common.meter, sizes.next()));
    }
    let generations = common.generations.fetch_add(1, Ordering::Relaxed);
    if generations < GENERATIONS || !common.time_is_over.load(Ordering::Relaxed) {
        return start(scope, common, blocks, sizes, handles);
    }
    for block in blocks {
        block.free(common.meter);
    }
}
