//! Freehold's figures, for those who look at a process from outside.
//!
//! A process with Freehold in it has a [`Signpost`] under the name [`SYMBOL`]. It says where the
//! allocator's tables are, and it is written once, when the allocator is set up: nothing is counted
//! for it. Who may read the process' memory reads the tables and counts what is in use and what is
//! free ([`count`]). This is all that the allocator and the toolbox share; the allocator's own
//! tests prove that it counts what the allocator does.

#![no_std]

mod count;
mod signpost;
mod table;

pub use count::{Count, Read, count};
pub use signpost::{CLASSES, Class, SIGNPOST_BYTES, SYMBOL, Signpost, VERSION};
pub use table::{block, local, tag, word};
