//! `mstress`: threads allocate blocks of very different sizes and lifetimes, and exchange some with
//! each other over a board that all share; then they free what they have, and are replaced by new
//! threads. Some threads do more than others.

use std::sync::{Mutex, PoisonError};

use crate::crew::{self, Next, Slots, Work};
use crate::error::Error;
use crate::harness::{ELAPSED, Harness, Parameter, Threads};
use crate::mapping::Mapping;
use crate::outcome::Outcome;
use crate::session::Session;
use crate::settings::Settings;
use crate::worker::{Halt, Held, Worker};

pub(super) static HARNESS: Harness = Harness {
    name: "mstress",
    summary: "Threads allocate, keep and exchange blocks, free all, and are replaced",
    source: "In the manner of mstress, of mimalloc's benchmarks",
    metric: ELAPSED,
    threads: Threads { default: "4", least: 1, help: "Threads at a time" },
    size: Some("size"),
    own: &[
        Parameter::count(
            "iterations",
            "",
            (1, 1_000_000),
            "25",
            "Threads that work in each place, one after the other",
        ),
        Parameter::count(
            "scale",
            "",
            (1, 1_000_000),
            "50",
            "Blocks of short life of the least busy threads, in eighties",
        ),
        Parameter::count(
            "size",
            "bytes",
            (8, MOST_SIZE),
            "1024",
            "The largest size of a block of short life; kept ones reach ten times this",
        ),
        Parameter::count("board", "places", (1, 1_000_000), "1000", "Places to exchange blocks"),
    ],
    run,
};

/// Blocks of short life for each unit of the scale.
const UNIT: usize = 80;

/// Threads differ in how much they do by up to this factor.
const SPREAD: u32 = 8;

/// Of a hundred steps, those that allocate for a short time rather than to keep, that free a
/// block, and that exchange one.
const SHORT: u32 = 50;
const FREED: u32 = 66;
const EXCHANGED: u32 = 25;

/// How much larger the largest kept block is than the largest other.
const KEPT_FACTOR: usize = 10;

/// Of a hundred blocks, how many are this much larger.
const HUGE: u32 = 1;
const HUGE_FACTOR: usize = 100;

/// The largest size for which the largest block of all has one that fits into 32 bits, as blocks
/// are kept with.
const MOST_SIZE: u64 = u32::MAX as u64 / (KEPT_FACTOR * HUGE_FACTOR) as u64;

struct Mstress {
    board: Mapping<Mutex<Held>>,
    iterations: u64,
    size: usize,
}

struct Slot {
    iterations: u64,
    /// Blocks of short life, with the places of those that are gone.
    short: Mapping<Held>,
    kept: Mapping<Held>,
}

fn run(settings: &Settings) -> Result<Outcome, Error> {
    let session = Session::new(settings)?;
    let scale = settings.size("scale");
    let slots = Slots::new(&session, |number| {
        let blocks = UNIT * scale * (number % SPREAD + 1) as usize;
        let (short, kept) = (session.map(blocks)?, session.map(blocks / 2)?);
        Ok(Slot { iterations: 0, short, kept })
    })?;
    let work = Mstress {
        board: session.fill(settings.size("board"), |_| Mutex::default())?,
        iterations: settings.count("iterations"),
        size: settings.size("size"),
    };
    let measured = crew::run(&session, &work, &slots, None)?;
    let started = measured.threads_started();
    Ok(measured.timed(&session, vec![started]))
}

fn chance(worker: &mut Worker<'_>, percent: u32) -> bool {
    worker.rng.below(100) < percent
}

impl Mstress {
    /// A block of up to so many bytes, or one that is much larger, written from end to end.
    fn block(worker: &mut Worker<'_>, most: usize) -> Result<Held, Halt> {
        let mut size = worker.rng.below(most as u32) as usize + 1;
        if chance(worker, HUGE) {
            size *= HUGE_FACTOR;
        }
        let mut held = worker.allocate(size)?;
        worker.fill(&mut held, size);
        Ok(held)
    }

    fn exchange(&self, worker: &mut Worker<'_>, held: &mut Held) {
        let place = worker.rng.below(self.board.len() as u32) as usize;
        let mut place = self.board[place].lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut *place, held);
    }

    /// Allocates all of its blocks, in random order, and frees and exchanges some meanwhile.
    fn stress(&self, worker: &mut Worker<'_>, slot: &mut Slot) -> Result<(), Halt> {
        let (mut short, mut kept) = (0, 0);
        while (short < slot.short.len() || kept < slot.kept.len()) && !worker.is_stopped() {
            let may_keep = kept < slot.kept.len();
            if !may_keep || (short < slot.short.len() && chance(worker, SHORT)) {
                slot.short[short] = Self::block(worker, self.size)?;
                short += 1;
            } else {
                slot.kept[kept] = Self::block(worker, KEPT_FACTOR * self.size)?;
                kept += 1;
            }
            if short > 0 && chance(worker, FREED) {
                let number = worker.rng.below(short as u32) as usize;
                worker.free(&mut slot.short[number])?;
            }
            if short > 0 && chance(worker, EXCHANGED) {
                let number = worker.rng.below(short as u32) as usize;
                self.exchange(worker, &mut slot.short[number]);
            }
        }
        worker.session.look();
        Ok(())
    }
}

impl Work for Mstress {
    type Slot = Slot;

    fn work(&self, worker: &mut Worker<'_>, slot: &mut Slot) -> Result<Next, Halt> {
        self.stress(worker, slot)?;
        worker.free_all(&mut slot.kept)?;
        worker.free_all(&mut slot.short)?;
        slot.iterations += 1;
        Ok(if slot.iterations < self.iterations { Next::Replacement } else { Next::Done })
    }

    fn tear_down(&self, worker: &mut Worker<'_>, slot: &mut Slot) -> Result<(), Halt> {
        worker.free_all(&mut slot.kept)?;
        worker.free_all(&mut slot.short)?;
        let threads = worker.session.threads as usize;
        for place in (worker.number as usize..self.board.len()).step_by(threads) {
            let mut place = self.board[place].lock().unwrap_or_else(PoisonError::into_inner);
            worker.free(&mut place)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harnesses::tests::run;

    #[test]
    fn every_thread_allocates_its_share_and_is_replaced_so_often() {
        let settings = [("threads", "3"), ("iterations", "4"), ("scale", "2"), ("board", "50")];
        let outcome = run(&HARNESS, &settings);
        // 160, 320 and 480 of short life, and half as many kept, four times.
        assert_eq!(outcome.calls.allocations, 4 * (160 + 320 + 480) * 3 / 2);
        assert!((outcome.details[0].value - 12.0).abs() < 1e-9);
    }
}
