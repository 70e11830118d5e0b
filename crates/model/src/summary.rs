//! What runs amount to: medians, ratios between allocators, and how sure they are.

use serde::{Deserialize, Serialize};

/// The middle and the ends of repeated measurements.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

/// An estimate with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The estimate.
    pub estimate: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// How often an interval made this way holds the true value: 0.95 where there are enough
    /// measurements, less where there are few, and 0 for a single one, which says nothing.
    pub level: f64,
}

impl Interval {
    /// Whether the interval, as a ratio of two values, leaves open which of them is greater.
    pub fn leaves_open(&self) -> bool {
        self.level > 0.0 && self.low <= 1.0 && 1.0 <= self.high
    }

    /// Whether the interval, as a ratio of two values, shows at this level that they differ.
    pub fn shows_difference(&self, level: f64) -> bool {
        self.level >= level && !self.leaves_open()
    }
}

/// Where an allocator stands within a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// The greatest median.
    Best,
    /// Not distinguishable from the best with the runs made, of which there may be too few.
    Tied,
    /// Shown to be behind.
    Behind,
}

/// One allocator in one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellSummary {
    /// Index into the plan's cases.
    pub case: usize,
    /// Index into the document's allocators.
    pub allocator: usize,
    /// Runs that gave numbers.
    pub measured: u32,
    /// Runs that failed.
    pub failed: u32,
    /// Loops per second.
    pub loops_per_second: Option<Spread>,
    /// Where it stands in speed; `None` without a number.
    pub standing: Option<Standing>,
    /// Speed relative to the reference in the same rounds.
    pub ratio: Option<Interval>,
    /// High-water mark of resident memory, in bytes.
    pub peak_rss: Option<Spread>,
    /// Resident memory at once after everything was freed, in bytes.
    pub freed_rss: Option<Spread>,
    /// Resident memory after the settle time, in bytes.
    pub settled_rss: Option<Spread>,
    /// The part of the settled memory that is given back lazily, in bytes.
    pub settled_lazy: Option<Spread>,
    /// The most bytes requested and not yet freed.
    pub peak_live: Option<Spread>,
    /// The median share of time that threads waited for their partner.
    pub waiting_share: Option<f64>,
}

/// One allocator over all cases of the speed table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OverallRatio {
    /// Index into the document's allocators.
    pub allocator: usize,
    /// Cases in which both it and the reference have numbers.
    pub cases: u32,
    /// The geometric mean of its speed relative to the reference.
    pub ratio: Interval,
}

/// What all runs of a benchmark amount to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Index of the allocator that the others are compared with.
    pub reference: usize,
    /// One for each case and allocator, in that order.
    pub cells: Vec<CellSummary>,
    /// One for each allocator other than the reference.
    pub overall: Vec<OverallRatio>,
}
