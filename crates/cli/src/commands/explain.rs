//! `freehold explain`: where the resident memory of a process is.

use clap::Args;
use freehold_model::MemoryReport;
use freehold_observe::{TargetError, explain as observed};
use freehold_report::{explain, provenance};

use crate::advice;
use crate::commands::diagnose::allocator_of;
use crate::exit::{Exit, Failure};
use crate::ui::{self, Ui};

const EXAMPLES: &str = "\
Examples:
  freehold explain $(pgrep -n server)
  freehold explain --json 4242 | jq .heap

Resident memory by what it is for, from smaps; and what the allocator knows of it: in use, kept by
threads, free, from the system. That is read from the tables of Freehold, and from the notes and
arenas of the C library, without stopping the process or calling anything in it. Of other allocators
it is seen how much they have, not how much of it is free.";

/// Tell where the resident memory of a process is, and how much of the heap is free
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Explain {
    /// The process
    pid: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Explain {
    pub(crate) fn execute(self, ui: Ui) -> Result<Exit, Failure> {
        let found = observed::explain(self.pid).map_err(|error| self.refused(&error))?;
        let report = MemoryReport { allocator: allocator_of(self.pid), ..found };
        if self.json {
            ui::print_json(&report)?;
        } else {
            for line in provenance(&report.sources, &report.missing) {
                ui.note(&line);
            }
            ui::print(&explain(&report))?;
        }
        Ok(Exit::Success)
    }

    fn refused(&self, error: &TargetError) -> Failure {
        let failure = Failure::error(format!("process {}", self.pid), error);
        match error {
            TargetError::Refused(_) => failure.hint(advice::not_permitted()),
            TargetError::NotFound => failure,
        }
    }
}
