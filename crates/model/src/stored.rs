//! A stored result of any kind that holds measurements.

use std::collections::BTreeMap;

use serde::de::Error as _;

use crate::bench::BenchDocument;
use crate::compare::CompareDocument;
use crate::grid::GridDocument;
use crate::harness::ParamValue;
use crate::indices::dangling;
use crate::measure::{Measured, Series};
use crate::provenance::Provenance;
use crate::replay::ReplayDocument;
use crate::reproduce::Reproduction;
use crate::schema::{Document, SchemaError, from_json, kind_of};

/// A document that holds measurements.
#[derive(Debug, Clone, PartialEq)]
pub enum Stored {
    /// What `compare` wrote.
    Compare(Box<CompareDocument>),
    /// What `bench` wrote about pairs.
    Bench(Box<BenchDocument>),
    /// What `bench` wrote about other harnesses.
    Grid(Box<GridDocument>),
    /// What `replay` wrote.
    Replay(Box<ReplayDocument>),
    /// What `reproduce` wrote.
    Reproduction(Box<Reproduction>),
}

impl Stored {
    /// Reads a document of any of these kinds.
    pub fn from_json(text: &str) -> Result<Self, SchemaError> {
        let stored = Self::read(text)?;
        match dangling(&stored) {
            Some(what) => Err(SchemaError::Malformed(serde_json::Error::custom(what))),
            None => Ok(stored),
        }
    }

    fn read(text: &str) -> Result<Self, SchemaError> {
        let kind = kind_of(text)?;
        match kind.as_str() {
            CompareDocument::KIND => from_json(text).map(|own| Self::Compare(Box::new(own))),
            BenchDocument::KIND => from_json(text).map(|own| Self::Bench(Box::new(own))),
            GridDocument::KIND => from_json(text).map(|own| Self::Grid(Box::new(own))),
            ReplayDocument::KIND => from_json(text).map(|own| Self::Replay(Box::new(own))),
            Reproduction::KIND => from_json(text).map(|own| Self::Reproduction(Box::new(own))),
            _ => Err(SchemaError::WrongKind {
                wanted: "compare, bench, grid, replay or reproduction",
                found: kind,
            }),
        }
    }

    /// Where its numbers come from; where they come from several machines, from the first. `None`
    /// of nothing.
    pub fn provenance(&self) -> Option<&Provenance> {
        match self {
            Self::Compare(document) => Some(&document.provenance),
            Self::Bench(document) => Some(&document.provenance),
            Self::Replay(document) => Some(&document.provenance),
            Self::Reproduction(document) => Some(&document.provenance),
            Self::Grid(document) => document.parts.first().map(|part| &part.provenance),
        }
    }

    /// The parameters of the harness in each case, by name, beside the name of the case; nothing
    /// where what was measured is no harness.
    pub fn parameters(&self) -> Vec<(String, BTreeMap<String, String>)> {
        match self {
            Self::Bench(document) => {
                let cases = document.plan.cases.iter();
                cases.map(|case| (case.name(), case.params.by_name())).collect()
            }
            Self::Grid(document) => {
                let plan = &document.plan;
                let shown =
                    |(name, value): (&String, &ParamValue)| (name.clone(), value.to_string());
                let cases = plan.cases.iter().enumerate();
                cases
                    .map(|(at, case)| (plan.name(at), case.params.iter().map(shown).collect()))
                    .collect()
            }
            Self::Compare(_) | Self::Replay(_) | Self::Reproduction(_) => Vec::new(),
        }
    }

    /// Whether everything was measured that was to be.
    pub fn is_complete(&self) -> bool {
        match self {
            Self::Compare(document) => document.complete,
            Self::Bench(document) => document.complete,
            Self::Grid(document) => document.complete,
            Self::Replay(document) => document.complete,
            Self::Reproduction(document) => document.complete,
        }
    }
}

impl Measured for Stored {
    fn series(&self) -> Vec<Series> {
        match self {
            Self::Compare(document) => document.series(),
            Self::Bench(document) => document.series(),
            Self::Grid(document) => document.series(),
            Self::Replay(document) => document.series(),
            Self::Reproduction(document) => document.series(),
        }
    }
}
