//! The generator of sizes. It knows nothing about what its numbers are used for.

/// A splitmix64 generator: eight bytes of state, one multiplication chain a number, no bad seeds.
pub(crate) struct Rng {
    state: u64,
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Rng {
    /// The generator of one of several threads; threads with different numbers never share a
    /// sequence, because their states are hashed apart.
    pub(crate) fn for_thread(seed: u64, thread: u32) -> Self {
        let mut seeder = Self { state: seed };
        let base = seeder.next();
        let mut own = Self { state: base ^ (u64::from(thread) + 1).wrapping_mul(STEP) };
        Self { state: own.next() }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, uniform, without the division that a remainder would cost.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        let random = self.next() >> 32;
        ((random * u64::from(bound)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_below_the_bound_and_cover_the_range_evenly() {
        let mut rng = Rng::for_thread(1, 0);
        let mut buckets = [0_u32; 8];
        for _ in 0..80_000 {
            let number = rng.below(256);
            assert!(number < 256);
            buckets[number as usize / 32] += 1;
        }
        assert!(buckets.iter().all(|&count| (9_500..10_500).contains(&count)), "{buckets:?}");
    }

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_another_thread_gives_others() {
        let take = |seed, thread| {
            let mut rng = Rng::for_thread(seed, thread);
            [rng.next(), rng.next(), rng.next()]
        };
        assert_eq!(take(7, 3), take(7, 3));
        assert_ne!(take(7, 3), take(7, 4));
        assert_ne!(take(7, 3), take(8, 3));
    }
}
