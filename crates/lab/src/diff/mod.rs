//! Two stored results beside each other. Pure functions; it must not know where they were stored.

mod discrepancy;
mod rule;

use freehold_model::{Change, Finding, Series};

use crate::statistics::{CLAIM_LEVEL, judge, spread, unpaired_ratio};

pub use discrepancy::{Discrepancy, discrepancies};
pub use rule::{Rule, RuleError, check};

/// Changes below this share are too small to matter.
const MARGIN: f64 = 0.05;

/// What changed, in the order of the later result, and which series only one of them has.
#[derive(Debug, Clone, PartialEq)]
pub struct Changes {
    /// What both have.
    pub changes: Vec<Change>,
    /// What both have with a number of 0 among the others, so that there are no ratios: allocators
    /// and measures.
    pub without_ratio: Vec<(String, &'static str)>,
    /// What the later one has no numbers of, as where its runs failed: allocators and measures.
    pub lost: Vec<(String, &'static str)>,
    /// What is missing from the later one.
    pub gone: Vec<String>,
    /// What is missing from the earlier one.
    pub new: Vec<String>,
}

/// Compares the series of two results, by case, allocator and measure.
pub fn changes(before: &[Series], after: &[Series]) -> Changes {
    let is_same = |one: &Series, other: &Series| {
        (&one.case, &one.allocator, one.measure) == (&other.case, &other.allocator, other.measure)
    };
    let pairs = after
        .iter()
        .filter_map(|after| Some((before.iter().find(|before| is_same(before, after))?, after)));
    let (mut changes, mut without_ratio) = (Vec::new(), Vec::new());
    for (before, after) in pairs {
        match change(before, after) {
            Some(change) => changes.push(change),
            None => without_ratio.push((after.allocator.clone(), after.measure.name)),
        }
    }
    let is_lost = |own: &&Series| !after.iter().any(|after| is_same(own, after));
    let lost = before.iter().filter(is_lost);
    let lost = lost.map(|own| (own.allocator.clone(), own.measure.name)).collect();
    let (gone, new) = (missing(before, after), missing(after, before));
    Changes { changes, without_ratio, lost, gone, new }
}

/// How one series changed. Only what is positive throughout has ratios.
fn change(before: &Series, after: &Series) -> Option<Change> {
    let (first, second) = (before.numbers(), after.numbers());
    if first.iter().chain(&second).any(|&number| number <= 0.0) {
        return None;
    }
    let ratio = unpaired_ratio(&first, &second, CLAIM_LEVEL)?;
    Some(Change {
        case: after.case.clone(),
        allocator: after.allocator.clone(),
        measure: after.measure.name.to_owned(),
        before: spread(&first)?,
        runs_before: first.len() as u32,
        after: spread(&second)?,
        runs_after: second.len() as u32,
        ratio,
        finding: judge(&ratio, after.measure.kind, CLAIM_LEVEL, MARGIN),
    })
}

/// The cases under allocators that are in `one` and not in the other, each once.
fn missing(one: &[Series], other: &[Series]) -> Vec<String> {
    let mut names = Vec::new();
    for series in one {
        let key = (&series.case, &series.allocator);
        let is_there = other.iter().any(|own| (&own.case, &own.allocator) == key);
        let name = subject(&series.case, &series.allocator);
        if !is_there && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// A case under an allocator, in words.
pub fn subject(case: &str, allocator: &str) -> String {
    if case.is_empty() { allocator.to_owned() } else { format!("{allocator}, {case}") }
}

/// Whether a change was shown, for better or worse.
fn is_shown(finding: Finding) -> bool {
    finding.is_better() || finding.is_worse()
}

#[cfg(test)]
mod tests {
    use freehold_model::Measure;

    use super::*;

    pub(super) fn series(allocator: &str, measure: &str, values: &[f64]) -> Series {
        let measure = Measure::named(measure).expect("a measure");
        let values = (0..).zip(values.iter().copied()).collect();
        Series { case: String::new(), allocator: allocator.to_owned(), measure, values }
    }

    pub(super) const TEN: [f64; 6] = [10.0, 10.1, 9.9, 10.05, 9.95, 10.02];

    #[test]
    fn series_are_matched_by_what_they_are_of() {
        let slower = TEN.map(|value| value * 1.1);
        let before = [series("a", "wall", &TEN), series("a", "rss.peak", &TEN)];
        let after = [series("a", "rss.peak", &TEN), series("a", "wall", &slower)];
        let found = changes(&before, &after).changes;
        let shown: Vec<_> = found.iter().map(|own| (own.measure.as_str(), own.finding)).collect();
        assert_eq!(shown, [("rss.peak", Finding::NoDifferenceShown), ("wall", Finding::Slower)]);
        assert!((found[1].ratio.estimate - 1.1).abs() < 1e-9);
    }

    #[test]
    fn what_only_one_of_them_has_is_named() {
        let before = [series("a", "wall", &TEN), series("b", "wall", &TEN)];
        let after = [series("a", "wall", &TEN), series("c", "wall", &TEN)];
        let found = changes(&before, &after);
        assert_eq!((found.gone, found.new), (vec!["b".to_owned()], vec!["c".to_owned()]));
    }

    #[test]
    fn counts_of_nothing_have_no_change() {
        let none = [series("a", "faults.major", &[0.0; 6])];
        let found = changes(&none, &none);
        assert_eq!(found.changes, []);
        assert_eq!(found.without_ratio, [("a".to_owned(), "faults.major")]);
    }

    #[test]
    fn too_few_runs_show_nothing() {
        let few = [series("a", "wall", &[1.0, 1.0])];
        let slower = [series("a", "wall", &[2.0, 2.0])];
        assert_eq!(changes(&few, &slower).changes[0].finding, Finding::NotEnoughEvidence);
    }
}
