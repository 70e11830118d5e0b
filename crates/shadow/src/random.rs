//! Random numbers whose seed is printed.

/// A small, fast and good enough generator (xorshift64*).
#[derive(Clone)]
pub struct Random(u64);

impl Default for Random {
    fn default() -> Self {
        Self::new()
    }
}

impl Random {
    /// Seeded from `FREEHOLD_SEED`, or else from the clock; the seed is printed.
    pub fn new() -> Self {
        let clock = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let given = std::env::var("FREEHOLD_SEED").ok().and_then(|s| s.parse().ok());
        let seed = given.unwrap_or_else(|| clock().as_nanos() as u64);
        eprintln!("FREEHOLD_SEED={seed}");
        Self(seed | 1)
    }

    /// Another, for another thread.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.next() | 1)
    }

    /// The next number.
    #[expect(clippy::should_implement_trait, reason = "there is always another")]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() >> 11) as usize % n
    }

    /// Sizes from 0 to `max`, each order of magnitude as likely as the next.
    pub fn size(&mut self, max: usize) -> usize {
        let bits = self.below(max.ilog2() as usize + 2);
        self.below((1 << bits).min(max + 1))
    }
}
