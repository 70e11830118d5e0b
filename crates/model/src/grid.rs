//! A grid: harnesses, each with several numbers of threads and sizes, under several allocators.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::allocator::Allocator;
use crate::bench::Failure;
use crate::harness::{Better, HarnessRun, Metric, ParamValue, Params};
use crate::measure::{Measured, Series, common_value, series_of};
use crate::provenance::Provenance;
use crate::schema::Document;
use crate::summary::{Interval, Spread, Standing};

/// One harness with all its parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GridCase {
    /// The harness.
    pub harness: String,
    /// Its threads: a parameter that is varied.
    pub threads: u64,
    /// The size that is varied; `None` where sizes are part of what the harness is.
    pub size: Option<u64>,
    /// Every parameter, those two included.
    pub params: Params,
}

impl GridCase {
    /// What is varied, in words.
    fn name(&self) -> String {
        let size = self.size.map(|size| format!(" size={size}")).unwrap_or_default();
        format!("{} threads={}{size}", self.harness, self.threads)
    }

    /// Whether what is varied does not tell the two apart.
    fn is_like(&self, other: &Self) -> bool {
        let key = |case: &Self| (case.threads, case.size);
        self.harness == other.harness && key(self) == key(other)
    }
}

impl GridPlan {
    /// A case in words that tell it from the others.
    pub fn name(&self, case: usize) -> String {
        let own = &self.cases[case];
        let apart = self.sets_apart(own).into_iter();
        let apart = apart.map(|name| format!(" {name}={}", own.params[name]));
        own.name() + &apart.collect::<String>()
    }

    /// The parameters by which a case differs from those with the same threads and size, as grids
    /// have them that were made one.
    pub fn sets_apart<'a>(&self, case: &'a GridCase) -> Vec<&'a str> {
        let like: Vec<_> = self.cases.iter().filter(|other| case.is_like(other)).collect();
        let differs = |(name, value): &(&String, &ParamValue)| {
            like.iter().any(|other| other.params.get(*name) != Some(value))
        };
        case.params.iter().filter(differs).map(|(name, _)| name.as_str()).collect()
    }
}

/// A part of a grid that is run apart from the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Which part, from 1.
    pub number: u32,
    /// How many parts there are.
    pub of: u32,
}

/// What was to be measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GridPlan {
    /// The cases.
    pub cases: Vec<GridCase>,
    /// What was asked for and left out, and why, in sentences.
    pub left_out: Vec<String>,
    /// How often each case is measured under each allocator, at most.
    pub rounds: u32,
    /// The precision of the ratios at which a case has been measured often enough, as a share.
    pub until: Option<f64>,
    /// After this time nothing is begun.
    pub time_limit_seconds: Option<f64>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GridOutcome {
    /// With numbers.
    Measured(Box<HarnessRun>),
    /// With a reason for having none.
    Failed(Failure),
}

/// One run of one case under one allocator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GridRun {
    /// Index into [`GridDocument::parts`].
    pub part: usize,
    /// Index into [`GridPlan::cases`].
    pub case: usize,
    /// Index into [`GridDocument::allocators`].
    pub allocator: usize,
    /// The round: runs of one case in one round were made one after the other on one machine, so
    /// they pair. Rounds of several parts have numbers of their own.
    pub round: u32,
    /// How long the whole run took, starting and settling included.
    pub seconds: f64,
    /// How it ended.
    pub outcome: GridOutcome,
}

/// Runs that were made one after the other on one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GridPart {
    /// Where the numbers come from.
    pub provenance: Provenance,
    /// Whether it ended by itself.
    pub complete: bool,
    /// Which part of a larger grid it is.
    pub shard: Option<Shard>,
}

