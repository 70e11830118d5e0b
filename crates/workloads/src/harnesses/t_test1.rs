//! `t-test1`: threads fill and empty random bins of their own, by all calls of the malloc family,
//! and are replaced by new threads as they end. No block is freed by another thread.

use std::sync::atomic::{AtomicU64, Ordering};

use super::bins::{self, MEMORY, SIZE, STEPS, TOTAL_THREADS, bins};
use crate::crew::{self, Next, Slots, Work};
use crate::error::Error;
use crate::harness::{Better, Harness, Kind, Metric, Parameter, Threads};
use crate::mapping::Mapping;
use crate::outcome::Outcome;
use crate::session::Session;
use crate::settings::Settings;
use crate::worker::{Halt, Held, Worker};

pub(super) static HARNESS: Harness = Harness {
    name: "t-test1",
    summary: "Threads fill and empty random bins, and are replaced by new ones as they end",
    source: "Gloger, ptmalloc, 1996, with the parameters of Lockless Inc, 2009",
    metric: Metric { name: "elapsed time", unit: "seconds", better: Better::Lower },
    threads: Threads { default: "2", least: 1, help: "Threads at a time" },
    size: Some("size"),
    own: &[
        TOTAL_THREADS,
        STEPS,
        SIZE,
        Parameter {
            name: "bins",
            unit: "bins",
            kind: Kind::Count { least: 0, most: 100_000_000 },
            default: "0",
            help: "Bins of a thread; 0 is the memory divided by the size and the threads at a time",
        },
        MEMORY,
    ],
    run,
};

/// Bins are emptied, and filled, in batches of less than this.
const BATCH: u32 = 30;

struct TTest1 {
    steps: u64,
    size: u32,
    total: u64,
    started: AtomicU64,
}

fn run(settings: &Settings) -> Result<Outcome, Error> {
    let session = Session::new(settings)?;
    let bins = bins(settings, session.threads as usize);
    let slots = Slots::new(&session, |_| session.map(bins))?;
    let work = TTest1 {
        steps: settings.count("steps"),
        size: settings.size("size") as u32,
        total: settings.count("total-threads"),
        started: AtomicU64::new(u64::from(session.threads)),
    };
    let measured = crew::run(&session, &work, &slots, None)?;
    let seconds = measured.elapsed.as_secs_f64();
    Ok(measured.outcome(&session, seconds, Vec::new()))
}

impl TTest1 {
    fn fill(&self, worker: &mut Worker<'_>, bin: &mut Held) -> Result<(), Halt> {
        let size = bins::size(worker, self.size);
        let draw = worker.rng.next() as u32;
        bins::fill(worker, bin, size, draw)
    }
}

impl Work for TTest1 {
    type Slot = Mapping<Held>;

    fn work(&self, worker: &mut Worker<'_>, bins: &mut Self::Slot) -> Result<Next, Halt> {
        for bin in bins.iter_mut() {
            if worker.rng.below(2) == 0 {
                self.fill(worker, bin)?;
            }
        }
        worker.session.look();
        let mut step = 0;
        while step <= self.steps && !worker.is_stopped() {
            let count = worker.rng.below(BATCH);
            for _ in 0..count {
                let bin = worker.rng.below(bins.len() as u32) as usize;
                bins::empty(worker, &mut bins[bin])?;
            }
            step += u64::from(count);
            let count = worker.rng.below(BATCH);
            for _ in 0..count {
                let bin = worker.rng.below(bins.len() as u32) as usize;
                self.fill(worker, &mut bins[bin])?;
            }
            step += u64::from(count);
        }
        worker.free_all(bins)?;
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        Ok(if number < self.total { Next::Replacement } else { Next::Done })
    }

    fn tear_down(&self, worker: &mut Worker<'_>, bins: &mut Self::Slot) -> Result<(), Halt> {
        worker.free_all(bins)
    }
}
