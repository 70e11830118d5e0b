//! When to have a whole block populated before it is used.

use crate::layout::BLOCK;

/// What is free and dirty may be one part in this many of what is in use, the block to populate
/// included: so a wrong guess costs an eighth at most, and small heaps never guess.
const SHARE: usize = 8;

/// Whether another block may be populated when `used` bytes are in use, and `dirty` free and dirty.
pub fn is_affordable(used: usize, dirty: usize) -> bool {
    dirty + BLOCK <= used / SHARE
}

/// So many of a block's granules must have been claimed before it tells whether the program writes
/// to what it allocates.
const FILLED: u32 = 48;

/// How many blocks are populated before one is left as it is, to see whether the program still
/// writes to what it allocates: costs a thirty-second of what populating saves.
pub const POPULATED_BETWEEN_LOOKS: u32 = 31;

/// The first block that is looked at: those before are full of slabs of many classes that have only
/// just been begun.
pub const FIRST_LOOKED_AT: u32 = 4;

/// How far from a block that is not filled others are opened until one of those is looked at in its
/// place.
pub const BLOCKS_UNTIL_GIVEN_UP: u32 = 64;

/// Whether a block has been in use for long enough to tell something, when so many of its granules
/// have been claimed.
pub fn is_filled(granules: u32) -> bool {
    granules >= FILLED
}

/// Whether a program writes to so little of what it allocates that populating costs more memory
/// than it would take by itself: when of `claimed` bytes only these are resident.
pub fn is_sparse(claimed: usize, resident: usize) -> bool {
    resident < claimed / 4
}

/// Nanoseconds that populating a block may take to be worth it: what its page faults would cost
/// where pages are at hand. A virtual machine whose host has to find the memory first can take ten
/// times as long for a huge page; and it is huge pages that are made of such memory, since what is
/// free in whole is what was given back to the host, while single pages come from what is left.
const WORTH_NANOSECONDS: u64 = 400_000;

/// How much may be saved to pay for a block that takes longer.
const MOST_SAVED: u64 = 16 * WORTH_NANOSECONDS;

/// What took longer than was saved is to be less than this part of what the blocks cost that are
/// left as they are for it.
const SHARE_LOST: u64 = 16;

/// The most blocks that are left as they are before another is tried.
const LONGEST_REST: u64 = 256;

/// What follows from how long it took to populate a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Nanoseconds that populating has saved up to now, and not lost again.
    pub saved: u64,
    /// How many blocks to leave as they are before another is populated.
    pub rest: u32,
}

/// What follows when `saved` nanoseconds had been saved and a block has taken so long.
pub fn outcome(saved: u64, nanoseconds: u64) -> Outcome {
    let saved = (saved + WORTH_NANOSECONDS).min(MOST_SAVED);
    match nanoseconds.checked_sub(saved) {
        None | Some(0) => Outcome { saved: saved - nanoseconds, rest: 0 },
        Some(lost) => {
            let rest = lost.div_ceil(WORTH_NANOSECONDS / SHARE_LOST).min(LONGEST_REST);
            Outcome { saved: 0, rest: rest as u32 }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_large_heaps_are_populated_ahead_and_by_a_small_share() {
        assert!(!is_affordable(15 << 20, 0));
        assert!(is_affordable(16 << 20, 0));
        assert!(!is_affordable(1 << 30, 127 << 20));
        assert!(is_affordable(1 << 30, 126 << 20));
    }

    #[test]
    fn a_program_is_sparse_that_writes_to_less_than_a_quarter_of_what_it_has() {
        assert!(is_filled(FILLED) && !is_filled(FILLED - 1));
        assert!(is_sparse(BLOCK, BLOCK / 4 - 1));
        assert!(!is_sparse(BLOCK, BLOCK / 4));
    }

    #[test]
    fn a_block_that_takes_longer_is_paid_for_by_what_others_have_saved() {
        let quick = WORTH_NANOSECONDS / 2;
        let mut now = Outcome { saved: 0, rest: 0 };
        for _ in 0..10 {
            now = outcome(now.saved, quick);
            assert_eq!(now.rest, 0);
        }
        let slow = outcome(now.saved, 3 * WORTH_NANOSECONDS);
        assert_eq!(slow, Outcome { saved: 3 * WORTH_NANOSECONDS, rest: 0 });
        let many = core::iter::successors(Some(now), |now| Some(outcome(now.saved, 0)));
        assert!(many.take(100).all(|now| now.saved <= MOST_SAVED), "old merits do not count");
    }

    #[test]
    fn what_is_lost_is_a_small_part_of_what_the_blocks_cost_that_are_left_for_it() {
        for factor in [2, 5, 10, 17] {
            let now = outcome(0, factor * WORTH_NANOSECONDS);
            let lost = (factor - 1) * WORTH_NANOSECONDS;
            assert!(lost <= u64::from(now.rest) * WORTH_NANOSECONDS / SHARE_LOST, "{factor}");
        }
        assert_eq!(outcome(0, WORTH_NANOSECONDS + 1).rest, 1);
        let longest = Outcome { saved: 0, rest: LONGEST_REST as u32 };
        assert_eq!(outcome(0, 100 * WORTH_NANOSECONDS), longest);
    }

    #[test]
    fn where_half_of_all_blocks_take_ten_times_as_long_little_is_lost() {
        let (mut now, mut cost, mut blocks) = (Outcome { saved: 0, rest: 0 }, 0, 0);
        for round in 0_u64..1000 {
            let took = if round.is_multiple_of(2) { WORTH_NANOSECONDS / 2 } else { 4_000_000 };
            now = outcome(now.saved, took);
            cost += took + u64::from(now.rest) * WORTH_NANOSECONDS;
            blocks += 1 + u64::from(now.rest);
        }
        let without = blocks * WORTH_NANOSECONDS;
        assert!(cost < without + without / SHARE_LOST, "{cost} instead of {without}");
    }
}
