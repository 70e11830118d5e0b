//! A comparison of allocators on somebody's own program: what was run, what each run took, and
//! what it amounts to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::allocator::Allocator;
use crate::bench::Failure;
use crate::measure::{Finding, Measured, Series, series_of};
use crate::process::Verdict;
use crate::provenance::Provenance;
use crate::schema::Document;
use crate::summary::Interval;
use crate::syscalls::CallRow;

/// Parameters by name: what `{name}` stands for in one case.
pub type Parameters = BTreeMap<String, String>;

/// What drives a server while it is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// The command, for the shell. How long it takes is what is measured.
    pub command: String,
    /// The server is ready when this port answers.
    pub port: Option<u16>,
    /// The server is ready when this command, for the shell, succeeds.
    pub ready: Option<String>,
    /// Idle time after the load, in which memory may come back.
    pub settle_seconds: f64,
}

/// What was to be run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparePlan {
    /// The command and its arguments, with parameters in braces.
    pub command: Vec<String>,
    /// What drives it, where it is a server.
    pub load: Option<Load>,
    /// Run by the shell before each run.
    pub prepare: Option<String>,
    /// Run by the shell after each run.
    pub cleanup: Option<String>,
    /// Parameters of each case; a single case without parameters where none were given.
    pub cases: Vec<Parameters>,
    /// Rounds before those that count.
    pub warmup: u32,
    /// Rounds, at most.
    pub repeat: u32,
    /// The precision at which fewer rounds are enough, as a share.
    pub until: Option<f64>,
    /// How much a share of memory weighs beside the same share of time.
    pub memory_weight: f64,
}

impl ComparePlan {
    /// The parameters of a case in words; empty where there are none.
    pub fn case_name(&self, case: usize) -> String {
        let words = self.cases[case].iter().map(|(name, value)| format!("{name}={value}"));
        words.collect::<Vec<_>>().join(" ")
    }
}

/// Resident memory at one moment of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// Since the start.
    pub seconds: f64,
    /// Resident memory of the program and its children.
    pub rss_bytes: u64,
}

/// What one run took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialRun {
    /// How the allocator was shown to be live.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// How the program ended; `None` where a signal ended it.
    pub exit_status: Option<i32>,
    /// From start to end; with a load, of the load.
    pub wall_seconds: f64,
    /// Processor time in the program and its children.
    pub user_seconds: f64,
    /// Processor time in the kernel on their behalf.
    pub system_seconds: f64,
    /// The most resident memory of the program and its children together; 0 where the run was too
    /// short to be seen.
    pub peak_rss_bytes: u64,
    /// Their resident memory, averaged over the time that `wall_seconds` counts.
    pub mean_rss_bytes: u64,
    /// The same after the load and its settle time.
    pub settled_rss_bytes: Option<u64>,
    /// Until half of the memory that had come was given back, where that was seen.
    pub return_seconds: Option<f64>,
    /// Page faults that needed no disk.
    pub minor_faults: u64,
    /// Page faults that did.
    pub major_faults: u64,
    /// Context switches for waiting.
    pub voluntary_switches: u64,
    /// Context switches forced on them.
    pub involuntary_switches: u64,
    /// The most processes that were seen at once.
    pub processes: u32,
    /// Processes that were still there when the program had ended, and were ended then.
    pub left_behind: u32,
    /// Resident memory over time, thinned out.
    pub curve: Vec<Moment>,
}

impl TrialRun {
    /// The value of a measure; `None` where it was not measured.
    fn value(&self, measure: &str) -> Option<f64> {
        let count = |count: u64| Some(count as f64);
        // A program without any memory is one that was too short to be seen.
        let bytes = |bytes: u64| count(bytes).filter(|&bytes| bytes > 0.0);
        match measure {
            "wall" => Some(self.wall_seconds),
            "user" => Some(self.user_seconds),
            "system" => Some(self.system_seconds),
            "rss.peak" => bytes(self.peak_rss_bytes),
            "rss.mean" => bytes(self.mean_rss_bytes),
            "rss.settled" => self.settled_rss_bytes.and_then(bytes),
            "rss.return" => self.return_seconds,
            "faults.minor" => count(self.minor_faults),
            "faults.major" => count(self.major_faults),
            "switches.voluntary" => count(self.voluntary_switches),
            "switches.involuntary" => count(self.involuntary_switches),
            _ => None,
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialOutcome {
    /// With numbers.
    Measured(Box<TrialRun>),
    /// With a reason for having none.
    Failed(Failure),
}

/// One run of one case under one allocator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Index into [`ComparePlan::cases`].
    pub case: usize,
    /// Index into [`CompareDocument::allocators`].
    pub allocator: usize,
    /// The round, from 0; `None` for a warm-up, which is kept only where it failed.
    pub round: Option<u32>,
    /// How it ended.
    pub outcome: TrialOutcome,
}

/// The system calls of one more run of one case under one allocator, made to count them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CountedCalls {
    /// Index into [`ComparePlan::cases`].
    pub case: usize,
    /// Index into [`CompareDocument::allocators`].
    pub allocator: usize,
    /// The calls of all its threads and children, those made most often first. Counting slows
    /// a program down, so that times are not those of the other runs.
    pub calls: Vec<CallRow>,
}

impl CountedCalls {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.calls.iter().map(|row| row.count).sum()
    }
}

