//! Reading live processes: where each thread's time goes, what it waits for, and who made it wait.
//!
//! Everything here works from outside. Nothing is stopped but by `calls`, which has to; a process
//! that is no longer watched is as it was before. What a user may not see is named, with the
//! setting that would allow it. It prints nothing and must not know how results are shown.

mod access;
pub mod calls;
mod charges;
mod chunks;
mod clock;
mod counters;
mod counting;
pub mod diagnose;
mod duty;
pub mod explain;
mod figures;
pub mod hold;
mod huge;
pub mod locks;
mod memory;
mod micro;
mod pace;
mod perf;
mod proc;
mod profile;
mod reading;
mod recorded;
mod rest;
mod sharing;
mod split;
mod stack;
mod syscalls;
mod tally;
mod target;
pub mod timeline;
pub mod top;
mod trace;
mod verdict;
mod waiting;
mod watch;
mod words;

pub use target::TargetError;
