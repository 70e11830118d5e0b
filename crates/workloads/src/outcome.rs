//! What a run of a harness measured.

use std::time::Duration;

use crate::resident::{Peaks, Resident};
use crate::sharing::FalseSharing;
use crate::timeline::Reading;
use crate::usage::Usage;

/// A number that a harness reports besides its metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Detail {
    /// What it is.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Its value.
    pub value: f64,
}

/// A column of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// What it is.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
}

/// Numbers taken one after the other during a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// What stands in each place of a row.
    pub columns: &'static [Column],
    /// The readings, in the order in which they were taken.
    pub rows: Vec<Vec<f64>>,
}

/// Calls made by all threads together, those before and after the measurement included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Calls {
    /// `malloc`, `calloc`, `memalign`, and `realloc` of nothing.
    pub allocations: u64,
    /// `realloc` of a block.
    pub reallocations: u64,
    /// `free`.
    pub frees: u64,
}

/// Requested bytes that were not yet freed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Live {
    /// The most at once that was seen: looked at every few milliseconds, and where the harness
    /// knows its peak. Never more than there were.
    pub peak_bytes: u64,
    /// When the measurement ended.
    pub end_bytes: u64,
}

/// Memory around a measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Memory {
    /// Before the measurement began.
    pub before: Resident,
    /// When it ended.
    pub end: Resident,
    /// Address space when it ended.
    pub end_virtual_bytes: u64,
    /// At once after everything was freed, threads alive.
    pub freed: Resident,
    /// After the settle time, if there was one.
    pub settled: Option<Resident>,
    /// High-water marks.
    pub peaks: Peaks,
    /// Mapped by the harness for itself; part of every reading.
    pub harness_bytes: u64,
}

/// What a run measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The value of the harness's metric.
    pub value: f64,
    /// The length of the measurement.
    pub elapsed: Duration,
    /// Other numbers.
    pub details: Vec<Detail>,
    /// Numbers of its own that the harness takes one after the other.
    pub series: Option<Series>,
    /// Readings while it was measured.
    pub timeline: Vec<Reading>,
    /// Calls made.
    pub calls: Calls,
    /// Requested bytes.
    pub live: Live,
    /// Memory.
    pub memory: Memory,
    /// Processor time and faults during the measurement.
    pub usage: Usage,
    /// How many blocks were checked, if that was asked for.
    pub verified_blocks: Option<u64>,
    /// How many blocks shared a cache line, if that was asked for.
    pub false_sharing: Option<FalseSharing>,
}
