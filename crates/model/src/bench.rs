//! A benchmark: what was planned, what ran, what failed and what it amounts to.

use serde::{Deserialize, Serialize};

use crate::allocator::Allocator;
use crate::measure::{Measured, Series, common_value, series_of};
use crate::pairs::{PairsParams, PairsRun};
use crate::provenance::Provenance;
use crate::schema::Document;
use crate::summary::Summary;

/// What a case is measured for, which decides the table that shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Loops per second.
    Speed,
    /// Memory that stays after everything was freed.
    Retention,
}

/// One combination of parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// What it is measured for.
    pub purpose: Purpose,
    /// The parameters.
    pub params: PairsParams,
}

impl Case {
    /// The case in words that tell it from the others.
    pub(crate) fn name(&self) -> String {
        let Self { purpose, params: PairsParams { pairs, max_bytes, .. } } = self;
        let harness = match purpose {
            Purpose::Speed => "pairs",
            Purpose::Retention => "pairs-memory",
        };
        format!("{harness} pairs={pairs} size={max_bytes}")
    }
}

/// A case that was left out, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Index into [`Plan::cases`].
    pub case: usize,
    /// Why, in a sentence.
    pub reason: String,
}

/// What was to be measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The cases.
    pub cases: Vec<Case>,
    /// How often each case is measured under each allocator.
    pub repeat: u32,
    /// Cases left out.
    pub skipped: Vec<Skipped>,
}

/// What went wrong with a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// It could not be started.
    NotStarted,
    /// It ran, but not under the allocator asked for.
    NotLive,
    /// It ended by a signal.
    Crashed,
    /// It ended with a status other than 0, for instance because `malloc` returned null.
    Failed,
    /// It took too long and was ended.
    TimedOut,
    /// It ended well, but what it printed could not be understood.
    Unreadable,
}

/// A run that gave no number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What went wrong.
    pub kind: FailureKind,
    /// The details, in a sentence.
    pub detail: String,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// With numbers.
    Measured(Box<PairsRun>),
    /// With a reason for having none.
    Failed(Failure),
}

/// One run of one case under one allocator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Index into [`Plan::cases`].
    pub case: usize,
    /// Index into [`BenchDocument::allocators`].
    pub allocator: usize,
    /// The round: runs of one case in one round were made one after the other, so they pair.
    pub round: u32,
    /// How it ended.
    pub outcome: Outcome,
}

/// What `freehold bench --json` writes. Runs are in the order in which they were made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchDocument {
    /// Whether every planned run was made.
    pub complete: bool,
    /// Where the numbers come from.
    pub provenance: Provenance,
    /// The allocators, in the order of the columns.
    pub allocators: Vec<Allocator>,
    /// What was to be measured.
    pub plan: Plan,
    /// What the runs amount to.
    pub summary: Summary,
    /// What a reader has to know before trusting a number, in sentences.
    pub warnings: Vec<String>,
    /// Every run.
    pub runs: Vec<Run>,
}

impl Document for BenchDocument {
    const KIND: &'static str = "bench";
}

impl PairsRun {
    /// The value of a measure; `None` where it was not measured.
    pub(crate) fn value(&self, measure: &str) -> Option<f64> {
        match measure {
            "speed" => Some(self.loops_per_second),
            measure => common_value(&self.memory, &self.usage, measure),
        }
    }
}

impl Measured for BenchDocument {
    fn series(&self) -> Vec<Series> {
        let runs = self.runs.iter().filter_map(|run| match &run.outcome {
            Outcome::Measured(measured) => Some((run.case, run.allocator, run.round, &**measured)),
            Outcome::Failed(_) => None,
        });
        series_of(runs, &self.allocators, |case| self.plan.cases[case].name(), PairsRun::value)
    }
}
