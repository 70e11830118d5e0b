//! The laboratory: finding allocators, planning a benchmark, running it in child processes, and
//! what the runs amount to; and looking at a live process to tell which allocator serves it.
//!
//! It prints nothing and must not know how results are shown. What it knows of any allocator,
//! Freehold included, it reads from files and processes as anybody could.
#![forbid(unsafe_code)]

pub mod bench;
pub mod child;
mod concerns;
mod elf;
mod find;
pub mod grid;
mod hash;
mod inspect;
mod known;
pub mod launch;
pub mod machine;
mod maps;
mod naming;
pub mod plan;
pub mod process;
mod random;
pub mod statistics;
mod summary;
mod surroundings;
pub mod trace;
mod version;

pub use concerns::{Concern, concerns};
pub use find::{Finder, Unfit};
pub use hash::library;
pub use inspect::InspectError;
pub use known::{FREEHOLD, KNOWN, Known, SYSTEM};
pub use naming::distinct_name;
pub use summary::summarise;
pub use surroundings::Surroundings;
pub use version::is_asked_for;
