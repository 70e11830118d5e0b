//! A list of blocks that runs through the blocks themselves, as programs of old have them.

use crate::pattern::Fault;
use crate::worker::{Halt, Held, Worker};

/// What the first bytes of a block in a chain hold: the block behind it.
pub(crate) const LINK_BYTES: usize = size_of::<Held>();

/// The list: last in, first out.
#[derive(Default)]
pub(crate) struct Chain {
    head: Held,
    len: u64,
}

impl Chain {
    /// Puts a block in front, which must have room for the link.
    pub(crate) fn push(&mut self, held: &mut Held) {
        assert!(held.size() >= LINK_BYTES, "room for the link");
        let next = self.head.take();
        // SAFETY: a live block with room, which nobody else uses.
        unsafe { held.link().write_unaligned(next) };
        self.head = held.take();
        self.len += 1;
    }

    /// Takes the block in front out, or none.
    pub(crate) fn pop(&mut self, worker: &Worker<'_>) -> Held {
        let mut first = self.head.take();
        if first.is_some() {
            // SAFETY: `push` wrote the link, and nobody has written to the block since.
            self.head = unsafe { first.link().read_unaligned() };
            self.len -= 1;
            worker.restore(&mut first, LINK_BYTES);
        }
        first
    }

    /// Frees all blocks, from the front.
    pub(crate) fn free(&mut self, worker: &mut Worker<'_>) -> Result<(), Halt> {
        let expected = self.len;
        let mut found = 0;
        while self.head.is_some() {
            let mut held = self.pop(worker);
            worker.free(&mut held)?;
            found += 1;
            if found == expected {
                break;
            }
        }
        let is_whole = found == expected && !self.head.is_some();
        let fault = Fault::Count { expected, found: found + u64::from(self.head.is_some()) };
        worker.session.insist(if is_whole { Ok(()) } else { Err(fault) })
    }

    /// Frees as the program that this list is known from was printed: instead of each block it
    /// frees the one behind it, and reads the next link from what it has just freed. The first
    /// block stays, and is the result.
    ///
    /// # Safety
    /// The allocator must leave the contents of free blocks alone.
    pub(crate) unsafe fn free_as_printed(&mut self, worker: &mut Worker<'_>) -> Result<Held, Halt> {
        let first = self.head.take();
        self.len = 0;
        let mut link = first.link();
        while !link.is_null() {
            // SAFETY: the first block is live, and the others are as they were when they were
            // freed, which the caller vouches for. Volatile, so that the compiler leaves it so.
            let mut next = unsafe { link.read_volatile() };
            link = next.link();
            worker.free(&mut next)?;
        }
        Ok(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::session::tests::verifying;

    #[test]
    fn blocks_come_back_last_first_with_their_contents() {
        let session = verifying();
        let worker = &mut session.leader();
        let mut chain = Chain::default();
        for size in 16..50 {
            chain.push(&mut worker.allocate(size).expect("memory"));
        }
        for size in (30..50).rev() {
            let mut held = chain.pop(worker);
            assert_eq!(held.size(), size);
            worker.free(&mut held).expect("as it was");
        }
        assert_eq!(chain.len, 14);
        chain.free(worker).expect("as they were");
        assert_eq!(session.live_bytes(), 0);
        assert!(!chain.pop(worker).is_some());
    }

    #[test]
    fn a_list_that_lost_blocks_is_found_out() {
        let session = verifying();
        let worker = &mut session.leader();
        let mut chain = Chain::default();
        chain.push(&mut worker.allocate(16).expect("memory"));
        chain.len += 1;
        assert!(chain.free(worker).is_err());
        let failure = session.take_failure().expect("kept");
        let fault = Fault::Count { expected: 2, found: 1 };
        assert!(matches!(failure, Error::Corrupt(found) if found == fault), "{failure}");
    }
}
