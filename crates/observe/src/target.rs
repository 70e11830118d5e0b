//! The process that is to be watched: that it exists, and may be watched.

use std::{fmt, io};

use crate::proc::tree;

/// Why a process cannot be watched.
#[derive(Debug)]
pub enum TargetError {
    /// There is none of this number.
    NotFound,
    /// The system refused something.
    Refused(io::Error),
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => f.write_str("there is no such process"),
            Self::Refused(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for TargetError {}

impl From<io::Error> for TargetError {
    fn from(error: io::Error) -> Self {
        Self::Refused(error)
    }
}

/// Insists that there is such a process.
pub(crate) fn check(pid: u32) -> Result<(), TargetError> {
    if tree::exists(pid) { Ok(()) } else { Err(TargetError::NotFound) }
}
