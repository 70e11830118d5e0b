//! What the runs of a comparison amount to. Pure functions of the runs; it must not know how they
//! were made or how the result is shown.

use std::collections::BTreeMap;

use freehold_model::{
    Allocator, CompareCell, ComparePlan, CompareSummary, Finding, Interval, Kind, MeasureSummary,
    Series, Trial, TrialOutcome, trial_series,
};

use super::looks;
use super::recommend::recommend;
use crate::statistics::{CLAIM_LEVEL, LEVEL, detectable, judge, median_interval, paired_ratio};

/// The measures that a recommendation rests on, of which alone a difference is claimed: a claim
/// about everything that can be counted would be wrong too often.
pub const HEADLINES: [&str; 2] = ["wall", "rss.peak"];

/// Differences below this share are too small to matter where no precision was asked for.
const MARGIN: f64 = 0.05;

/// The differences that are too small to matter in this comparison.
pub(super) fn margin(plan: &ComparePlan) -> f64 {
    plan.until.unwrap_or(MARGIN)
}

/// Summarises the runs of a comparison.
pub fn summarise(
    plan: &ComparePlan,
    allocators: &[Allocator],
    reference: usize,
    trials: &[Trial],
) -> CompareSummary {
    let level = looks(plan).level();
    let all = trial_series(plan, allocators, trials);
    let table = Table { plan, allocators, reference, level, all: &all };
    let cases = 0..plan.cases.len();
    let cells = cases.flat_map(|case| {
        let table = &table;
        (0..allocators.len()).map(move |allocator| table.cell(case, allocator, trials))
    });
    let rounds = all.iter().flat_map(|series| series.values.iter().map(|(round, _)| round + 1));
    CompareSummary {
        reference,
        rounds: rounds.max().unwrap_or_default(),
        level: CLAIM_LEVEL,
        cells: cells.collect(),
        recommendation: recommend(&table, trials),
    }
}

/// All series, by case and allocator.
pub(super) struct Table<'a> {
    pub(super) plan: &'a ComparePlan,
    pub(super) allocators: &'a [Allocator],
    pub(super) reference: usize,
    /// The confidence level of one look.
    pub(super) level: f64,
    all: &'a [Series],
}

impl Table<'_> {
    fn cell(&self, case: usize, allocator: usize, trials: &[Trial]) -> CompareCell {
        let own = trials.iter().filter(|trial| (trial.case, trial.allocator) == (case, allocator));
        let (measured, failed): (Vec<_>, Vec<_>) =
            own.partition(|trial| matches!(trial.outcome, TrialOutcome::Measured(_)));
        let summaries = self.of(case, allocator).filter_map(|series| {
            let reference = self.series(case, self.reference, series.measure.name);
            let reference = reference.filter(|_| allocator != self.reference);
            Some((series.measure.name.to_owned(), self.summary(series, reference)?))
        });
        CompareCell {
            case,
            allocator,
            measured: measured.len() as u32,
            failed: failed.len() as u32,
            measures: summaries.collect(),
        }
    }

    fn summary(&self, series: &Series, reference: Option<&Series>) -> Option<MeasureSummary> {
        let ratio = reference.and_then(|other| paired_ratio(&ratios(series, other), self.level));
        let is_headline = HEADLINES.contains(&series.measure.name);
        Some(MeasureSummary {
            median: median_interval(&series.numbers(), LEVEL)?,
            ratio: ratio.map(|ratio| self.as_claimed(ratio)),
            detectable: ratio.as_ref().filter(|_| is_headline).map(detectable),
            finding: ratio
                .filter(|_| is_headline)
                .map(|ratio| self.judge(&ratio, series.measure.kind)),
        })
    }

    pub(super) fn judge(&self, ratio: &Interval, kind: Kind) -> Finding {
        judge(ratio, kind, self.level, margin(self.plan))
    }

    /// An interval with the level that it has when all looks are counted.
    pub(super) fn as_claimed(&self, ratio: Interval) -> Interval {
        let level = if ratio.level >= self.level { CLAIM_LEVEL } else { ratio.level };
        Interval { level, ..ratio }
    }

    fn of(&self, case: usize, allocator: usize) -> impl Iterator<Item = &Series> {
        let (case, name) = (self.plan.case_name(case), &self.allocators[allocator].name);
        self.all.iter().filter(move |own| own.case == case && own.allocator == *name)
    }

    pub(super) fn series(&self, case: usize, allocator: usize, measure: &str) -> Option<&Series> {
        self.of(case, allocator).find(|series| series.measure.name == measure)
    }
}

/// The ratios of one series to another in each round that has both.
pub(super) fn ratios(series: &Series, reference: &Series) -> Vec<f64> {
    by_round(series, reference).into_values().collect()
}

/// The same, by round.
pub(super) fn by_round(series: &Series, reference: &Series) -> BTreeMap<u32, f64> {
    let others: BTreeMap<u32, f64> = reference.values.iter().copied().collect();
    let pairs = series.values.iter().filter_map(|&(round, value)| {
        let other = *others.get(&round)?;
        (value > 0.0 && other > 0.0).then(|| (round, value / other))
    });
    pairs.collect()
}
