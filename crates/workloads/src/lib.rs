//! The harnesses that allocators are measured with.
//!
//! A harness calls the C `malloc` and `free` of the process it runs in and knows no allocator:
//! which one answers is decided by whoever started the process, and `identity` reports what the
//! dynamic loader made of it. Memory that a harness needs for itself comes straight from the
//! kernel, so that what is measured is the measured calls and nothing else.
//!
//! This crate depends on none of the others but the format of recorded calls; it must not know how
//! its numbers are stored, compared or shown.

mod blocks;
mod cell;
mod chain;
mod checks;
mod clock;
mod crew;
mod error;
mod futex;
mod gate;
mod handoff;
pub mod harness;
pub mod harnesses;
pub mod identity;
mod mailbox;
mod mapping;
pub mod outcome;
pub mod pairs;
mod pattern;
mod progress;
pub mod replay;
pub mod resident;
mod rng;
mod session;
pub mod settings;
mod sharing;
mod sizes;
mod spin;
mod tally;
mod threads;
pub mod timeline;
pub mod usage;
mod worker;

pub use error::Error;
pub use handoff::Handoff;
pub use pattern::Fault;
pub use sharing::FalseSharing;
