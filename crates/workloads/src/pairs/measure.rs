//! The measurement of a `pairs` run: when it begins and ends, and what is counted in between.
//! It reads the threads' counters and must not touch what they work on.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::field::Field;
use super::{Length, Sample};
use crate::clock::sleep_until;
use crate::progress::{Count, Progress};
use crate::resident::Quick;
use crate::usage::{self, Usage};

/// How often the sum of live bytes is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A warm-up goes on beyond its time until every slot was used, but no longer than this many
/// times its length.
const LONGEST_WARMUP: u32 = 5;

/// How often the loops done are compared with a fixed number of loops.
const COMPARE_EVERY: Duration = Duration::from_millis(2);

/// Counters of all threads at one moment.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    pub(super) at: Instant,
    pub(super) allocated: Count,
    pub(super) freed: Count,
    pub(super) usage: Usage,
}

/// The two ends of the measurement.
pub(super) struct Measured {
    pub(super) begin: Moment,
    pub(super) end: Moment,
    pub(super) warmup: Duration,
    pub(super) peak_live_bytes: u64,
    pub(super) samples: Vec<Sample>,
}

impl Field<'_> {
    /// Measures until the run is over. `samples` must have room for all of them.
    pub(super) fn measure(&self, samples: Vec<Sample>) -> Measured {
        match self.config.length {
            Length::Samples { count, each, warmup } => self.sample(count, each, warmup, samples),
            Length::Loops(total) => self.count_loops(total, samples),
        }
    }

    fn sample(
        &self,
        count: u32,
        each: Duration,
        warmup: Duration,
        mut samples: Vec<Sample>,
    ) -> Measured {
        let quick = Quick::open();
        let mut peak_live_bytes = 0;
        let mut look = || {
            peak_live_bytes = peak_live_bytes.max(self.live_bytes());
            !self.stop.load(Ordering::Relaxed)
        };
        let start = Instant::now();
        sleep_until(start + warmup, LOOK_EVERY, &mut look);
        let latest = start + warmup * LONGEST_WARMUP;
        sleep_until(latest, LOOK_EVERY, || look() && !self.is_warm());

        let begin = self.now();
        let mut end = begin;
        for number in 1..=count {
            let complete = sleep_until(begin.at + each * number, LOOK_EVERY, &mut look);
            let now = self.now();
            samples.push(Sample {
                end: now.at - begin.at,
                loops: self.loops_between(&end, &now),
                rss_bytes: quick.rss_bytes(),
            });
            end = now;
            if !complete {
                break;
            }
        }
        Measured { begin, end, warmup: begin.at - start, peak_live_bytes, samples }
    }

    fn count_loops(&self, total: u64, samples: Vec<Sample>) -> Measured {
        // Some calls may have been made already, and they count.
        let none = Count::default();
        let begin = Moment { allocated: none, freed: none, ..self.now() };
        let enough = total.saturating_mul(u64::from(self.config.allocations));
        let mut peak_live_bytes = 0;
        while !self.stop.load(Ordering::Relaxed) && Progress::sum(&self.freeing).calls < enough {
            peak_live_bytes = peak_live_bytes.max(self.live_bytes());
            thread::sleep(COMPARE_EVERY);
        }
        let end = self.now();
        Measured { begin, end, warmup: Duration::ZERO, peak_live_bytes, samples }
    }

    /// Whether every slot has been drained once, so that memory is being used again.
    fn is_warm(&self) -> bool {
        let once = u64::from(self.config.depth) * u64::from(self.config.allocations);
        Progress::least_calls(&self.freeing) >= once
    }

    pub(super) fn now(&self) -> Moment {
        Moment {
            at: Instant::now(),
            allocated: Progress::sum(&self.allocating),
            freed: Progress::sum(&self.freeing),
            usage: usage::now(),
        }
    }

    pub(super) fn live_bytes(&self) -> u64 {
        // Freed first: what is freed in between is then counted as live, never as negative.
        let freed = Progress::sum(&self.freeing).bytes;
        Progress::sum(&self.allocating).bytes.saturating_sub(freed)
    }

    pub(super) fn loops_between(&self, begin: &Moment, end: &Moment) -> f64 {
        let calls =
            (end.allocated.calls - begin.allocated.calls) + (end.freed.calls - begin.freed.calls);
        calls as f64 / (2.0 * f64::from(self.config.allocations))
    }
}
