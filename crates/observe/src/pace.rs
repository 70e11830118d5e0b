//! How often to look: as often as is useful, and no more often than may be paid for.

use std::time::Duration;

/// The shortest time from one look to the next.
const SHORTEST: Duration = Duration::from_millis(10);

/// The longest.
const LONGEST: Duration = Duration::from_millis(500);

/// What a look is taken to cost before there was one.
const CHEAP: Duration = Duration::from_micros(40);

/// The part of a period by which looks are early or late, so that they keep no step with what they
/// look at.
const JITTER: f64 = 0.25;

/// Decides when to look next.
#[derive(Debug)]
pub(crate) struct Pace {
    /// The recent cost of a look.
    cost: Duration,
    /// The part of a processor that looking may take.
    budget: f64,
    random: u64,
}

impl Pace {
    pub(crate) fn new(seed: u64, budget: f64) -> Self {
        Self { cost: CHEAP, budget, random: seed | 1 }
    }

    /// Takes account of a look's cost in processor time. Recent looks count more, since threads
    /// come and go. A single dear one, in which a new file had to be read, counts little.
    pub(crate) fn looked(&mut self, cost: Duration) {
        self.cost = (self.cost * 7 + cost.min(self.cost * 8)) / 8;
    }

    /// From now on looking may take this part of a processor.
    pub(crate) fn allow(&mut self, budget: f64) {
        self.budget = budget;
    }

    /// How long to wait before the next look.
    pub(crate) fn next(&mut self) -> Duration {
        let affordable = self.cost.div_f64(self.budget).clamp(SHORTEST, LONGEST);
        affordable.mul_f64(1.0 + JITTER * self.wobble())
    }

    /// A number from -1 to 1.
    fn wobble(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cheap_looks_are_frequent_and_dear_ones_rare() {
        let mut pace = Pace::new(7, 0.004);
        pace.looked(Duration::from_micros(10));
        let cheap = pace.next();
        assert!(cheap >= SHORTEST.mul_f64(1.0 - JITTER) && cheap <= SHORTEST.mul_f64(1.0 + JITTER));
        for _ in 0..100 {
            pace.looked(Duration::from_millis(1));
        }
        let dear = pace.next().as_secs_f64();
        assert!((0.15..0.35).contains(&dear), "1 ms is paid for in 250 ms: {dear}");
        let mut surprised = Pace::new(7, 0.004);
        surprised.looked(Duration::from_secs(1));
        assert!(surprised.next() < Duration::from_millis(50), "one dear look is an exception");
    }

    #[test]
    fn looks_keep_no_step() {
        let mut pace = Pace::new(1, 0.004);
        let waits: Vec<_> = (0..4).map(|_| pace.next()).collect();
        assert!(waits.windows(2).any(|pair| pair[0] != pair[1]), "{waits:?}");
    }
}
