//! What is measured, by name, and the view of a document that comparing, exporting and drawing
//! share: series of one measure of one case under one allocator.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::allocator::Allocator;
use crate::pairs::{Memory, Usage};

/// What an interval allows to be said of a candidate beside the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// Less time, or a higher rate.
    Faster,
    /// More time, or a lower rate.
    Slower,
    /// A smaller amount.
    Less,
    /// A larger amount.
    More,
    /// Any difference is too small to matter.
    NoDifferenceShown,
    /// Nothing can be said with the runs made.
    NotEnoughEvidence,
}

impl Finding {
    /// Whether it is for the better.
    pub fn is_better(self) -> bool {
        matches!(self, Self::Faster | Self::Less)
    }

    /// Whether it is for the worse.
    pub fn is_worse(self) -> bool {
        matches!(self, Self::Slower | Self::More)
    }
}

/// What a number counts, which decides whether more of it is better and how that is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Seconds: more is slower.
    Time,
    /// Something a second: more is faster.
    Rate,
    /// Bytes or events: more is more.
    Amount,
}

impl Kind {
    /// What a greater value is called.
    pub fn greater(self) -> Finding {
        match self {
            Self::Time => Finding::Slower,
            Self::Rate => Finding::Faster,
            Self::Amount => Finding::More,
        }
    }

    /// What a smaller value is called.
    pub fn smaller(self) -> Finding {
        match self {
            Self::Time => Finding::Faster,
            Self::Rate => Finding::Slower,
            Self::Amount => Finding::Less,
        }
    }
}

/// The unit of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Events.
    Count,
    /// Events a second.
    PerSecond,
}

impl Unit {
    /// Its name in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Bytes => "B",
            Self::Count => "count",
            Self::PerSecond => "1/s",
        }
    }
}

/// A thing that is measured.
#[derive(Debug, PartialEq, Eq)]
pub struct Measure {
    /// The name in files, conditions and tables.
    pub name: &'static str,
    /// What it counts.
    pub kind: Kind,
    /// Its unit.
    pub unit: Unit,
    /// What it is, in a phrase.
    pub meaning: &'static str,
}

const fn measure(name: &'static str, kind: Kind, unit: Unit, meaning: &'static str) -> Measure {
    Measure { name, kind, unit, meaning }
}

/// Every measure, in the order in which tables show them.
pub static MEASURES: [Measure; 13] = [
    measure("wall", Kind::Time, Unit::Seconds, "time from start to end; with a load, of the load"),
    measure("speed", Kind::Rate, Unit::PerSecond, "a harness's own metric"),
    measure("user", Kind::Time, Unit::Seconds, "processor time in the program"),
    measure("system", Kind::Time, Unit::Seconds, "processor time in the kernel on its behalf"),
    measure("rss.peak", Kind::Amount, Unit::Bytes, "the most resident memory"),
    measure("rss.mean", Kind::Amount, Unit::Bytes, "resident memory, averaged over time"),
    measure("rss.freed", Kind::Amount, Unit::Bytes, "resident memory once everything is freed"),
    measure("rss.settled", Kind::Amount, Unit::Bytes, "resident memory some idle time after that"),
    measure("rss.return", Kind::Time, Unit::Seconds, "time until half of what came is given back"),
    measure("faults.minor", Kind::Amount, Unit::Count, "page faults that needed no disk"),
    measure("faults.major", Kind::Amount, Unit::Count, "page faults that did"),
    measure("switches.voluntary", Kind::Amount, Unit::Count, "context switches for waiting"),
    measure("switches.involuntary", Kind::Amount, Unit::Count, "context switches forced on it"),
];

impl Measure {
    /// The measure of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        MEASURES.iter().find(|measure| measure.name == name)
    }
}

/// One measure of one case under one allocator, over all rounds that gave a number.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// What was run, in words that tell it from the other cases; empty where there is one only.
    pub case: String,
    /// The allocator.
    pub allocator: String,
    /// What was measured.
    pub measure: &'static Measure,
    /// The rounds and what they gave, in their order.
    pub values: Vec<(u32, f64)>,
}

impl Series {
    /// The numbers alone.
    pub fn numbers(&self) -> Vec<f64> {
        self.values.iter().map(|&(_, value)| value).collect()
    }
}

/// A document that holds measurements.
pub trait Measured {
    /// All its series: cases vary slowest, then allocators, then measures. Those without a number
    /// are left out.
    fn series(&self) -> Vec<Series>;
}

/// A run that gave numbers: its case, its allocator, its round, and the numbers.
pub(crate) type Made<'a, R> = (usize, usize, u32, &'a R);

/// The series of the runs of a harness, whose measures `value` knows.
pub(crate) fn series_of<'a, R: 'a>(
    runs: impl Iterator<Item = Made<'a, R>>,
    allocators: &[Allocator],
    case_name: impl Fn(usize) -> String,
    value: fn(&R, &str) -> Option<f64>,
) -> Vec<Series> {
    let mut cells: BTreeMap<(usize, usize), Vec<(u32, &R)>> = BTreeMap::new();
    for (case, allocator, round, run) in runs {
        cells.entry((case, allocator)).or_default().push((round, run));
    }
    let mut all = Vec::new();
    for ((case, allocator), runs) in cells {
        let series = MEASURES.iter().map(|measure| Series {
            case: case_name(case),
            allocator: allocators[allocator].name.clone(),
            measure,
            values: runs
                .iter()
                .filter_map(|(round, run)| Some((*round, value(run, measure.name)?)))
                .collect(),
        });
        all.extend(series.filter(|series| !series.values.is_empty()));
    }
    all
}

/// The value of a measure that every harness takes.
pub(crate) fn common_value(memory: &Memory, usage: &Usage, measure: &str) -> Option<f64> {
    let count = |count: u64| Some(count as f64);
    match measure {
        "user" => Some(usage.user_seconds),
        "system" => Some(usage.system_seconds),
        "rss.peak" => count(memory.peak_rss_bytes),
        "rss.freed" => count(memory.freed.rss_bytes),
        "rss.settled" => memory.settled.and_then(|settled| count(settled.rss_bytes)),
        "faults.minor" => count(usage.minor_faults),
        "switches.voluntary" => count(usage.voluntary_switches),
        "switches.involuntary" => count(usage.involuntary_switches),
        _ => None,
    }
}
