//! `linux-scalability`: every thread allocates a million blocks, and then frees them in the same
//! order. The memory itself is never touched.

use std::time::Instant;

use crate::crew::{self, Next, Slots, Work};
use crate::error::Error;
use crate::harness::{Better, Harness, Metric, Parameter, Threads};
use crate::mapping::Mapping;
use crate::outcome::{Detail, Outcome};
use crate::session::Session;
use crate::settings::Settings;
use crate::worker::{Halt, Held, Worker};

pub(super) static HARNESS: Harness = Harness {
    name: "linux-scalability",
    summary: "Threads allocate many blocks, then free them in the same order, untouched",
    source: "Lever and Boreham, malloc() performance in a multithreaded Linux environment, 2000",
    metric: Metric { name: "mean time of a thread", unit: "seconds", better: Better::Lower },
    threads: Threads { default: "1", least: 1, help: "Threads, each of which does all of it" },
    size: Some("size"),
    own: &[
        Parameter::size("size", 1, "512", "The size of a block"),
        Parameter::count(
            "iterations",
            "blocks",
            (1, 1_000_000_000),
            "1000000",
            "Blocks of each thread",
        ),
    ],
    run,
};

struct LinuxScalability {
    size: usize,
}

struct Slot {
    blocks: Mapping<Held>,
    seconds: f64,
}

fn run(settings: &Settings) -> Result<Outcome, Error> {
    let session = Session::new(settings)?;
    let blocks = settings.size("iterations");
    let slot = |_| session.map(blocks).map(|blocks| Slot { blocks, seconds: 0.0 });
    let mut slots = Slots::new(&session, slot)?;
    let work = LinuxScalability { size: settings.size("size") };
    let measured = crew::run(&session, &work, &slots, None)?;
    let (mean, deviation) = mean_and_deviation(slots.iter_mut().map(|slot| slot.seconds));
    let deviation = Detail { name: "standard deviation", unit: "seconds", value: deviation };
    Ok(measured.outcome(&session, mean, vec![deviation]))
}

/// The mean, and the standard deviation of the sample; zero for a single value.
fn mean_and_deviation(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let values: Vec<f64> = values.collect();
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0).max(1.0)).sqrt())
}

impl Work for LinuxScalability {
    type Slot = Slot;

    fn work(&self, worker: &mut Worker<'_>, slot: &mut Slot) -> Result<Next, Halt> {
        let begin = Instant::now();
        for block in slot.blocks.iter_mut() {
            *block = worker.allocate(self.size)?;
        }
        worker.session.look();
        for block in slot.blocks.iter_mut() {
            worker.free(block)?;
        }
        slot.seconds = begin.elapsed().as_secs_f64();
        Ok(Next::Done)
    }

    fn tear_down(&self, worker: &mut Worker<'_>, slot: &mut Slot) -> Result<(), Halt> {
        worker.free_all(&mut slot.blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harnesses::tests::run;

    #[test]
    fn every_thread_does_all_of_the_work_and_they_are_averaged() {
        let settings = [("threads", "3"), ("iterations", "1000")];
        let outcome = run(&HARNESS, &settings);
        assert_eq!(outcome.calls.allocations, 3000);
        assert!(outcome.value > 0.0 && outcome.value <= outcome.elapsed.as_secs_f64());
        assert!((512_000..=3 * 512_000).contains(&outcome.live.peak_bytes));
        assert_eq!(outcome.details[0].name, "standard deviation");
    }

    #[test]
    fn the_deviation_is_that_of_a_sample() {
        let (mean, deviation) =
            mean_and_deviation([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0].into_iter());
        assert!((mean - 5.0).abs() < 1e-12);
        assert!((deviation - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(mean_and_deviation([3.0].into_iter()), (3.0, 0.0));
    }
}
