//! What the runs of a grid amount to. Pure functions of the runs; it must not know how they were
//! made or how the result is shown.

use std::collections::{BTreeMap, HashMap};

use freehold_model::{
    Better, GridCell, GridOverall, GridPlan, GridRun, GridSummary, HarnessRun, Interval, MEASURES,
    Standing,
};

use super::looks;
use crate::statistics::{geometric_mean, paired_ratio, spread};

/// Summarises runs. `allocators` is their number, `reference` the one that others are compared
/// with.
pub fn summarise(
    plan: &GridPlan,
    allocators: usize,
    reference: usize,
    runs: &[GridRun],
) -> GridSummary {
    let table = Table::of(plan, reference, runs);
    let mut cells = Vec::with_capacity(plan.cases.len() * allocators);
    for case in 0..plan.cases.len() {
        let first = cells.len();
        cells.extend((0..allocators).map(|allocator| table.cell(case, allocator)));
        table.rank(&mut cells[first..]);
    }
    GridSummary { reference, cells, overall: table.overall(allocators) }
}

/// The runs that gave numbers by case, allocator and round, and the number of those that did not.
struct Table<'a> {
    plan: &'a GridPlan,
    reference: usize,
    level: f64,
    measured: HashMap<(usize, usize), BTreeMap<u32, &'a HarnessRun>>,
    failed: HashMap<(usize, usize), u32>,
}

/// A number of a run that a ratio is formed of.
type Value = fn(&HarnessRun) -> Option<f64>;

impl<'a> Table<'a> {
    fn of(plan: &'a GridPlan, reference: usize, runs: &'a [GridRun]) -> Self {
        let (mut measured, mut failed) = (HashMap::new(), HashMap::new());
        for run in runs {
            let cell = (run.case, run.allocator);
            match run.measured() {
                Some(numbers) => {
                    let cell: &mut BTreeMap<_, _> = measured.entry(cell).or_default();
                    cell.insert(run.round, numbers);
                }
                None => *failed.entry(cell).or_default() += 1,
            }
        }
        Self { plan, reference, level: looks(plan).level(), measured, failed }
    }

    fn runs(&self, case: usize, allocator: usize) -> impl Iterator<Item = (u32, &'a HarnessRun)> {
        let own = self.measured.get(&(case, allocator));
        own.into_iter().flatten().map(|(round, run)| (*round, *run))
    }

    fn cell(&self, case: usize, allocator: usize) -> GridCell {
        let all = |value: &dyn Fn(&HarnessRun) -> Option<f64>| -> Vec<f64> {
            self.runs(case, allocator).filter_map(|(_, run)| value(run)).collect()
        };
        let measures = MEASURES.iter().filter_map(|measure| {
            let values = all(&|run| run.value(measure.name));
            Some((measure.name.to_owned(), spread(&values)?))
        });
        let ratio = |value| paired_ratio(&self.ratios(case, allocator, value), self.level);
        let is_other = allocator != self.reference;
        GridCell {
            case,
            allocator,
            measured: self.runs(case, allocator).count() as u32,
            failed: self.failed.get(&(case, allocator)).copied().unwrap_or_default(),
            metric: spread(&all(&|run| Some(run.metric.value))),
            standing: None,
            gain: ratio(gain).filter(|_| is_other),
            peak_ratio: ratio(peak).filter(|_| is_other),
            measures: measures.collect(),
        }
    }

    fn ratios(&self, case: usize, allocator: usize, value: Value) -> Vec<f64> {
        self.ratios_to(case, allocator, self.reference, value)
    }

    /// A number of one allocator relative to another's in each round that has both.
    fn ratios_to(&self, case: usize, allocator: usize, other: usize, value: Value) -> Vec<f64> {
        let others = self.measured.get(&(case, other));
        let ratio = |(round, run)| {
            let other = value(others?.get(&round)?).filter(|other| *other > 0.0)?;
            value(run).filter(|own| *own > 0.0).map(|own| own / other)
        };
        self.runs(case, allocator).filter_map(ratio).collect()
    }

