//! `t-test2`: as `t-test1`, but all threads fill and empty the same bins, in blocks under a lock
//! each, so that what one thread allocated is freed by others.

use std::sync::{Mutex, PoisonError};

use super::bins::{self, OWN, PARTS, SOURCE, THREADS, Turnover, bins};
use crate::crew::{self, Next, Slots, Work};
use crate::error::Error;
use crate::harness::{ELAPSED, Harness};
use crate::mapping::Mapping;
use crate::outcome::Outcome;
use crate::session::Session;
use crate::settings::Settings;
use crate::worker::{Halt, Held, Worker};

pub(super) static HARNESS: Harness = Harness {
    name: "t-test2",
    summary: "Threads fill and empty random bins that all of them share",
    source: SOURCE,
    metric: ELAPSED,
    threads: THREADS,
    size: Some("size"),
    own: OWN,
    run,
};

/// Bins under one lock.
const BLOCK: usize = 20;

/// Of [`PARTS`], those in which a block is emptied instead of filled.
const EMPTIED: u32 = 200;

#[derive(Default)]
struct Block {
    bins: [Held; BLOCK],
}

struct TTest2 {
    blocks: Mapping<Mutex<Block>>,
    steps: u64,
    size: u32,
    turnover: Turnover,
}

fn run(settings: &Settings) -> Result<Outcome, Error> {
    let session = Session::new(settings)?;
    let turnover = Turnover::new(settings)?;
    let blocks = bins(settings, 1).div_ceil(BLOCK);
    let slots = Slots::new(&session, |_| Ok(()))?;
    let work = TTest2 {
        blocks: session.fill(blocks, |_| Mutex::default())?,
        steps: settings.count("steps"),
        size: settings.size("size") as u32,
        turnover,
    };
    let measured = crew::run(&session, &work, &slots, None)?;
    Ok(measured.timed(&session, Vec::new()))
}

impl TTest2 {
    fn with_block(
        &self,
        number: usize,
        action: impl FnOnce(&mut [Held; BLOCK]) -> Result<(), Halt>,
    ) -> Result<(), Halt> {
        let mut block = self.blocks[number].lock().unwrap_or_else(PoisonError::into_inner);
        action(&mut block.bins)
    }
}

impl Work for TTest2 {
    type Slot = ();

    fn work(&self, worker: &mut Worker<'_>, (): &mut ()) -> Result<Next, Halt> {
        let mut step = 0;
        while step <= self.steps && !worker.is_stopped() {
            let block = worker.rng.below(self.blocks.len() as u32) as usize;
            if worker.rng.below(PARTS) < EMPTIED {
                self.with_block(block, |bins| worker.free_all(bins))?;
            } else {
                // Drawn before the lock is taken, so that it is held for the calls alone.
                let mut draws = [(0, 0); BLOCK];
                for draw in &mut draws {
                    *draw = (bins::size(worker, self.size), worker.rng.next() as u32);
                }
                self.with_block(block, |bins| {
                    let mut pairs = bins.iter_mut().zip(draws);
                    pairs.try_for_each(|(bin, (size, draw))| bins::fill(worker, bin, size, draw))
                })?;
            }
            step += BLOCK as u64;
        }
        Ok(self.turnover.next())
    }

    fn tear_down(&self, worker: &mut Worker<'_>, (): &mut ()) -> Result<(), Halt> {
        let step = worker.session.threads as usize;
        for block in (worker.number as usize..self.blocks.len()).step_by(step) {
            self.with_block(block, |bins| worker.free_all(bins))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harnesses::tests::run;

    #[test]
    fn four_fifths_of_the_steps_fill_a_block_of_twenty_bins() {
        let settings = [("threads", "1"), ("total-threads", "1"), ("steps", "399980")];
        let outcome = run(&HARNESS, &[&settings[..], &[("size", "64")]].concat());
        // 20,000 blocks, of which 824 in 1024 are filled: 20 allocations or resizes each.
        let filled = outcome.calls.allocations + outcome.calls.reallocations;
        let expected = 20_000.0 * 824.0 / 1024.0 * 20.0;
        assert!((filled as f64 / expected - 1.0).abs() < 0.02, "{filled}, not {expected}");
    }

    #[test]
    fn threads_are_replaced_until_so_many_were_started_and_free_what_others_allocated() {
        let settings = [("threads", "3"), ("total-threads", "20"), ("steps", "200")];
        let outcome = run(&HARNESS, &[&settings[..], &[("bins", "40"), ("size", "300")]].concat());
        // Each does eleven blocks, as the comparison with the steps includes their number.
        let calls = outcome.calls;
        assert!(calls.allocations + calls.reallocations <= 20 * 11 * 20, "{calls:?}");
        assert!(calls.allocations > 20 * 100, "{calls:?}");
        assert_eq!(calls.allocations, calls.frees);
    }
}
