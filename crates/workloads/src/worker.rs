//! A thread's access to the measured calls: it counts them, and checks them if that was asked for.
//! It must not know what a harness does with the blocks.

use std::ffi::c_void;
use std::mem;
use std::ptr::{self, NonNull};

use crate::error::Error;
use crate::pattern::{self, Fault};
use crate::rng::Rng;
use crate::session::Session;
use crate::tally::Tally;
use crate::{blocks, mapping};

/// Bits of a tag that count a thread's allocations; the others number the thread.
const TAG_BITS: u32 = 22;

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

    fn address(&self) -> usize {
        self.block as usize
    }

    fn bytes(&self) -> *mut u8 {
        self.block.cast()
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
        if self.session.verifies
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
        if self.session.is_checked() {
            self.enter(&mut held, alignment)?;
        }
        Ok(held)
    }

    /// `realloc`; of none, it allocates.
    pub(crate) fn resize(&mut self, mut held: Held, size: usize) -> Result<Held, Halt> {
        if self.session.is_checked() && held.is_some() {
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
        if self.session.is_checked() {
            if self.session.verifies {
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
            if self.session.is_checked() {
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
        if let Some(lines) = &self.session.lines {
            lines.hand_over(held.address(), held.size(), self.number);
        }
    }

    /// Writes `byte` at `offset`, and reads it back. Where contents are checked, writes what is to
    /// be there.
    #[inline]
    pub(crate) fn write(&self, held: &mut Held, offset: usize, byte: u8) {
        assert!(offset < held.size(), "within the block");
        let byte = if self.session.verifies { pattern::byte(held.tag, offset) } else { byte };
        // SAFETY: within a live block, checked just now.
        let place = unsafe { held.bytes().add(offset) };
        // SAFETY: as above; nobody else uses the block. Volatile, because nothing needs it.
        unsafe { place.write_volatile(byte) };
        // SAFETY: as above.
        let _ = unsafe { place.read_volatile() };
    }

    /// Prepares a new block for being checked.
    #[cold]
    fn enter(&mut self, held: &mut Held, alignment: usize) -> Result<(), Halt> {
        let count = self.tally.allocations() as u32 & ((1 << TAG_BITS) - 1);
        held.tag = (self.number << TAG_BITS) | count;
        if self.session.verifies {
            self.session.insist(pattern::check_alignment(held.address(), alignment))?;
            // SAFETY: the block was allocated with this size just now.
            pattern::fill(unsafe { pattern::bytes_mut(held.bytes(), held.size()) }, held.tag);
        }
        if let Some(lines) = &self.session.lines {
            lines.enter(held.address(), held.size(), self.number);
        }
        Ok(())
    }

    /// Checks a block that is about to be freed.
    #[cold]
    fn strike(&mut self, held: &Held) -> Result<(), Halt> {
        if self.session.verifies {
            // SAFETY: the block is live, and was filled when it was allocated.
            let bytes = unsafe { pattern::bytes(held.bytes(), held.size()) };
            self.session.insist(pattern::check(bytes, held.tag, held.size()))?;
            self.session.verified();
        }
        if let Some(lines) = &self.session.lines {
            lines.strike(held.address(), held.size());
        }
        Ok(())
    }
}

impl Session {
    /// Ends the run if something was found to be wrong.
    pub(crate) fn insist(&self, found: Result<(), Fault>) -> Result<(), Halt> {
        found.map_err(|fault| self.fail(Error::Corrupt(fault)))
    }
}