/// What the runs say about one measure of one allocator in one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasureSummary {
    /// The median, with its interval.
    pub median: Interval,
    /// Relative to the reference in the same rounds.
    pub ratio: Option<Interval>,
    /// The least difference that such measurements nearly always find, as a share.
    pub detectable: Option<f64>,
    /// What that shows; only of the measures that the recommendation rests on.
    pub finding: Option<Finding>,
}

/// One allocator in one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompareCell {
    /// Index into [`ComparePlan::cases`].
    pub case: usize,
    /// Index into [`CompareDocument::allocators`].
    pub allocator: usize,
    /// Runs that gave numbers.
    pub measured: u32,
    /// Runs that failed.
    pub failed: u32,
    /// By the name of the measure.
    pub measures: BTreeMap<String, MeasureSummary>,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// Another allocator was shown to be better.
    Switch,
    /// None was shown to be better, and none can be much better.
    Stay,
    /// Nothing can be said with the runs made.
    NotEnoughEvidence,
}

/// What to do, by one way of weighing speed and memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// What to do.
    pub choice: Choice,
    /// Index of the allocator to use; `None` without evidence.
    pub allocator: Option<usize>,
    /// Indices of others that cannot be told from it.
    pub alike: Vec<usize>,
    /// The cost of the best candidate relative to the reference, all cases together.
    pub cost: Option<Interval>,
    /// About how many rounds might decide it, where these do not.
    pub rounds_needed: Option<u32>,
}

/// The recommendation at the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recommendation {
    /// Speed and memory weighed as asked for.
    pub weighed: Advice,
    /// If only speed mattered.
    pub for_speed: Advice,
    /// If only memory mattered.
    pub for_memory: Advice,
}

/// What all runs amount to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompareSummary {
    /// Index of the allocator that the others are compared with.
    pub reference: usize,
    /// Rounds that were made.
    pub rounds: u32,
    /// The confidence level of a finding, looks on the way included.
    pub level: f64,
    /// One for each case and allocator, in that order.
    pub cells: Vec<CompareCell>,
    /// What to do; `None` where only one allocator gave numbers.
    pub recommendation: Option<Recommendation>,
}

/// What `freehold compare --json` writes. Trials are in the order in which they were made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompareDocument {
    /// Whether the comparison ended by itself.
    pub complete: bool,
    /// Where the numbers come from.
    pub provenance: Provenance,
    /// The allocators.
    pub allocators: Vec<Allocator>,
    /// What was to be run.
    pub plan: ComparePlan,
    /// What the runs amount to.
    pub summary: CompareSummary,
    /// What a reader has to know before trusting a number, in sentences.
    pub warnings: Vec<String>,
    /// System calls, where they were to be counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub system_calls: Vec<CountedCalls>,
    /// Every run.
    pub trials: Vec<Trial>,
}

impl Document for CompareDocument {
    const KIND: &'static str = "compare";
}

impl Measured for CompareDocument {
    fn series(&self) -> Vec<Series> {
        trial_series(&self.plan, &self.allocators, &self.trials)
    }
}

/// The series of some trials.
pub fn trial_series(plan: &ComparePlan, allocators: &[Allocator], trials: &[Trial]) -> Vec<Series> {
    let runs = trials.iter().filter_map(|trial| match &trial.outcome {
        TrialOutcome::Measured(run) => Some((trial.case, trial.allocator, trial.round?, &**run)),
        TrialOutcome::Failed(_) => None,
    });
    series_of(runs, allocators, |case| plan.case_name(case), TrialRun::value)
}
