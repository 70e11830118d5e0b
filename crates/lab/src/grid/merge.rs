//! Several grids made one: shards of one grid, or the same grid from several machines. It must not
//! know which files they were read from.

use std::fmt;

use freehold_model::{Allocator, GridDocument, GridPlan, GridRun};

use super::summarise;
use crate::naming::distinct_name;

/// Why grids cannot be made one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unmergeable {
    /// There is none.
    Nothing,
    /// The same runs are there twice.
    Twice {
        /// When they were begun.
        started: String,
    },
    /// They were compared with different allocators.
    References {
        /// That of the first grid.
        first: String,
        /// Another.
        other: String,
    },
}

impl fmt::Display for Unmergeable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("there are no results"),
            Self::Twice { started } => {
                write!(f, "the runs that were begun at {started} are there twice")
            }
            Self::References { first, other } => write!(
                f,
                "some results are relative to {first}, others to {other}: \
                 these must be the same library"
            ),
        }
    }
}

impl std::error::Error for Unmergeable {}

/// Makes one grid of several. Each keeps its own rounds, so that only runs that were made one after
/// the other on one machine are compared.
pub fn merge(
    documents: impl IntoIterator<Item = GridDocument>,
) -> Result<GridDocument, Unmergeable> {
    let mut documents = documents.into_iter();
    let mut whole = documents.next().ok_or(Unmergeable::Nothing)?;
    for document in documents {
        join(&mut whole, document)?;
    }
    let GridDocument { plan, allocators, summary, runs, .. } = &whole;
    whole.summary = summarise(plan, allocators.len(), summary.reference, runs);
    Ok(whole)
}

fn join(whole: &mut GridDocument, other: GridDocument) -> Result<(), Unmergeable> {
    let twice = other.parts.iter().find(|part| whole.parts.contains(part));
    if let Some(part) = twice {
        return Err(Unmergeable::Twice { started: part.provenance.started.clone() });
    }
    let reference =
        |document: &GridDocument| document.allocators.get(document.summary.reference).cloned();
    if let (Some(first), Some(second)) = (reference(whole), reference(&other))
        && !is_same(&first, &second)
    {
        let (first, other) = (described(&first), described(&second));
        return Err(Unmergeable::References { first, other });
    }
    let mut allocators = Vec::new();
    for own in other.allocators {
        let index = place_of(&mut whole.allocators, own, &allocators);
        allocators.push(index);
    }
    let cases: Vec<usize> =
        other.plan.cases.into_iter().map(|case| place(&mut whole.plan.cases, case)).collect();
    let parts = whole.parts.len();
    let rounds = whole.runs.iter().map(|run| run.round + 1).max().unwrap_or_default();
    whole.runs.extend(other.runs.into_iter().map(|run| GridRun {
        part: parts + run.part,
        case: cases[run.case],
        allocator: allocators[run.allocator],
        round: rounds + run.round,
        ..run
    }));
    whole.parts.extend(other.parts);
    for sentence in other.plan.left_out {
        place(&mut whole.plan.left_out, sentence);
    }
    for warning in other.warnings {
        place(&mut whole.warnings, warning);
    }
    whole.complete &= other.complete;
    let GridPlan { rounds, until, time_limit_seconds, .. } = other.plan;
    whole.plan.rounds = whole.plan.rounds.max(rounds);
    whole.plan.until = whole.plan.until.or(until);
    whole.plan.time_limit_seconds = whole.plan.time_limit_seconds.or(time_limit_seconds);
    Ok(())
}

/// The index of an item, which is added if it is not there.
fn place<T: PartialEq>(all: &mut Vec<T>, item: T) -> usize {
    all.iter().position(|own| *own == item).unwrap_or_else(|| {
        all.push(item);
        all.len() - 1
    })
}

/// The index of an allocator. One that is not there is added, under a name that is its own. A grid
/// that has one library twice keeps both: `taken` are the places of its allocators so far.
fn place_of(all: &mut Vec<Allocator>, mut allocator: Allocator, taken: &[usize]) -> usize {
    let is_it = |index: &usize| !taken.contains(index) && is_same(&all[*index], &allocator);
    let same: Vec<usize> = (0..all.len()).filter(is_it).collect();
    let of_that_name = same.iter().find(|index| all[**index].name == allocator.name);
    if let Some(index) = of_that_name.or(same.first()) {
        return *index;
    }
    allocator.name = distinct_name(&allocator, all);
    all.push(allocator);
    all.len() - 1
}

