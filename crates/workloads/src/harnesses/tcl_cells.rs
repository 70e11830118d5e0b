//! `tcl-cells`: threads go round an array of cells, each from another place, and exchange what is
//! in them for new blocks. With shared cells most blocks are freed by another thread.

use std::path::Path;

use crate::cell::{Cell, MOST_BYTES};
use crate::crew::{self, Next, Slots, Work};
use crate::error::Error;
use crate::harness::{Harness, Kind, Parameter, THROUGHPUT, Threads};
use crate::mapping::Mapping;
use crate::outcome::{Detail, Outcome};
use crate::session::Session;
use crate::settings::Settings;
use crate::sizes::{Entry, Sizes, octaves};
use crate::worker::{Halt, Held, Worker};

const UNIFORM: &str = "uniform";
const SAMPLE_32: &str = "sample-32";
const SAMPLE_64: &str = "sample-64";

pub(super) static HARNESS: Harness = Harness {
    name: "tcl-cells",
    summary: "Threads exchange the blocks in shared cells for new ones, of sizes as Tcl has them",
    source: "Neumann, Thread Mallocs for Tcl, 2012",
    metric: THROUGHPUT,
    threads: Threads { default: "4", least: 1, help: "Threads" },
    size: None,
    own: &[
        Parameter::count("cells", "cells", (1, 100_000_000), "64000", "Cells of all threads"),
        Parameter::count(
            "passes",
            "",
            (1, 1_000_000_000),
            "20",
            "How often each thread goes round its cells",
        ),
        Parameter::choice(
            "sizes",
            &[UNIFORM, SAMPLE_32, SAMPLE_64],
            UNIFORM,
            "Sizes: uniform from 1 to 8192, or as sampled in a Tcl server of 32 or 64 bits",
        ),
        Parameter {
            name: "distribution",
            unit: "",
            kind: Kind::Path,
            default: "",
            help: "A file of sizes instead: lines of a size, or a range as in 33-64, and a weight",
        },
        Parameter::flag("private", "Give each thread an equal share of the cells for itself"),
    ],
    run,
};

/// The largest size of the uniform distribution, and about that of the samples.
const LARGEST: u32 = 8192;

/// Exchanges between two looks whether to stop, and two publications of the count.
const BATCH: usize = 64;

struct TclCells {
    cells: Mapping<Cell>,
    sizes: Sizes,
    passes: u64,
    is_private: bool,
}

fn run(settings: &Settings) -> Result<Outcome, Error> {
    let session = Session::new(settings)?;
    let threads = session.threads as usize;
    let is_private = settings.flag("private");
    let cells = settings.size("cells");
    if is_private && cells < threads {
        let reason = format!("{cells} cells are too few for {threads} threads of their own");
        return Err(Error::Unsuitable(reason));
    }
    let work = TclCells {
        cells: session.map(cells)?,
        sizes: sizes(settings)?,
        passes: settings.count("passes"),
        is_private,
    };
    let slots = Slots::new(&session, |_| Ok(()))?;
    let measured = crew::run(&session, &work, &slots, None)?;
    let mean = Detail { name: "mean size", unit: "bytes", value: work.sizes.mean() };
    Ok(measured.rated(&session, vec![mean]))
}

fn sizes(settings: &Settings) -> Result<Sizes, Error> {
    let file = settings.text("distribution");
    if !file.is_empty() {
        return Sizes::read(Path::new(file), MOST_BYTES);
    }
    match settings.text("sizes") {
        SAMPLE_32 => Sizes::new(&sample_32()),
        SAMPLE_64 => Sizes::new(&sample_64()),
        _ => Sizes::uniform(1, LARGEST),
    }
    .map_err(Error::Map)
}

/// The published shares of 30 million recorded sizes, 32 bits.
fn sample_32() -> Vec<Entry> {
    with_rest(&[Entry::one(32, 43.0), Entry::one(12, 7.0), Entry::one(20, 4.0)])
}

/// The published shares of 24 million recorded sizes, 64 bits.
fn sample_64() -> Vec<Entry> {
    with_rest(&[Entry::one(32, 10.0), Entry::one(56, 7.0), Entry::one(40, 6.0)])
}

/// Published shares in percent, and our own choice for the rest, of which nothing but the largest
/// size is known: from 9 to 8192 bytes, every octave half as often as the one below.
fn with_rest(published: &[Entry]) -> Vec<Entry> {
    let rest = 100.0 - published.iter().map(|entry| entry.weight).sum::<f64>();
    [published, &octaves(8, LARGEST, rest)].concat()
}

