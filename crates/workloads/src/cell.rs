//! A place for one block that any thread may exchange at any time, in a single atomic word: the
//! address in the lower 48 bits, which is what user space has, and the size above. It must not
//! know who exchanges.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::mapping::Zeroed;
use crate::worker::{Held, Worker};

const ADDRESS_BITS: u32 = 48;

/// The largest block that a cell takes.
pub(crate) const MOST_BYTES: usize = (1 << (u64::BITS - ADDRESS_BITS)) - 1;

/// The place. A word of zero is none.
#[derive(Default)]
pub(crate) struct Cell(AtomicU64);

// SAFETY: an integer.
unsafe impl Zeroed for Cell {}

impl Cell {
    /// Puts a block in and takes out what was there. Cells have their own number as the tag of what
    /// is in them, because a word has no room for one.
    pub(crate) fn exchange(&self, worker: &Worker<'_>, number: u32, mut new: Held) -> Held {
        worker.retag(&mut new, number);
        let word = (new.size() as u64) << ADDRESS_BITS | new.address() as u64;
        debug_assert_eq!(word >> ADDRESS_BITS, new.size() as u64);
        // Release pairs with the acquire of who takes the block out: its contents come with it.
        let old = self.0.swap(word, Ordering::AcqRel);
        let address = old & ((1 << ADDRESS_BITS) - 1);
        // SAFETY: the word was made of a block that was given up here, or is zero; whoever takes
        // it out is the only one to have it.
        unsafe { Held::from_parts(address as usize, (old >> ADDRESS_BITS) as u32, number) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::tests::verifying;

    #[test]
    fn a_block_comes_out_as_it_went_in_and_is_still_checked() {
        let session = verifying();
        let worker = &mut session.leader();
        let cell = Cell::default();
        for size in [1, 500, MOST_BYTES] {
            let held = worker.allocate(size).expect("memory");
            let mut old = cell.exchange(worker, 7, held);
            worker.free(&mut old).expect("as it was");
        }
        let mut last = cell.exchange(worker, 7, Held::default());
        assert_eq!(last.size(), MOST_BYTES);
        worker.free(&mut last).expect("as it was");
        assert_eq!(session.checks.verified_blocks(), Some(3));
        assert_eq!(session.live_bytes(), 0);
    }
}
