//! How the address space is divided.
//!
//! ```text
//! region   one reservation, up to 1 TiB
//! └ zone   128 MiB = 64 blocks: one word says which blocks are wholly free
//!   └ block   2 MiB = 64 granules: one word says which granules are free; the size of a huge page
//!     └ granule   32 KiB: a slab of small objects, or part of a larger slab or of a run
//! ```
//!
//! The figures behind the sizes stand in `docs/design.md`.

/// log2 of the bytes in a granule.
pub const GRANULE_SHIFT: u32 = 15;
/// Bytes in a granule.
pub const GRANULE: usize = 1 << GRANULE_SHIFT;
/// Granules in a block: as many as bits in a word.
pub const BLOCK_GRANULES: u32 = 64;
/// log2 of the bytes in a block.
pub const BLOCK_SHIFT: u32 = GRANULE_SHIFT + 6;
/// Bytes in a block.
pub const BLOCK: usize = 1 << BLOCK_SHIFT;
/// Blocks in a zone: as many as bits in a word.
pub const ZONE_BLOCKS: u32 = 64;
/// Granules in a zone.
pub const ZONE_GRANULES: usize = (BLOCK_GRANULES * ZONE_BLOCKS) as usize;
/// Every object starts at a multiple of this many bytes, as `max_align_t` wants.
pub const UNIT: usize = 16;

/// A granule, by its number from the start of the region.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Granule(pub u32);

/// A block, by its number from the start of the region.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Block(pub u32);

impl Granule {
    /// The block it lies in.
    pub const fn block(self) -> Block {
        Block(self.0 / BLOCK_GRANULES)
    }

    /// Its number within its block.
    pub const fn in_block(self) -> u32 {
        self.0 % BLOCK_GRANULES
    }

    /// The granule `n` further on.
    #[must_use]
    pub const fn plus(self, n: u32) -> Self {
        Self(self.0 + n)
    }
}

impl Block {
    /// Its first granule.
    pub const fn first(self) -> Granule {
        Granule(self.0 * BLOCK_GRANULES)
    }

    /// The number of the zone it lies in.
    pub const fn zone(self) -> u32 {
        self.0 / ZONE_BLOCKS
    }

    /// Its number there.
    pub const fn in_zone(self) -> u32 {
        self.0 % ZONE_BLOCKS
    }

    /// Its bit in the words of its zone.
    pub const fn bit(self) -> u64 {
        1 << self.in_zone()
    }
}

/// A typed pointer to an address inside the region or its tables.
#[inline]
pub fn at<T>(address: usize) -> *mut T {
    core::ptr::with_exposed_provenance_mut(address)
}
