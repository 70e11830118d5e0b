//! The distributions of two rank statistics when nothing but chance is at work. Both give the
//! number of pairwise values that an interval may leave out at either end.

use super::normal;

/// With more values than this, the normal distribution is as good.
const EXACT_PAIRS: usize = 60;
const EXACT_EACH: usize = 40;

/// As many measurements are enough at every level that anybody asks for.
pub(super) const MANY: usize = 40;

/// Of the means of all pairs of `count` values, sorted: how many may be left out at either end so
/// that the centre of a symmetric distribution is left out with at most this chance. `None` when
/// even leaving out none is too risky (Wilcoxon's signed-rank statistic).
pub(super) fn signed_rank(count: usize, chance: f64) -> Option<usize> {
    if count > EXACT_PAIRS {
        let n = count as f64;
        let deviation = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
        return last_of_normal(n * (n + 1.0) / 4.0, deviation, chance);
    }
    // The chance of each sum of ranks when every rank counts or not by the toss of a coin.
    let mut sums = vec![0.0; count * (count + 1) / 2 + 1];
    sums[0] = 1.0;
    for rank in 1..=count {
        for sum in (0..sums.len()).rev() {
            let with = if sum >= rank { sums[sum - rank] } else { 0.0 };
            sums[sum] = f64::midpoint(sums[sum], with);
        }
    }
    last_within(&sums, chance)
}

/// The same for all differences between `first` and `second` values (Mann and Whitney's statistic).
pub(super) fn rank_sum(first: usize, second: usize, chance: f64) -> Option<usize> {
    if first.max(second) > EXACT_EACH {
        let (m, n) = (first as f64, second as f64);
        let deviation = (m * n * (m + n + 1.0) / 12.0).sqrt();
        return last_of_normal(m * n / 2.0, deviation, chance);
    }
    // The chance of `sum` pairs in the wrong order. The greatest value of all belongs to the first
    // sample, and is then above all of the second, or it belongs to the second.
    let mut sums = vec![vec![0.0; first * second + 1]; second + 1];
    for sums in &mut sums {
        sums[0] = 1.0;
    }
    for m in 1..=first {
        for n in 1..=second {
            let share = m as f64 / (m + n) as f64;
            for sum in (0..=first * second).rev() {
                let to_first = if sum >= n { sums[n][sum - n] } else { 0.0 };
                sums[n][sum] = share * to_first + (1.0 - share) * sums[n - 1][sum];
            }
        }
    }
    last_within(&sums[second], chance)
}

/// The greatest value that is not exceeded with at most this chance.
fn last_within(chances: &[f64], chance: f64) -> Option<usize> {
    let mut so_far = 0.0;
    let within = chances.iter().take_while(|&&next| {
        so_far += next;
        so_far <= chance
    });
    within.count().checked_sub(1)
}

fn last_of_normal(mean: f64, deviation: f64, chance: f64) -> Option<usize> {
    let last = mean - 0.5 - normal::quantile(chance) * deviation;
    (last >= 0.0).then_some(last as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_pairs_are_those_of_wilcoxons_table() {
        assert_eq!(signed_rank(5, 0.025), None);
        assert_eq!(signed_rank(6, 0.025), Some(0));
        assert_eq!(signed_rank(10, 0.025), Some(8));
        assert_eq!(signed_rank(20, 0.005), Some(37));
    }

    #[test]
    fn few_values_of_each_are_those_of_mann_and_whitneys_table() {
        assert_eq!(rank_sum(3, 3, 0.025), None);
        assert_eq!(rank_sum(5, 5, 0.025), Some(2));
        assert_eq!(rank_sum(5, 8, 0.025), Some(6));
        assert_eq!(rank_sum(8, 5, 0.025), Some(6));
        assert_eq!(rank_sum(20, 20, 0.005), Some(105));
    }

    #[test]
    fn the_normal_distribution_takes_over_without_a_step() {
        let by_normal =
            last_of_normal(60.0 * 61.0 / 4.0, (60.0_f64 * 61.0 * 121.0 / 24.0).sqrt(), 0.005);
        let exact = signed_rank(60, 0.005).expect("enough");
        assert!(by_normal.expect("enough").abs_diff(exact) <= 4, "{by_normal:?} and {exact}");
        let large = rank_sum(41, 40, 0.005).expect("enough");
        let exact = rank_sum(40, 40, 0.005).expect("enough");
        assert!((exact..exact + 25).contains(&large), "{large} after {exact}");
    }
}
