//! Where each thread's time went over the whole of a run: what `freehold timeline` draws.

use serde::{Deserialize, Serialize};

use crate::evidence::{Cost, Gap, Source};
use crate::schema::Document;
use crate::top::Shares;

/// A thread over time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadBar {
    /// Its process.
    pub pid: u32,
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// Where its time went in each column; `None` where it was not there.
    pub columns: Vec<Option<Shares>>,
}

/// A stretch of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeColumn {
    /// When it ended, in seconds since observing began.
    pub end_seconds: f64,
    /// How long it was.
    pub seconds: f64,
    /// Resident memory of all processes at its end, in bytes.
    pub resident_bytes: u64,
    /// Bytes that the program had in use of it at its end, where that is known.
    pub live_bytes: Option<u64>,
}

/// All threads over time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// What was observed: a command line.
    pub subject: Vec<String>,
    /// Stretches of time, one after the other.
    pub columns: Vec<TimeColumn>,
    /// Threads, in the order in which they were first seen.
    pub threads: Vec<ThreadBar>,
    /// Threads that were too many to be kept.
    pub left_out: u64,
    /// Where the numbers come from.
    pub sources: Vec<Source>,
    /// What could not be had.
    pub missing: Vec<Gap>,
    /// What observing cost.
    pub cost: Cost,
}

impl Document for Timeline {
    const KIND: &'static str = "timeline";
}
