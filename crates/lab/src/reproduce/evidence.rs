//! What the runs of an experiment gave, by place and allocator, and panels of it.

use std::collections::BTreeMap;

use freehold_model::{
    Allocator, Better, Chart, Numbers, Panel, PanelColumn, ReproducedOutcome, ReproducedRun,
    TopRow, Whose,
};

use crate::reproduce::plan::{Plan, Scale};
use crate::statistics::median;

/// A number of a run, which some runs lack.
pub(crate) type Quantity = fn(&Numbers) -> Option<f64>;

/// What the harness is about.
pub(crate) const VALUE: Quantity = |numbers| Some(numbers.value());

/// The numbers of one allocator at one place, by round.
pub(crate) type Rounds = BTreeMap<u32, f64>;

/// What the runs gave.
pub struct Evidence<'a> {
    /// What was run.
    pub plan: &'a Plan,
    /// The machine that it was scaled to.
    pub scale: &'a Scale,
    /// The allocators.
    pub allocators: &'a [Allocator],
    /// The runs.
    pub runs: &'a [ReproducedRun],
}

impl Evidence<'_> {
    /// The first allocator of this name, or of this family.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        let named = self.allocators.iter().position(|own| own.name == name);
        named.or_else(|| self.allocators.iter().position(|own| own.family.as_deref() == Some(name)))
    }

    /// What is at a place, in words.
    pub(crate) fn label(&self, place: &[u64]) -> String {
        let case = self.plan.cases.iter().find(|case| case.place == place);
        case.map_or_else(String::new, |case| case.label.clone())
    }

    fn runs_at(&self, place: &[u64], allocator: usize) -> impl Iterator<Item = &ReproducedRun> {
        let is_it = move |run: &&ReproducedRun| {
            run.allocator == allocator && self.plan.cases[run.case].place == place
        };
        self.runs.iter().filter(is_it)
    }

    /// The numbers of an allocator at a place.
    pub(crate) fn rounds(&self, place: &[u64], allocator: usize, of: Quantity) -> Rounds {
        let number = |run: &ReproducedRun| match &run.outcome {
            ReproducedOutcome::Measured(numbers) => Some((run.round, of(numbers)?)),
            ReproducedOutcome::Failed(_) => None,
        };
        self.runs_at(place, allocator).filter_map(number).collect()
    }

    /// Their median.
    pub(crate) fn median(&self, place: &[u64], allocator: usize, of: Quantity) -> Option<f64> {
        middle(&self.rounds(place, allocator, of))
    }

    /// The runs of an allocator at a place that gave numbers: a claim is judged by all of them.
    pub(crate) fn measured(
        &self,
        place: &[u64],
        allocator: usize,
    ) -> impl Iterator<Item = &Numbers> {
        self.runs_at(place, allocator).filter_map(|run| match &run.outcome {
            ReproducedOutcome::Measured(numbers) => Some(numbers),
            ReproducedOutcome::Failed(_) => None,
        })
    }

    /// The first of them, which is what is drawn.
    pub(crate) fn first(&self, place: &[u64], allocator: usize) -> Option<&Numbers> {
        self.measured(place, allocator).next()
    }

    /// Where the time of the threads went in each run that was watched, by round.
    pub(crate) fn watched(
        &self,
        place: &[u64],
        allocator: usize,
    ) -> impl Iterator<Item = (u32, &[TopRow])> {
        let runs = self.runs_at(place, allocator);
        runs.filter_map(|run| Some((run.round, run.threads.as_deref()?)))
    }

    /// The same in the first of them, which is what is drawn.
    pub(crate) fn threads(&self, place: &[u64], allocator: usize) -> Option<&[TopRow]> {
        self.watched(place, allocator).next().map(|(_, rows)| rows)
    }

    /// The places that were planned, in their order.
    pub(crate) fn places(&self) -> Vec<Vec<u64>> {
        self.plan.cases.iter().map(|case| case.place.clone()).collect()
    }

    /// A column for each allocator, with the medians at these places.
    pub(crate) fn columns(&self, places: &[Vec<u64>], of: Quantity) -> Vec<PanelColumn> {
        let column = |allocator: usize| PanelColumn {
            name: self.allocators[allocator].name.clone(),
            whose: Whose::Here,
            values: places.iter().map(|place| self.median(place, allocator, of)).collect(),
        };
        let has_numbers = |column: &PanelColumn| column.values.iter().any(Option::is_some);
        (0..self.allocators.len()).map(column).filter(has_numbers).collect()
    }
}

/// The median of some rounds.
pub(crate) fn middle(rounds: &Rounds) -> Option<f64> {
    let numbers: Vec<f64> = rounds.values().copied().collect();
    median(&numbers)
}

/// The published numbers of a table.
pub(crate) struct Published {
    /// The columns.
    pub(crate) names: &'static [&'static str],
    /// The rows: where a number stands, and what is there for each column.
    pub(crate) rows: &'static [(&'static [u64], &'static [Option<f64>])],
}

impl Published {
    /// The number of a column at a place.
    pub(crate) fn value(&self, place: &[u64], name: &str) -> Option<f64> {
        let column = self.names.iter().position(|own| *own == name)?;
        let row = self.rows.iter().find(|(own, _)| *own == place)?;
        row.1[column]
    }

    /// A column for each name, with the numbers at these places.
    pub(crate) fn columns(&self, places: &[Vec<u64>]) -> Vec<PanelColumn> {
        let column = |name: &&str| PanelColumn {
            name: (*name).to_owned(),
            whose: Whose::Original,
            values: places.iter().map(|place| self.value(place, name)).collect(),
        };
        self.names.iter().map(column).collect()
    }

    /// The places of its rows and those of others, each once and in order.
    pub(crate) fn places_with(&self, others: &[Vec<u64>]) -> Vec<Vec<u64>> {
        let mut places: Vec<_> = self.rows.iter().map(|(place, _)| place.to_vec()).collect();
        places.extend(others.iter().cloned());
        places.sort();
        places.dedup();
        places
    }
}

/// A panel whose rows are places.
pub(crate) fn panel(
    title: &str,
    unit: &str,
    better: Better,
    chart: Chart,
    heads: &[&str],
    places: &[Vec<u64>],
) -> Panel {
    Panel {
        title: title.to_owned(),
        unit: unit.to_owned(),
        better: Some(better),
        chart,
        heads: heads.iter().map(|&head| head.to_owned()).collect(),
        rows: places.iter().map(|place| place.iter().map(u64::to_string).collect()).collect(),
        columns: Vec::new(),
    }
}
