//! Which allocator serves a process, and how it came to do so.

use serde::{Deserialize, Serialize};

use crate::allocator::Allocator;
use crate::schema::Document;

/// How an allocator got into a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Linkage {
    /// Named in `LD_PRELOAD` or `/etc/ld.so.preload`.
    Preloaded,
    /// A library that the executable, or one of its libraries, was linked with.
    Linked,
    /// Part of the executable.
    Static,
    /// None was brought: the C library's own.
    CLibrary,
    /// Mapped, but neither preloaded nor linked: opened while the process ran.
    OpenedLater,
}

/// An allocator within a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provider {
    /// Which known allocator it is; `None` where it could not be recognised.
    pub family: Option<String>,
    /// The version, where the file says one.
    pub version: Option<String>,
    /// How it was loaded.
    pub linkage: Linkage,
    /// The file that holds it, as the process sees it.
    pub path: String,
}

/// What `freehold which` found out about a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessReport {
    /// The process.
    pub pid: u32,
    /// Its executable.
    pub executable: String,
    /// Allocators that serve calls, the one that serves the program's own first.
    pub live: Vec<Provider>,
    /// Allocators that are mapped but serve no call to `malloc`.
    pub idle: Vec<Provider>,
    /// What a reader has to know besides, in sentences.
    pub notes: Vec<String>,
}

impl ProcessReport {
    /// Whether the allocator that serves the program is known by name.
    pub fn is_identified(&self) -> bool {
        self.live.first().is_some_and(|provider| provider.family.is_some())
    }
}

impl Document for ProcessReport {
    const KIND: &'static str = "process";
}

/// What `freehold run` can say about the allocator it was to run under.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum Verdict {
    /// Seen in the running process, serving `malloc`.
    Live {
        /// The process it was seen in.
        pid: u32,
    },
    /// The process ended before it could be looked at; the loader was asked instead, and binds
    /// this executable's `malloc` to the allocator.
    LoaderConfirms {
        /// The process that ended.
        pid: u32,
    },
    /// Seen in the running process, or known beforehand, not to serve `malloc`.
    NotLive {
        /// Why.
        reason: String,
    },
}

impl Verdict {
    /// Whether the allocator was shown to be in use.
    pub fn is_live(&self) -> bool {
        !matches!(self, Self::NotLive { .. })
    }
}

/// What `freehold run --json` writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunReport {
    /// The allocator asked for.
    pub allocator: Allocator,
    /// The command.
    pub command: Vec<String>,
    /// Whether the allocator was live.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// The exit status of the command, where it ended by itself.
    pub exit_status: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

impl Document for RunReport {
    const KIND: &'static str = "run";
}
