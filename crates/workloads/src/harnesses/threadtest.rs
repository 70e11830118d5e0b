//! `threadtest`: every thread allocates its share of the objects, then frees them all, again and
//! again. Nothing is shared, so that all that could slow threads down is the allocator.

use crate::crew::{self, Next, Slots, Work};
use crate::error::Error;
use crate::harness::{ELAPSED, Harness, Parameter, Threads};
use crate::mapping::Mapping;
use crate::outcome::Outcome;
use crate::session::Session;
use crate::settings::Settings;
use crate::spin::spin;
use crate::worker::{Halt, Held, Worker};

pub(super) static HARNESS: Harness = Harness {
    name: "threadtest",
    summary: "Threads allocate and free objects of one size, each its share, sharing nothing",
    source: "Berger, McKinley, Blumofe and Wilson, Hoard, 2000",
    metric: ELAPSED,
    threads: Threads { default: "1", least: 1, help: "Threads, among which objects are divided" },
    size: Some("size"),
    own: &[
        Parameter::count(
            "iterations",
            "",
            (1, 1_000_000_000),
            "50",
            "How often all objects are allocated and freed",
        ),
        Parameter::count(
            "objects",
            "objects",
            (1, 100_000_000),
            "30000",
            "Objects of all threads together",
        ),
        Parameter::size("size", 8, "8", "The size of an object"),
        Parameter::count(
            "work",
            "steps",
            (0, 1_000_000_000),
            "0",
            "Steps of computation after each allocation and before each free",
        ),
    ],
    run,
};

struct Threadtest {
    iterations: u64,
    size: usize,
    work: u64,
}

fn run(settings: &Settings) -> Result<Outcome, Error> {
    let session = Session::new(settings)?;
    // At least one each, as a thread without objects would be none of the test's.
    let objects = (settings.size("objects") / session.threads as usize).max(1);
    let slots = Slots::new(&session, |_| session.map(objects))?;
    let work = Threadtest {
        iterations: settings.count("iterations"),
        size: settings.size("size"),
        work: settings.count("work"),
    };
    let measured = crew::run(&session, &work, &slots, None)?;
    Ok(measured.timed(&session, Vec::new()))
}

impl Work for Threadtest {
    type Slot = Mapping<Held>;

    fn work(&self, worker: &mut Worker<'_>, objects: &mut Self::Slot) -> Result<Next, Halt> {
        for _ in 0..self.iterations {
            for object in objects.iter_mut() {
                *object = worker.allocate(self.size)?;
                worker.write(object, 0, 14);
                worker.write(object, 4, 29);
                spin(self.work);
            }
            worker.session.look();
            for object in objects.iter_mut() {
                spin(self.work);
                worker.free(object)?;
            }
            if worker.is_stopped() {
                break;
            }
        }
        Ok(Next::Done)
    }

    fn tear_down(&self, worker: &mut Worker<'_>, objects: &mut Self::Slot) -> Result<(), Halt> {
        worker.free_all(objects)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harnesses::tests::run;

    #[test]
    fn the_parameters_of_table_4_allocate_ten_million_objects() {
        // 100 iterations of 100,000 objects, among 14 threads; here a hundredth of the objects.
        let settings = [("threads", "14"), ("iterations", "100"), ("objects", "1000")];
        let outcome = run(&HARNESS, &settings);
        assert_eq!(outcome.calls.allocations, 100 * (1000 / 14) * 14);
        assert_eq!(outcome.calls.frees, outcome.calls.allocations);
    }

    #[test]
    fn all_objects_are_alive_at_once() {
        let settings = [("threads", "1"), ("iterations", "2"), ("objects", "500"), ("size", "64")];
        let outcome = run(&HARNESS, &settings);
        assert_eq!(outcome.live.peak_bytes, 500 * 64);
        assert_eq!(outcome.live.end_bytes, 0);
    }
}