/// One allocator in one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GridCell {
    /// Index into [`GridPlan::cases`].
    pub case: usize,
    /// Index into [`GridDocument::allocators`].
    pub allocator: usize,
    /// Runs that gave numbers.
    pub measured: u32,
    /// Runs that failed.
    pub failed: u32,
    /// The harness's metric.
    pub metric: Option<Spread>,
    /// Where it stands by that metric.
    pub standing: Option<Standing>,
    /// How much better the metric is than the reference's in the same rounds: 2 is twice the
    /// rate, half the time, or half the amount.
    pub gain: Option<Interval>,
    /// Peak of resident memory relative to the reference's in the same rounds.
    pub peak_ratio: Option<Interval>,
    /// Other numbers, by the name of their measure.
    pub measures: BTreeMap<String, Spread>,
}

impl GridCell {
    /// The median of a measure.
    pub fn median(&self, measure: &str) -> Option<f64> {
        self.measures.get(measure).map(|spread| spread.median)
    }
}

/// One allocator over several cases, relative to the reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GridOverall {
    /// The harness; `None` for all.
    pub harness: Option<String>,
    /// Index into [`GridDocument::allocators`].
    pub allocator: usize,
    /// Cases in which both have a speed, and the geometric mean of it.
    pub speed: Option<(u32, Interval)>,
    /// The same for the peak of resident memory.
    pub peak: Option<(u32, Interval)>,
    /// The same for resident memory after everything was freed and some idle time.
    pub settled: Option<(u32, Interval)>,
}

/// What all runs of a grid amount to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GridSummary {
    /// Index of the allocator that the others are compared with.
    pub reference: usize,
    /// One for each case and allocator, in that order.
    pub cells: Vec<GridCell>,
    /// Over the cases of each harness, and over all, for each allocator other than the reference.
    pub overall: Vec<GridOverall>,
}

/// What `freehold bench HARNESS --json` writes. Runs are in the order in which they were made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GridDocument {
    /// Whether every part ended by itself.
    pub complete: bool,
    /// Where the numbers come from.
    pub parts: Vec<GridPart>,
    /// The allocators, in the order of the columns.
    pub allocators: Vec<Allocator>,
    /// What was to be measured.
    pub plan: GridPlan,
    /// What the runs amount to.
    pub summary: GridSummary,
    /// What a reader has to know before trusting a number, in sentences.
    pub warnings: Vec<String>,
    /// Every run.
    pub runs: Vec<GridRun>,
}

impl Document for GridDocument {
    const KIND: &'static str = "grid";
}

impl GridDocument {
    /// The metric of a harness, as the first run that gave numbers says; `None` without one.
    pub fn metric(&self, harness: &str) -> Option<&Metric> {
        let own = self.runs.iter().filter_map(GridRun::measured);
        own.into_iter().find(|run| run.harness == harness).map(|run| &run.metric)
    }
}

impl GridRun {
    /// The numbers of a run that has some.
    pub fn measured(&self) -> Option<&HarnessRun> {
        match &self.outcome {
            GridOutcome::Measured(run) => Some(run),
            GridOutcome::Failed(_) => None,
        }
    }
}

impl Metric {
    /// Whether it tells how fast something is: a time, or a rate.
    pub fn is_speed(&self) -> bool {
        self.unit == "seconds" || self.unit.ends_with("/s")
    }
}

impl HarnessRun {
    /// The value of a measure; `None` where it was not measured.
    pub fn value(&self, measure: &str) -> Option<f64> {
        let metric = |better| {
            let Metric { better: own, value, .. } = self.metric;
            (self.metric.is_speed() && own == better).then_some(value)
        };
        match measure {
            "wall" => metric(Better::Lower),
            "speed" => metric(Better::Higher),
            measure => common_value(&self.memory, &self.usage, measure),
        }
    }
}

impl Measured for GridDocument {
    fn series(&self) -> Vec<Series> {
        let runs = self.runs.iter().filter_map(|run| {
            let GridRun { case, allocator, round, .. } = *run;
            Some((case, allocator, round, run.measured()?))
        });
        let names: Vec<String> = (0..self.plan.cases.len()).map(|at| self.plan.name(at)).collect();
        series_of(runs, &self.allocators, |case| names[case].clone(), HarnessRun::value)
    }
}
