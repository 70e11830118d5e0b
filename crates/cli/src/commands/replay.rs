//! `freehold replay`: the calls of a trace, made again under other allocators.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use freehold_lab::bench::Stop;
use freehold_lab::replay::{self, Job, Planned, Replayer, rounds, summarise};
use freehold_model::{Allocator, ProcessRecording, ReplayDocument, ReplayOutcome};

use super::bench;
use super::workload::TouchArg;
use crate::args::{parse_positive_seconds, parse_seconds};
use crate::catalogue::Catalogue;
use crate::exit::{Exit, Failure};
use crate::progress::Rounds;
use crate::recorder::{TraceArgs, runner, scratch, unreadable};
use crate::ui::Ui;
use crate::{advice, interrupt, provenance, ui};

const EXAMPLES: &str = "\
Examples:
  freehold record -- ./server
  freehold replay freehold.trace
  freehold replay --allocators freehold,system,jemalloc --repeat 9 freehold.trace
  freehold replay --json curves.json freehold.trace       with memory over time

Each run is a process with as many threads as were recorded. They make the recorded calls with the
recorded sizes and alignments, in an order in which they can have happened: an object is freed
after it was allocated, whichever thread does either. Threads wait for each other where they need
an object of another's, and where they would get ahead of the others. What the program did
between its calls is left out, and so is what it wrote: --touch says how much of each block is
written instead.

It is about the process with the most calls, unless --process says otherwise. Of a trace that was
limited in size, the part in which every call was recorded is made again.";

/// Make the calls of a trace again under other allocators
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Replay {
    /// What `freehold record` wrote
    file: PathBuf,
    #[command(flatten)]
    trace: TraceArgs,
    /// Allocators: names, or paths of libraries; by default, all that are found
    #[arg(short, long, value_name = "LIST", value_delimiter = ',')]
    allocators: Vec<String>,
    /// The one that the others are compared with; by default freehold, or else the first
    #[arg(long, value_name = "ALLOCATOR")]
    reference: Option<String>,
    /// How often the calls are made under each
    #[arg(short, long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// How much of each block is written to
    #[arg(long, value_name = "WHAT", default_value = "first")]
    touch: TouchArg,
    /// Idle time after the last call, before memory is read again
    #[arg(long, value_name = "SECONDS", default_value_t = 0.2, value_parser = parse_seconds)]
    settle: f64,
    /// Make only the first calls again
    #[arg(long, value_name = "N")]
    calls: Option<u64>,
    /// End a run that takes longer than this
    #[arg(long, value_name = "SECONDS", default_value_t = 600.0,
          value_parser = parse_positive_seconds)]
    timeout: f64,
    /// Seed of the order of runs
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write everything that was measured, with memory over time, to this file; - prints it
    #[arg(long, value_name = "FILE")]
    json: Option<String>,
}

/// Everything decided before the first run.
struct Rehearsed {
    process: ProcessRecording,
    planned: Planned,
    allocators: Vec<Allocator>,
    reference: usize,
    job: Job,
}

impl Replay {
    pub(crate) fn execute(self, ui: Ui) -> Result<Exit, Failure> {
        if let Some(path) = &self.json {
            ui::check_writable(path)?;
        }
        let allocators = Catalogue::new(&[])?.to_preload(&self.allocators)?;
        let steps = rounds(allocators.len(), self.repeat, self.seed);
        let progress = Rounds::new(ui, steps.len());
        let bar = progress.bar();
        // Before there is a directory to be taken away.
        let stop = interrupt::listen(move || bar.suspend(|| ui.note(advice::stopping())))
            .map_err(|error| Failure::error("cannot listen for interrupts", &error))?;
        let (_directory, script) = scratch()?;
        let rehearsed = self.rehearse(allocators, script)?;
        let document = self.perform(rehearsed, &steps, progress, &stop)?;
        self.publish(&document)?;
        Ok(if document.complete { verdict(&document) } else { Exit::Interrupted })
    }

