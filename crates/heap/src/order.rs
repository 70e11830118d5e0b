//! The order in which locks are taken, the outermost first: those of an arena, and those of who
//! uses it. A thread never waits for a second lock of the same rank, but for a fork, which takes
//! the locks of all heaps and pools in the order of their numbers.
//!
//! Builds with debug assertions check it (`freehold_sync::rank`). Not in it is what is no lock of
//! ours: that of the C library's list of streams, which a fork takes before all of them.

use freehold_sync::rank::Rank;

/// Debugging mode's, which surrounds every call.
pub const DEBUGGING: &Rank = &Rank::new(0, "debugging mode");
/// Held while purging. Who waits for it: a fork, `malloc_trim`, and who purges within slabs.
pub(crate) const PURGE: &Rank = &Rank::new(1, "purging");
/// Held while making a heap.
pub(crate) const LEASES: &Rank = &Rank::new(2, "leases");
/// Held while making magazines.
pub(crate) const MAGAZINES: &Rank = &Rank::new(3, "magazines");
/// Held while making an outbox.
pub(crate) const OUTBOXES: &Rank = &Rank::new(4, "outboxes");
/// Held while making what a thread has in hardened mode.
pub(crate) const HARDENED: &Rank = &Rank::new(5, "hardened threads");
/// Held by a thread that begins in hardened mode, or makes sure that there is no other.
pub(crate) const LOOKING: &Rank = &Rank::new(6, "hardened looking");
/// That of the freed runs which are ready, in hardened mode.
pub(crate) const READY: &Rank = &Rank::new(7, "hardened runs");
/// A heap's.
pub(crate) const HEAP: &Rank = &Rank::new(8, "heap");
/// That of the pool of a class.
pub(crate) const POOL: &Rank = &Rank::new(9, "pool");
/// That of the list of what could not be made accessible.
pub(crate) const SHUT: &Rank = &Rank::new(10, "shut memory");
/// Held while committing more of the region.
pub(crate) const GROWTH: &Rank = &Rank::new(11, "growth");
/// That of the table of direct mappings.
pub(crate) const DIRECT: &Rank = &Rank::new(12, "direct mappings");
/// That of the pool of guarded objects.
pub const GUARDED: &Rank = &Rank::new(13, "guarded objects");
