//! A thread's access to the measured calls: it counts them, and checks them if that was asked for.
//! It must not know what a harness does with the blocks.

use std::ffi::c_void;
use std::mem;
use std::ptr::{self, NonNull};

use crate::checks::Subject;
use crate::error::Error;
use crate::pattern::{self, Fault};
use crate::rng::Rng;
use crate::session::Session;
use crate::tally::Tally;
use crate::{blocks, mapping};

/// Bits of a tag that count a thread's allocations; the others number the thread.
const TAG_BITS: u32 = 20;

/// The run is over: the reason is kept in the session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Halt;

/// A block in the hands of a harness, or none. Not freed when dropped.
#[derive(Debug)]
pub(crate) struct Held {
    block: *mut c_void,
    size: u32,
    /// What the block's contents are made from when they are checked. It is kept apart from the
    /// block, so that one given out twice is found out.
    tag: u32,
}

// SAFETY: whoever holds a block may use and free it, whichever thread that is.
unsafe impl Send for Held {}
// SAFETY: a null pointer and zeros are what `default` makes.
unsafe impl mapping::Zeroed for Held {}

impl Default for Held {
    fn default() -> Self {
        Self { block: ptr::null_mut(), size: 0, tag: 0 }
    }
}

impl Held {
    pub(crate) fn is_some(&self) -> bool {
        !self.block.is_null()
    }

    pub(crate) fn size(&self) -> usize {
        self.size as usize
    }

    /// Takes the block out, and leaves none.
    pub(crate) fn take(&mut self) -> Self {
        mem::take(self)
    }

    pub(crate) fn address(&self) -> usize {
        self.block as usize
    }

    /// A block of which address and size were kept in another form.
    ///
    /// # Safety
    /// They must be those of a block that was given up when they were taken from it, or zero.
    pub(crate) unsafe fn from_parts(address: usize, size: u32, tag: u32) -> Self {
        Self { block: address as *mut c_void, size, tag }
    }

    /// Where the block's first bytes hold another, in a chain. Null without a block.
    pub(crate) fn link(&self) -> *mut Self {
        self.block.cast()
    }

    fn bytes(&self) -> *mut u8 {
        self.block.cast()
    }

    fn subject(&self) -> Subject {
        Subject { block: self.bytes(), size: self.size(), tag: self.tag }
    }
}

/// A thread at work.
pub(crate) struct Worker<'a> {
    /// Its number; threads that follow each other in one place have the same.
    pub(crate) number: u32,
    /// Its random numbers.
    pub(crate) rng: Rng,
    pub(crate) session: &'a Session,
    pub(crate) tally: &'a Tally,
}

