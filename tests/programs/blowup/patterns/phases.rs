//! Phases that need blocks of now one size, now another, and of each of which one block stays for
//! long: an allocator that makes a new slab for a phase, because memory is at hand that another
//! phase has left, keeps one for each block that has stayed.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::block::{Block, Sizes};
use crate::memory::Meter;

/// How many blocks of which size, of which one stays, and of which none does; a thread each.
const NEEDS: [[(usize, usize); 2]; 4] = [
    [(3000, 48), (6000, 64)],
    [(1000, 300), (4000, 200)],
    [(50, 5_000), (1000, 3_000)],
    [(20, 20_000), (1000, 5_000)],
];

/// How many phases a block that stays is there for.
const STAYS: usize = 600;

/// Between two looks whether the first block has gone that stayed.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Runs for so long from when each thread has as many blocks that stay as it will have.
pub(crate) fn run(meter: &Meter, duration: Duration) {
    let (time_is_over, complete) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (time_is_over, complete) = (&time_is_over, &complete);
    thread::scope(|scope| {
        for (n, needs) in NEEDS.into_iter().enumerate() {
            scope.spawn(move || alternate(meter, n, needs, (time_is_over, complete)));
        }
        while complete.load(Ordering::Relaxed) < NEEDS.len() {
            thread::sleep(LOOK_EVERY);
        }
        Meter::watch(duration);
        time_is_over.store(true, Ordering::Relaxed);
    });
}

fn alternate(
    meter: &Meter,
    n: usize,
    [first, second]: [(usize, usize); 2],
    (time_is_over, complete): (&AtomicBool, &AtomicUsize),
) {
    let blocks = |(count, size)| (0..count).map(move |_| Block::new(meter, size));
    let free_all = |all: &mut Vec<Block>| all.drain(..).for_each(|block| block.free(meter));
    let mut random = Sizes::new(n, 0, first.0 - 1);
    let mut staying = VecDeque::new();
    let mut is_complete = false;
    let mut passing = Vec::with_capacity(first.0.max(second.0));
    while !time_is_over.load(Ordering::Relaxed) {
        passing.extend(blocks(first));
        staying.push_back(passing.swap_remove(random.next()));
        free_all(&mut passing);
        passing.extend(blocks(second));
        free_all(&mut passing);
        if staying.len() > STAYS
            && let Some(block) = staying.pop_front()
        {
            block.free(meter);
            if !is_complete {
                complete.fetch_add(1, Ordering::Relaxed);
                is_complete = true;
            }
        }
    }
    for block in staying {
        block.free(meter);
    }
}
