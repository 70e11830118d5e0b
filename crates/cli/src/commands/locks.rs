//! `freehold locks`: which locks threads wait for, who waits, and for how long.

use std::time::Duration;

use clap::Args;
use freehold_observe::locks::Locks as Watching;
use freehold_report::{LocksDetail, locks, provenance};

use crate::args::parse_positive_seconds;
use crate::exit::{Exit, Failure};
use crate::subject::SubjectArgs;
use crate::ui::{self, Ui};

const EXAMPLES: &str = "\
Examples:
  freehold locks -- ./server --bench              until the command ends
  freehold locks --seconds 10 -p $(pgrep -n server)
  freehold locks --stacks 20 -- ./server          with the stacks that wait
  freehold locks --json -- ./server | jq '.waits[0]'

A lock is named by its symbol, or as an arena of the C library, or by its address; the caller is
the first function outside of locks, of the C library and of the allocator. Condition variables,
joins and sleep stand apart: a thread that waits there has nothing to do, and nobody is in its way.

Times are exact as a sum and divided by looks, of which there are up to a hundred a second; how
often a lock was waited for (~) is an estimate, the longest wait (>) a lower bound. A process that
runs already is not stopped or traced, a command only before its first instruction, for a moment.";

/// Show which locks threads wait for, and who waits; idle threads and sleep stand apart
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Locks {
    /// Observe for so long; without it until the process ends, or an interrupt
    #[arg(long, value_name = "SECONDS", value_parser = parse_positive_seconds)]
    seconds: Option<f64>,
    /// Show so many frames of each stack
    #[arg(long, value_name = "FRAMES", default_value_t = 0)]
    stacks: usize,
    /// Show so many locks of each kind
    #[arg(long, value_name = "N", default_value_t = 10)]
    rows: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    subject: SubjectArgs,
}

impl Locks {
    pub(crate) fn execute(self, ui: Ui) -> Result<Exit, Failure> {
        let (subject, held) = self.subject.begin_held(|_| {})?;
        let mut watching = Watching::of(subject.pid()).map_err(|error| subject.refused(&error))?;
        drop(held);
        let duration = self.seconds.map(Duration::from_secs_f64);
        watching.watch(duration, &mut |_, pause| subject.pause(pause));
        let report = watching.report();
        let shown = if self.json {
            ui::print_json(&report)
        } else {
            for line in provenance(&report.sources, &report.missing) {
                ui.note(&line);
            }
            let detail = LocksDetail { rows: self.rows, frames: self.stacks };
            ui::print(&locks(&report, detail))
        };
        subject.end_after(shown, ui)
    }
}
