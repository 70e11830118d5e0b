//! Which system calls a program makes: what `freehold syscalls` shows.

use serde::{Deserialize, Serialize};

use crate::evidence::{Gap, Source};
use crate::schema::Document;

/// All calls of one kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CallRow {
    /// The system call.
    pub name: String,
    /// How often it was made.
    pub count: u64,
    /// How often it failed.
    pub errors: u64,
    /// Time from its beginnings to its ends, in seconds.
    pub seconds: f64,
    /// The longest, in seconds.
    pub longest_seconds: f64,
}

/// The calls of a thread.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadCalls {
    /// The thread.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// Its calls, those that took most time first.
    pub calls: Vec<CallRow>,
}

/// The system calls of a process and of those that descend from it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SyscallsReport {
    /// How long was observed, in seconds.
    pub seconds: f64,
    /// The calls of all threads, those that took most time first.
    pub calls: Vec<CallRow>,
    /// Each thread's, those that made most calls first.
    pub threads: Vec<ThreadCalls>,
    /// Calls of threads that were too many to be listed.
    pub unlisted_calls: u64,
    /// Where the numbers come from.
    pub sources: Vec<Source>,
    /// What could not be had.
    pub missing: Vec<Gap>,
    /// Processor time of the observer, in seconds, nearly all of it in the threads' way.
    pub observer_seconds: f64,
}

impl Document for SyscallsReport {
    const KIND: &'static str = "syscalls";
}
