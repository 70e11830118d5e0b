//! The header in front of every block: who gave it out, how large it is, and of which kind.

/// Blocks are aligned to this, and so are their sizes; headers are as large.
pub(crate) const UNIT: usize = 16;

/// The largest request that is considered at all.
pub(crate) const LARGEST: usize = isize::MAX as usize - (1 << 20);

/// The bits of [`Header::tag`] that tell the kind; sizes leave them zero.
const KIND_BITS: usize = UNIT - 1;

/// What a block is, and so who takes it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Free, in a best-fit heap.
    Free = 0,
    /// In use, from a best-fit heap.
    Fitted = 1,
    /// In use, from one of several places that hold blocks of one size: the owner tells which.
    Classed = 2,
    /// Not a block of its own, but a place within another one that is aligned to more than a unit.
    Aligned = 3,
}

/// What stands in front of a block.
#[repr(C)]
pub(crate) struct Header {
    /// Best-fit heap: the header of the block before this one. Classed: the chunk or heap that it
    /// belongs to. Aligned: the block that it lies within.
    pub(crate) owner: usize,
    /// The size of the block and its kind.
    tag: usize,
}

const _: () = assert!(size_of::<Header>() == UNIT);

impl Header {
    /// A header with these contents.
    pub(crate) fn new(owner: usize, bytes: usize, kind: Kind) -> Self {
        Self { owner, tag: bytes | kind as usize }
    }

    /// The size of the block without its header.
    pub(crate) fn bytes(&self) -> usize {
        self.tag & !KIND_BITS
    }

    pub(crate) fn kind(&self) -> Kind {
        match self.tag & KIND_BITS {
            0 => Kind::Free,
            1 => Kind::Fitted,
            2 => Kind::Classed,
            _ => Kind::Aligned,
        }
    }

    /// Changes size and kind, and leaves the owner.
    pub(crate) fn set(&mut self, bytes: usize, kind: Kind) {
        self.tag = bytes | kind as usize;
    }
}

/// A pointer to a place in the segment, from its address.
pub(crate) fn at<T>(address: usize) -> *mut T {
    core::ptr::with_exposed_provenance_mut(address)
}

/// The header at this address.
///
/// # Safety
/// There is one, and nobody else uses it meanwhile.
pub(crate) unsafe fn header<'a>(address: usize) -> &'a mut Header {
    // SAFETY: the caller's promise.
    unsafe { &mut *at::<Header>(address) }
}

/// The header in front of a block.
///
/// # Safety
/// As for [`header`].
pub(crate) unsafe fn header_of<'a>(block: *mut u8) -> &'a mut Header {
    // SAFETY: the caller's promise; a header lies just in front of its block.
    unsafe { header(block.addr() - UNIT) }
}

/// A request in whole units, and at least one: `free` needs some room. `None` for what nobody has.
pub(crate) fn whole_units(size: usize) -> Option<usize> {
    (size <= LARGEST).then(|| size.next_multiple_of(UNIT).max(UNIT))
}

/// The bytes from here to the end of the block.
///
/// # Safety
/// The block is in use by the caller.
pub(crate) unsafe fn usable(block: *mut u8) -> usize {
    // SAFETY: the caller's promise.
    let own = unsafe { header_of(block) };
    if own.kind() != Kind::Aligned {
        return own.bytes();
    }
    // SAFETY: the block around an aligned place is in use for as long as that.
    own.owner + unsafe { header_of(at(own.owner)) }.bytes() - block.addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_keeps_size_and_kind_apart() {
        for kind in [Kind::Free, Kind::Fitted, Kind::Classed, Kind::Aligned] {
            let header = Header::new(7, 4096, kind);
            assert_eq!((header.bytes(), header.kind(), header.owner), (4096, kind, 7));
        }
    }

    #[test]
    fn requests_are_rounded_up_and_never_to_nothing() {
        assert_eq!(whole_units(0), Some(16));
        assert_eq!(whole_units(16), Some(16));
        assert_eq!(whole_units(17), Some(32));
        assert_eq!(whole_units(usize::MAX), None);
    }
}
