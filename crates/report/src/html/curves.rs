//! Which curves are drawn of results over threads and sizes. It must not know which harness they
//! are from.

use super::chart::{Across, Chart, Curve};
use crate::numbers::grouped;

/// Points of a curve over time: more cannot be seen.
const MOST_POINTS: usize = 200;

/// One number: of an allocator, with so many threads and such a size.
#[derive(Debug, Clone, Copy)]
pub(super) struct Number {
    pub(super) threads: u64,
    pub(super) size: Option<u64>,
    pub(super) allocator: usize,
    pub(super) value: f64,
}

/// What the numbers are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Meaning<'a> {
    /// What comes first in each title.
    pub(super) subject: &'a str,
    /// What the numbers are, with their unit.
    pub(super) label: &'a str,
    /// What is called a thread here.
    pub(super) threads: &'a str,
    /// The names of the allocators.
    pub(super) allocators: &'a [String],
}

/// The numbers against threads for each size, and against sizes for each number of threads, where
/// there are several.
pub(super) fn charts(numbers: &[Number], meaning: Meaning) -> Vec<Chart> {
    let threads = distinct(numbers.iter().map(|number| number.threads));
    let sizes = distinct(numbers.iter().filter_map(|number| number.size));
    let mut charts = Vec::new();
    if threads.len() > 1 {
        let each: Vec<Option<u64>> =
            if sizes.is_empty() { vec![None] } else { sizes.iter().copied().map(Some).collect() };
        for size in each {
            let own: Vec<_> = numbers.iter().filter(|number| number.size == size).collect();
            let with = size.map(|size| format!(", size {}", grouped(size))).unwrap_or_default();
            let across = (meaning.threads, &threads[..]);
            charts.extend(chart(&own, across, |own| Some(own.threads), &with, meaning));
        }
    }
    if sizes.len() > 1 {
        for &count in &threads {
            let own: Vec<_> = numbers.iter().filter(|number| number.threads == count).collect();
            let with = format!(", {}: {count}", meaning.threads);
            charts.extend(chart(&own, ("size", &sizes), |own| own.size, &with, meaning));
        }
    }
    charts
}

fn chart(
    numbers: &[&Number],
    (across_label, places): (&str, &[u64]),
    place: fn(&Number) -> Option<u64>,
    with: &str,
    meaning: Meaning,
) -> Option<Chart> {
    let curve = |(look, name): (usize, &String)| {
        let own = numbers.iter().filter(|number| number.allocator == look);
        let mut points: Vec<(f64, f64)> = own
            .filter_map(|number| {
                let at = places.iter().position(|own| Some(*own) == place(number))?;
                Some((at as f64, number.value))
            })
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        (!points.is_empty()).then(|| Curve { name: name.clone(), look, points })
    };
    let curves: Vec<Curve> = meaning.allocators.iter().enumerate().filter_map(curve).collect();
    (!curves.is_empty()).then(|| Chart {
        title: format!("{}{with}", meaning.subject),
        across: Across::Places(places.iter().copied().map(grouped).collect()),
        across_label: across_label.to_owned(),
        up_label: meaning.label.to_owned(),
        curves,
    })
}

/// Values over time, one list for each allocator.
pub(super) fn timeline(title: &str, label: &str, all: Vec<Curve>) -> Option<Chart> {
    let curves: Vec<Curve> =
        all.into_iter().filter(|curve| curve.points.len() > 1).map(thinned).collect();
    (!curves.is_empty()).then(|| Chart {
        title: title.to_owned(),
        across: Across::Numbers,
        across_label: "seconds".to_owned(),
        up_label: label.to_owned(),
        curves,
    })
}

fn thinned(curve: Curve) -> Curve {
    let step = curve.points.len().div_ceil(MOST_POINTS).max(1);
    Curve { points: curve.points.into_iter().step_by(step).collect(), ..curve }
}

fn distinct(values: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values.dedup();
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_chart_for_each_size_and_each_number_of_threads() {
        let numbers: Vec<Number> = [(1, 8), (1, 64), (4, 8), (4, 64), (16, 8), (16, 64)]
            .into_iter()
            .map(|(threads, size)| Number { threads, size: Some(size), allocator: 0, value: 1.0 })
            .collect();
        let allocators = ["a".to_owned(), "b".to_owned()];
        let meaning =
            Meaning { subject: "x", label: "s", threads: "threads", allocators: &allocators };
        let titles: Vec<_> =
            charts(&numbers, meaning).into_iter().map(|chart| chart.title).collect();
        assert_eq!(titles[..2], ["x, size 8", "x, size 64"]);
        assert_eq!(titles[2..], ["x, threads: 1", "x, threads: 4", "x, threads: 16"]);
        assert!(charts(&numbers[..1], meaning).is_empty());
    }

    #[test]
    fn a_long_timeline_is_thinned_out() {
        let points = (0..10_000).map(|x| (f64::from(x), 1.0)).collect();
        let curve = Curve { name: "a".to_owned(), look: 0, points };
        let chart = timeline("t", "MiB", vec![curve]).expect("a curve");
        assert!((100..=MOST_POINTS).contains(&chart.curves[0].points.len()));
        assert!(timeline("t", "MiB", Vec::new()).is_none());
    }
}