impl Worker<'_> {
    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        self.session.is_stopped()
    }

    /// `malloc`.
    #[inline]
    pub(crate) fn allocate(&mut self, size: usize) -> Result<Held, Halt> {
        self.took(blocks::allocate(size), size, pattern::owed_alignment(size))
    }

    /// `memalign`.
    pub(crate) fn allocate_aligned(&mut self, alignment: usize, size: usize) -> Result<Held, Halt> {
        self.took(blocks::allocate_aligned(alignment, size), size, alignment)
    }

    /// `calloc`.
    pub(crate) fn allocate_zeroed(&mut self, size: usize) -> Result<Held, Halt> {
        let block = blocks::allocate_zeroed(size);
        if self.session.checks.verifies
            && let Some(block) = block
        {
            // SAFETY: the block was allocated with this size just now, and `calloc` wrote it.
            let bytes = unsafe { pattern::bytes(block.as_ptr().cast(), size) };
            self.session.insist(pattern::check_zero(bytes))?;
        }
        self.took(block, size, pattern::owed_alignment(size))
    }

    #[inline]
    fn took(
        &mut self,
        block: Option<NonNull<c_void>>,
        size: usize,
        alignment: usize,
    ) -> Result<Held, Halt> {
        let Some(block) = block else {
            return Err(self.session.fail(Error::Exhausted { size: size as u64 }));
        };
        self.tally.allocated(size);
        let mut held = Held { block: block.as_ptr(), size: size as u32, tag: 0 };
        if self.session.checks.are_wanted() {
            self.enter(&mut held, alignment)?;
        }
        Ok(held)
    }

    /// `realloc`; of none, it allocates.
    pub(crate) fn resize(&mut self, mut held: Held, size: usize) -> Result<Held, Halt> {
        if self.session.checks.are_wanted() && held.is_some() {
            self.strike(&held)?;
        }
        // SAFETY: the block was allocated and not freed, or there is none; a failure ends the run,
        // in which case the block is never used again.
        let Some(block) = (unsafe { blocks::resize(held.block, size) }) else {
            return Err(self.session.fail(Error::Exhausted { size: size as u64 }));
        };
        let kept = held.size().min(size);
        if held.is_some() {
            self.tally.resized(held.size(), size);
        } else {
            self.tally.allocated(size);
        }
        held.block = block.as_ptr();
        held.size = size as u32;
        if self.session.checks.are_wanted() {
            if self.session.checks.verifies {
                // SAFETY: `realloc` keeps what both sizes have, and all of it was filled.
                let bytes = unsafe { pattern::bytes(held.bytes(), kept) };
                self.session.insist(pattern::check(bytes, held.tag, size))?;
            }
            self.enter(&mut held, pattern::owed_alignment(size))?;
        }
        Ok(held)
    }

    /// `free`, of a block or of none; leaves none.
    #[inline]
    pub(crate) fn free(&mut self, held: &mut Held) -> Result<(), Halt> {
        let Held { block, size, .. } = *held;
        if !block.is_null() {
            if self.session.checks.are_wanted() {
                self.strike(held)?;
            }
            self.tally.freed(size as usize);
            *held = Held::default();
        }
        // SAFETY: the block was allocated, and its holder forgets it here.
        unsafe { blocks::release(block) };
        Ok(())
    }

    /// Frees every block of an array.
    pub(crate) fn free_all(&mut self, array: &mut [Held]) -> Result<(), Halt> {
        array.iter_mut().filter(|held| held.is_some()).try_for_each(|held| self.free(held))
    }

    /// Becomes the one whose block this is, for the count of shared lines.
    pub(crate) fn adopt(&self, held: &Held) {
        self.session.checks.hand_over(held.subject(), self.number);
    }

    /// Writes `byte` at `offset`, and reads it back. Where contents are checked, writes what is to
    /// be there.
    #[inline]
    pub(crate) fn write(&self, held: &mut Held, offset: usize, byte: u8) {
        assert!(offset < held.size(), "within the block");
        let byte =
            if self.session.checks.verifies { pattern::byte(held.tag, offset) } else { byte };
        // SAFETY: within a live block, checked just now.
        let place = unsafe { held.bytes().add(offset) };
        // SAFETY: as above; nobody else uses the block. Volatile, because nothing needs it.
        unsafe { place.write_volatile(byte) };
        // SAFETY: as above.
        let _ = unsafe { place.read_volatile() };
    }

    /// Writes the first `len` bytes, or all of a smaller block. Where contents are checked, they
    /// are already what they are to be.
    #[inline]
    pub(crate) fn fill(&self, held: &mut Held, len: usize) {
        let Some(block) = NonNull::new(held.block) else { return };
        if !self.session.checks.verifies {
            // SAFETY: a live block of this size, which nobody else uses.
            unsafe { blocks::fill(block, len.min(held.size())) };
        }
    }

    /// Makes the first `len` bytes what they are to be where contents are checked, after the
    /// harness has used them.
    #[inline]
    pub(crate) fn restore(&self, held: &mut Held, len: usize) {
        if self.session.checks.verifies && held.is_some() {
            let len = len.min(held.size());
            // SAFETY: a live block of this size at least, which nobody else uses.
            pattern::fill(unsafe { pattern::bytes_mut(held.bytes(), len) }, held.tag);
        }
    }

    /// Gives a block another tag, and the contents that go with it where those are checked.
    #[inline]
    pub(crate) fn retag(&self, held: &mut Held, tag: u32) {
        held.tag = tag;
        self.restore(held, usize::MAX);
    }

    /// Prepares a new block for being checked.
    #[cold]
    fn enter(&mut self, held: &mut Held, alignment: usize) -> Result<(), Halt> {
        let count = self.tally.allocations() as u32 & ((1 << TAG_BITS) - 1);
        held.tag = (self.number << TAG_BITS) | count;
        // SAFETY: the block was allocated with this size just now.
        let entered = unsafe { self.session.checks.enter(held.subject(), alignment, self.number) };
        self.session.insist(entered)
    }

    /// Checks a block that is about to be freed.
    #[cold]
    fn strike(&mut self, held: &Held) -> Result<(), Halt> {
        // SAFETY: the block is live, and was entered when it was allocated.
        self.session.insist(unsafe { self.session.checks.strike(held.subject()) })
    }
}

