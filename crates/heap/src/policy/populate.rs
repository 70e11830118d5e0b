//! When to have a whole block populated before it is used.

use crate::layout::BLOCK;

/// What is free and dirty may be one part in this many of what is in use, the block to populate
/// included: so where the program stops growing an eighth was for nothing at most, and small heaps
/// are never populated. What it allocates and does not write to is not bounded by this
/// ([`crate::sparse`]).
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

/// With what pages a block is populated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    /// One huge page.
    Huge,
    /// As many as it takes of the usual size, by one call: half of what their page faults cost.
    Small,
}

/// Nanoseconds that a block of small pages takes where memory is at hand, as long as nothing else
/// is known.
const USUAL: u64 = 400_000;

/// How much may be saved to pay for a huge page that takes longer, in blocks of small pages.
const MOST_SAVED: u64 = 16;

/// What was lost is paid for by so many times as much that blocks of small pages have cost.
const SHARE_LOST: u64 = 16;

/// The most blocks of small pages that pay for one huge page.
const LONGEST_REST: u64 = 256;

/// What populating has cost, in nanoseconds of the threads that did it. Huge pages are quicker by
/// several times where memory is at hand. A virtual machine may have to get it from its host first,
/// for a huge page it can take ten times as long then; for small ones as well, or not at all, since
/// what is free in whole is what was given back to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// What a block of small pages takes, as far as is known.
    pub small: u64,
    /// What huge pages have saved beside small ones, and not lost again.
    pub saved: u64,
    /// What they have lost, and blocks of small pages have not yet paid for.
    pub lost: u64,
}

impl Costs {
    /// Nothing known yet.
    pub const NONE: Self = Self { small: USUAL, saved: 0, lost: 0 };

    /// With what pages the next block is to be populated.
    pub fn next(self) -> Pages {
        if self.lost == 0 { Pages::Huge } else { Pages::Small }
    }

    /// What a huge page may take: a quarter more than small ones, for what address translation and
    /// giving them back costs later.
    fn worth(self) -> u64 {
        self.small + self.small / 4
    }

    /// What is known once a block has taken so long.
    #[must_use]
    pub fn after(self, pages: Pages, nanoseconds: u64) -> Self {
        let worth = self.worth();
        match pages {
            Pages::Huge => {
                let saved = (self.saved + worth).min(MOST_SAVED * worth);
                let lost = nanoseconds.saturating_sub(saved);
                // What small pages take is not looked at meanwhile, and may have become less.
                let old = if nanoseconds > USUAL { self.small / 16 } else { 0 };
                Self {
                    small: (self.small - old).max(USUAL),
                    saved: saved.saturating_sub(nanoseconds),
                    lost: lost.min(LONGEST_REST * worth / SHARE_LOST),
                }
            }
            Pages::Small => Self {
                small: self.small.midpoint(nanoseconds).max(USUAL),
                lost: self.lost.saturating_sub(worth / SHARE_LOST),
                ..self
            },
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

    /// What it costs to populate so many blocks, where those of either kind take so long.
    fn cost_of(blocks: u64, took: impl Fn(u64, Pages) -> u64) -> (u64, u64) {
        let (mut now, mut cost, mut huge) = (Costs::NONE, 0, 0);
        for block in 0..blocks {
            let pages = now.next();
            let nanoseconds = took(block, pages);
            now = now.after(pages, nanoseconds);
            cost += nanoseconds;
            huge += u64::from(pages == Pages::Huge);
        }
        (cost, huge)
    }

    #[test]
    fn where_huge_pages_are_quick_there_are_no_others() {
        assert_eq!(cost_of(1000, |_, _| USUAL / 2).1, 1000);
        // As well as where they take a little longer than small ones, which are worth less.
        let (_, huge) =
            cost_of(1000, |_, pages| if pages == Pages::Huge { 2_200_000 } else { 2_000_000 });
        assert!(huge > 600, "{huge}");
    }

    #[test]
    fn a_huge_page_that_takes_longer_is_paid_for_by_what_others_have_saved() {
        let quick = USUAL / 2;
        let now = (0..10).fold(Costs::NONE, |now, _| now.after(Pages::Huge, quick));
        assert_eq!(now.next(), Pages::Huge);
        let slow = now.after(Pages::Huge, 3 * USUAL);
        assert_eq!(slow.next(), Pages::Huge);
        assert!(slow.saved < now.saved);
        let later = (0..100).fold(now, |now, _| now.after(Pages::Huge, 0));
        assert!(later.saved <= MOST_SAVED * later.worth(), "old merits do not count");
    }

    #[test]
    fn where_huge_pages_take_ten_times_as_long_they_cost_little() {
        let (cost, huge) = cost_of(1000, |_, pages| match pages {
            Pages::Huge => 10 * USUAL,
            Pages::Small => USUAL,
        });
        let without = 1000 * USUAL;
        assert!(huge > 0 && cost < without + without / 8, "{cost} instead of {without}");
    }

    #[test]
    fn where_half_of_all_huge_pages_take_ten_times_as_long_little_is_lost() {
        let (cost, _) = cost_of(1000, |block, pages| match pages {
            Pages::Huge if block.is_multiple_of(2) => 10 * USUAL,
            Pages::Huge => USUAL / 2,
            Pages::Small => USUAL,
        });
        let without = 1000 * USUAL;
        assert!(cost < without + without / 8, "{cost} instead of {without}");
    }

    #[test]
    fn one_huge_page_that_took_very_long_is_not_the_last() {
        let slow = Costs::NONE.after(Pages::Huge, 1000 * USUAL);
        let rest = (1..).scan(slow, |now, _| {
            *now = now.after(Pages::Small, USUAL);
            Some(now.next())
        });
        assert!(rest.take(LONGEST_REST as usize).any(|next| next == Pages::Huge));
    }

    #[test]
    fn what_small_pages_take_is_found_out_again() {
        // Once memory was not at hand; now it is, but for huge pages.
        let cold = (0..10).fold(Costs::NONE, |now, _| now.after(Pages::Small, 5 * USUAL));
        let (mut now, mut small) = (cold, 0);
        for _ in 0..200 {
            let pages = now.next();
            now = now.after(pages, if pages == Pages::Huge { 5 * USUAL } else { USUAL });
            small += u32::from(pages == Pages::Small);
        }
        assert!(small > 150, "{small} of 200");
    }
}
