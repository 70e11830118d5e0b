//! Ratios of runs that were made in the same round.

use freehold_model::{Interval, Spread};

use super::bootstrap::Bootstrap;
use super::median::{extremes_level, sorted, spread};
use super::rank::{MANY, signed_rank};
use crate::random::Random;

/// The fewest pairs from which anything can be claimed at this level: with fewer, even candidates
/// that are the same would all fall to one side too often.
pub fn fewest_pairs(level: f64) -> usize {
    let is_enough = |&count: &usize| signed_rank(count, (1.0 - level) / 2.0).is_some();
    (1..MANY).find(is_enough).unwrap_or(MANY)
}

/// The typical one of paired ratios, with an interval.
///
/// The estimate is the pseudo-median of their logarithms (Hodges and Lehmann): as good as the
/// mean where noise is normal, and as little impressed by outliers as the median nearly. The
/// interval is a bootstrap of it, which is never narrower than the one of the signed-rank
/// statistic: that one holds for any number of pairs and any shape of noise, where a bootstrap of
/// a dozen pairs is too narrow. With too few pairs for `level` the interval reaches from the least
/// to the greatest ratio, and states the level that they amount to.
pub fn paired_ratio(ratios: &[f64], level: f64) -> Option<Interval> {
    let logs: Vec<f64> = sorted(ratios).into_iter().map(f64::ln).collect();
    let means = pairwise_means(&logs);
    let estimate = middle(&means)?.exp();
    let Some(left_out) = signed_rank(logs.len(), (1.0 - level) / 2.0) else {
        let Spread { min, max, .. } = spread(ratios)?;
        return Some(Interval { estimate, low: min, high: max, level: extremes_level(logs.len()) });
    };
    let (low, high) = (means[left_out], means[means.len() - 1 - left_out]);
    let (from, to) = resampled(&logs, level);
    Some(Interval { estimate, low: low.min(from).exp(), high: high.max(to).exp(), level })
}

/// The middle of the means of all pairs of values, a value with itself included.
pub fn pseudo_median(values: &[f64]) -> Option<f64> {
    middle(&pairwise_means(&sorted(values)))
}

/// The bootstrap interval of the pseudo-median alone.
pub fn pseudo_median_bootstrap(values: &[f64], level: f64) -> Option<(f64, f64)> {
    (!values.is_empty()).then(|| resampled(&sorted(values), level))
}

fn resampled(sorted: &[f64], level: f64) -> (f64, f64) {
    let mut counts = vec![0; sorted.len()];
    Bootstrap::new().interval(level, |random| {
        draw(&mut counts, random);
        pseudo_median_of_counts(sorted, &counts)
    })
}

fn pairwise_means(sorted: &[f64]) -> Vec<f64> {
    let mut means = Vec::with_capacity(sorted.len() * (sorted.len() + 1) / 2);
    for (index, first) in sorted.iter().enumerate() {
        means.extend(sorted[index..].iter().map(|second| f64::midpoint(*first, *second)));
    }
    means.sort_unstable_by(f64::total_cmp);
    means
}

fn middle(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    Some(f64::midpoint(upper, sorted[(sorted.len() - 1) / 2]))
}

/// How often each value is drawn when as many are drawn as there are.
fn draw(counts: &mut [u64], random: &mut Random) {
    counts.fill(0);
    for _ in 0..counts.len() {
        counts[random.below(counts.len())] += 1;
    }
}

/// The pseudo-median of values that occur several times or not at all, by halving the range in
/// which it lies: listing all pairs anew for each resample would take too long.
fn pseudo_median_of_counts(sorted: &[f64], counts: &[u64]) -> f64 {
    /// Halvings: what is left of the range is far below the noise that the interval is about.
    const HALVINGS: u32 = 16;
    let total = counts.iter().sum::<u64>();
    let half = (total * (total + 1) / 2).div_ceil(2);
    let (mut low, mut high) = (sorted[0], sorted[sorted.len() - 1]);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if pairs_up_to(sorted, counts, 2.0 * middle) >= half { high = middle } else { low = middle }
    }
    f64::midpoint(low, high)
}

/// The number of pairs whose sum is at most `sum`.
fn pairs_up_to(sorted: &[f64], counts: &[u64], sum: f64) -> u64 {
    let mut pairs = 0;
    // Partners of the value at `first` are those from `first` on and before `end`: the greater the
    // value, the fewer.
    let mut end = sorted.len();
    let mut below_end: u64 = counts.iter().sum();
    let mut below_first = 0;
    for (first, &count) in counts.iter().enumerate() {
        while end > 0 && sorted[first] + sorted[end - 1] > sum {
            end -= 1;
            below_end -= counts[end];
        }
        if end <= first {
            break;
        }
        let others = below_end - below_first - count;
        pairs += count * others + count * (count + 1) / 2;
        below_first += count;
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn few_ratios_give_their_extremes_and_an_honest_level() {
        let interval = paired_ratio(&[1.2, 0.9, 1.1], 0.95).expect("three ratios");
        assert!(close(interval.low, 0.9) && close(interval.high, 1.2));
        assert!(close(interval.level, 0.75));
        assert!(interval.leaves_open());
    }

    #[test]
    fn a_single_ratio_claims_nothing() {
        let interval = paired_ratio(&[1.5], 0.95).expect("one ratio");
        assert!(close(interval.level, 0.0));
        assert!(!interval.leaves_open());
    }

    #[test]
    fn many_ratios_give_an_interval_within_their_range() {
        let ratios: Vec<f64> = (0..30).map(|i| 1.0 + f64::from(i) / 100.0).collect();
        let interval = paired_ratio(&ratios, 0.95).expect("thirty ratios");
        assert!(close(interval.level, 0.95));
        assert!(interval.low > 1.0 && interval.high < 1.29);
        assert!(interval.low < interval.estimate && interval.estimate < interval.high);
        assert_eq!(paired_ratio(&ratios, 0.95), Some(interval));
    }

    #[test]
    fn ratios_that_are_all_the_same_have_no_width() {
        let interval = paired_ratio(&[1.25; 12], 0.99).expect("twelve ratios");
        assert!(close(interval.low, 1.25) && close(interval.high, 1.25));
    }

    #[test]
    fn a_ratio_and_its_inverse_have_mirrored_intervals() {
        let ratios = [1.1, 0.97, 1.2, 1.05, 1.01, 1.3, 1.12, 0.99, 1.08, 1.15];
        let inverse = ratios.map(|ratio| 1.0 / ratio);
        let one = paired_ratio(&ratios, 0.99).expect("ten ratios");
        let other = paired_ratio(&inverse, 0.99).expect("ten ratios");
        assert!(close(one.estimate * other.estimate, 1.0));
        assert!((one.low * other.high - 1.0).abs() < 0.01, "{one:?} and {other:?}");
    }

    #[test]
    fn counting_pairs_agrees_with_listing_them() {
        let values = [1.0, 2.0, 4.0, 8.0, 9.0];
        let counts = [2, 0, 1, 1, 1];
        let listed = pseudo_median(&[1.0, 1.0, 4.0, 8.0, 9.0]).expect("five values");
        assert!((pseudo_median_of_counts(&values, &counts) - listed).abs() < 1e-3);
        assert_eq!(pairs_up_to(&values, &counts, 5.0), 3 + 2);
    }

    #[test]
    fn claims_at_99_percent_take_eight_rounds() {
        assert_eq!(fewest_pairs(0.95), 6);
        assert_eq!(fewest_pairs(0.99), 8);
    }
}
