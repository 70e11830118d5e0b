//! Why a run has no outcome.

use std::{fmt, io};

use crate::pattern::Fault;

/// Why a run has no outcome.
#[derive(Debug)]
pub enum Error {
    /// The settings do not go together, or name something that is not there.
    Unsuitable(String),
    /// The harness could not map its own arrays.
    Map(io::Error),
    /// Not all threads could be started.
    Threads(io::Error),
    /// The allocator returned null.
    Exhausted {
        /// The size asked for.
        size: u64,
    },
    /// A block was not as it had to be.
    Corrupt(Fault),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsuitable(reason) => f.write_str(reason),
            Self::Map(error) => write!(f, "cannot map the harness's own arrays: {error}"),
            Self::Threads(error) => write!(f, "cannot start all threads: {error}"),
            Self::Exhausted { size } => write!(f, "malloc({size}) returned null"),
            Self::Corrupt(fault) => write!(f, "the allocator is broken: {fault}"),
        }
    }
}

impl std::error::Error for Error {}
