//! The name of an address: the file it comes from, and where it is there, as `addr2line` takes it.

use crate::maps::Mapping;
use core::fmt;
use freehold_heap::layout::at;

/// A place in a file.
pub(crate) struct Place {
    mapping: Mapping,
    offset: usize,
}

impl Place {
    /// The place of an address; `None` if it is of no file.
    pub(crate) fn of(address: usize) -> Option<Self> {
        let mapping = Mapping::containing(address)?;
        let base = mapping.base()?;
        let offset = if is_fixed(base) { address } else { address - base };
        Some(Self { mapping, offset })
    }

    /// The file.
    pub(crate) fn file(&self) -> &str {
        self.mapping.name()
    }

    /// Where the address is in the file's own terms.
    #[cfg(test)]
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{:#x}", self.file(), self.offset)
    }
}

/// Whether the file at `base` is a program that runs at the addresses that stand in it.
fn is_fixed(base: usize) -> bool {
    const MAGIC: u32 = u32::from_ne_bytes(*b"\x7fELF");
    const KIND: usize = 16;
    const EXECUTABLE: u16 = 2;
    // SAFETY: the first bytes of a file, which the kernel says are mapped to be read.
    unsafe { at::<u32>(base).read() == MAGIC && at::<u16>(base + KIND).read() == EXECUTABLE }
}
