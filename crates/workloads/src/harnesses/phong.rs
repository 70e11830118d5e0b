//! `phong`: every thread allocates blocks, small ones more often than large ones, and after each
//! looks through a random stretch of its list: half of the blocks there are freed, and a quarter of
//! the rest is resized.
//!
//! A look goes through a third of the list on average, so that time grows with the square of a
//! thread's blocks: it is meant for many threads.

use crate::crew::{self, Next, Slots, Work};
use crate::error::Error;
use crate::harness::{ELAPSED, Harness, Parameter, Threads};
use crate::mapping::Mapping;
use crate::outcome::Outcome;
use crate::rng::Rng;
use crate::session::Session;
use crate::settings::Settings;
use crate::worker::{Halt, Held, Worker};

pub(super) static HARNESS: Harness = Harness {
    name: "phong",
    summary: "Threads allocate, and free or resize random stretches of what they have",
    source: "Phong Vo, in the tree of Hoard",
    metric: ELAPSED,
    threads: Threads { default: "256", least: 1, help: "Threads, among which blocks are divided" },
    size: Some("max"),
    own: &[
        Parameter::count(
            "allocations",
            "blocks",
            (1, 1_000_000_000),
            "1000000",
            "Blocks that all threads together allocate",
        ),
        Parameter::size("min", 1, "10", "The least size of a block"),
        Parameter::size("max", 1, "1024", "The largest size of a block when it is allocated"),
    ],
    run,
};

/// Blocks that a thread allocates before it first looks through its list.
const UNTOUCHED: usize = 1000;

/// Bytes that are written to a block, at equal distances.
const WRITTEN: usize = 10;

struct Phong {
    min: u32,
    max: u32,
}

fn run(settings: &Settings) -> Result<Outcome, Error> {
    let (min, max) = settings.range()?;
    let session = Session::new(settings)?;
    let blocks = (settings.size("allocations") / session.threads as usize).max(1);
    let slots = Slots::new(&session, |_| session.map(blocks))?;
    let measured = crew::run(&session, &Phong { min: min as u32, max: max as u32 }, &slots, None)?;
    Ok(measured.timed(&session, Vec::new()))
}

/// A size from `min` to `max` for which smaller ones are likelier: a size is kept with the less
/// probability the larger it is in its range, and else it becomes the end of the range.
fn size(rng: &mut Rng, min: u32, max: u32) -> usize {
    let mut len = max - min + 1;
    loop {
        let size = rng.below(len);
        let percent = (100 * u64::from(size) / u64::from(len)) as u32;
        if rng.below(100) >= percent {
            return (min + size) as usize;
        }
        len = size;
    }
}

fn write(worker: &Worker<'_>, held: &mut Held) {
    let size = held.size();
    for part in 0..WRITTEN {
        worker.write(held, part * size / WRITTEN, b'm');
    }
}

impl Phong {
    /// Frees half of what is in a stretch, and resizes a quarter of the rest.
    fn look_through(&self, worker: &mut Worker<'_>, stretch: &mut [Held]) -> Result<(), Halt> {
        for held in stretch.iter_mut().filter(|held| held.is_some()) {
            if worker.rng.below(2) == 0 {
                worker.free(held)?;
            } else if worker.rng.below(4) == 0 {
                let size = held.size();
                let size = if size > self.max as usize { (size / 4).max(1) } else { 2 * size };
                *held = worker.resize(held.take(), size)?;
                write(worker, held);
            }
        }
        Ok(())
    }
}

impl Work for Phong {
    type Slot = Mapping<Held>;

    fn work(&self, worker: &mut Worker<'_>, blocks: &mut Self::Slot) -> Result<Next, Halt> {
        for number in 0..blocks.len() {
            let size = size(&mut worker.rng, self.min, self.max);
            blocks[number] = worker.allocate(size)?;
            write(worker, &mut blocks[number]);
            if number < UNTOUCHED {
                continue;
            }
            let one = worker.rng.below(number as u32) as usize;
            let other = worker.rng.below(number as u32) as usize;
            self.look_through(worker, &mut blocks[one.min(other)..=one.max(other)])?;
            if worker.is_stopped() {
                break;
            }
        }
        worker.session.look();
        Ok(Next::Done)
    }

    fn tear_down(&self, worker: &mut Worker<'_>, blocks: &mut Self::Slot) -> Result<(), Halt> {
        worker.free_all(blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harnesses::tests::run;

    #[test]
    fn sizes_favour_the_small_and_stay_within_bounds() {
        let mut rng = Rng::for_thread(1, 0);
        let sizes: Vec<_> = (0..20_000).map(|_| size(&mut rng, 10, 1024)).collect();
        assert!(sizes.iter().all(|size| (10..=1024).contains(size)));
        // The mean would be 517 if all were equally likely. A draw of x in a range of n is kept
        // with probability 1 - x/n: mean n/6 of those kept at once, and so on in ranges of 2/3 n.
        let mean = sizes.iter().sum::<usize>() as f64 / 20_000.0;
        assert!((250.0..300.0).contains(&mean), "{mean}");
        assert_eq!(size(&mut rng, 7, 7), 7);
    }

    #[test]
    fn the_smallest_blocks_are_never_resized_to_nothing() {
        let one = [("threads", "1"), ("allocations", "3000"), ("min", "1"), ("max", "1")];
        let outcome = run(&HARNESS, &one);
        assert!(outcome.calls.reallocations > 0);
    }

    #[test]
    fn all_blocks_are_allocated_and_about_a_quarter_of_the_survivors_resized() {
        let outcome = run(&HARNESS, &[("threads", "2"), ("allocations", "8000")]);
        assert_eq!(outcome.calls.allocations, 8000);
        assert_eq!(outcome.calls.frees, 8000);
        // Of each block looked at, half are freed in the end, an eighth is resized first.
        let freed = 8000.0 - outcome.live.end_bytes as f64 / 600.0;
        let share = outcome.calls.reallocations as f64 / freed;
        assert!((0.1..0.4).contains(&share), "{share}: {outcome:?}");
    }
}
