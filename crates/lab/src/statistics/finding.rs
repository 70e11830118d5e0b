//! What an interval allows to be said, and how much more it would take to say more.

use freehold_model::{Finding, Interval, Kind};

/// What the ratio of one candidate to the reference shows, at the confidence `level`. Differences
/// within `margin` are too small to matter, so an interval that lies within it ends the matter.
pub fn judge(ratio: &Interval, kind: Kind, level: f64, margin: f64) -> Finding {
    if ratio.level < level {
        Finding::NotEnoughEvidence
    } else if ratio.low > 1.0 {
        kind.greater()
    } else if ratio.high < 1.0 {
        kind.smaller()
    } else if ratio.high <= 1.0 + margin && ratio.low >= 1.0 / (1.0 + margin) {
        Finding::NoDifferenceShown
    } else {
        Finding::NotEnoughEvidence
    }
}

/// Half the width of a ratio's interval, as a share: 0.02 is ±2 %.
pub(super) fn half_width(ratio: &Interval) -> f64 {
    (ratio.high / ratio.low).sqrt() - 1.0
}

/// The least difference that measurements like these find in at least 95 % of repeats, as a share.
/// Twice the half-width: an estimate strays by that half-width from the truth once in a hundred
/// times only, and the interval reaches as far again.
pub fn detectable(ratio: &Interval) -> f64 {
    ratio.high / ratio.low - 1.0
}

/// About how many rounds it takes for the half-width of an interval to fall to `precision`, when
/// `rounds` have brought it to what it is.
pub fn rounds_needed(ratio: &Interval, rounds: usize, precision: f64) -> usize {
    let excess = half_width(ratio) / precision;
    // Noise averages out with the square root of the number of rounds.
    (rounds as f64 * excess * excess).round() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(low: f64, high: f64) -> Interval {
        Interval { estimate: (low * high).sqrt(), low, high, level: 0.99 }
    }

    fn found(low: f64, high: f64) -> Finding {
        judge(&ratio(low, high), Kind::Time, 0.99, 0.05)
    }

    #[test]
    fn an_interval_on_one_side_shows_a_difference_however_wide_it_is() {
        assert_eq!(found(1.001, 3.0), Finding::Slower);
        assert_eq!(found(0.2, 0.999), Finding::Faster);
        assert_eq!(judge(&ratio(1.1, 1.2), Kind::Rate, 0.99, 0.05), Finding::Faster);
        assert_eq!(judge(&ratio(1.1, 1.2), Kind::Amount, 0.99, 0.05), Finding::More);
    }

    #[test]
    fn an_interval_around_one_says_no_difference_only_when_it_is_narrow() {
        assert_eq!(found(0.97, 1.02), Finding::NoDifferenceShown);
        assert_eq!(found(0.97, 1.06), Finding::NotEnoughEvidence);
        assert_eq!(found(1.0, 1.0), Finding::NoDifferenceShown);
    }

    #[test]
    fn an_interval_of_too_few_rounds_shows_nothing() {
        let few = Interval { level: 0.75, ..ratio(1.5, 1.6) };
        assert_eq!(judge(&few, Kind::Time, 0.99, 0.05), Finding::NotEnoughEvidence);
    }

    #[test]
    fn half_the_width_takes_four_times_the_rounds() {
        let wide = ratio(1.0 / 1.04, 1.04);
        assert_eq!(rounds_needed(&wide, 10, 0.02), 40);
        assert!((detectable(&wide) - 0.0816).abs() < 1e-6);
    }
}
