//! The free granules of one block: one bit each in one word, claimed and released by anybody.
//!
//! A set bit means: free, and whoever clears it owns the granule. Claiming is one compare-and-swap,
//! releasing one `or`, whoever releases. A block all of whose granules are free can be claimed as a
//! whole ([`FreeGranules::close`]), which is how an empty block goes back to where blocks come
//! from.
//!
//! Invariant: a granule's bit is set by its owner alone, once for each time it was cleared.

use crate::atomic::{Alone, AtomicU64, Ordering};

/// All the granules of a block.
pub const ALL: u64 = u64::MAX;

/// The free granules of a block.
#[derive(Debug)]
pub struct FreeGranules(AtomicU64);

/// The mask of `count` granules from `first` on; `first + count` is at most 64.
pub const fn mask(first: u32, count: u32) -> u64 {
    (ALL >> (64 - count)) << first
}

/// The lowest `first` such that `count` granules from there on are all in `bits` and `first` is a
/// multiple of `align` (a power of two).
pub fn find_run(bits: u64, count: u32, align: u32) -> Option<u32> {
    debug_assert!((1..=64).contains(&count) && align.is_power_of_two() && align <= 64);
    // After each step, bit i is set when the `have` bits from i on are.
    let (mut starts, mut have) = (bits, 1);
    while have < count {
        let step = have.min(count - have);
        starts &= starts >> step;
        have += step;
    }
    // A shift right brings in zeroes, so a run cannot reach past the last granule.
    let aligned = ALL / (ALL >> (64 - align));
    let starts = starts & aligned;
    (starts != 0).then(|| starts.trailing_zeros())
}

/// The length of the longest run of set bits.
pub const fn longest_run(mut bits: u64) -> u32 {
    let mut longest = 0;
    while bits != 0 {
        bits &= bits << 1;
        longest += 1;
    }
    longest
}

impl FreeGranules {
    /// A block with the given granules free.
    #[cfg(not(loom))]
    pub const fn new(bits: u64) -> Self {
        Self(AtomicU64::new(bits))
    }

    /// A block with the given granules free.
    #[cfg(loom)]
    pub fn new(bits: u64) -> Self {
        Self(AtomicU64::new(bits))
    }

    /// The free granules at this moment. A hint: others claim and release meanwhile.
    pub fn look(&self) -> u64 {
        // Relaxed: nothing is concluded from it but where to try.
        self.0.load(Ordering::Relaxed)
    }

    /// Claims what `choose` picks from the free granules (a non-empty subset), or nothing when it
    /// picks none. Returns what was claimed.
    pub fn claim(&self, choose: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        let mut free = self.0.load(Ordering::Relaxed);
        loop {
            let chosen = choose(free)?;
            debug_assert!(chosen != 0 && chosen & !free == 0);
            // Acquire pairs with the Release in `release`: the new owner comes after all that the
            // former ones did in and with the granules.
            match Alone::now().exchange(&self.0, free, free & !chosen, Ordering::Acquire) {
                Ok(_) => return Some(chosen),
                Err(seen) => free = seen,
            }
        }
    }

    /// Gives granules back. Returns all that are free now.
    pub fn release(&self, granules: u64) -> u64 {
        // Release pairs with the Acquire in `claim` and `close`. It stays in force when others
        // change the word in between, since all changes are read-modify-writes.
        let before = Alone::now().fetch_or(&self.0, granules, Ordering::Release);
        debug_assert!(before & granules == 0, "granules {granules:#x} were free already");
        before | granules
    }

    /// Claims all granules at once, if all are free.
    pub fn close(&self) -> bool {
        // Acquire as in `claim`.
        self.0.compare_exchange(ALL, 0, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_lowest_first_and_aligned() {
        assert_eq!(find_run(0b0111_0110, 2, 1), Some(1));
        assert_eq!(find_run(0b0111_0110, 3, 1), Some(4));
        assert_eq!(find_run(0b0111_0110, 2, 4), Some(4));
        assert_eq!(find_run(0b0111_0110, 4, 1), None);
        assert_eq!(find_run(ALL, 64, 64), Some(0));
        assert_eq!(find_run(ALL << 1, 63, 1), Some(1));
        assert_eq!(find_run(ALL << 1, 63, 2), None);
        assert_eq!(find_run(0, 1, 1), None);
        assert_eq!(find_run(1 << 63, 1, 1), Some(63));
        assert_eq!(find_run(1 << 63, 2, 1), None);
    }

    #[test]
    fn find_run_agrees_with_trying_every_position() {
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..20_000 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let bits = seed & seed.rotate_left(21);
            let count = 1 + (seed >> 40) as u32 % 64;
            let align = 1 << ((seed >> 50) % 7);
            let expected = (0..=64 - count)
                .step_by(align as usize)
                .find(|&first| bits & mask(first, count) == mask(first, count));
            assert_eq!(find_run(bits, count, align), expected, "{bits:#x} {count} {align}");
        }
    }

    #[test]
    fn the_longest_run_is_measured() {
        assert_eq!(longest_run(0), 0);
        assert_eq!(longest_run(0b1011_1001), 3);
        assert_eq!(longest_run(ALL), 64);
    }

    #[test]
    fn a_block_closes_only_when_everything_is_free() {
        let block = FreeGranules::new(ALL);
        let run = block.claim(|free| find_run(free, 3, 1).map(|at| mask(at, 3))).unwrap();
        assert!(!block.close());
        assert_eq!(block.release(run), ALL);
        assert!(block.close());
        assert_eq!(block.look(), 0);
    }
}