    /// Marks the best of a case and those that cannot be told from it.
    fn rank(&self, cells: &mut [GridCell]) {
        let goodness = |cell: &GridCell| {
            let better = self.runs(cell.case, cell.allocator).next()?.1.metric.better;
            cell.metric.map(|spread| oriented(better, spread.median))
        };
        let known = cells.iter().filter_map(|cell| Some((goodness(cell)?, cell.allocator)));
        let Some((_, best)) = known.max_by(|a, b| a.0.total_cmp(&b.0)) else { return };
        for cell in cells.iter_mut().filter(|cell| cell.metric.is_some()) {
            let to_best = self.ratios_to(cell.case, cell.allocator, best, gain);
            let to_best = paired_ratio(&to_best, self.level);
            cell.standing = Some(if cell.allocator == best {
                Standing::Best
            } else if to_best.is_some_and(|ratio| ratio.shows_difference(self.level)) {
                Standing::Behind
            } else {
                Standing::Tied
            });
        }
    }

    /// Every allocator but the reference over the cases of each harness, and over all.
    fn overall(&self, allocators: usize) -> Vec<GridOverall> {
        let mut harnesses: Vec<Option<&str>> = Vec::new();
        for case in &self.plan.cases {
            let harness = Some(case.harness.as_str());
            if !harnesses.contains(&harness) {
                harnesses.push(harness);
            }
        }
        if harnesses.len() > 1 {
            harnesses.push(None);
        }
        let others = (0..allocators).filter(|&allocator| allocator != self.reference);
        let overall = harnesses.into_iter().flat_map(|harness| {
            others.clone().map(move |allocator| GridOverall {
                harness: harness.map(str::to_owned),
                allocator,
                speed: self.mean(harness, allocator, speed_gain),
                peak: self.mean(harness, allocator, peak),
                settled: self.mean(harness, allocator, settled),
            })
        });
        let is_known = |own: &GridOverall| own.speed.is_some() || own.peak.is_some();
        overall.filter(is_known).collect()
    }

    fn mean(
        &self,
        harness: Option<&str>,
        allocator: usize,
        value: Value,
    ) -> Option<(u32, Interval)> {
        let is_asked =
            |case: &usize| harness.is_none_or(|harness| self.plan.cases[*case].harness == harness);
        let cases = (0..self.plan.cases.len()).filter(is_asked);
        let ratios: Vec<_> = cases
            .map(|case| self.ratios(case, allocator, value))
            .filter(|ratios| !ratios.is_empty())
            .collect();
        Some((ratios.len() as u32, geometric_mean(&ratios)?))
    }
}

/// A value of a metric, turned so that more of it is better.
fn oriented(better: Better, value: f64) -> f64 {
    match better {
        Better::Higher => value,
        Better::Lower => 1.0 / value,
    }
}

fn gain(run: &HarnessRun) -> Option<f64> {
    let value = Some(run.metric.value).filter(|value| *value > 0.0);
    value.map(|value| oriented(run.metric.better, value))
}

/// The same where it tells how fast something is, which alone can be averaged over harnesses.
fn speed_gain(run: &HarnessRun) -> Option<f64> {
    gain(run).filter(|_| run.metric.is_speed())
}

fn peak(run: &HarnessRun) -> Option<f64> {
    run.value("rss.peak")
}

fn settled(run: &HarnessRun) -> Option<f64> {
    run.value("rss.settled")
}

#[cfg(test)]
pub(super) mod tests {
    use freehold_model::{Failure, FailureKind, GridCase, GridOutcome, Params};

    use super::*;
    use crate::fixtures::harness_run;

    pub(in super::super) fn case(harness: &str, threads: u64) -> GridCase {
        GridCase { harness: harness.to_owned(), threads, size: None, params: Params::new() }
    }

    /// Runs of a case: one list of values for each allocator.
    pub(in super::super) fn runs(
        case: usize,
        (better, unit): (Better, &str),
        values: &[&[f64]],
    ) -> Vec<GridRun> {
        let mut runs = Vec::new();
        for (allocator, values) in values.iter().enumerate() {
            for (round, &value) in (0..).zip(values.iter()) {
                let outcome = GridOutcome::Measured(Box::new(harness_run(better, unit, value)));
                runs.push(GridRun { part: 0, case, allocator, round, seconds: 1.0, outcome });
            }
        }
        runs
    }

