//! From what was measured to what to do. Speed and memory are brought to one number for each
//! round: time, times memory to the power of its weight, relative to the reference. So the
//! recommendation has an interval like any other ratio, and is not a reading of two of them.

use std::collections::BTreeMap;

use freehold_model::{Advice, Choice, Interval, Recommendation, Trial, TrialOutcome};

use super::summary::{Table, by_round, margin};
use crate::statistics::{fewest_pairs, paired_ratio, rounds_needed};

/// A gain below this share is not worth changing anything for.
const WORTH_A_SWITCH: f64 = 0.01;

/// How much each measure weighs.
#[derive(Debug, Clone, Copy)]
struct Weights {
    speed: f64,
    memory: f64,
}

/// What to do by three ways of weighing; `None` where there is nothing to choose from.
pub(super) fn recommend(table: &Table, trials: &[Trial]) -> Option<Recommendation> {
    let has_failed = |allocator: &usize| {
        let own = trials.iter().filter(|trial| trial.allocator == *allocator);
        own.into_iter().any(|trial| matches!(trial.outcome, TrialOutcome::Failed(_)))
    };
    let candidates: Vec<usize> =
        (0..table.allocators.len()).filter(|allocator| !has_failed(allocator)).collect();
    if candidates.len() < 2 || !candidates.contains(&table.reference) {
        return None;
    }
    let advise = |speed, memory| advise(table, &candidates, Weights { speed, memory });
    Some(Recommendation {
        weighed: advise(1.0, table.plan.memory_weight)?,
        for_speed: advise(1.0, 0.0)?,
        for_memory: advise(0.0, 1.0)?,
    })
}

/// A candidate beside the reference.
struct Candidate {
    allocator: usize,
    cost: Interval,
    rounds: usize,
}

fn advise(table: &Table, candidates: &[usize], weights: Weights) -> Option<Advice> {
    let others = candidates.iter().filter(|&&allocator| allocator != table.reference);
    let mut others: Vec<Candidate> =
        others.filter_map(|&allocator| candidate(table, allocator, weights)).collect();
    others.sort_by(|a, b| a.cost.estimate.total_cmp(&b.cost.estimate));
    let best = others.first()?;
    let cost = Some(table.as_claimed(best.cost));
    let nothing = Advice {
        choice: Choice::Stay,
        allocator: Some(table.reference),
        alike: Vec::new(),
        cost,
        rounds_needed: None,
    };
    let is_sure = |own: &&Candidate| own.cost.level >= table.level;
    let is_better = |own: &&Candidate| is_sure(own) && own.cost.high < 1.0 / (1.0 + WORTH_A_SWITCH);
    if let Some(chosen) = others.iter().find(is_better) {
        return Some(Advice {
            choice: Choice::Switch,
            allocator: Some(chosen.allocator),
            alike: alike(table, &others, chosen.allocator, weights),
            cost: Some(table.as_claimed(chosen.cost)),
            ..nothing
        });
    }
    let gain = 1.0 + margin(table.plan);
    let is_open = |own: &&Candidate| !is_sure(own) || own.cost.low < 1.0 / gain;
    let open: Vec<&Candidate> = others.iter().filter(is_open).collect();
    if open.is_empty() {
        return Some(nothing);
    }
    let needed = open.iter().map(|own| rounds_to_decide(own, gain, table.level)).max();
    Some(Advice {
        choice: Choice::NotEnoughEvidence,
        allocator: None,
        rounds_needed: needed.map(|rounds| u32::try_from(rounds).unwrap_or(u32::MAX)),
        ..nothing
    })
}

fn candidate(table: &Table, allocator: usize, weights: Weights) -> Option<Candidate> {
    let costs = costs(table, allocator, table.reference, weights);
    let cost = paired_ratio(&costs, table.level)?;
    Some(Candidate { allocator, cost, rounds: costs.len() })
}

/// Those that cannot be told from the chosen one. The reference is never one of them: it was shown
/// to be worse.
fn alike(table: &Table, others: &[Candidate], chosen: usize, weights: Weights) -> Vec<usize> {
    let is_alike = |own: &&Candidate| {
        let beside = paired_ratio(&costs(table, own.allocator, chosen, weights), table.level);
        own.allocator != chosen && beside.is_some_and(|beside| beside.leaves_open())
    };
    others.iter().filter(is_alike).map(|own| own.allocator).collect()
}

/// The cost of one allocator relative to another in each round in which both ran all cases: the
/// geometric mean over the cases.
fn costs(table: &Table, allocator: usize, other: usize, weights: Weights) -> Vec<f64> {
    let cases = table.plan.cases.len();
    let mut logs: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for case in 0..cases {
        let ratios = |measure| {
            let (own, other) =
                (table.series(case, allocator, measure), table.series(case, other, measure));
            own.zip(other).map(|(own, other)| by_round(own, other)).unwrap_or_default()
        };
        let memory = ratios("rss.peak");
        for (round, time) in ratios("wall") {
            if let Some(memory) = memory.get(&round) {
                let log = weights.speed * time.ln() + weights.memory * memory.ln();
                logs.entry(round).or_default().push(log);
            }
        }
    }
    let complete = logs.into_values().filter(|logs| logs.len() == cases);
    complete.map(|logs| (logs.iter().sum::<f64>() / cases as f64).exp()).collect()
}

/// About how many rounds would either show a candidate to be better, or that it cannot be better
/// by as much as would matter: whichever its estimate is further away from.
fn rounds_to_decide(candidate: &Candidate, gain: f64, level: f64) -> usize {
    let log = candidate.cost.estimate.ln();
    let precision = (-log).max(log + gain.ln()).exp_m1();
    let needed = rounds_needed(&candidate.cost, candidate.rounds, precision);
    needed.max(fewest_pairs(level)).max(candidate.rounds + 1)
}
