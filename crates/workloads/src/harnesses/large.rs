//! `large`: a few buffers of 5 to 25 MB, of which one after the other is freed and allocated anew
//! with another size. What such blocks cost is the memory's way from the system and back.

use crate::crew::{self, Next, Slots, Work};
use crate::error::Error;
use crate::harness::{ELAPSED, Harness, Parameter, Threads};
use crate::mapping::Mapping;
use crate::outcome::Outcome;
use crate::session::Session;
use crate::settings::Settings;
use crate::worker::{Halt, Held, Worker};

const NONE: &str = "none";
const PAGES: &str = "pages";
const ALL: &str = "all";

pub(super) static HARNESS: Harness = Harness {
    name: "large",
    summary: "Threads free and allocate buffers of 5 to 25 MB",
    source: "In the manner of malloc-large, of mimalloc's benchmarks",
    metric: ELAPSED,
    threads: Threads {
        default: "1",
        least: 1,
        help: "Threads, among which buffers and allocations are divided",
    },
    size: Some("max"),
    own: &[
        Parameter::count(
            "allocations",
            "",
            (1, 1_000_000_000),
            "2000",
            "Buffers that all threads together allocate",
        ),
        Parameter::count(
            "buffers",
            "buffers",
            (1, 100_000),
            "20",
            "Buffers of all threads together that live at once, one for each thread at least",
        ),
        Parameter::size("min", 1, "5000000", "The least size"),
        Parameter::size("max", 1, "25000000", "The largest size"),
        Parameter::choice(
            "touch",
            &[NONE, PAGES, ALL],
            PAGES,
            "What is written: nothing, a byte of every page, or all",
        ),
    ],
    run,
};

const PAGE: usize = 4096;

struct Large {
    min: usize,
    span: u32,
    allocations: u64,
    /// Bytes between two that are written; `None` for none.
    stride: Option<usize>,
}

fn run(settings: &Settings) -> Result<Outcome, Error> {
    let (min, max) = settings.range()?;
    let session = Session::new(settings)?;
    let threads = session.threads as usize;
    let buffers = (settings.size("buffers") / threads).max(1);
    let slots = Slots::new(&session, |_| session.map(buffers))?;
    let work = Large {
        min,
        span: (max - min + 1) as u32,
        allocations: (settings.count("allocations") / threads as u64).max(1),
        stride: match settings.text("touch") {
            NONE => None,
            ALL => Some(1),
            _ => Some(PAGE),
        },
    };
    let measured = crew::run(&session, &work, &slots, None)?;
    Ok(measured.timed(&session, Vec::new()))
}

impl Large {
    fn touch(&self, worker: &Worker<'_>, buffer: &mut Held) {
        match self.stride {
            None => {}
            Some(1) => worker.fill(buffer, usize::MAX),
            Some(stride) => {
                (0..buffer.size()).step_by(stride).for_each(|offset| {
                    worker.write(buffer, offset, 1);
                });
            }
        }
    }
}

impl Work for Large {
    type Slot = Mapping<Held>;

    fn work(&self, worker: &mut Worker<'_>, buffers: &mut Self::Slot) -> Result<Next, Halt> {
        for number in 0..self.allocations {
            let place = (number % buffers.len() as u64) as usize;
            let buffer = &mut buffers[place];
            worker.free(buffer)?;
            let size = self.min + worker.rng.below(self.span) as usize;
            *buffer = worker.allocate(size)?;
            self.touch(worker, buffer);
            worker.session.look();
            if worker.is_stopped() {
                break;
            }
        }
        Ok(Next::Done)
    }

    fn tear_down(&self, worker: &mut Worker<'_>, buffers: &mut Self::Slot) -> Result<(), Halt> {
        worker.free_all(buffers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harnesses::tests::run;

    #[test]
    fn buffers_are_replaced_one_after_the_other_by_others_of_any_size() {
        let settings = [("threads", "2"), ("allocations", "40"), ("buffers", "4")];
        let sizes = [("min", "50000"), ("max", "250000")];
        for touch in [NONE, PAGES, ALL] {
            let outcome = run(&HARNESS, &[&settings[..], &sizes, &[("touch", touch)]].concat());
            assert_eq!(outcome.calls.allocations, 40);
            let mean = outcome.live.end_bytes as f64 / 4.0;
            assert!((50_000.0..=250_000.0).contains(&mean), "{mean}");
        }
    }
}
