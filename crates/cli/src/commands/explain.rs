//! `freehold explain`: where the resident memory of a process is.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::Args;
use freehold_lab::counts::{CountsFile, VARIABLE};
use freehold_model::{AllocatorFigures, Gap, MemoryReport, Source};
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
it is seen how much they have; how much of it the program has in use only while the process runs
under freehold diagnose or timeline with --count.";

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
        let mut report = MemoryReport { allocator: allocator_of(self.pid), ..found };
        if report.figures.is_empty() {
            self.add_counted(&mut report);
        }
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

    /// Adds what the process has in use of an allocator that cannot be read, if its calls are
    /// counted.
    fn add_counted(&self, report: &mut MemoryReport) {
        let live_bytes = counts_of(self.pid).and_then(|file| file.live_bytes(&[self.pid]));
        if live_bytes.is_some() {
            let allocator = report.allocator.clone().unwrap_or_else(|| "the allocator".to_owned());
            report.figures.push(AllocatorFigures {
                allocator,
                live_bytes,
                ..AllocatorFigures::default()
            });
            report.sources.push(Source::new(
                "in use",
                "counted in each call",
                "exact, but for the last 64 calls of a thread",
            ));
        } else {
            report.missing.push(Gap::allowed_by(
                "what the program has in use",
                "freehold timeline --count -- CMD, and this command while it runs",
            ));
        }
    }

    fn refused(&self, error: &TargetError) -> Failure {
        let failure = Failure::error(format!("process {}", self.pid), error);
        match error {
            TargetError::Refused(_) => failure.hint(advice::not_permitted()),
            TargetError::NotFound => failure,
        }
    }
}

/// The file in which the calls of a process are counted, if they are.
fn counts_of(pid: u32) -> Option<CountsFile> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut variables = environment.split(|&byte| byte == 0);
    let value = |variable: &[u8]| {
        let path = variable.strip_prefix(VARIABLE.as_bytes())?.strip_prefix(b"=")?;
        Some(PathBuf::from(OsStr::from_bytes(path)))
    };
    let path = variables.find_map(value)?;
    Some(CountsFile { path })
}
