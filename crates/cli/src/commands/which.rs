//! `freehold which`: which allocator a process uses.

use std::fs;
use std::path::Path;

use clap::Args;
use freehold_lab::process::{self, ProcessError};
use freehold_model::ProcessReport;

use crate::catalogue::{Choice, looks_like_a_path};
use crate::exit::{Exit, Failure};
use crate::{advice, ui};

const EXAMPLES: &str = "\
Examples:
  freehold which 4242
  freehold which $$                             the shell itself
  freehold which --quiet --expect freehold 4242 && echo live
  freehold which --json 4242 | jq -r '.live[0].family'

The first line is the answer: the allocator that serves the program, its version, and how it was
loaded: preloaded, linked, static in the executable, or none, which leaves the C library's own.
The process is only looked at, never stopped; nothing of it is run.

Exit status:
  0  the allocator is known (with --expect: it is the one expected)
  1  the process cannot be looked at
  5  the allocator is not known (with --expect: it is another one)";

/// Tell which allocator a process uses, its version, and how it was loaded
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Which {
    /// The process
    pid: u32,
    /// Exit with 5 unless this allocator, a name (with a version: mimalloc@2) or the path of a
    /// library, is the one in use
    #[arg(long, value_name = "ALLOCATOR")]
    expect: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Which {
    pub(crate) fn execute(self) -> Result<Exit, Failure> {
        let expected = self.expect.as_deref().map(Expected::parse).transpose()?;
        let report = process::report(self.pid).map_err(|error| cannot_look(self.pid, &error))?;
        if self.json {
            ui::print_json(&report)?;
        } else {
            ui::print(&freehold_report::process(&report))?;
        }
        match expected {
            Some(expected) if expected.is_live_in(&report) => Ok(Exit::Success),
            Some(_) => Ok(Exit::NotLive),
            None if report.is_identified() => Ok(Exit::Success),
            None => {
                ui::hint(advice::not_identified());
                Ok(Exit::NotLive)
            }
        }
    }
}

/// The allocator that a script expects.
enum Expected<'a> {
    Known(Choice<'a>),
    Library(String),
}

impl<'a> Expected<'a> {
    fn parse(word: &'a str) -> Result<Self, Failure> {
        if looks_like_a_path(word) {
            let real = fs::canonicalize(word).unwrap_or_else(|_| Path::new(word).to_owned());
            return Ok(Self::Library(real.to_string_lossy().into_owned()));
        }
        Choice::parse(word).map(Self::Known)
    }

    fn is_live_in(&self, report: &ProcessReport) -> bool {
        report.live.iter().any(|provider| match self {
            Self::Known(choice) => {
                provider.family.as_deref() == Some(choice.known.name)
                    && choice.accepts(provider.version.as_deref())
            }
            Self::Library(path) => provider.path == *path,
        })
    }
}

/// The process could not be looked at.
pub(super) fn cannot_look(pid: u32, error: &ProcessError) -> Failure {
    let failure = Failure::error(format!("process {pid}"), error);
    match error {
        ProcessError::NotPermitted => failure.hint(advice::not_permitted()),
        _ => failure,
    }
}
