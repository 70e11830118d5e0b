//! The bootstrap: what an estimate would have been, had the noise fallen otherwise. Seeded, so that
//! the same measurements always give the same interval.

use crate::random::Random;

/// Resamples: enough that the ends of an interval vary by far less than its width.
const RESAMPLES: usize = 2000;

/// Fixed, so that a stored result can be computed again.
const SEED: u64 = 0x5eed;

/// A source of resampled estimates.
pub(super) struct Bootstrap {
    random: Random,
}

impl Bootstrap {
    pub(super) fn new() -> Self {
        Self { random: Random::new(SEED) }
    }

    /// The interval between the quantiles of estimates that `resampled` makes.
    pub(super) fn interval(
        mut self,
        level: f64,
        mut resampled: impl FnMut(&mut Random) -> f64,
    ) -> (f64, f64) {
        let mut estimates: Vec<f64> = (0..RESAMPLES).map(|_| resampled(&mut self.random)).collect();
        estimates.sort_unstable_by(f64::total_cmp);
        let tail = (1.0 - level) / 2.0;
        let last = (RESAMPLES - 1) as f64;
        let at = |quantile: f64| estimates[(quantile * last).round() as usize];
        (at(tail), at(1.0 - tail))
    }
}
