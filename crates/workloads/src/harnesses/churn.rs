//! `churn`: threads pick random places of an array, free what is there, or allocate a block where
//! nothing is. Some places are picked far more often than others, small sizes are far likelier than
//! large ones, and the part of the array that is in use grows while the run goes on.

use crate::crew::{self, Next, Slots, Work};
use crate::error::Error;
use crate::harness::{Harness, Parameter, THROUGHPUT, Threads};
use crate::mapping::Mapping;
use crate::outcome::Outcome;
use crate::rng::Rng;
use crate::session::Session;
use crate::settings::Settings;
use crate::sizes::{Sizes, octaves};
use crate::worker::{Halt, Held, Worker};

pub(super) static HARNESS: Harness = Harness {
    name: "churn",
    summary: "Threads free and allocate at random places of a working set that grows",
    source: "In the manner of alloc-test, OLogN Technologies, 2018",
    metric: THROUGHPUT,
    threads: Threads {
        default: "1",
        least: 1,
        help: "Threads, among which operations and places are divided",
    },
    size: Some("max"),
    own: &[
        Parameter::count(
            "operations",
            "operations",
            (1, 1_000_000_000_000),
            "10000000",
            "Calls of malloc and of free, in all threads together",
        ),
        Parameter::count(
            "places",
            "places",
            (1, 1_000_000_000),
            "1048576",
            "Places in the end, of all threads together",
        ),
        Parameter::size(
            "max",
            16,
            "1024",
            "The largest size, rounded down to a power of two; every octave from 8 up is half as \
             likely as the one below",
        ),
    ],
    run,
};

/// The least size is above this.
const BELOW_LEAST: u32 = 8;

/// Steps in which the working set grows to what it is in the end.
const STAGES: u64 = 32;

/// Operations between two looks whether to stop.
const BATCH: u64 = 64;

/// Of the places, this part gets most of the picks, and so on within that part.
const HOT_PLACES: f64 = 0.2;
const HOT_PICKS: f64 = 0.8;
const LEVELS: u32 = 4;

struct Churn {
    sizes: Sizes,
    operations: u64,
}

fn run(settings: &Settings) -> Result<Outcome, Error> {
    let session = Session::new(settings)?;
    let threads = session.threads as usize;
    let places = (settings.size("places") / threads).max(1);
    let slots = Slots::new(&session, |_| session.map(places))?;
    let most = 1 << settings.count("max").ilog2();
    let work = Churn {
        sizes: Sizes::new(&octaves(BELOW_LEAST, most, 1.0)).map_err(Error::Map)?,
        operations: (settings.count("operations") / threads as u64).max(1),
    };
    let measured = crew::run(&session, &work, &slots, None)?;
    Ok(measured.rated(&session, Vec::new()))
}

/// A number below `places`. Four fifths of all are in the first fifth, four fifths of these in its
/// first fifth, and so on.
fn pick(rng: &mut Rng, places: u32) -> u32 {
    let hot_picks = (HOT_PICKS * f64::from(u32::MAX)) as u32;
    let (mut first, mut end) = (0, places);
    for _ in 0..LEVELS {
        let hot_end = (f64::from(end) * HOT_PLACES) as u32;
        if hot_end == 0 {
            break;
        }
        if rng.below(u32::MAX) >= hot_picks {
            first = hot_end;
            break;
        }
        end = hot_end;
    }
    first + rng.below(end - first)
}

impl Work for Churn {
    type Slot = Mapping<Held>;

    fn work(&self, worker: &mut Worker<'_>, places: &mut Self::Slot) -> Result<Next, Halt> {
        let mut done = 0;
        while done < self.operations && !worker.is_stopped() {
            let stage = done * STAGES / self.operations + 1;
            let in_use = (places.len() as u64 * stage / STAGES).max(1) as u32;
            let batch = BATCH.min(self.operations - done);
            for _ in 0..batch {
                let place = &mut places[pick(&mut worker.rng, in_use) as usize];
                if place.is_some() {
                    worker.free(place)?;
                } else {
                    let size = self.sizes.draw(&mut worker.rng);
                    *place = worker.allocate(size)?;
                    worker.write(place, size / 2, 1);
                }
            }
            done += batch;
            worker.tally.did(batch);
        }
        Ok(Next::Done)
    }

    fn tear_down(&self, worker: &mut Worker<'_>, places: &mut Self::Slot) -> Result<(), Halt> {
        worker.free_all(places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harnesses::tests::run;

    #[test]
    fn four_fifths_of_the_picks_hit_a_fifth_of_the_places() {
        let mut rng = Rng::for_thread(1, 0);
        let picks: Vec<_> = (0..50_000).map(|_| pick(&mut rng, 100_000)).collect();
        assert!(picks.iter().all(|pick| *pick < 100_000));
        let share =
            |end: u32| picks.iter().filter(|pick| **pick < end).count() as f64 / picks.len() as f64;
        assert!((share(20_000) - 0.8).abs() < 0.01);
        assert!((share(4_000) - 0.64).abs() < 0.01);
        // Within the rest they are spread evenly.
        assert!((share(60_000) - 0.9).abs() < 0.01);
        assert_eq!(pick(&mut rng, 1), 0);
    }

    #[test]
    fn operations_are_calls_and_the_working_set_grows() {
        let settings = [("threads", "2"), ("operations", "100000"), ("places", "20000")];
        let outcome = run(&HARNESS, &settings);
        let live = outcome.live.end_bytes as f64;
        // What was freed after the measurement is not among the operations.
        let operations = outcome.value * outcome.elapsed.as_secs_f64();
        assert!((operations - 100_000.0).abs() < 1.0);
        assert!(live / outcome.live.peak_bytes as f64 > 0.9, "{:?}", outcome.live);
        // Sizes: seven octaves of about 6 bytes each.
        let mean = octaves(8, 1024, 1.0);
        let mean = Sizes::new(&mean).expect("maps").mean();
        assert!((40.0..50.0).contains(&mean), "{mean}");
    }
}
