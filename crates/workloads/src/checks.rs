//! What is looked at in a block between its allocation and its end, if that was asked for: its
//! contents, and what else is on its cache lines. It must not know who allocates.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::pattern::{self, Fault};
use crate::sharing::{FalseSharing, Lines};

/// A block as it is checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject {
    pub(crate) block: *mut u8,
    pub(crate) size: usize,
    /// What its contents are made from. Kept apart from the block, so that one that was given out
    /// twice is found out.
    pub(crate) tag: u32,
}

/// The checks of a run.
pub(crate) struct Checks {
    /// Whether contents are checked.
    pub(crate) verifies: bool,
    lines: Option<Lines>,
    verified: AtomicU64,
}

impl Checks {
    pub(crate) fn new(verifies: bool, counts_sharing: bool) -> io::Result<Self> {
        let lines = counts_sharing.then(Lines::new).transpose()?;
        Ok(Self { verifies, lines, verified: AtomicU64::new(0) })
    }

    /// Whether shared lines are counted.
    pub(crate) fn counts_sharing(&self) -> bool {
        self.lines.is_some()
    }

    /// Whether there is anything to look at.
    #[inline]
    pub(crate) fn are_wanted(&self) -> bool {
        self.verifies || self.lines.is_some()
    }

    /// Takes up a new block of `owner`, and fills it.
    ///
    /// # Safety
    /// The block must be live, of at least its size, and used by nobody else.
    #[cold]
    pub(crate) unsafe fn enter(
        &self,
        subject: Subject,
        alignment: usize,
        owner: u32,
    ) -> Result<(), Fault> {
        let Subject { block, size, tag } = subject;
        if self.verifies {
            pattern::check_alignment(block as usize, alignment)?;
            // SAFETY: the caller vouches for it.
            pattern::fill(unsafe { pattern::bytes_mut(block, size) }, tag);
        }
        if let Some(lines) = &self.lines {
            lines.enter(block as usize, size, owner);
        }
        Ok(())
    }

    /// Looks at a block that is about to be freed or resized.
    ///
    /// # Safety
    /// The block must have been entered, and be used by nobody else.
    #[cold]
    pub(crate) unsafe fn strike(&self, subject: Subject) -> Result<(), Fault> {
        let Subject { block, size, tag } = subject;
        if self.verifies {
            // SAFETY: the caller vouches for it, and the block was filled when it was entered.
            pattern::check(unsafe { pattern::bytes(block, size) }, tag, size)?;
            self.verified.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(lines) = &self.lines {
            lines.strike(block as usize, size);
        }
        Ok(())
    }

    /// Makes another thread the owner of a block, for the count of shared lines.
    pub(crate) fn hand_over(&self, subject: Subject, owner: u32) {
        if let Some(lines) = &self.lines {
            lines.hand_over(subject.block as usize, subject.size, owner);
        }
    }

    /// Blocks that were found to be right, if contents are checked.
    pub(crate) fn verified_blocks(&self) -> Option<u64> {
        self.verifies.then(|| self.verified.load(Ordering::Relaxed))
    }

    /// The count of shared lines, if there is one.
    pub(crate) fn false_sharing(&self) -> Option<FalseSharing> {
        self.lines.as_ref().map(Lines::count)
    }
}
