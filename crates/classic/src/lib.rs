//! Models of classic allocator designs: small, complete enough to run any program under them, and
//! built so that each shows what its design is known for.
//!
//! | model | design | what it shows |
//! |---|---|---|
//! | [`Serial`] | one heap, one lock, best fit; Solaris libc | threads wait for each other |
//! | [`Mtmalloc`] | buckets by thread, lists of chunks; libmtmalloc | full chunks are searched |
//! | [`Exclusive`] | the later libmtmalloc, `MTEXCLUSIVE` | buckets of one's own, without locks |
//! | [`Private`] | pure private heaps: who frees keeps | growth without bound |
//! | [`Ownership`] | private heaps to which blocks return | growth by the number of threads |
//!
//! They are written from descriptions of those designs; none of the originals' code is in them,
//! and none of their speed is promised. Where a model departs from its original, its file says so.
//! In all of them a block has a header of 16 bytes, since programs on x86-64 rely on blocks that
//! are aligned to 16, and no memory ever goes back to the system, as it did not then.
//!
//! Nothing here knows of the C library but `thread` and `export`.

#![cfg_attr(not(test), no_std)]

#[cfg(test)]
extern crate core;

mod bestfit;
mod block;
mod buckets;
mod chunk;
mod class;
mod environment;
mod exclusive;
pub mod export;
mod guarded;
mod lists;
mod mtmalloc;
mod order;
mod oversize;
mod ownership;
mod private;
mod segment;
mod serial;
mod thread;
mod tree;

pub use exclusive::Exclusive;
#[doc(hidden)]
pub use freehold_sys::pass_exceptions;
pub use mtmalloc::Mtmalloc;
pub use ownership::Ownership;
pub use private::Private;
pub use serial::Serial;

use freehold_sync::lock::Lock;

/// A model: what gives blocks out and takes them back. Everything else of the malloc family is
/// made of these two.
pub trait Model: Sync {
    /// A block of at least `size` bytes, aligned to 16; null if there is no memory.
    fn allocate(&self, size: usize) -> *mut u8;

    /// Takes a block back.
    ///
    /// # Safety
    /// The block came from `allocate` of this very model and nobody uses it any longer.
    unsafe fn deallocate(&self, block: *mut u8);

    /// The locks that a fork has to hold, so that it finds nothing in the middle of a change, in
    /// the order in which they are taken.
    fn each_lock(&self, each: &mut dyn FnMut(&Lock));

    /// In the child of a fork, when those locks are held: makes every other one free.
    fn after_fork(&self) {}
}
