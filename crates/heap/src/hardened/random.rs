//! Numbers for choices that others should not foresee. Source: `wyrand` (Wang Yi, "wyhash").

/// A sequence of numbers.
pub(super) struct Random {
    state: u64,
    /// The constants of the source, where a processor adds and combines them without loading them
    /// first.
    step: u64,
    other: u64,
}

impl Random {
    /// The sequence that belongs to a secret number.
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed, step: 0xa076_1d64_78bd_642f, other: 0xe703_7ed1_a0b4_28db }
    }

    /// Any number.
    #[inline(always)]
    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(self.step);
        let product = u128::from(self.state) * u128::from(self.state ^ self.other);
        (product >> 64) as u64 ^ product as u64
    }

    /// One of the numbers below `end`, which is not 0.
    #[inline]
    pub(super) fn below(&mut self, end: usize) -> usize {
        (((self.next() >> 32) * end as u64) >> 32) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_below_the_end_comes_about_as_often() {
        let mut random = Random::new(7);
        let mut counts = [0; 30];
        for _ in 0..30_000 {
            counts[random.below(30)] += 1;
        }
        assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
    }

    #[test]
    fn another_seed_gives_another_sequence() {
        let (mut a, mut b) = (Random::new(1), Random::new(2));
        assert!((0..10).any(|_| a.below(1000) != b.below(1000)));
    }
}
