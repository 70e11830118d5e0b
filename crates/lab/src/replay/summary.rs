//! What runs amount to, allocator by allocator.

use std::collections::HashMap;

use freehold_model::{ReplayOutcome, ReplayRound, ReplayRun, ReplaySummary};

use crate::statistics::{LEVEL, median, paired_ratio, spread};

/// The runs that gave numbers, by allocator and round.
type Measured<'a> = HashMap<usize, Vec<(u32, &'a ReplayRun)>>;

/// A summary for each of so many allocators.
pub fn summarise(runs: &[ReplayRound], allocators: usize, reference: usize) -> Vec<ReplaySummary> {
    let mut measured = Measured::new();
    let mut failed: HashMap<usize, u32> = HashMap::new();
    for run in runs {
        match &run.outcome {
            ReplayOutcome::Measured(own) => {
                measured.entry(run.allocator).or_default().push((run.round, own));
            }
            ReplayOutcome::Failed(_) => *failed.entry(run.allocator).or_default() += 1,
        }
    }
    let of = |allocator| measured.get(&allocator).map_or(&[][..], Vec::as_slice);
    (0..allocators)
        .map(|allocator| {
            let failed = failed.get(&allocator).copied().unwrap_or_default();
            summary(allocator, of(allocator), of(reference), failed)
        })
        .collect()
}

fn summary(
    allocator: usize,
    runs: &[(u32, &ReplayRun)],
    reference: &[(u32, &ReplayRun)],
    failed: u32,
) -> ReplaySummary {
    let all = |value: &dyn Fn(&ReplayRun) -> f64| -> Vec<f64> {
        runs.iter().map(|(_, run)| value(run)).collect()
    };
    let settled: Vec<_> = runs.iter().filter_map(|(_, run)| run.settled_bytes()).collect();
    let waiting = all(&|run| {
        let time = run.elapsed_seconds * f64::from(run.threads.max(1));
        if time > 0.0 { run.waited_seconds / time } else { 0.0 }
    });
    ReplaySummary {
        allocator,
        measured: runs.len() as u32,
        failed,
        wall: spread(&all(&|run| run.elapsed_seconds)),
        processor: spread(&all(&ReplayRun::processor_seconds)),
        ratio: paired_ratio(&ratios(runs, reference), LEVEL),
        peak: spread(&all(&ReplayRun::peak_bytes)),
        end: spread(&all(&ReplayRun::end_bytes)),
        settled: spread(&settled),
        waiting_share: median(&waiting),
    }
}

/// Processor time relative to another's in each round that has both.
fn ratios(runs: &[(u32, &ReplayRun)], others: &[(u32, &ReplayRun)]) -> Vec<f64> {
    let others: HashMap<u32, f64> =
        others.iter().map(|(round, run)| (*round, run.processor_seconds())).collect();
    runs.iter()
        .filter_map(|(round, run)| {
            let other = others.get(round).filter(|&&time| time > 0.0)?;
            Some(run.processor_seconds() / other)
        })
        .collect()
}