impl TclCells {
    /// The first cell of a thread, and how many it goes round.
    fn share(&self, worker: &Worker<'_>) -> (usize, usize) {
        let threads = worker.session.threads as usize;
        let first = self.cells.len() * worker.number as usize / threads;
        let end = self.cells.len() * (worker.number as usize + 1) / threads;
        if self.is_private { (first, end - first) } else { (first, self.cells.len()) }
    }

    /// Puts a block into a cell, and frees what was there.
    fn exchange(&self, worker: &mut Worker<'_>, cell: usize, new: Held) -> Result<(), Halt> {
        let mut old = self.cells[cell].exchange(worker, cell as u32, new);
        worker.free(&mut old)
    }
}

impl Work for TclCells {
    type Slot = ();

    fn work(&self, worker: &mut Worker<'_>, (): &mut ()) -> Result<Next, Halt> {
        let (first, count) = self.share(worker);
        for _ in 0..self.passes {
            for begin in (0..count).step_by(BATCH) {
                let end = count.min(begin + BATCH);
                for step in begin..end {
                    let size = self.sizes.draw(&mut worker.rng);
                    let new = worker.allocate(size)?;
                    self.exchange(worker, (first + step) % self.cells.len(), new)?;
                }
                worker.tally.did((end - begin) as u64);
                if worker.is_stopped() {
                    return Ok(Next::Done);
                }
            }
        }
        Ok(Next::Done)
    }

    fn tear_down(&self, worker: &mut Worker<'_>, (): &mut ()) -> Result<(), Halt> {
        let threads = worker.session.threads as usize;
        let own = (worker.number as usize..self.cells.len()).step_by(threads);
        own.into_iter().try_for_each(|cell| self.exchange(worker, cell, Held::default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harnesses::tests::run;
    use crate::rng::Rng;

    #[test]
    fn every_thread_visits_every_cell_and_the_cells_stay_full() {
        let settings = [("threads", "3"), ("cells", "500"), ("passes", "4")];
        let outcome = run(&HARNESS, &settings);
        assert_eq!(outcome.calls.allocations, 3 * 500 * 4);
        // Uniform over 1 to 8192: 4096.5 on average.
        let mean = outcome.live.end_bytes as f64 / 500.0;
        assert!((3700.0..4500.0).contains(&mean), "{mean}");
    }

    #[test]
    fn private_cells_are_divided() {
        let settings = [("threads", "3"), ("cells", "500"), ("passes", "4"), ("private", "true")];
        assert_eq!(run(&HARNESS, &settings).calls.allocations, 500 * 4);
    }

    /// The shares of some sizes in percent, as drawn, and the largest size.
    fn drawn(entries: &[Entry], of: [usize; 3]) -> ([f64; 3], usize) {
        let sizes = Sizes::new(entries).expect("maps");
        let mut rng = Rng::for_thread(1, 0);
        let drawn: Vec<_> = (0..200_000).map(|_| sizes.draw(&mut rng)).collect();
        let share = |size| drawn.iter().filter(|drawn| **drawn == size).count() as f64 / 2000.0;
        (of.map(share), drawn.iter().copied().max().unwrap_or(0))
    }

    #[test]
    fn the_samples_have_the_published_shares() {
        // The rest has some of these sizes as well: 1/16 to 1/128 % of it each.
        let (shares, largest) = drawn(&sample_32(), [32, 12, 20]);
        for (share, published) in shares.into_iter().zip([43.0, 7.0, 4.0]) {
            assert!((share - published).abs() < 3.5, "{shares:?}");
        }
        assert!(largest <= 8192);
        let (shares, largest) = drawn(&sample_64(), [32, 56, 40]);
        for (share, published) in shares.into_iter().zip([10.0, 7.0, 6.0]) {
            assert!((share - published).abs() < 1.5, "{shares:?}");
        }
        assert!(largest <= 8192);
    }

    #[test]
    fn sizes_can_come_from_a_file() {
        let path = std::env::temp_dir().join(format!("tcl-cells-{}", std::process::id()));
        std::fs::write(&path, "100 1\n").expect("writable");
        let name = path.to_string_lossy();
        let settings = [("threads", "1"), ("cells", "50"), ("passes", "1")];
        let outcome = run(&HARNESS, &[&settings[..], &[("distribution", &name)]].concat());
        std::fs::remove_file(&path).expect("removable");
        assert_eq!(outcome.live.end_bytes, 5000);
        assert!((outcome.details[0].value - 100.0).abs() < 1e-9);
    }
}
