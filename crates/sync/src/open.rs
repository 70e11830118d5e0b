//! Where to look for free granules: which blocks of a zone have any, and about how many in a row.
//!
//! Hints, beside what counts, which is each block's own word ([`FreeGranules`]). They may promise
//! what is not there any more, and whoever finds that out corrects them. What they must not do is
//! hide granules that are free and stay so: nobody would find those until others of their block are
//! released. So who releases some writes the word first and looks at the hints then, and who
//! corrects these writes them first and looks at the word once more: one of them sees the other.
//!
//! Invariant: where nobody is at it, a block with free granules is open, and its longest run is not
//! longer than is said here.

use crate::atomic::{AtomicU8, AtomicU64, Ordering, fence, fence_after_change};
use crate::granules::{FreeGranules, longest_run};

/// Blocks of a zone.
const BLOCKS: usize = 64;

/// What is left out in a variant that the model must reject.
#[derive(Clone, Copy)]
pub(crate) struct Orders {
    /// Who releases some looks at the hints only when that can be seen.
    pub(crate) fences: bool,
    /// Who corrects hints looks once more.
    pub(crate) looks_again: bool,
}

/// The order in force.
pub(crate) const CORRECT: Orders = Orders { fences: true, looks_again: true };

/// The hints for a zone. All zero: no block is open.
#[derive(Debug)]
#[repr(C)]
pub struct OpenBlocks {
    /// Those that have free granules, not counting wholly free ones.
    open: AtomicU64,
    /// For each open block the longest run of free granules that it may have.
    longest: [AtomicU8; BLOCKS],
}

impl OpenBlocks {
    /// The open blocks at this moment.
    #[inline]
    pub fn look(&self) -> u64 {
        // Relaxed, as the next: nothing is concluded from it but where to try.
        self.open.load(Ordering::Relaxed)
    }

    /// About how long the longest run of free granules of a block is.
    #[inline]
    pub fn longest(&self, block: u32) -> u32 {
        u32::from(self.longest[block as usize].load(Ordering::Relaxed))
    }

    /// Notes that granules of a block were released, in a run of so many that are free now. To be
    /// called after that.
    #[inline]
    pub fn note_released(&self, block: u32, run: u32) {
        self.note_released_by(CORRECT, block, run);
    }

    #[inline]
    pub(crate) fn note_released_by(&self, orders: Orders, block: u32, run: u32) {
        if orders.fences {
            // Pairs with the fence in `correct`.
            fence_after_change();
        }
        self.promise(block, run);
    }

    #[inline]
    fn promise(&self, block: u32, run: u32) {
        if self.longest(block) < run {
            // Not a store: another one may promise more at the same time.
            self.longest[block as usize].fetch_max(run as u8, Ordering::Relaxed);
        }
        let bit = 1 << block;
        if self.look() & bit == 0 {
            self.open.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Notes that a block has become wholly free, or belongs to somebody as a whole.
    pub fn close(&self, block: u32) {
        self.open.fetch_and(!(1 << block), Ordering::Relaxed);
    }

    /// Corrects what is said of a block, after a claim there that this promised and that failed.
    pub fn correct(&self, block: u32, free: &FreeGranules) {
        self.correct_by(CORRECT, block, free);
    }

    pub(crate) fn correct_by(&self, orders: Orders, block: u32, free: &FreeGranules) {
        let seen = free.look();
        self.longest[block as usize].store(longest_run(seen) as u8, Ordering::Relaxed);
        if seen == 0 {
            self.close(block);
        }
        if !orders.looks_again {
            return;
        }
        // Pairs with the one in `note_released`: who released some before this is seen here, and
        // who does so later sees what was just written.
        fence(Ordering::SeqCst);
        let now = free.look();
        if now & !seen != 0 {
            self.promise(block, longest_run(now));
        }
    }
}

#[cfg(test)]
impl OpenBlocks {
    /// No block is open.
    pub(crate) fn new() -> Self {
        Self { open: AtomicU64::new(0), longest: core::array::from_fn(|_| AtomicU8::new(0)) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_promised_is_the_longest_run_that_was_released() {
        let hints = OpenBlocks::new();
        hints.note_released(5, 7);
        hints.note_released(5, 3);
        hints.note_released(63, 1);
        assert_eq!(hints.look(), 1 << 5 | 1 << 63);
        assert_eq!([5, 63, 0].map(|block| hints.longest(block)), [7, 1, 0]);
    }

    #[test]
    fn what_was_promised_and_is_not_there_is_corrected() {
        let (hints, free) = (OpenBlocks::new(), FreeGranules::new(0b1101));
        hints.note_released(5, 20);
        hints.correct(5, &free);
        assert_eq!((hints.look(), hints.longest(5)), (1 << 5, 2));
        assert!(free.claim(Some).is_some());
        hints.correct(5, &free);
        assert_eq!((hints.look(), hints.longest(5)), (0, 0));
    }
}
