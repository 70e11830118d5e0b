//! Where observed numbers come from, how precise they are, what they cost, and what is missing.

use serde::{Deserialize, Serialize};

/// Where a number comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The number, or the column.
    pub of: String,
    /// What it was read from.
    pub from: String,
    /// How precise it is.
    pub precision: String,
}

impl Source {
    /// The source of a number.
    pub fn new(of: &str, from: &str, precision: &str) -> Self {
        Self { of: of.to_owned(), from: from.to_owned(), precision: precision.to_owned() }
    }
}

/// A number that could not be had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// What is missing.
    pub what: String,
    /// The setting that would allow it; `None` where nothing would.
    pub remedy: Option<String>,
}

impl Gap {
    /// Something that a setting would allow.
    pub fn allowed_by(what: &str, remedy: &str) -> Self {
        Self { what: what.to_owned(), remedy: Some(remedy.to_owned()) }
    }

    /// Something that this system does not have at all.
    pub fn nowhere(what: &str) -> Self {
        Self { what: what.to_owned(), remedy: None }
    }
}

/// What observing cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Processor time of the observer, in processors.
    pub observer_cpus: f64,
    /// How often it looked, a second.
    pub looks_per_second: f64,
}
