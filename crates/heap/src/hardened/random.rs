//! Numbers for choices that others should not foresee. Source: `wyrand` (Wang Yi, "wyhash").

/// A sequence of numbers.
pub(super) struct Random(u64);

impl Random {
    /// The sequence that belongs to a secret number.
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    #[inline]
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0xa076_1d64_78bd_642f);
        let product = u128::from(self.0) * u128::from(self.0 ^ 0xe703_7ed1_a0b4_28db);
        (product >> 64) as u64 ^ product as u64
    }

    /// One of the numbers below `end`, which is not 0.
    #[inline]
    pub(super) fn below(&mut self, end: usize) -> usize {
        (((self.next() >> 32) * end as u64) >> 32) as usize
    }
}
