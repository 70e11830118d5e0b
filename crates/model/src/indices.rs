//! Whether what a document refers to by its index is there. Whoever shows a document relies on it.

use crate::bench::BenchDocument;
use crate::compare::CompareDocument;
use crate::grid::GridDocument;
use crate::replay::ReplayDocument;
use crate::reproduce::Reproduction;
use crate::stored::Stored;

/// The first index of which there is nothing, in words.
pub(crate) fn dangling(stored: &Stored) -> Option<String> {
    match stored {
        Stored::Compare(document) => in_compare(document),
        Stored::Bench(document) => in_bench(document),
        Stored::Grid(document) => in_grid(document),
        Stored::Replay(document) => in_replay(document),
        Stored::Reproduction(document) => in_reproduction(document),
    }
}

fn missing(what: &str, count: usize, mut indices: impl Iterator<Item = usize>) -> Option<String> {
    let index = indices.find(|index| *index >= count)?;
    Some(format!("there is no {what} {index} among {count}"))
}

fn in_compare(document: &CompareDocument) -> Option<String> {
    let CompareDocument { allocators, plan, summary, system_calls, trials, .. } = document;
    let of_trials = trials.iter().map(|trial| (trial.case, trial.allocator));
    let of_cells = summary.cells.iter().map(|cell| (cell.case, cell.allocator));
    let of_calls = system_calls.iter().map(|counted| (counted.case, counted.allocator));
    let all = of_trials.chain(of_cells).chain(of_calls);
    let advice = summary
        .recommendation
        .iter()
        .flat_map(|own| [&own.weighed, &own.for_speed, &own.for_memory]);
    let advised = advice.flat_map(|own| own.allocator.iter().chain(&own.alike)).copied();
    let served = all.clone().map(|(_, allocator)| allocator).chain([summary.reference]);
    missing("case", plan.cases.len(), all.map(|(case, _)| case))
        .or_else(|| missing("allocator", allocators.len(), served.chain(advised)))
}

fn in_bench(document: &BenchDocument) -> Option<String> {
    let BenchDocument { allocators, plan, summary, runs, .. } = document;
    let of_runs = runs.iter().map(|run| (run.case, run.allocator));
    let of_cells = summary.cells.iter().map(|cell| (cell.case, cell.allocator));
    let all = of_runs.chain(of_cells);
    let skipped = plan.skipped.iter().map(|own| own.case);
    let overall = summary.overall.iter().map(|own| own.allocator).chain([summary.reference]);
    let served = all.clone().map(|(_, allocator)| allocator);
    missing("case", plan.cases.len(), all.map(|(case, _)| case).chain(skipped))
        .or_else(|| missing("allocator", allocators.len(), served.chain(overall)))
}

fn in_grid(document: &GridDocument) -> Option<String> {
    let GridDocument { parts, allocators, plan, summary, runs, .. } = document;
    let of_runs = runs.iter().map(|run| (run.case, run.allocator));
    let of_cells = summary.cells.iter().map(|cell| (cell.case, cell.allocator));
    let all = of_runs.chain(of_cells);
    let overall = summary.overall.iter().map(|own| own.allocator).chain([summary.reference]);
    let served = all.clone().map(|(_, allocator)| allocator);
    missing("case", plan.cases.len(), all.map(|(case, _)| case))
        .or_else(|| missing("allocator", allocators.len(), served.chain(overall)))
        .or_else(|| missing("part", parts.len(), runs.iter().map(|run| run.part)))
}

fn in_replay(document: &ReplayDocument) -> Option<String> {
    let ReplayDocument { allocators, reference, summary, runs, .. } = document;
    let of_runs = runs.iter().map(|run| run.allocator);
    let served = of_runs.chain(summary.iter().map(|own| own.allocator)).chain([*reference]);
    missing("allocator", allocators.len(), served)
}

fn in_reproduction(document: &Reproduction) -> Option<String> {
    let Reproduction { allocators, cases, runs, .. } = document;
    missing("case", cases.len(), runs.iter().map(|run| run.case))
        .or_else(|| missing("allocator", allocators.len(), runs.iter().map(|run| run.allocator)))
}
