//! The operating system, as Freehold sees it.
//!
//! Owns every system call of the allocator. Nothing here allocates, touches `errno`, or reads libc
//! state that is not ready before the first constructor runs, so any of it may be called from the
//! first `malloc` of a process.
//!
//! [`System`] is the contract; [`Linux`] is the mechanism; `fake` (feature `fake`) is a double that
//! counts, and fails the call it is told to.

#![no_std]

#[cfg(test)]
extern crate std;

pub mod alone;
pub mod environment;
mod exceptions;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod futex;
mod guard;
mod linux;
pub mod loader;
mod move_pages;
pub mod own;
pub mod process;
mod processor;
pub mod random;
pub mod shared;
pub mod signal;
pub mod stderr;
pub mod syscall;
mod system;
pub mod thread;
pub mod tls;
pub mod touch;
pub mod weak;

pub use linux::Linux;
pub use system::{HugePages, System};