    const TIME: (Better, &str) = (Better::Lower, "seconds");
    const RATE: (Better, &str) = (Better::Higher, "operations/s");
    const BLOW_UP: (Better, &str) = (Better::Lower, "resident/requested");

    fn plan(cases: Vec<GridCase>) -> GridPlan {
        GridPlan { cases, rounds: 3, ..GridPlan::default() }
    }

    #[test]
    fn the_best_is_the_shortest_time_and_the_highest_rate() {
        let plan = plan(vec![case("x", 1), case("y", 1)]);
        let (one, other) = ([1.0, 1.1, 1.2, 1.0, 1.1, 1.2, 1.0, 1.1], [2.0, 2.2, 2.4].repeat(3));
        let values: [&[f64]; 2] = [&one, &other[..one.len()]];
        let mut all = runs(0, TIME, &values);
        all.extend(runs(1, RATE, &values));
        let summary = summarise(&plan, 2, 0, &all);
        let standings = |summary: &GridSummary| -> Vec<_> {
            summary.cells.iter().filter_map(|cell| cell.standing).collect()
        };
        let (best, behind) = (Standing::Best, Standing::Behind);
        assert_eq!(standings(&summary), [best, behind, behind, best]);
        // The median of both is as it was, but seven rounds show nothing at 99 %.
        all.retain(|run| run.round < 7);
        let few = summarise(&plan, 2, 0, &all);
        assert_eq!(standings(&few), [best, Standing::Tied, Standing::Tied, best]);
        let gain = |cell: usize| summary.cells[cell].gain.expect("three rounds").estimate;
        assert!((gain(1) - 0.5).abs() < 1e-9 && (gain(3) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_no_speed_has_no_part_in_the_mean_of_speeds() {
        let plan = plan(vec![case("x", 1), case("y", 1)]);
        let mut all = runs(0, TIME, &[&[1.0; 3], &[2.0; 3]]);
        all.extend(runs(1, BLOW_UP, &[&[1.0; 3], &[9.0; 3]]));
        let summary = summarise(&plan, 2, 0, &all);
        let over_all = summary.overall.iter().find(|own| own.harness.is_none());
        let (cases, speed) = over_all.and_then(|own| own.speed).expect("one harness");
        assert_eq!(cases, 1);
        assert!((speed.estimate - 0.5).abs() < 1e-9);
        let (cases, peak) = over_all.and_then(|own| own.peak).expect("two harnesses");
        assert_eq!(cases, 2);
        assert!((peak.estimate - 1.0).abs() < 1e-9);
    }

    #[test]
    fn rounds_of_different_machines_pair_by_their_numbers() {
        let plan = plan(vec![case("x", 1)]);
        let mut all = runs(0, TIME, &[&[1.0, 1.0, 10.0, 10.0], &[2.0, 2.0, 20.0, 20.0]]);
        all.reverse();
        let cell = &summarise(&plan, 2, 0, &all).cells[1];
        let gain = cell.gain.expect("four rounds");
        assert!((gain.low - 0.5).abs() < 1e-9 && (gain.high - 0.5).abs() < 1e-9);
        assert_eq!(cell.median("faults.minor"), Some(7.0));
        assert_eq!(cell.median("rss.settled"), Some(1000.0));
    }

    #[test]
    fn a_cell_whose_runs_failed_has_no_number_and_no_standing() {
        let plan = plan(vec![case("x", 1)]);
        let mut all = runs(0, TIME, &[&[1.0], &[]]);
        let failure = Failure { kind: FailureKind::Crashed, detail: String::new() };
        let outcome = GridOutcome::Failed(failure);
        all.push(GridRun { part: 0, case: 0, allocator: 1, round: 0, seconds: 1.0, outcome });
        let summary = summarise(&plan, 2, 0, &all);
        let cell = &summary.cells[1];
        assert_eq!((cell.measured, cell.failed), (0, 1));
        assert_eq!((cell.metric, cell.standing, cell.gain), (None, None, None));
        assert!(summary.overall.is_empty());
    }
}
