//! What the allocator decides, as pure functions of numbers: no pointers, no atomics, no `unsafe`.
//! The mechanism asks; nothing here acts.

pub mod grow;
pub mod populate;
pub mod purge;
pub mod retain;
pub mod scavenge;
pub mod zeroing;
