//! Reasons to doubt a comparison, found in its own runs and its provenance. It finds facts; what
//! to advise is said elsewhere.

use std::collections::BTreeMap;

use freehold_model::{CompareDocument, Measured, Series, Trial, TrialOutcome, TrialRun};

use super::looks;
use super::summary::HEADLINES;
use crate::statistics::{
    Drift, TwoGroups, drift, fewest_pairs, geometric_mean, median, two_groups,
};
use crate::surroundings::{Surroundings, surroundings};

/// Runs shorter than this are mostly starting and ending.
const SHORT_SECONDS: f64 = 0.02;

/// A first round slower than every other by this share was a cold start.
const COLD: f64 = 0.02;

/// The fewest rounds in which the first can be told from the others.
const FEWEST_FOR_COLD: usize = 4;

/// A reason to doubt.
#[derive(Debug, Clone, PartialEq)]
pub enum Doubt {
    /// Something about the machine.
    Surroundings(Surroundings),
    /// Nothing can be claimed from so few rounds.
    TooFewRounds {
        /// Rounds that were made.
        made: usize,
        /// Rounds from which something can be claimed.
        needed: usize,
    },
    /// Runs grew slower or faster in the course of time.
    Drift {
        /// Index of the case.
        case: usize,
        /// What was seen.
        drift: Drift,
    },
    /// Runs fall into two groups.
    TwoGroups {
        /// Index of the case.
        case: usize,
        /// The allocator.
        allocator: String,
        /// The name of the measure.
        measure: &'static str,
        /// What was seen.
        groups: TwoGroups,
    },
    /// The first round was slower than all others.
    ColdStart {
        /// Index of the case.
        case: usize,
        /// By what share it was slower than the middle of the others.
        share: f64,
    },
    /// Runs are so short that they are mostly starting and ending.
    Short {
        /// The median length of the shortest.
        seconds: f64,
    },
    /// The command left processes behind.
    LeftBehind {
        /// The most that it left.
        processes: u32,
    },
}

/// Looks for reasons to doubt.
pub fn doubts(document: &CompareDocument) -> Vec<Doubt> {
    let series = document.series();
    let plan = &document.plan;
    let machine = surroundings(&document.provenance);
    let mut doubts: Vec<Doubt> = machine.into_iter().map(Doubt::Surroundings).collect();
    let (made, level) = (document.summary.rounds as usize, looks(plan).level());
    let needed = fewest_pairs(level);
    if (1..needed).contains(&made) && document.allocators.len() > 1 {
        doubts.push(Doubt::TooFewRounds { made, needed });
    }
    for case in 0..plan.cases.len() {
        let name = plan.case_name(case);
        let own: Vec<&Series> = series.iter().filter(|series| series.case == name).collect();
        let rounds = speeds(&own);
        doubts.extend(drift(&rounds).map(|drift| Doubt::Drift { case, drift }));
        doubts.extend(cold_start(&rounds).map(|share| Doubt::ColdStart { case, share }));
        doubts.extend(groups(&own, case));
    }
    doubts.extend(shortest(&series).map(|seconds| Doubt::Short { seconds }));
    let left = document.trials.iter().filter_map(run).map(|run| run.left_behind).max();
    if let Some(processes) = left.filter(|&left| left > 0) {
        doubts.push(Doubt::LeftBehind { processes });
    }
    doubts
}

fn run(trial: &Trial) -> Option<&TrialRun> {
    match &trial.outcome {
        TrialOutcome::Measured(run) => Some(run),
        TrialOutcome::Failed(_) => None,
    }
}

/// How slow each round was, all allocators together, each relative to its own median: so that one
/// that failed in the middle leaves no step.
fn speeds(case: &[&Series]) -> Vec<f64> {
    let mut rounds: BTreeMap<u32, Vec<Vec<f64>>> = BTreeMap::new();
    for series in case.iter().filter(|series| series.measure.name == "wall") {
        let Some(median) = median(&series.numbers()) else { continue };
        for &(round, value) in &series.values {
            rounds.entry(round).or_default().push(vec![value / median]);
        }
    }
    rounds.values().filter_map(|ratios| Some(geometric_mean(ratios)?.estimate)).collect()
}

/// By what share the first round was slower, where no other was as slow.
fn cold_start(rounds: &[f64]) -> Option<f64> {
    let (&first, others) = rounds.split_first()?;
    let slowest = others.iter().copied().max_by(f64::total_cmp)?;
    let is_cold = rounds.len() >= FEWEST_FOR_COLD && first > slowest * (1.0 + COLD);
    Some(first / median(others)? - 1.0).filter(|_| is_cold)
}

fn groups(series: &[&Series], case: usize) -> Vec<Doubt> {
    let headlines = series.iter().filter(|series| HEADLINES.contains(&series.measure.name));
    let found = headlines.filter_map(|series| {
        let groups = two_groups(&series.numbers())?;
        let (allocator, measure) = (series.allocator.clone(), series.measure.name);
        Some(Doubt::TwoGroups { case, allocator, measure, groups })
    });
    found.collect()
}

fn shortest(series: &[Series]) -> Option<f64> {
    let walls = series.iter().filter(|series| series.measure.name == "wall");
    let medians = walls.filter_map(|series| median(&series.numbers()));
    medians.min_by(f64::total_cmp).filter(|&seconds| seconds < SHORT_SECONDS)
}
