//! Ratios of runs that were made at different times, as two stored results are.

use freehold_model::Interval;

use super::median::sorted;
use super::rank::{MANY, rank_sum};

/// The fewest runs of each side from which anything can be claimed at this level.
pub fn fewest_each(level: f64) -> usize {
    let is_enough = |count: &usize| rank_sum(*count, *count, (1.0 - level) / 2.0).is_some();
    (1..MANY).find(is_enough).unwrap_or(MANY)
}

/// The typical ratio of `after` to `before`, with the interval of the rank-sum statistic. It holds
/// for any shape of noise, as long as runs are independent of each other and of when they were
/// made: what was different between two days it takes for the difference. With too few runs the
/// interval reaches from the least to the greatest ratio, at no stated level.
pub fn unpaired_ratio(before: &[f64], after: &[f64], level: f64) -> Option<Interval> {
    let ratios: Vec<f64> =
        after.iter().flat_map(|after| before.iter().map(move |before| after / before)).collect();
    let ratios = sorted(&ratios);
    let last = ratios.len().checked_sub(1)?;
    let estimate = (ratios[last / 2] * ratios[ratios.len() / 2]).sqrt();
    Some(match rank_sum(before.len(), after.len(), (1.0 - level) / 2.0) {
        Some(left_out) => {
            Interval { estimate, low: ratios[left_out], high: ratios[last - left_out], level }
        }
        None => Interval { estimate, low: ratios[0], high: ratios[last], level: 0.0 },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separate_groups_are_told_apart_and_overlapping_ones_are_not() {
        let before = [1.00, 1.01, 0.99, 1.02, 0.98];
        let slower = before.map(|value| value * 1.2);
        let shown = unpaired_ratio(&before, &slower, 0.99).expect("five of each");
        assert!(shown.low > 1.0 && (shown.estimate - 1.2).abs() < 1e-9, "{shown:?}");
        let same = unpaired_ratio(&before, &before, 0.99).expect("five of each");
        assert!(same.leaves_open());
    }

    #[test]
    fn too_few_runs_state_no_level() {
        assert_eq!(fewest_each(0.99), 5);
        let few = unpaired_ratio(&[1.0], &[2.0], 0.99).expect("one of each");
        assert!(few.level.abs() < 1e-12 && (few.estimate - 2.0).abs() < 1e-12);
        assert_eq!(unpaired_ratio(&[], &[2.0], 0.99), None);
    }
}
