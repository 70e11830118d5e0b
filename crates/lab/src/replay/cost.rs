//! What recording costs: the recorded calls are made again with and without the recorder, in turns.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use freehold_model::{Allocator, Failure, RecordingCost, ReplayRun};

use super::run::Job;
use crate::child::{Runner, Task};
use crate::launch::PRELOAD;
use crate::statistics::{LEVEL, median, paired_ratio};
use crate::trace::{Draft, VARIABLE};

/// How often the calls are made with and without.
const PAIRS: usize = 5;

/// Who records, and who serves the calls.
pub struct Pair<'a> {
    /// The recorder.
    pub recorder: &'a Allocator,
    /// The allocator behind it.
    pub behind: &'a Allocator,
    /// Where traces can be written that nobody wants.
    pub scratch: &'a Path,
    /// The most that such a trace may take.
    pub limit: u64,
}

/// Measures what recording adds to the calls of a job. The share of the command's processor time
/// is for the caller to know. Setting `give_up` ends it early, without a number.
pub fn cost(
    job: &Job,
    pair: &Pair<'_>,
    runner: &Runner,
    give_up: &AtomicBool,
) -> Result<RecordingCost, Failure> {
    let mut plain = Vec::new();
    let mut recorded = Vec::new();
    let mut calls = 0;
    for round in 0..PAIRS {
        // Whoever comes second finds caches and pages as the first has left them.
        for with in [round % 2 == 0, round % 2 != 0] {
            // Pages of the trace are made ahead as long as the draft lives.
            let draft = with.then(|| pair.draft()).transpose()?;
            let environment = draft.as_ref().map_or_else(Vec::new, |draft| pair.variables(draft));
            let allocator = if with { pair.recorder } else { pair.behind };
            let task = Task { environment, ..Task::of(job.arguments()) };
            let run = runner.measure(task, allocator, give_up, |run: &ReplayRun| &run.proof)?;
            calls = run.calls.total();
            let each = run.processor_seconds() * 1e9 / calls.max(1) as f64;
            if with { recorded.push(each) } else { plain.push(each) }
        }
    }
    let ratios: Vec<_> =
        recorded.iter().zip(&plain).map(|(with, without)| with / without).collect();
    let failed = || Failure {
        kind: freehold_model::FailureKind::Failed,
        detail: "the calls took no time".to_owned(),
    };
    Ok(RecordingCost {
        calls,
        plain_ns: median(&plain).ok_or_else(failed)?,
        recorded_ns: median(&recorded).ok_or_else(failed)?,
        ratio: paired_ratio(&ratios, LEVEL).ok_or_else(failed)?,
        share: None,
    })
}

impl Pair<'_> {
    /// A new trace for a run that is recorded.
    fn draft(&self) -> Result<Draft, Failure> {
        let failed = |error: std::io::Error| Failure {
            kind: freehold_model::FailureKind::NotStarted,
            detail: format!("cannot write a trace: {error}"),
        };
        // A new file each time: a program that is recorded writes to one, too.
        match fs::remove_file(self.scratch) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(error));
            }
            _ => {}
        }
        Draft::create(self.scratch, self.limit).map_err(failed)
    }

    /// The environment of that run.
    fn variables(&self, draft: &Draft) -> Vec<(String, OsString)> {
        let mut preload = OsString::from(&self.recorder.library.path);
        if self.behind.needs_preload() {
            preload.push(":");
            preload.push(&self.behind.library.path);
        }
        let trace = draft.path.clone().into_os_string();
        [(PRELOAD, preload), (VARIABLE, trace)].map(|(name, it)| (name.to_owned(), it)).to_vec()
    }
}
