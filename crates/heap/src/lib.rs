//! The allocator proper.
//!
//! An [`Arena`](arena::Arena) divides a region of address space; [`Heap`](heap::Heap)s take from
//! it; a [`ThreadCache`](cache::ThreadCache) is what one thread keeps to itself. `docs/design.md`
//! tells how they work together.
//!
//! There is no static here, no thread-local storage and no libc: the surroundings come as a type
//! parameter, so that a test can have a small arena, many arenas, or an operating system that
//! fails.

#![no_std]

#[cfg(test)]
extern crate std;

pub mod arena;
mod aside;
mod attached;
pub mod blocks;
mod busy;
pub mod cache;
mod check;
pub mod class;
mod company;
mod depot;
mod direct;
mod drain;
mod evict;
mod exchange;
mod figures;
mod fit;
pub mod free;
mod gathered;
mod give_back;
mod guard;
mod handover;
pub mod hardened;
pub mod heap;
mod heap_purge;
mod hot;
mod hot_runs;
pub mod invalid;
mod kept;
pub mod layout;
pub mod lease;
pub mod magazine;
pub mod medium;
pub mod order;
mod outbox;
mod own_pools;
mod parcel;
pub mod policy;
mod pool;
mod populate;
pub mod purge;
mod purge_blocks;
mod recent;
mod reclaim;
mod remote_free;
mod resize;
mod run_batches;
mod runs;
mod scavenge;
mod shut;
mod slab;
mod slab_list;
mod slab_purge;
mod spare;
mod sparse;
mod stock;
mod swing;
mod table_purge;
pub mod tables;
mod take;
pub mod tally;
pub mod usage;
mod watch;
mod whole;
mod zeroing;
