//! `chunk-scan`: in every round, blocks go onto two lists in turn; then one list is freed, and the
//! other is kept for good. Free blocks are thus spread over ever more memory, and an allocator that
//! looks for them from one end takes longer in every round.
//!
//! The lists run through the blocks, as they do in the original.

use std::time::Instant;

use crate::chain::{Chain, LINK_BYTES};
use crate::crew::{self, Next, Slots, Work};
use crate::error::Error;
use crate::harness::{ELAPSED, Harness, Parameter, Threads};
use crate::mapping::{Mapping, Zeroed};
use crate::outcome::{Column, Detail, Outcome, Series};
use crate::resident::Quick;
use crate::session::Session;
use crate::settings::Settings;
use crate::usage;
use crate::worker::{Halt, Held, Worker};

pub(super) static HARNESS: Harness = Harness {
    name: "chunk-scan",
    summary: "Half of the blocks of every round are kept: does malloc take ever longer?",
    source: "Gove, Cost of pointer chasing in libmtmalloc, 2009",
    metric: ELAPSED,
    threads: Threads { default: "1", least: 1, help: "Threads, each with lists of its own" },
    size: Some("size"),
    own: &[
        Parameter::count("rounds", "rounds", (1, 1_000_000), "100", "Rounds"),
        Parameter::count("blocks", "blocks", (1, 1_000_000_000), "100000", "Blocks of a round"),
        Parameter::size("size", LINK_BYTES as u64, "512", "The size of a block, its link included"),
        Parameter::flag(
            "as-printed",
            "Free the successor of each block and then read it, as the published program does; \
             only for allocators that leave free memory alone",
        ),
    ],
    run,
};

/// What is recorded of a round.
#[derive(Clone, Copy)]
struct Round {
    seconds: f64,
    rss_bytes: f64,
    processor_seconds: f64,
    user_seconds: f64,
}

// SAFETY: four numbers.
unsafe impl Zeroed for Round {}

struct Slot {
    kept: Chain,
    /// With `--as-printed`, the block of each round that the published program never frees.
    leaked: Mapping<Held>,
    rounds: Mapping<Round>,
}

struct ChunkScan {
    blocks: u64,
    size: usize,
    is_as_printed: bool,
}

const COLUMNS: [Column; 5] = [
    Column { name: "round", unit: "" },
    Column { name: "time", unit: "seconds" },
    Column { name: "resident memory", unit: "bytes" },
    Column { name: "processor time", unit: "seconds" },
    Column { name: "processor time in the program", unit: "seconds" },
];

fn run(settings: &Settings) -> Result<Outcome, Error> {
    let is_as_printed = settings.flag("as-printed");
    let session = Session::new(settings)?;
    if is_as_printed && session.checks.are_wanted() {
        let reason = "what --as-printed frees cannot be checked or counted";
        return Err(Error::Unsuitable(reason.to_owned()));
    }
    let rounds = settings.size("rounds");
    let mut slots = Slots::new(&session, |_| {
        let (leaked, rounds) = (session.map(rounds)?, session.map(rounds)?);
        Ok(Slot { kept: Chain::default(), leaked, rounds })
    })?;
    let work =
        ChunkScan { blocks: settings.count("blocks"), size: settings.size("size"), is_as_printed };
    let measured = crew::run(&session, &work, &slots, None)?;
    let first = &slots.iter_mut().next().expect("at least one thread").rounds;
    let rows = first.iter().enumerate().map(|(number, round)| {
        let Round { seconds, rss_bytes, processor_seconds, user_seconds } = *round;
        vec![number as f64 + 1.0, seconds, rss_bytes, processor_seconds, user_seconds]
    });
    let series = Series { columns: &COLUMNS, rows: rows.collect() };
    let growth = first[rounds - 1].seconds / first[0].seconds;
    let growth = Detail { name: "last round / first round", unit: "ratio", value: growth };
    Ok(Outcome { series: Some(series), ..measured.timed(&session, vec![growth]) })
}

impl ChunkScan {
    fn round(&self, worker: &mut Worker<'_>, slot: &mut Slot, number: usize) -> Result<(), Halt> {
        let mut short_lived = Chain::default();
        for block in 0..self.blocks {
            let list = if block % 2 == 1 { &mut short_lived } else { &mut slot.kept };
            list.push(&mut worker.allocate(self.size)?);
        }
        worker.session.look();
        if self.is_as_printed {
            // SAFETY: nothing can vouch for it; who asks for this chose the allocator.
            slot.leaked[number] = unsafe { short_lived.free_as_printed(worker)? };
            Ok(())
        } else {
            short_lived.free(worker)
        }
    }
}

impl Work for ChunkScan {
    type Slot = Slot;

    fn work(&self, worker: &mut Worker<'_>, slot: &mut Slot) -> Result<Next, Halt> {
        let resident = Quick::open();
        for number in 0..slot.rounds.len() {
            let in_program = usage::own_thread().user_seconds;
            let (begin, used) = (Instant::now(), usage::own_thread_seconds());
            self.round(worker, slot, number)?;
            slot.rounds[number] = Round {
                seconds: begin.elapsed().as_secs_f64(),
                processor_seconds: usage::own_thread_seconds() - used,
                user_seconds: usage::own_thread().user_seconds - in_program,
                rss_bytes: resident.rss_bytes() as f64,
            };
            if worker.is_stopped() {
                break;
            }
        }
        Ok(Next::Done)
    }

    fn tear_down(&self, worker: &mut Worker<'_>, slot: &mut Slot) -> Result<(), Halt> {
        worker.free_all(&mut slot.leaked)?;
        slot.kept.free(worker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harnesses::tests::run;

    #[test]
    fn half_of_all_blocks_are_kept() {
        let settings = [("rounds", "10"), ("blocks", "1000")];
        let outcome = run(&HARNESS, &settings);
        assert_eq!(outcome.calls.allocations, 10_000);
        // With the defaults: 100 rounds of 50,000 blocks of 512 bytes, 2.56 GB.
        assert_eq!(outcome.live.end_bytes, 10 * 500 * 512);
        // In the last round all of its blocks are live for a moment.
        assert_eq!(outcome.live.peak_bytes, (9 * 500 + 1000) * 512);
    }

    #[test]
    fn every_round_is_recorded() {
        let outcome = run(&HARNESS, &[("rounds", "5"), ("blocks", "100"), ("threads", "2")]);
        let series = outcome.series.expect("there");
        assert_eq!(series.rows.len(), 5);
        for (number, row) in series.rows.iter().enumerate() {
            assert_eq!(row.len(), series.columns.len());
            assert!((row[0] - number as f64 - 1.0).abs() < 1e-9, "{row:?}");
            assert!(row[1] > 0.0 && row[3] > 0.0, "{row:?}");
        }
    }

    #[test]
    fn what_was_printed_is_not_run_where_contents_are_checked() {
        let mut settings = Settings::new(&HARNESS);
        settings.set(&HARNESS, "as-printed", "true").expect("fits");
        settings.set(&HARNESS, "verify", "true").expect("fits");
        assert!(matches!(HARNESS.run(&settings), Err(Error::Unsuitable(_))));
    }
}
