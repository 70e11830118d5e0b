//! Why a trace cannot be used.

use std::{fmt, io};

use freehold_trace::file::VERSION;

/// What is wrong with a trace whose beginning is sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// The file ends before what was written to it does.
    Truncated {
        /// How long it is.
        bytes: u64,
        /// How long it was.
        of: u64,
    },
    /// Where a block must begin there is none.
    NoBlock {
        /// Where in the file.
        at: u64,
    },
    /// A block is there, but not as it was written.
    WrongSum {
        /// Where in the file.
        at: u64,
    },
    /// Bytes that are no record.
    NoRecord {
        /// Where in the file.
        at: u64,
    },
    /// A chunk of a thread is missing.
    NoChunk {
        /// The thread.
        thread: u32,
        /// Which of its chunks.
        sequence: u32,
    },
    /// A thread's clock runs backwards.
    Backwards {
        /// Where in the file.
        at: u64,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { bytes, of } => {
                write!(f, "it ends after {bytes} bytes, and {of} were written")
            }
            Self::NoBlock { at } => write!(f, "there is no block at byte {at}, where one must be"),
            Self::WrongSum { at } => write!(f, "the block at byte {at} has changed"),
            Self::NoRecord { at } => write!(f, "there is no record at byte {at}"),
            Self::NoChunk { thread, sequence } => {
                write!(f, "chunk {sequence} of thread {thread} is missing")
            }
            Self::Backwards { at } => write!(f, "the clock runs backwards at byte {at}"),
        }
    }
}

/// Why a trace cannot be used.
#[derive(Debug)]
pub enum TraceError {
    /// It could not be read.
    Read(io::Error),
    /// While it was recorded into, it was moved, or another file was put in its place.
    Replaced,
    /// It is not a trace.
    NotATrace,
    /// It is of another version of the format.
    Version(u32),
    /// It ends before its header does, or that is damaged.
    Header,
    /// Something behind the header is damaged.
    Damaged(Damage),
    /// It has no process of this number.
    NoProcess {
        /// The number.
        wanted: u32,
        /// How many it has.
        of: usize,
    },
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => error.fmt(f),
            Self::Replaced => {
                f.write_str("the trace was moved or replaced while it was recorded into")
            }
            Self::NotATrace => f.write_str("not a trace"),
            Self::Version(found) => {
                write!(f, "a trace of version {found}, and this toolbox reads version {VERSION}")
            }
            Self::Header => f.write_str("the header of the trace is damaged"),
            Self::Damaged(damage) => write!(f, "the trace is damaged: {damage}"),
            Self::NoProcess { wanted, of } => {
                write!(f, "there is no process {wanted}: the trace has {of}, counted from 0")
            }
        }
    }
}

impl std::error::Error for TraceError {}

impl From<io::Error> for TraceError {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

impl From<Damage> for TraceError {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}
