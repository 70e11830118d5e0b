//! `larson`: a server's threads replace random blocks of an array, and hand the array to another
//! thread from time to time, so that blocks are freed by others than those who allocated them.
//!
//! The first blocks are allocated by the leader, interleaved among the arrays. A thread that has
//! done its rounds starts its successor on the same array and ends.

use crate::crew::{self, Next, Slots, Work};
use crate::error::Error;
use crate::harness::{Harness, Parameter, THROUGHPUT, Threads};
use crate::mapping::Mapping;
use crate::outcome::Outcome;
use crate::session::Session;
use crate::settings::Settings;
use crate::worker::{Halt, Held, Worker};

pub(super) static HARNESS: Harness = Harness {
    name: "larson",
    summary: "Threads replace random blocks, which their successors free",
    source: "Larson and Krishnan, Memory allocation for long-running server applications, 1998",
    metric: THROUGHPUT,
    threads: Threads { default: "1", least: 1, help: "Threads at a time" },
    size: Some("max"),
    own: &[
        Parameter::seconds("10", "How long blocks are replaced"),
        Parameter::size("min", 2, "7", "The least size of a block"),
        Parameter::size(
            "max",
            2,
            "8",
            "All sizes are below this, or equal to the least size if that is the same",
        ),
        Parameter::count("blocks", "blocks", (1, 10_000_000), "1000", "Blocks of each thread"),
        Parameter::count(
            "rounds",
            "",
            (1, 1_000_000_000),
            "10000",
            "A thread replaces as many blocks as it has, this often, before it is succeeded",
        ),
    ],
    run,
};

/// Replacements between two looks at the clock's verdict.
const LOOK_EVERY: u64 = 64;

/// Times that the leader replaces as many blocks as there are, before the threads begin.
const WARM_UPS: u64 = 4;

struct Larson {
    min: usize,
    span: u32,
    replacements: u64,
}

fn run(settings: &Settings) -> Result<Outcome, Error> {
    let (min, max) = settings.range()?;
    let session = Session::new(settings)?;
    let blocks = settings.size("blocks");
    let mut slots = Slots::new(&session, |_| session.map::<Held>(blocks))?;
    let work = Larson {
        min,
        span: (max - min) as u32,
        replacements: settings.count("rounds") * blocks as u64,
    };
    work.warm_up(&session, &mut slots).map_err(|_: Halt| session.failure())?;
    let measured = crew::run(&session, &work, &slots, Some(settings.duration("seconds")))?;
    let started = measured.threads_started();
    Ok(measured.rated(&session, vec![started]))
}

impl Larson {
    /// Gives every array blocks of the leader, so that each has some from all over the heap.
    fn warm_up(&self, session: &Session, slots: &mut Slots<Mapping<Held>>) -> Result<(), Halt> {
        let leader = &mut session.leader();
        let mut arrays: Vec<_> = slots.iter_mut().collect();
        let blocks = arrays[0].len();
        let all = arrays.len() * blocks;
        for number in 0..all {
            arrays[number / blocks][number % blocks] = self.block(leader)?;
        }
        for last in (1..all).rev() {
            let other = leader.rng.below(last as u32 + 1) as usize;
            let one = arrays[last / blocks][last % blocks].take();
            let two = arrays[other / blocks][other % blocks].take();
            // In this order, so that a block that trades places with itself stays.
            arrays[last / blocks][last % blocks] = two;
            arrays[other / blocks][other % blocks] = one;
        }
        for _ in 0..WARM_UPS * all as u64 {
            let number = leader.rng.below(all as u32) as usize;
            self.replace(leader, &mut arrays[number / blocks][number % blocks])?;
        }
        Ok(())
    }

    fn block(&self, worker: &mut Worker<'_>) -> Result<Held, Halt> {
        let size = self.min + worker.rng.below(self.span) as usize;
        let mut held = worker.allocate(size)?;
        worker.write(&mut held, 0, b'a');
        worker.write(&mut held, 1, b'b');
        Ok(held)
    }

    fn replace(&self, worker: &mut Worker<'_>, held: &mut Held) -> Result<(), Halt> {
        worker.free(held)?;
        *held = self.block(worker)?;
        Ok(())
    }
}

impl Work for Larson {
    type Slot = Mapping<Held>;

    fn set_up(&self, worker: &mut Worker<'_>, blocks: &mut Self::Slot) -> Result<(), Halt> {
        blocks.iter().for_each(|held| worker.adopt(held));
        Ok(())
    }

    fn work(&self, worker: &mut Worker<'_>, blocks: &mut Self::Slot) -> Result<Next, Halt> {
        let mut left = self.replacements;
        while left > 0 && !worker.is_stopped() {
            let batch = left.min(LOOK_EVERY);
            for _ in 0..batch {
                let victim = worker.rng.below(blocks.len() as u32) as usize;
                self.replace(worker, &mut blocks[victim])?;
            }
            worker.tally.did(batch);
            left -= batch;
        }
        Ok(Next::Successor)
    }

    fn tear_down(&self, worker: &mut Worker<'_>, blocks: &mut Self::Slot) -> Result<(), Halt> {
        worker.free_all(blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harnesses::tests::run;

    const SHORT: [(&str, &str); 5] =
        [("seconds", "0.05"), ("min", "10"), ("max", "100"), ("blocks", "50"), ("rounds", "5")];

    #[test]
    fn an_operation_is_a_free_and_a_malloc_and_blocks_stay_as_many_as_they_were() {
        let outcome = run(&HARNESS, &[&SHORT[..], &[("threads", "3")]].concat());
        let operations = (outcome.value * outcome.elapsed.as_secs_f64()).round() as u64;
        // First the leader's blocks, and four replacements of each.
        assert_eq!(outcome.calls.allocations, 150 + 4 * 150 + operations);
        assert_eq!(outcome.calls.frees, outcome.calls.allocations);
        // Sizes are uniform over 10 to 99, so 54.5 on average, in 150 blocks.
        let mean = outcome.live.end_bytes as f64 / 150.0;
        assert!((48.0..61.0).contains(&mean), "{mean}");
    }

    #[test]
    fn threads_are_succeeded_by_others_that_free_their_blocks() {
        let more = [("threads", "2"), ("seconds", "0.3"), ("rounds", "1")];
        let outcome = run(&HARNESS, &[&SHORT[..], &more].concat());
        let started = outcome.details[0];
        assert_eq!(started.name, "threads started");
        assert!(started.value > 2.0, "{started:?}");
    }

    #[test]
    fn one_size_is_allowed_and_a_range_upside_down_is_not() {
        let one = [("seconds", "0.01"), ("min", "8"), ("max", "8"), ("blocks", "10")];
        let outcome = run(&HARNESS, &one);
        assert_eq!(outcome.live.end_bytes, 80);
        let mut settings = Settings::new(&HARNESS);
        settings.set(&HARNESS, "min", "9").expect("fits");
        let error = HARNESS.run(&settings).expect_err("refused");
        assert_eq!(error.to_string(), "max, 8, is less than min, 9");
    }
}
