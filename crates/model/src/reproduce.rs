//! A published table or figure made again: what the original says, what this machine gives, and
//! whether the claims that were made of it hold here.

use serde::{Deserialize, Serialize};

use crate::allocator::Allocator;
use crate::bench::Failure;
use crate::harness::{Better, HarnessRun};
use crate::measure::{Measured, Series, series_of};
use crate::pairs::{Memory, PairsRun, Usage};
use crate::provenance::Provenance;
use crate::schema::Document;
use crate::top::TopRow;

/// Whose numbers a column has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Whose {
    /// The publication's.
    Original,
    /// This machine's.
    Here,
}

/// How the numbers of a panel are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Chart {
    /// As a table.
    Table,
    /// As bars, longer for more.
    Bars,
    /// As lines over the rows, which are moments.
    Lines,
    /// As one bar for each row, which the columns divide: they are shares.
    Shares,
}

/// A column of a panel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PanelColumn {
    /// What heads it.
    pub name: String,
    /// Whose numbers these are.
    pub whose: Whose,
    /// A number for each row, where there is one.
    pub values: Vec<Option<f64>>,
}

/// A table or a figure, or a part of one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Panel {
    /// What it shows.
    pub title: String,
    /// The unit of the numbers.
    pub unit: String,
    /// Which of two numbers is the better one, where that can be said.
    pub better: Option<Better>,
    /// How it is shown.
    pub chart: Chart,
    /// What the parts of a row's name are, as in "pairs" and "max size".
    pub heads: Vec<String>,
    /// The names of the rows, with a part for each head.
    pub rows: Vec<Vec<String>>,
    /// The columns.
    pub columns: Vec<PanelColumn>,
}

/// What became of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimVerdict {
    /// It holds here.
    Holds,
    /// It does not.
    DoesNotHold,
    /// The rounds contradict each other.
    Undecided,
    /// It cannot be tested on this machine, or with the allocators that are on it.
    CannotBeTested,
}

/// A claim, and what was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// What is claimed.
    pub text: String,
    /// Whether the publication claims it; otherwise it is our own question.
    pub is_published: bool,
    /// The publication's numbers for it, where it gives any.
    pub there: Option<String>,
    /// The numbers found here, or why there are none.
    pub here: String,
    /// What became of it.
    pub verdict: ClaimVerdict,
}

/// A combination of parameters that was run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReproducedCase {
    /// What it is, in words.
    pub label: String,
    /// The arguments of the command that made the run.
    pub arguments: Vec<String>,
    /// The variables that were set for it.
    pub environment: Vec<(String, String)>,
}

/// What a run measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Numbers {
    /// By the harness `pairs`.
    Pairs(Box<PairsRun>),
    /// By another one.
    Harness(Box<HarnessRun>),
}

impl Numbers {
    /// What the harness is about: loops a second, or its own metric.
    pub fn value(&self) -> f64 {
        match self {
            Self::Pairs(run) => run.loops_per_second,
            Self::Harness(run) => run.metric.value,
        }
    }

    /// The value of a measure; `None` where it was not measured.
    fn measured(&self, measure: &str) -> Option<f64> {
        match self {
            Self::Pairs(run) => run.value(measure),
            Self::Harness(run) => run.value(measure),
        }
    }

    /// What it cost in memory.
    pub fn memory(&self) -> &Memory {
        match self {
            Self::Pairs(run) => &run.memory,
            Self::Harness(run) => &run.memory,
        }
    }

    /// What it cost in processor time.
    pub fn usage(&self) -> &Usage {
        match self {
            Self::Pairs(run) => &run.usage,
            Self::Harness(run) => &run.usage,
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReproducedOutcome {
    /// With numbers.
    Measured(Numbers),
    /// With a reason for having none.
    Failed(Failure),
}

/// One run of one case under one allocator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReproducedRun {
    /// Index of the case.
    pub case: usize,
    /// Index of the allocator.
    pub allocator: usize,
    /// The round.
    pub round: u32,
    /// How it ended.
    pub outcome: ReproducedOutcome,
    /// Where the time of its threads went, if that was watched.
    pub threads: Option<Vec<TopRow>>,
}

/// What `freehold reproduce --json` writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reproduction {
    /// Whether every run was made.
    pub complete: bool,
    /// The name that selects it.
    pub name: String,
    /// What it is.
    pub title: String,
    /// Where it was published.
    pub source: String,
    /// How the original was measured.
    pub method: String,
    /// What is different here, in sentences.
    pub scaled: Vec<String>,
    /// Where our numbers come from.
    pub provenance: Provenance,
    /// The allocators.
    pub allocators: Vec<Allocator>,
    /// The tables and figures.
    pub panels: Vec<Panel>,
    /// The claims.
    pub claims: Vec<Claim>,
    /// What a reader has to know before trusting a number, in sentences.
    pub warnings: Vec<String>,
    /// What was run.
    pub cases: Vec<ReproducedCase>,
    /// Every run.
    pub runs: Vec<ReproducedRun>,
}

impl Document for Reproduction {
    const KIND: &'static str = "reproduction";
}

impl Measured for Reproduction {
    fn series(&self) -> Vec<Series> {
        let runs = self.runs.iter().filter_map(|run| match &run.outcome {
            ReproducedOutcome::Measured(numbers) => {
                Some((run.case, run.allocator, run.round, numbers))
            }
            ReproducedOutcome::Failed(_) => None,
        });
        let name = |case: usize| self.cases[case].label.clone();
        series_of(runs, &self.allocators, name, Numbers::measured)
    }
}
