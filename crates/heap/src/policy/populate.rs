//! When to have a whole block populated before it is used.

use crate::layout::BLOCK;

/// What is free and dirty may be one part in this many of what is in use, the block to populate
/// included: so a wrong guess costs an eighth at most, and small heaps never guess.
const SHARE: usize = 8;

/// Whether another block may be populated when `used` bytes are in use, and `dirty` free and dirty.
pub fn is_affordable(used: usize, dirty: usize) -> bool {
    dirty + BLOCK <= used / SHARE
}

/// Nanoseconds that populating a block may take to be worth it: what its page faults would cost
/// where pages are at hand. A virtual machine whose host has to find the memory first can take ten
/// times as long for a huge page.
const WORTH_NANOSECONDS: u64 = 400_000;

/// The most blocks that are left as they are before another is tried.
const LONGEST_REST: u32 = 256;

/// How many blocks to leave as they are before another is populated, when it was so many the last
/// time, and the last one took so long: twice as many each time that it did not pay.
pub fn rest(before: u32, nanoseconds: u64) -> u32 {
    if nanoseconds > WORTH_NANOSECONDS { (2 * before).clamp(1, LONGEST_REST) } else { before / 4 }
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
    fn what_does_not_pay_is_tried_ever_more_rarely() {
        let slow = WORTH_NANOSECONDS + 1;
        let rests = core::iter::successors(Some(0), |&before| Some(rest(before, slow)));
        assert_eq!(rests.take(6).collect::<std::vec::Vec<_>>(), [0, 1, 2, 4, 8, 16]);
        assert_eq!(rest(LONGEST_REST, slow), LONGEST_REST);
        assert_eq!(rest(8, 0), 2);
        assert_eq!(rest(1, 0), 0);
    }
}
