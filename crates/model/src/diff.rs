//! Two stored results beside each other: what changed from one to the other, and whether that
//! breaks a rule.

use serde::{Deserialize, Serialize};

use crate::measure::Finding;
use crate::schema::Document;
use crate::summary::{Interval, Spread};

/// One of the two results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    /// What it is called: its file, or what the user calls it.
    pub label: String,
    /// When it was measured, in UTC.
    pub started: String,
    /// The version of the toolbox that measured it.
    pub tool_version: String,
}

/// How one measure changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// What was run; empty where there is one case only.
    pub case: String,
    /// The allocator.
    pub allocator: String,
    /// The name of the measure.
    pub measure: String,
    /// The runs before.
    pub before: Spread,
    /// Their number.
    pub runs_before: u32,
    /// The runs after.
    pub after: Spread,
    /// Their number.
    pub runs_after: u32,
    /// What it is after in terms of what it was before.
    pub ratio: Interval,
    /// What that shows.
    pub finding: Finding,
}

/// What became of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleOutcome {
    /// Nothing breaks it.
    Kept,
    /// The measurements are too few or too noisy to tell.
    NotEnoughEvidence,
    /// It is broken.
    Broken,
}

/// A rule, applied to one change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuleCheck {
    /// The rule, as it was written.
    pub rule: String,
    /// Index into [`DiffDocument::changes`]; `None` where there is no ratio, because a number
    /// is 0, or the later result has none.
    pub change: Option<usize>,
    /// What became of it.
    pub outcome: RuleOutcome,
}

/// What `freehold diff --json` writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiffDocument {
    /// The earlier result.
    pub before: Side,
    /// The later one.
    pub after: Side,
    /// The confidence level of a finding.
    pub level: f64,
    /// Every measure that both have, in the order of the later one.
    pub changes: Vec<Change>,
    /// Every rule, applied to every change that it is about.
    pub rules: Vec<RuleCheck>,
    /// What one of them has and the other has not, in words.
    pub unmatched: Vec<String>,
    /// What a reader has to know before trusting a number, in sentences.
    pub warnings: Vec<String>,
}

impl Document for DiffDocument {
    const KIND: &'static str = "diff";
}
