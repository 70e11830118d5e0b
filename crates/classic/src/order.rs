//! The order in which the models' locks are taken, the outermost first.

use freehold_sync::rank::Rank;

/// Held while making buckets.
pub(crate) const BUCKETS: &Rank = &Rank::new(0, "buckets");
/// That of a heap, which may be a thread's, a bucket or everybody's.
pub(crate) const HEAP: &Rank = &Rank::new(1, "heap");
/// A chunk's.
pub(crate) const CHUNK: &Rank = &Rank::new(2, "chunk");
/// That of the oversize area.
pub(crate) const OVERSIZE: &Rank = &Rank::new(3, "oversize");
/// That of the data segment.
pub(crate) const SEGMENT: &Rank = &Rank::new(4, "segment");
/// Held while making the key that tells threads apart.
pub(crate) const KEY: &Rank = &Rank::new(5, "key");
