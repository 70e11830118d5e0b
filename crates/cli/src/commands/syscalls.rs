//! `freehold syscalls`: which system calls a program makes, and how long they take.

use std::process::ExitStatus;
use std::time::{Duration, Instant};

use clap::Args;
use freehold_model::SyscallsReport;
use freehold_observe::calls::Syscalls as Watching;
use freehold_report::{provenance, syscalls};

use crate::args::parse_positive_seconds;
use crate::exit::{Exit, Failure};
use crate::start;
use crate::subject::{SubjectArgs, Traced, WAITING, terminate};
use crate::ui::{self, Ui};

const EXAMPLES: &str = "\
Examples:
  freehold syscalls -- ./server --bench
  freehold syscalls --seconds 2 -p $(pgrep -n server)
  freehold syscalls --threads 3 -- ./server       also the calls of the three busiest threads
  freehold syscalls --json -- ./server | jq '.calls[0]'

Every call is stopped at its beginning and its end, which takes some 10 microseconds: a program that
makes many runs many times slower meanwhile, and may behave otherwise. freehold top and locks stop
nothing. With -p, a call that waits just when observing begins or ends may return early with EINTR,
as with any tracer; then the process goes on as before.";

/// Count system calls, errors and time by call and by thread; slows the program while it looks
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Syscalls {
    /// Observe for so long; without it until the process ends, or an interrupt
    #[arg(long, value_name = "SECONDS", value_parser = parse_positive_seconds)]
    seconds: Option<f64>,
    /// Show the calls of so many threads, those that made most first
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    subject: SubjectArgs,
}

impl Syscalls {
    pub(crate) fn execute(self, ui: Ui) -> Result<Exit, Failure> {
        let (traced, interrupt) = self.subject.to_be_traced()?;
        let is_command = matches!(traced, Traced::Command(_));
        let mut watching = match traced {
            Traced::Command(command) => Watching::start(command),
            Traced::Process(pid) => Watching::attach(pid),
        }
        .map_err(|error| self.subject.untraceable(&error))?;
        let end = self.seconds.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
        let is_time = || end.is_none_or(|end| Instant::now() < end);
        watching.watch(&mut || is_time() && !interrupt.has_come());
        let shown = self.show(&watching.report(), ui);
        let interrupted = interrupt.has_come();
        let status = is_command.then(|| wait(&mut watching, interrupted, ui)).transpose();
        shown?;
        match status? {
            _ if interrupted => Ok(Exit::Interrupted),
            Some(status) => Ok(start::ended_as(status)),
            None => Ok(Exit::Success),
        }
    }

    fn show(&self, report: &SyscallsReport, ui: Ui) -> Result<(), Failure> {
        if self.json {
            return ui::print_json(report);
        }
        for line in provenance(&report.sources, &report.missing) {
            ui.note(&line);
        }
        ui::print(&syscalls(report, self.threads))
    }
}

/// Waits for a command that is no longer traced to end, and ends it before if we were interrupted.
fn wait(watching: &mut Watching, interrupted: bool, ui: Ui) -> Result<ExitStatus, Failure> {
    if watching.ended().is_none() {
        if interrupted {
            terminate(watching.pid());
        } else {
            ui.note(WAITING);
        }
    }
    watching.wait().map_err(|error| Failure::error("cannot wait for the command", &error))
}
