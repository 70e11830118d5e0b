//! The laboratory: finding allocators, planning a benchmark, running it in child processes, and
//! what the runs amount to; and looking at a live process to tell which allocator serves it.
//!
//! It prints nothing and must not know how results are shown. What it knows of any allocator,
//! Freehold included, it reads from files and processes as anybody could.
#![forbid(unsafe_code)]

pub mod answers;
pub mod bench;
pub mod child;
pub mod compare;
mod concerns;
pub mod counts;
pub mod diff;
mod elf;
mod find;
#[cfg(test)]
mod fixtures;
pub mod grid;
mod hash;
mod inspect;
mod known;
mod last_words;
pub mod launch;
mod lifetime;
pub mod machine;
mod maps;
mod naming;
pub mod plan;
pub mod process;
mod random;
mod redact;
pub mod replay;
pub mod reproduce;
pub mod statistics;
mod summary;
mod surroundings;
mod touch;
pub mod trace;
pub mod trial;
mod version;
mod witness;

pub use concerns::{Concern, concerns};
pub use find::{Finder, Unfit};
pub use hash::library;
pub use inspect::InspectError;
pub use known::{FREEHOLD, KNOWN, Known, SYSTEM};
pub use naming::distinct_name;
pub use redact::Redactor;
pub use summary::summarise;
pub use surroundings::{Surroundings, surroundings};
pub use version::is_asked_for;
pub use witness::Witness;
