//! How the tables are laid out. The allocator asserts that they are.

/// Of each granule: what it is used for.
pub mod tag {
    /// Bytes of an entry.
    pub const BYTES: usize = 4;
    /// Where the class is, a byte; 0 where no slab or run begins.
    pub const CLASS: usize = 2;
    /// Where the number of granules is that the slab begins before this one, a byte.
    pub const DELTA: usize = 3;
    /// In place of a class: the first granule of a run.
    pub const RUN: u8 = u8::MAX;
}

/// Of each slab or run: what only its holder writes.
pub mod local {
    /// Bytes of an entry.
    pub const BYTES: usize = 64;
    /// Where the number of objects is that were ever given out, 2 bytes.
    pub const CARVED: usize = 0;
    /// Where the holder's balance of frees is, 2 bytes, signed.
    pub const BALANCE: usize = 2;
    /// Where the granules of a run are, 4 bytes.
    pub const RUN: usize = 12;
    /// Where the bin of a run is, a byte.
    pub const RUN_BIN: usize = 17;
    /// Set there if the run is free although it is claimed.
    pub const RUN_IS_FREE: u8 = 1 << 7;
}

/// Of each slab: its state, in the highest byte, and what is free.
pub mod word {
    /// Bytes of an entry, which begins with the word.
    pub const BYTES: usize = 64;
    /// Bits below the state.
    pub const PAYLOAD_BITS: u32 = 56;
    /// The state of a slab that a heap takes from: what is free, its holder knows.
    pub const ATTACHED: u64 = 1;
    /// That of a slab which a heap keeps to take from it later, and of one of which others have
    /// freed something since: likewise.
    pub const KEPT: u64 = 5;
    /// See [`KEPT`].
    pub const DISTURBED: u64 = 6;
    /// What is added to a number of free objects.
    pub const BIAS: i32 = 1 << 15;
}

/// Of each block of granules.
pub mod block {
    /// Bytes of an entry.
    pub const BYTES: usize = 64;
    /// Where the bits of the granules are that may be resident, 8 bytes.
    pub const DIRTY: usize = 8;
    /// Granules in a block.
    pub const GRANULES: usize = 64;
    /// Bytes in a granule.
    pub const GRANULE: u64 = 1 << 15;
}
