//! Ratios over several cases, brought to one number.

use freehold_model::Interval;

use super::LEVEL;
use super::bootstrap::Bootstrap;
use super::median::{extremes_level, median};
use crate::random::Random;

/// The geometric mean of ratios over several cases, each with its repeated paired ratios. The
/// interval is a bootstrap that redraws the repetitions within each case: it covers the noise of
/// the measurement, and says nothing of cases that were not measured. With few repetitions it
/// states a lower level: a bootstrap sees no noise beyond the extremes.
pub fn geometric_mean(cases: &[Vec<f64>]) -> Option<Interval> {
    let cases: Vec<&Vec<f64>> = cases.iter().filter(|ratios| !ratios.is_empty()).collect();
    let mean = |logs: &[f64]| (logs.iter().sum::<f64>() / logs.len() as f64).exp();
    let log_median = |ratios: &[f64]| median(ratios).map(f64::ln);
    let logs: Vec<f64> = cases.iter().filter_map(|ratios| log_median(ratios)).collect();
    if logs.is_empty() {
        return None;
    }
    let estimate = mean(&logs);
    let fewest = cases.iter().map(|ratios| ratios.len()).min().unwrap_or_default();
    let level = extremes_level(fewest).min(LEVEL);
    if level <= 0.0 {
        return Some(Interval { estimate, low: estimate, high: estimate, level: 0.0 });
    }
    let (low, high) = Bootstrap::new().interval(LEVEL, |random| {
        let redrawn = cases.iter().filter_map(|ratios| log_median(&resample(ratios, random)));
        mean(&redrawn.collect::<Vec<_>>())
    });
    Some(Interval { estimate, low, high, level })
}

fn resample(values: &[f64], random: &mut Random) -> Vec<f64> {
    (0..values.len()).map(|_| values[random.below(values.len())]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn a_geometric_mean_weighs_twice_and_half_alike() {
        let interval = geometric_mean(&[vec![2.0, 2.0], vec![0.5, 0.5]]).expect("two cases");
        assert!(close(interval.estimate, 1.0));
        assert!(close(interval.low, 1.0) && close(interval.high, 1.0));
        assert_eq!(geometric_mean(&[vec![], vec![]]), None);
    }

    #[test]
    fn a_mean_of_few_rounds_states_the_level_that_their_extremes_have() {
        let level = |rounds| geometric_mean(&vec![vec![1.1; rounds]; 17]).expect("cases").level;
        assert!(close(level(1), 0.0) && close(level(2), 0.5) && close(level(3), 0.75));
        assert!(close(level(6), LEVEL) && close(level(100), LEVEL));
        let uneven = geometric_mean(&[vec![1.1; 10], vec![1.1]]).expect("two cases");
        assert!(close(uneven.level, 0.0), "{uneven:?}");
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
