//! Recorded calls made again: what one run measured, and what several amount to.

use serde::{Deserialize, Serialize};

use crate::allocator::Allocator;
use crate::bench::Failure;
use crate::harness::Reading;
use crate::measure::{MEASURES, Measure, Measured, Series};
use crate::pairs::{Proof, Resident, Usage};
use crate::provenance::Provenance;
use crate::schema::Document;
use crate::summary::{Interval, Spread};
use crate::trace::ProcessRecording;

/// How much of each block is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Touch {
    /// Nothing.
    None,
    /// A byte of each page.
    First,
    /// Everything.
    All,
}

impl Touch {
    /// The name used on the command line and in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::First => "first",
            Self::All => "all",
        }
    }
}

/// Calls by the function that makes them again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayCalls {
    /// `malloc`, for `malloc` and `operator new`.
    pub malloc: u64,
    /// `calloc`.
    pub calloc: u64,
    /// `realloc`.
    pub realloc: u64,
    /// `posix_memalign`, for all functions with an alignment.
    pub aligned: u64,
    /// `free` of an object, for `free` and `operator delete`.
    pub free: u64,
    /// `free` of null.
    pub free_null: u64,
}

impl ReplayCalls {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.malloc + self.calloc + self.realloc + self.aligned + self.free + self.free_null
    }
}

/// What one run measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplayRun {
    /// Which objects served the calls.
    pub proof: Proof,
    /// Calls made.
    pub calls: ReplayCalls,
    /// Threads that made them.
    pub threads: u32,
    /// From the first call to the last.
    pub elapsed_seconds: f64,
    /// Time that threads have spent waiting for each other, all together.
    pub waited_seconds: f64,
    /// The most bytes asked for and not yet freed.
    pub peak_live_bytes: u64,
    /// Bytes asked for and not freed at the end.
    pub end_live_bytes: u64,
    /// Before the first call.
    pub before: Resident,
    /// The most anonymous memory that was resident, as sampled.
    pub peak_anonymous_bytes: u64,
    /// After the last call, when all threads have ended.
    pub end: Resident,
    /// After the settle time; absent without one.
    pub settled: Option<Resident>,
    /// Mapped by the harness for itself; part of every reading of memory.
    pub harness_bytes: u64,
    /// Anonymous resident memory and bytes alive over time.
    pub timeline: Vec<Reading>,
    /// Processor time and faults.
    pub usage: Usage,
}

impl Document for ReplayRun {
    const KIND: &'static str = "replay_run";
}

impl ReplayRun {
    /// How much of a reading is not the harness's own.
    pub fn beyond(&self, bytes: u64) -> f64 {
        bytes.saturating_sub(self.before.anonymous_bytes) as f64
    }

    /// The most memory that the calls have made resident.
    pub fn peak_bytes(&self) -> f64 {
        self.beyond(self.peak_anonymous_bytes)
    }

    /// The memory that they have left resident at the end.
    pub fn end_bytes(&self) -> f64 {
        self.beyond(self.end.anonymous_bytes)
    }

    /// The memory that they have left resident after the settle time.
    pub fn settled_bytes(&self) -> Option<f64> {
        self.settled.as_ref().map(|settled| self.beyond(settled.anonymous_bytes))
    }

    /// Processor time, user and system together.
    pub fn processor_seconds(&self) -> f64 {
        self.usage.user_seconds + self.usage.system_seconds
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayOutcome {
    /// With numbers.
    Measured(Box<ReplayRun>),
    /// With a reason for having none.
    Failed(Failure),
}

/// One run under one allocator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplayRound {
    /// Index into [`ReplayDocument::allocators`].
    pub allocator: usize,
    /// The round: runs of one round were made one after the other, so they pair.
    pub round: u32,
    /// How it ended.
    pub outcome: ReplayOutcome,
}

/// What all runs under one allocator amount to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplaySummary {
    /// Index into [`ReplayDocument::allocators`].
    pub allocator: usize,
    /// Runs that gave numbers.
    pub measured: u32,
    /// Runs that failed.
    pub failed: u32,
    /// From the first call to the last, in seconds.
    pub wall: Option<Spread>,
    /// Processor time, in seconds.
    pub processor: Option<Spread>,
    /// Processor time relative to the reference in the same rounds.
    pub ratio: Option<Interval>,
    /// The most resident memory, in bytes, without the harness's own.
    pub peak: Option<Spread>,
    /// Resident memory at the end, in bytes, without the harness's own.
    pub end: Option<Spread>,
    /// Resident memory after the settle time, in bytes, without the harness's own.
    pub settled: Option<Spread>,
    /// The share of the threads' time that they have waited for each other, in the median.
    pub waiting_share: Option<f64>,
}

/// What `freehold replay --json` writes. Runs are in the order in which they were made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplayDocument {
    /// Whether every planned run was made.
    pub complete: bool,
    /// Where the numbers come from.
    pub provenance: Provenance,
    /// The trace.
    pub trace: String,
    /// The process whose calls were made again.
    pub process: ProcessRecording,
    /// How much of each block was written to.
    pub touch: Touch,
    /// Idle time before memory was read a second time at the end.
    pub settle_seconds: f64,
    /// Calls that each run made.
    pub calls: ReplayCalls,
    /// The most bytes alive, in the order of the trace.
    pub peak_live_bytes: u64,
    /// Calls left out because the objects that they freed were not seen being given out.
    pub skipped_unknown: u64,
    /// Calls left out because they had failed.
    pub skipped_failed: u64,
    /// The allocators.
    pub allocators: Vec<Allocator>,
    /// Index of the one that the others are compared with.
    pub reference: usize,
    /// One for each allocator.
    pub summary: Vec<ReplaySummary>,
    /// What a reader has to know before trusting a number, in sentences.
    pub warnings: Vec<String>,
    /// Every run.
    pub runs: Vec<ReplayRound>,
}

impl Document for ReplayDocument {
    const KIND: &'static str = "replay";
}

impl Measured for ReplayDocument {
    fn series(&self) -> Vec<Series> {
        let mut all = Vec::new();
        for (index, allocator) in self.allocators.iter().enumerate() {
            let runs = || {
                self.runs.iter().filter(move |run| run.allocator == index).filter_map(|run| {
                    match &run.outcome {
                        ReplayOutcome::Measured(measured) => Some((run.round, measured)),
                        ReplayOutcome::Failed(_) => None,
                    }
                })
            };
            for measure in &MEASURES {
                let value = |run: &ReplayRun| value(measure, run);
                let values: Vec<_> =
                    runs().filter_map(|(round, run)| Some((round, value(run)?))).collect();
                if !values.is_empty() {
                    let (case, allocator) = (String::new(), allocator.name.clone());
                    all.push(Series { case, allocator, measure, values });
                }
            }
        }
        all
    }
}

/// What a run says of a measure.
fn value(measure: &Measure, run: &ReplayRun) -> Option<f64> {
    let usage = &run.usage;
    Some(match measure.name {
        "wall" => run.elapsed_seconds,
        "user" => usage.user_seconds,
        "system" => usage.system_seconds,
        "rss.peak" => run.peak_bytes(),
        "rss.settled" => return run.settled_bytes(),
        "faults.minor" => usage.minor_faults as f64,
        "switches.voluntary" => usage.voluntary_switches as f64,
        "switches.involuntary" => usage.involuntary_switches as f64,
        _ => return None,
    })
}
