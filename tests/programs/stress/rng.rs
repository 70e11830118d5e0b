//! Random numbers: splitmix64, in which every seed is a good one.

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A generator.
#[derive(Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    /// The generator of thread `number`.
    pub(crate) fn new(seed: u64, number: u64) -> Self {
        let mut rng = Self(seed);
        Self(rng.next() ^ number.wrapping_mul(STEP))
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// True once in `n` times.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// A size up to `2^bits`, each power of two as likely as any other.
    pub(crate) fn size(&mut self, bits: usize) -> usize {
        let magnitude = self.below(bits) + 1;
        self.below((1 << magnitude) + 1)
    }
}