impl Session {
    /// Ends the run if something was found to be wrong.
    pub(crate) fn insist(&self, found: Result<(), Fault>) -> Result<(), Halt> {
        found.map_err(|fault| self.fail(Error::Corrupt(fault)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::tests::verifying;

    /// Overwrites a byte of a block behind the harness's back, and tells what it was.
    fn corrupt(held: &Held, offset: usize) -> u8 {
        assert!(offset < held.size());
        // SAFETY: within a live block.
        let place = unsafe { held.bytes().add(offset) };
        // SAFETY: as above, and all of it was filled.
        let written = unsafe { place.read() };
        // SAFETY: as above.
        unsafe { place.write(!written) };
        written
    }

    #[test]
    fn a_corrupted_block_is_found_when_it_is_freed_and_ends_the_run() {
        let session = verifying();
        let worker = &mut session.leader();
        for offset in [0, 7, 50, 99] {
            let mut held = worker.allocate(100).expect("memory");
            let written = corrupt(&held, offset);
            worker.free(&mut held).expect_err("must be found");
            let fault = Fault::Contents { size: 100, offset, written, found: !written };
            let failure = session.take_failure().expect("kept");
            assert!(matches!(failure, Error::Corrupt(found) if found == fault), "{failure}");
            assert!(session.is_stopped());
        }
        assert_eq!(session.checks.verified_blocks(), Some(0));
    }

    #[test]
    fn a_block_corrupted_before_it_is_resized_is_found_too() {
        let session = verifying();
        let worker = &mut session.leader();
        let held = worker.allocate(100).expect("memory");
        corrupt(&held, 3);
        assert!(worker.resize(held, 200).is_err());
    }

    #[test]
    fn two_harness_blocks_at_one_address_are_found_out() {
        let session = verifying();
        let worker = &mut session.leader();
        let mut one = worker.allocate(64).expect("memory");
        // What an allocator does that gives a block out twice: the second owner writes to it.
        let two = worker.took(NonNull::new(one.block), 64, 1).expect("aligned");
        assert_eq!(two.address(), one.address());
        assert!(worker.free(&mut one).is_err());
    }

    #[test]
    fn blocks_keep_their_contents_through_all_kinds_of_calls() {
        let session = verifying();
        let worker = &mut session.leader();
        let mut blocks = [
            worker.allocate_zeroed(1000).expect("memory"),
            worker.allocate_aligned(32, 40).expect("memory"),
            worker.resize(Held::default(), 10).expect("memory"),
        ];
        for held in &mut blocks {
            worker.write(held, 5, 1);
            *held = worker.resize(held.take(), 5000).expect("memory");
            *held = worker.resize(held.take(), 20).expect("memory");
        }
        worker.free_all(&mut blocks).expect("as they were");
        let calls = Tally::calls(&session.tallies);
        assert_eq!((calls.allocations, calls.reallocations, calls.frees), (3, 6, 3));
        assert_eq!(session.checks.verified_blocks(), Some(9));
        assert_eq!(session.live_bytes(), 0);
    }
}
