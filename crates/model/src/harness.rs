//! A run of any harness: what it was asked to do, and what it measured.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::pairs::{Memory, Proof, Usage};
use crate::schema::Document;

/// The value of a parameter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ParamValue {
    /// Whether something was asked for.
    Flag(bool),
    /// A whole number.
    Count(u64),
    /// A number.
    Number(f64),
    /// A word or a path.
    Text(String),
}

/// The values of all parameters of a harness, by name. The order of names makes equal parameters
/// equal documents.
pub type Params = BTreeMap<String, ParamValue>;

impl fmt::Display for ParamValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => flag.fmt(f),
            Self::Count(count) => count.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// Which of two values of a metric is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// The higher one: a rate.
    Higher,
    /// The lower one: a time, or an amount of memory.
    Lower,
}

/// The number that a harness is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Its name, as in "elapsed time".
    pub name: String,
    /// Its unit, as in "seconds".
    pub unit: String,
    /// Which of two values is the better one.
    pub better: Better,
    /// Its value in this run.
    pub value: f64,
}

/// A number that a harness reports besides its metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Detail {
    /// What it is.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Its value.
    pub value: f64,
}

/// A column of the readings of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// What it is.
    pub name: String,
    /// Its unit.
    pub unit: String,
}

/// Numbers taken one after the other during a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Readings {
    /// What stands in each place of a row.
    pub columns: Vec<Column>,
    /// The readings, in the order in which they were taken.
    pub rows: Vec<Vec<f64>>,
}

/// A reading while a run was measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// When it was taken, from the beginning of the measurement.
    pub at_seconds: f64,
    /// Calls made until then, those before the measurement included.
    pub calls: u64,
    /// Requested bytes not yet freed.
    pub live_bytes: u64,
    /// Resident memory.
    pub rss_bytes: u64,
}

/// Calls of all threads together, those before and after the measurement included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// `malloc`, `calloc`, `memalign`, and `realloc` of nothing.
    pub allocations: u64,
    /// `realloc` of a block.
    pub reallocations: u64,
    /// `free`.
    pub frees: u64,
}

/// How many blocks were falsely shared: an exact count, of a run whose times mean nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FalseSharing {
    /// Blocks allocated.
    pub blocks: u64,
    /// Those of them that, while they lived, lay on a cache line with a live block of another
    /// thread.
    pub shared_blocks: u64,
    /// The most lines at once that had live blocks of several threads.
    pub peak_shared_lines: u64,
}

/// What one run of a harness measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HarnessRun {
    /// The harness.
    pub harness: String,
    /// What it was asked to do, every parameter included.
    pub params: Params,
    /// Which objects served the calls.
    pub proof: Proof,
    /// What it is about.
    pub metric: Metric,
    /// The length of the measurement.
    pub elapsed_seconds: f64,
    /// Other numbers.
    pub details: Vec<Detail>,
    /// Numbers of its own that the harness took one after the other, if it takes any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<Readings>,
    /// Memory and calls over time, at equal distances.
    pub timeline: Vec<Reading>,
    /// Calls made.
    pub calls: Calls,
    /// Memory.
    pub memory: Memory,
    /// Processor time and faults during the measurement.
    pub usage: Usage,
    /// Blocks of which the contents were checked, if that was asked for: none was found wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_blocks: Option<u64>,
    /// Blocks on shared cache lines, if they were to be counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub false_sharing: Option<FalseSharing>,
}

impl Document for HarnessRun {
    const KIND: &'static str = "harness_run";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_parameters_come_back_as_what_they_were() {
        let params: Params = [
            ("seconds", ParamValue::Number(2.0)),
            ("seed", ParamValue::Count(u64::MAX)),
            ("sizes", ParamValue::Text("uniform".into())),
            ("verify", ParamValue::Flag(true)),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let text = serde_json::to_string(&params).expect("serialises");
        assert_eq!(
            text,
            r#"{"seconds":2.0,"seed":18446744073709551615,"sizes":"uniform","verify":true}"#
        );
        assert_eq!(serde_json::from_str::<Params>(&text).expect("reads"), params);
    }
}
