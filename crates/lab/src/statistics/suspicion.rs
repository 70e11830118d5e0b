//! Signs that noise is not just noise: measurements that drift, and measurements that fall into
//! two groups.

use super::median::{median, sorted};
use super::normal;

/// How rare a trend must be by chance, before it is called a drift.
const RARE: f64 = 0.005;

/// Changes smaller than this share are not worth a word.
const WORTH_SAYING: f64 = 0.02;

/// The fewest measurements in which groups can be told from chance.
const FEWEST_FOR_GROUPS: usize = 10;

/// The least share of the measurements that makes a group, and the least number.
const GROUP_SHARE: f64 = 0.2;
const GROUP_LEAST: usize = 3;

/// The least share of the way from one group's middle to the other's that must be empty: a long
/// tail is no group.
const GAP_SHARE: f64 = 0.4;

/// Measurements that go up or down in the course of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// From the first to the last, as a share: 0.1 is 10 % more at the end.
    pub change: f64,
}

/// Whether positive measurements, in the order in which they were made, drift: a trend of their
/// ranks (Kendall) that is rare by chance, and of a size that matters.
pub fn drift(values: &[f64]) -> Option<Drift> {
    let count = values.len();
    let pairs: Vec<(usize, usize)> =
        (0..count).flat_map(|later| (0..later).map(move |earlier| (earlier, later))).collect();
    let order = |&(earlier, later): &(usize, usize)| match values[later].total_cmp(&values[earlier])
    {
        std::cmp::Ordering::Greater => 1,
        std::cmp::Ordering::Less => -1,
        std::cmp::Ordering::Equal => 0,
    };
    let score: i64 = pairs.iter().map(order).sum();
    let n = count as f64;
    let deviation = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    let is_rare = (score.unsigned_abs() as f64 - 1.0) / deviation > normal::quantile(RARE);
    let slopes: Vec<f64> = pairs
        .iter()
        .map(|&(earlier, later)| (values[later] / values[earlier]).ln() / (later - earlier) as f64)
        .collect();
    let change = (median(&slopes)? * (n - 1.0)).exp_m1();
    (is_rare && change.abs() >= WORTH_SAYING).then_some(Drift { change })
}

/// Measurements that fall into two groups with little between them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TwoGroups {
    /// The middle of the lower group.
    pub low: f64,
    /// The middle of the upper group.
    pub high: f64,
    /// How many are in the lower group.
    pub lower: usize,
    /// How many are in the upper group.
    pub upper: usize,
}

/// Whether positive measurements fall into two groups: some split leaves the halves much further
/// apart than they are wide, and by a share that matters.
pub fn two_groups(values: &[f64]) -> Option<TwoGroups> {
    let sorted = sorted(values);
    let count = sorted.len();
    if count < FEWEST_FOR_GROUPS {
        return None;
    }
    let least = GROUP_LEAST.max((count as f64 * GROUP_SHARE).ceil() as usize);
    let logs: Vec<f64> = sorted.iter().map(|value| value.ln()).collect();
    let splits = least..=count - least;
    let (lower, separation) = splits
        .map(|lower| (lower, separation(&logs[..lower], &logs[lower..])))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    let (low, high) = (median(&sorted[..lower])?, median(&sorted[lower..])?);
    let gap = logs[lower] - logs[lower - 1];
    let is_apart = separation > least_separation(count)
        && gap > GAP_SHARE * (high / low).ln()
        && high / low - 1.0 >= WORTH_SAYING;
    is_apart.then_some(TwoGroups { low, high, lower, upper: count - lower })
}

/// The distance of two groups' means in terms of the deviation within them.
fn separation(lower: &[f64], upper: &[f64]) -> f64 {
    let (low, high) = (mean(lower), mean(upper));
    let squares = |group: &[f64], mean: f64| -> f64 {
        group.iter().map(|value| (value - mean).powi(2)).sum()
    };
    let freedom = (lower.len() + upper.len() - 2) as f64;
    let within = ((squares(lower, low) + squares(upper, high)) / freedom).sqrt();
    if within > 0.0 {
        (high - low) / within
    } else if high > low {
        f64::INFINITY
    } else {
        0.0
    }
}

/// The separation that the best split of a single group hardly ever reaches. Splitting a normal
/// distribution in the middle gives 2.6; the fewer values, the more chance adds to it.
fn least_separation(count: usize) -> f64 {
    4.0 + 25.0 / count as f64
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