/// Whether two allocators are the same library, wherever it lies.
fn is_same(one: &Allocator, other: &Allocator) -> bool {
    let sums = (&one.library.sha256, &other.library.sha256);
    sums.0 == sums.1 && (one.family == other.family)
}

fn described(allocator: &Allocator) -> String {
    let version = allocator.version.as_deref().unwrap_or("of unknown version");
    format!("{} {version}", allocator.name)
}

#[cfg(test)]
mod tests {
    use freehold_model::{Better, GridPart, GridSummary, Machine, Provenance};

    use super::super::summary::tests::{case, runs};
    use super::*;
    use crate::fixtures::library;

    const TIME: (Better, &str) = (Better::Lower, "seconds");

    fn with_sum(name: &str, sha256: &str) -> Allocator {
        let mut allocator = library(name);
        allocator.library.sha256 = sha256.to_owned();
        allocator
    }

    /// A grid of one case of a machine with so many processors, of two rounds.
    fn document(cpus: u32, threads: u64, allocators: &[Allocator; 2]) -> GridDocument {
        let machine = Machine { cpus_online: cpus, ..Machine::default() };
        let provenance = Provenance { machine, ..Provenance::default() };
        let seconds = f64::from(cpus);
        GridDocument {
            complete: true,
            parts: vec![GridPart { provenance, complete: true, shard: None }],
            allocators: allocators.to_vec(),
            plan: GridPlan { cases: vec![case("x", threads)], rounds: 2, ..GridPlan::default() },
            summary: GridSummary::default(),
            warnings: vec!["one".to_owned()],
            runs: runs(0, TIME, &[&[seconds; 2], &[2.0 * seconds; 2]]),
        }
    }

    fn both() -> [Allocator; 2] {
        [with_sum("a", "1"), with_sum("b", "2")]
    }

    #[test]
    fn the_same_case_of_two_machines_has_the_rounds_of_both_and_ratios_within_each() {
        let whole = merge([document(1, 4, &both()), document(2, 4, &both())]).expect("mergeable");
        assert_eq!((whole.plan.cases.len(), whole.allocators.len(), whole.parts.len()), (1, 2, 2));
        let cell = &whole.summary.cells[1];
        assert_eq!(cell.measured, 4);
        let gain = cell.gain.expect("four rounds");
        assert!((gain.low - 0.5).abs() < 1e-9 && (gain.high - 0.5).abs() < 1e-9, "{gain:?}");
        assert_eq!(whole.warnings, ["one"]);
        assert_eq!(whole.runs.last().map(|run| (run.part, run.round)), Some((1, 3)));
    }

    #[test]
    fn shards_bring_their_own_cases() {
        let whole = merge([document(1, 4, &both()), document(2, 8, &both())]).expect("mergeable");
        assert_eq!(whole.plan.cases.len(), 2);
        assert!(whole.summary.cells.iter().all(|cell| cell.measured == 2));
    }

    #[test]
    fn another_library_of_the_same_name_gets_a_name_and_a_column_of_its_own() {
        let other = [with_sum("a", "1"), with_sum("b", "3")];
        let whole = merge([document(1, 4, &both()), document(2, 4, &other)]).expect("mergeable");
        let names: Vec<_> = whole.allocators.iter().map(|own| own.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "b-2"]);
    }

    #[test]
    fn a_library_that_takes_part_twice_keeps_all_its_runs() {
        let twice = [with_sum("a", "1"), with_sum("copy", "1")];
        let whole = merge([document(1, 4, &twice), document(2, 4, &twice)]).expect("mergeable");
        let names: Vec<_> = whole.allocators.iter().map(|own| own.name.as_str()).collect();
        assert_eq!(names, ["a", "copy"]);
        assert!(whole.summary.cells.iter().all(|cell| cell.measured == 4));
    }

    #[test]
    fn what_cannot_be_compared_is_refused_with_the_reason() {
        let other = [with_sum("c", "9"), with_sum("b", "2")];
        let error = merge([document(1, 4, &both()), document(2, 4, &other)]).expect_err("refused");
        assert!(error.to_string().contains("relative to a of unknown version, others to c"));
        let twice = merge([document(1, 4, &both()), document(1, 8, &both())]).expect_err("refused");
        assert_eq!(twice, Unmergeable::Twice { started: String::new() });
        assert_eq!(merge([]).expect_err("refused"), Unmergeable::Nothing);
    }
}