    fn rehearse(&self, allocators: Vec<Allocator>, script: PathBuf) -> Result<Rehearsed, Failure> {
        let reference = bench::reference(self.reference.as_deref(), &allocators)?;
        let read = |error| unreadable(&self.file, &error);
        let trace = self.trace.open(&self.file)?;
        let process = self.trace.choose(&trace, &self.file)?;
        let planned = replay::write(&trace, &process, self.calls, &script).map_err(read)?;
        if planned.calls.total() == 0 {
            let message = format!("{}: there are no calls to make again", self.file.display());
            return Err(Failure::new(Exit::Error, message));
        }
        let job = Job { script, touch: self.touch.into(), settle_seconds: self.settle };
        Ok(Rehearsed { process, planned, allocators, reference, job })
    }

    fn perform(
        &self,
        rehearsed: Rehearsed,
        steps: &[(u32, usize)],
        mut progress: Rounds,
        stop: &Stop,
    ) -> Result<ReplayDocument, Failure> {
        let Rehearsed { process, planned, allocators, reference, job } = rehearsed;
        let mut provenance = provenance::begin(self.seed)?;
        let runner = runner(Duration::from_secs_f64(self.timeout))?;
        let replayer = Replayer { job: &job, allocators: &allocators, runner: &runner, stop };
        let runs = replayer.run(steps, |run| {
            let result = match &run.outcome {
                ReplayOutcome::Measured(measured) => {
                    Ok(format!("{:.3} s", measured.processor_seconds()))
                }
                ReplayOutcome::Failed(failure) => Err(failure),
            };
            progress.ended(&allocators[run.allocator].name, &result);
        });
        progress.finish();
        provenance::end(&mut provenance);
        let complete = runs.len() == steps.len();
        Ok(ReplayDocument {
            complete,
            provenance,
            trace: self.file.to_string_lossy().into_owned(),
            warnings: warnings(&process, &planned, self.repeat),
            process,
            touch: job.touch,
            settle_seconds: self.settle,
            calls: planned.calls,
            peak_live_bytes: planned.peak_bytes,
            skipped_unknown: planned.skipped.unknown,
            skipped_failed: planned.skipped.failed,
            summary: summarise(&runs, allocators.len(), reference),
            allocators,
            reference,
            runs,
        })
    }

    /// Shows and stores results. What goes to standard output for machines goes there alone.
    fn publish(&self, document: &ReplayDocument) -> Result<(), Failure> {
        if self.json.as_deref() != Some(ui::STANDARD_OUTPUT) {
            ui::print(&freehold_report::replay_text(document))?;
        }
        let failures = freehold_report::replay_failures(document);
        for warning in document.warnings.iter().chain(&failures) {
            ui::warn(warning);
        }
        self.json.as_ref().map_or(Ok(()), |path| ui::save_json(path, document))
    }
}

/// What a reader has to know before trusting a number.
fn warnings(process: &ProcessRecording, planned: &Planned, repeat: u32) -> Vec<String> {
    let mut warnings = Vec::new();
    if cfg!(debug_assertions) {
        warnings.push(advice::debug_build().to_owned());
    }
    if repeat == 1 {
        warnings.push(advice::one_round());
    }
    if let Some(seconds) = process.exact_seconds {
        warnings.push(advice::exact_part(seconds));
    }
    if planned.skipped.unknown > 0 {
        warnings.push(advice::unknown_objects(planned.skipped.unknown));
    }
    warnings
}

/// How a complete replay ends: failures of runs are failures of the replay.
fn verdict(document: &ReplayDocument) -> Exit {
    bench::verdict(document.runs.iter().filter_map(|run| match &run.outcome {
        ReplayOutcome::Failed(failure) => Some(failure.kind),
        ReplayOutcome::Measured(_) => None,
    }))
}
