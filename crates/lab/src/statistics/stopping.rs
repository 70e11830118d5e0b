//! Measuring until it is enough. Who looks at the result after every round, and stops as soon as
//! it pleases, finds differences that are not there: each look is a new chance of being wrong.
//! So there are few looks, fixed beforehand, and the chance of being wrong is shared out among
//! them: whenever the measurement stops, and for whatever reason, the risk of all looks together
//! is no greater than that of one would be.

use freehold_model::Interval;

use super::finding::half_width;

/// Rounds before the first look: enough for a claim at any share of the risk.
const FIRST: usize = 12;

/// The number of rounds grows by this factor from one look to the next.
const GROWTH: f64 = 1.5;

/// When to look at a result, and how sure to be at each look.
#[derive(Debug, Clone, PartialEq)]
pub struct Looks {
    after: Vec<usize>,
    level: f64,
}

impl Looks {
    /// A single look after the last of `rounds` rounds.
    pub fn once(rounds: usize, level: f64) -> Self {
        Self { after: vec![rounds], level }
    }

    /// Looks on the way to `limit` rounds, all together at the confidence `level`.
    pub fn repeated(limit: usize, level: f64) -> Self {
        let next = |&rounds: &usize| Some((rounds as f64 * GROWTH).ceil() as usize);
        let before = std::iter::successors(Some(FIRST), next).take_while(|&look| look < limit);
        let after: Vec<usize> = before.chain([limit]).collect();
        let share = (1.0 - level) / after.len() as f64;
        Self { after, level: 1.0 - share }
    }

    /// Whether it is time to look after this many rounds.
    pub fn is_due(&self, rounds: usize) -> bool {
        self.after.contains(&rounds)
    }

    /// The rounds after which to end in any case.
    pub fn limit(&self) -> usize {
        self.after.last().copied().unwrap_or_default()
    }

    /// The confidence level of the intervals to look at. It also holds for a look that comes
    /// early because time ran out or somebody interrupted: it takes the place of the next one.
    pub fn level(&self) -> f64 {
        self.level
    }
}

/// Whether an interval reaches no further than `precision` around its estimate.
pub fn is_within(ratio: &Interval, precision: f64) -> bool {
    half_width(ratio) <= precision
}

#[cfg(test)]
mod tests {
    use super::super::fewest_pairs;
    use super::*;

    #[test]
    fn looks_are_few_and_share_the_risk() {
        let looks = Looks::repeated(100, 0.99);
        assert_eq!(looks.after, [12, 18, 27, 41, 62, 93, 100]);
        assert!((looks.level() - (1.0 - 0.01 / 7.0)).abs() < 1e-12);
        assert!(looks.is_due(12) && looks.is_due(100) && !looks.is_due(13));
    }

    #[test]
    fn a_limit_below_the_first_look_leaves_one_look() {
        assert_eq!(Looks::repeated(10, 0.99), Looks::once(10, 0.99));
    }

    #[test]
    fn every_look_has_rounds_enough_for_a_claim() {
        for limit in [12, 100, 1000] {
            let looks = Looks::repeated(limit, 0.99);
            assert!(looks.after[0] >= fewest_pairs(looks.level()), "{limit}");
        }
    }
}
