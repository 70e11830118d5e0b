//! The middle of repeated measurements, and how far it can be trusted.

use freehold_model::{Interval, Spread};

use super::bootstrap::Bootstrap;

/// The median; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        len if len % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// The median and the extremes; `None` of nothing.
pub fn spread(values: &[f64]) -> Option<Spread> {
    let sorted = sorted(values);
    Some(Spread { median: median(values)?, min: *sorted.first()?, max: *sorted.last()? })
}

/// The median with its bootstrap interval, which is never narrower than the one between two of
/// the values that holds the median whatever the distribution. Where the extremes are not enough
/// for `level`, they are the interval, and their own level is stated.
pub fn median_interval(values: &[f64], level: f64) -> Option<Interval> {
    let sorted = sorted(values);
    let estimate = median(&sorted)?;
    let (low, high) = (sorted[0], sorted[sorted.len() - 1]);
    let Some(rank) = order_statistic(sorted.len(), (1.0 - level) / 2.0) else {
        return Some(Interval { estimate, low, high, level: extremes_level(sorted.len()) });
    };
    let (from, to) = Bootstrap::new().interval(level, |random| {
        let drawn: Vec<f64> = sorted.iter().map(|_| sorted[random.below(sorted.len())]).collect();
        median(&drawn).unwrap_or(estimate)
    });
    let (low, high) = (sorted[rank], sorted[sorted.len() - 1 - rank]);
    Some(Interval { estimate, low: low.min(from), high: high.max(to), level })
}

/// How often the true median lies between the least and the greatest of `count` values.
pub(super) fn extremes_level(count: usize) -> f64 {
    (1.0 - 2.0 * 0.5_f64.powi(count as i32)).max(0.0)
}

/// The greatest index such that the true median lies below the value there with at most this
/// chance.
fn order_statistic(count: usize, chance: f64) -> Option<usize> {
    let mut term = 0.5_f64.powi(count as i32);
    let mut below = term;
    let mut found = None;
    for index in 0..count / 2 {
        if below > chance {
            break;
        }
        found = Some(index);
        term *= (count - index) as f64 / (index + 1) as f64;
        below += term;
    }
    found
}

pub(super) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_even_and_no_values() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn the_values_that_hold_a_median_are_those_of_the_binomial_table() {
        // Of 10 values the second and ninth hold it at 97.9 %, the first and last at 99.8 %.
        assert_eq!(order_statistic(10, 0.025), Some(1));
        assert_eq!(order_statistic(10, 0.005), Some(0));
        assert_eq!(order_statistic(4, 0.025), None);
    }

    #[test]
    fn few_values_state_the_level_of_their_extremes() {
        let interval = median_interval(&[1.0, 2.0, 4.0], 0.95).expect("three values");
        assert_eq!((interval.low, interval.estimate, interval.high), (1.0, 2.0, 4.0));
        assert!((interval.level - 0.75).abs() < 1e-12);
    }
}
