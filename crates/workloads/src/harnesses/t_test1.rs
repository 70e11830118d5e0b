//! `t-test1`: threads fill and empty random bins of their own, by all calls of the malloc family,
//! and are replaced by new threads as they end. No block is freed by another thread.

use super::bins::{self, OWN, SOURCE, THREADS, Turnover, bins};
use crate::crew::{self, Next, Slots, Work};
use crate::error::Error;
use crate::harness::{ELAPSED, Harness};
use crate::mapping::Mapping;
use crate::outcome::Outcome;
use crate::session::Session;
use crate::settings::Settings;
use crate::worker::{Halt, Held, Worker};

pub(super) static HARNESS: Harness = Harness {
    name: "t-test1",
    summary: "Threads fill and empty random bins, and are replaced by new ones as they end",
    source: SOURCE,
    metric: ELAPSED,
    threads: THREADS,
    size: Some("size"),
    own: OWN,
    run,
};

/// Bins are emptied, and filled, in batches of less than this.
const BATCH: u32 = 30;

struct TTest1 {
    steps: u64,
    size: u32,
    turnover: Turnover,
}

fn run(settings: &Settings) -> Result<Outcome, Error> {
    let session = Session::new(settings)?;
    let turnover = Turnover::new(settings)?;
    let bins = bins(settings, session.threads as usize);
    let slots = Slots::new(&session, |_| session.map(bins))?;
    let work =
        TTest1 { steps: settings.count("steps"), size: settings.size("size") as u32, turnover };
    let measured = crew::run(&session, &work, &slots, None)?;
    Ok(measured.timed(&session, Vec::new()))
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
                worker.free(&mut bins[bin])?;
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
        Ok(self.turnover.next())
    }

    fn tear_down(&self, worker: &mut Worker<'_>, bins: &mut Self::Slot) -> Result<(), Halt> {
        worker.free_all(bins)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harnesses::tests::run;

    #[test]
    fn bins_follow_from_the_memory_the_size_and_the_threads() {
        let bins = |size: &str, sharers| {
            let mut settings = Settings::new(&HARNESS);
            settings.set(&HARNESS, "size", size).expect("fits");
            bins(&settings, sharers)
        };
        // 64 MiB in all: for the smallest size of the article, two million bins of one thread.
        assert_eq!(bins("32", 1), 2_097_152);
        assert_eq!(bins("10000", 2), 3355);
        assert_eq!(bins("131072", 20), 25);
        assert_eq!(bins("100000000", 1), 4);
    }

    #[test]
    fn half_of_the_bins_are_filled_first_and_each_thread_then_fills_half_of_its_steps() {
        let one = [("threads", "1"), ("total-threads", "1"), ("bins", "10000"), ("size", "64")];
        let first = run(&HARNESS, &[&one[..], &[("steps", "0")]].concat());
        let filled = first.calls.allocations + first.calls.reallocations;
        // With steps of zero the loop still runs until it has made one.
        assert!((4_800..5_300).contains(&filled), "{filled}");
        let both = run(&HARNESS, &[&one[..], &[("steps", "40000")]].concat());
        let steps = both.calls.allocations + both.calls.reallocations - filled;
        assert!((19_000..21_000).contains(&steps), "{steps}");
    }

    #[test]
    fn threads_are_replaced_until_so_many_were_started() {
        let threads = [("threads", "3"), ("total-threads", "10"), ("bins", "4"), ("steps", "1000")];
        let outcome = run(&HARNESS, &threads);
        // 10 threads of 500 to 515 frees at most, where a bin was not empty, and as many fills.
        let filled = outcome.calls.allocations + outcome.calls.reallocations;
        assert!((4_500..5_600).contains(&filled), "{filled}");
    }

    #[test]
    fn fewer_threads_in_all_than_at_a_time_are_refused() {
        let mut settings = Settings::new(&HARNESS);
        settings.set(&HARNESS, "total-threads", "1").expect("fits");
        assert!(matches!(HARNESS.run(&settings), Err(Error::Unsuitable(_))));
    }
}
