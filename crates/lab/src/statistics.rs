//! Numbers about numbers: medians, spreads, and ratios with their confidence intervals. Pure
//! functions; they must not know what was measured.

use freehold_model::{Interval, Spread};

use crate::random::Random;

/// Resamples of a bootstrap: enough that the ends of an interval vary by far less than its width.
const RESAMPLES: usize = 2000;

/// The confidence level of a bootstrap interval.
const LEVEL: f64 = 0.95;

/// The fewest measurements for which the extremes are a wider statement than 95 %; with fewer,
/// the extremes are all that can be said.
const ENOUGH: usize = 6;

/// Fixed, so that the same runs always give the same interval.
const SEED: u64 = 0x5eed;

/// The median; `None` of nothing.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        len if len % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// The median and the extremes; `None` of nothing.
pub(crate) fn spread(values: &[f64]) -> Option<Spread> {
    let sorted = sorted(values);
    Some(Spread { median: median(values)?, min: *sorted.first()?, max: *sorted.last()? })
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// The median of paired ratios, with an interval.
///
/// With six ratios or more it is a bootstrap interval at 95 %. With fewer it reaches from the
/// least to the greatest, which holds the true median unless all lie on one side of it: a chance
/// of `1 - 2 / 2^n`, which is stated as the level.
pub(crate) fn paired_ratio(ratios: &[f64]) -> Option<Interval> {
    let estimate = median(ratios)?;
    if ratios.len() < ENOUGH {
        let Spread { min, max, .. } = spread(ratios)?;
        let level = 1.0 - 2.0 * 0.5_f64.powi(ratios.len() as i32);
        return Some(Interval { estimate, low: min, high: max, level: level.max(0.0) });
    }
    let mut random = Random::new(SEED);
    let resampled = (0..RESAMPLES).filter_map(|_| median(&resample(ratios, &mut random)));
    Some(interval(estimate, resampled.collect()))
}

/// The geometric mean of ratios over several cases, each with its repeated paired ratios. The
/// interval is a bootstrap that redraws the repetitions within each case: it covers the noise of
/// the measurement, and says nothing of cases that were not measured.
pub(crate) fn geometric_mean(cases: &[Vec<f64>]) -> Option<Interval> {
    let cases: Vec<&Vec<f64>> = cases.iter().filter(|ratios| !ratios.is_empty()).collect();
    let mean = |logs: &[f64]| (logs.iter().sum::<f64>() / logs.len() as f64).exp();
    let log_median = |ratios: &[f64]| median(ratios).map(f64::ln);
    let logs: Vec<f64> = cases.iter().filter_map(|ratios| log_median(ratios)).collect();
    if logs.is_empty() {
        return None;
    }
    let estimate = mean(&logs);
    if cases.iter().all(|ratios| ratios.len() < 2) {
        return Some(Interval { estimate, low: estimate, high: estimate, level: 0.0 });
    }
    let mut random = Random::new(SEED);
    let resampled = (0..RESAMPLES).map(|_| {
        let redrawn = cases.iter().filter_map(|ratios| log_median(&resample(ratios, &mut random)));
        mean(&redrawn.collect::<Vec<_>>())
    });
    Some(interval(estimate, resampled.collect()))
}

fn resample(values: &[f64], random: &mut Random) -> Vec<f64> {
    (0..values.len()).map(|_| values[random.below(values.len())]).collect()
}

/// The interval between the quantiles of resampled estimates.
fn interval(estimate: f64, mut resampled: Vec<f64>) -> Interval {
    resampled.sort_unstable_by(f64::total_cmp);
    let tail = (1.0 - LEVEL) / 2.0;
    let at = |quantile: f64| resampled[(quantile * (resampled.len() - 1) as f64).round() as usize];
    Interval { estimate, low: at(tail), high: at(1.0 - tail), level: LEVEL }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn medians_of_odd_even_and_no_values() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn few_ratios_give_their_extremes_and_an_honest_level() {
        let interval = paired_ratio(&[1.2, 0.9, 1.1]).expect("three ratios");
        assert!(close(interval.estimate, 1.1));
        assert!(close(interval.low, 0.9) && close(interval.high, 1.2));
        assert!(close(interval.level, 0.75));
        assert!(interval.leaves_open());
    }

    #[test]
    fn a_single_ratio_claims_nothing() {
        let interval = paired_ratio(&[1.5]).expect("one ratio");
        assert!(close(interval.level, 0.0));
        assert!(!interval.leaves_open());
    }

    #[test]
    fn many_ratios_give_a_bootstrap_interval_within_their_range() {
        let ratios: Vec<f64> = (0..30).map(|i| 1.0 + f64::from(i) / 100.0).collect();
        let interval = paired_ratio(&ratios).expect("thirty ratios");
        assert!(close(interval.level, 0.95));
        assert!(interval.low > 1.0 && interval.high < 1.29);
        assert!(interval.low < interval.estimate && interval.estimate < interval.high);
        assert_eq!(paired_ratio(&ratios), Some(interval));
    }

    #[test]
    fn a_geometric_mean_weighs_twice_and_half_alike() {
        let interval = geometric_mean(&[vec![2.0, 2.0], vec![0.5, 0.5]]).expect("two cases");
        assert!(close(interval.estimate, 1.0));
        assert!(close(interval.low, 1.0) && close(interval.high, 1.0));
        assert_eq!(geometric_mean(&[vec![], vec![]]), None);
    }

    #[test]
    fn noise_within_cases_widens_the_interval_of_the_mean() {
        let quiet = vec![vec![1.1, 1.1, 1.1]; 10];
        let noisy = vec![vec![0.7, 1.1, 1.6]; 10];
        let width = |cases| {
            let interval = geometric_mean(cases).expect("ten cases");
            interval.high - interval.low
        };
        assert!(width(&noisy) > width(&quiet) + 0.1);
    }
}
