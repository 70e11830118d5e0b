//! What the runs of a benchmark amount to. Pure functions of the runs; it must not know how they
//! were made or how the result is shown.

use std::collections::HashMap;

use freehold_model::{
    CellSummary, OverallRatio, PairsRun, Plan, Purpose, Run, Spread, Standing, Summary,
};
use freehold_model::{Interval, Outcome};

use crate::statistics::{LEVEL, geometric_mean, median, paired_ratio, spread};

/// Summarises runs. `allocators` is their number, `reference` the one that others are compared
/// with.
pub fn summarise(plan: &Plan, allocators: usize, reference: usize, runs: &[Run]) -> Summary {
    let table = Table::of(runs);
    let mut cells = Vec::new();
    for case in 0..plan.cases.len() {
        let first = cells.len();
        for allocator in 0..allocators {
            cells.push(table.cell(case, allocator, reference));
        }
        table.rank(&mut cells[first..]);
    }
    let speed_cases: Vec<usize> =
        (0..plan.cases.len()).filter(|&case| plan.cases[case].purpose == Purpose::Speed).collect();
    let others = (0..allocators).filter(|&allocator| allocator != reference);
    let overall =
        others.filter_map(|allocator| table.overall(&speed_cases, allocator, reference)).collect();
    Summary { reference, cells, overall }
}

/// The runs that gave numbers by case, allocator and round, and the number of those that did not.
struct Table<'a> {
    measured: HashMap<(usize, usize), Vec<(u32, &'a PairsRun)>>,
    failed: HashMap<(usize, usize), u32>,
}

impl<'a> Table<'a> {
    fn of(runs: &'a [Run]) -> Self {
        let mut table = Self { measured: HashMap::new(), failed: HashMap::new() };
        for run in runs {
            let cell = (run.case, run.allocator);
            match &run.outcome {
                Outcome::Measured(measured) => {
                    table.measured.entry(cell).or_default().push((run.round, measured));
                }
                Outcome::Failed(_) => *table.failed.entry(cell).or_default() += 1,
            }
        }
        table
    }

    fn runs(&self, case: usize, allocator: usize) -> &[(u32, &'a PairsRun)] {
        self.measured.get(&(case, allocator)).map_or(&[], Vec::as_slice)
    }

    fn cell(&self, case: usize, allocator: usize, reference: usize) -> CellSummary {
        let runs = self.runs(case, allocator);
        let all = |value: &dyn Fn(&PairsRun) -> f64| -> Vec<f64> {
            runs.iter().map(|(_, run)| value(run)).collect()
        };
        let settled = |value: &dyn Fn(&freehold_model::Resident) -> u64| -> Option<Spread> {
            let values = runs.iter().filter_map(|(_, run)| run.memory.settled.as_ref().map(value));
            spread(&values.map(|bytes| bytes as f64).collect::<Vec<_>>())
        };
        let waiting =
            all(&|run| f64::midpoint(run.waiting.allocating_share, run.waiting.freeing_share));
        CellSummary {
            case,
            allocator,
            measured: runs.len() as u32,
            failed: self.failed.get(&(case, allocator)).copied().unwrap_or_default(),
            loops_per_second: spread(&all(&|run| run.loops_per_second)),
            standing: None,
            ratio: paired_ratio(&self.ratios(case, allocator, reference), LEVEL),
            peak_rss: spread(&all(&|run| run.memory.peak_rss_bytes as f64)),
            freed_rss: spread(&all(&|run| run.memory.freed.rss_bytes as f64)),
            settled_rss: settled(&|resident| resident.rss_bytes),
            settled_lazy: settled(&|resident| resident.lazy_free_bytes),
            peak_live: spread(&all(&|run| run.memory.peak_live_bytes as f64)),
            waiting_share: median(&waiting),
        }
    }

    /// The speed of one allocator relative to another in each round that has both.
    fn ratios(&self, case: usize, allocator: usize, other: usize) -> Vec<f64> {
        let others: HashMap<u32, f64> = self
            .runs(case, other)
            .iter()
            .map(|(round, run)| (*round, run.loops_per_second))
            .collect();
        let own = self.runs(case, allocator).iter();
        own.filter_map(|(round, run)| {
            let other = others.get(round).filter(|&&speed| speed > 0.0)?;
            (run.loops_per_second > 0.0).then(|| run.loops_per_second / other)
        })
        .collect()
    }

    /// Marks the best of a case and those that cannot be told from it.
    fn rank(&self, cells: &mut [CellSummary]) {
        let speed = |cell: &CellSummary| cell.loops_per_second.map(|spread| spread.median);
        let best = cells
            .iter()
            .filter(|cell| speed(cell).is_some())
            .max_by(|a, b| speed(a).unwrap_or_default().total_cmp(&speed(b).unwrap_or_default()))
            .map(|cell| cell.allocator);
        let Some(best) = best else { return };
        for cell in cells.iter_mut().filter(|cell| cell.loops_per_second.is_some()) {
            let to_best = || paired_ratio(&self.ratios(cell.case, cell.allocator, best), LEVEL);
            let standing = if cell.allocator == best {
                Standing::Best
            } else if to_best().is_some_and(|ratio| ratio.shows_difference(LEVEL)) {
                Standing::Behind
            } else {
                Standing::Tied
            };
            cell.standing = Some(standing);
        }
    }

    fn overall(&self, cases: &[usize], allocator: usize, reference: usize) -> Option<OverallRatio> {
        let ratios = cases.iter().map(|&case| self.ratios(case, allocator, reference));
        let ratios: Vec<_> = ratios.filter(|ratios| !ratios.is_empty()).collect();
        let ratio: Interval = geometric_mean(&ratios)?;
        Some(OverallRatio { allocator, cases: ratios.len() as u32, ratio })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use freehold_model::{Case, Failure, FailureKind, Memory, Proof, Resident, Usage, Waiting};

    use super::*;
    use crate::plan::tests::params;

    pub(crate) fn measured(loops_per_second: f64) -> Outcome {
        let resident = |rss_bytes| Resident { rss_bytes, ..Resident::default() };
        Outcome::Measured(Box::new(PairsRun {
            params: params(1, 256),
            proof: Proof {
                malloc_object: String::new(),
                free_object: String::new(),
                mapped_objects: Vec::new(),
            },
            loops: loops_per_second,
            elapsed_seconds: 1.0,
            loops_per_second,
            warmup_seconds: 0.0,
            samples: Vec::new(),
            waiting: Waiting { allocating_share: 0.2, freeing_share: 0.4 },
            memory: Memory {
                before: resident(1),
                peak_rss_bytes: 4000,
                peak_virtual_bytes: 0,
                peak_live_bytes: 3000,
                end: None,
                harness_bytes: 0,
                freed: resident(2000),
                settled: Some(resident(1000)),
            },
            usage: Usage::default(),
            verified_blocks: None,
            false_sharing: None,
        }))
    }

    pub(crate) fn plan() -> Plan {
        let case = |purpose| Case { purpose, params: params(1, 256) };
        let cases = vec![case(Purpose::Speed), case(Purpose::Retention)];
        Plan { cases, repeat: 3, skipped: Vec::new() }
    }

    /// Runs of the first case: one list of speeds for each allocator.
    pub(crate) fn runs(speeds: &[&[f64]]) -> Vec<Run> {
        let mut runs = Vec::new();
        for (allocator, speeds) in speeds.iter().enumerate() {
            for (round, &speed) in (0..).zip(speeds.iter()) {
                runs.push(Run { case: 0, allocator, round, outcome: measured(speed) });
            }
        }
        runs
    }

    #[test]
    fn the_best_is_marked_and_one_that_wins_now_and_then_is_tied() {
        let best = [100.0, 110.0, 120.0, 110.0, 120.0, 130.0];
        let close = [101.0, 108.0, 121.0, 108.0, 121.0, 129.0];
        let runs = runs(&[&best, &close, &best.map(|speed| speed / 2.0)]);
        let summary = summarise(&plan(), 3, 0, &runs);
        let standings: Vec<_> = summary.cells[..3].iter().map(|cell| cell.standing).collect();
        assert_eq!(standings, [Some(Standing::Best), Some(Standing::Tied), Some(Standing::Behind)]);
    }

    #[test]
    fn too_few_rounds_put_nobody_behind() {
        for rounds in 1..6 {
            let speeds = [100.0; 5].map(|speed| [speed, speed * 0.9]);
            let of = |which: usize| speeds[..rounds].iter().map(|own| own[which]).collect();
            let (one, other): (Vec<f64>, Vec<f64>) = (of(0), of(1));
            let summary = summarise(&plan(), 2, 0, &runs(&[&one, &other]));
            assert_eq!(summary.cells[1].standing, Some(Standing::Tied), "{rounds} rounds");
        }
    }

    #[test]
    fn ratios_pair_the_runs_of_a_round() {
        // Both slow down by half from round to round; paired, the ratio is 2 each time.
        let runs = runs(&[&[100.0, 50.0, 25.0], &[200.0, 100.0, 50.0]]);
        let summary = summarise(&plan(), 2, 0, &runs);
        let ratio = summary.cells[1].ratio.expect("three pairs");
        assert!((ratio.low - 2.0).abs() < 1e-9 && (ratio.high - 2.0).abs() < 1e-9);
        assert_eq!(summary.overall.len(), 1);
        assert!((summary.overall[0].ratio.estimate - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_cell_whose_runs_failed_has_no_number_and_no_standing() {
        let mut runs = runs(&[&[100.0], &[]]);
        let failure = Failure { kind: FailureKind::Crashed, detail: String::new() };
        runs.push(Run { case: 0, allocator: 1, round: 0, outcome: Outcome::Failed(failure) });
        let summary = summarise(&plan(), 2, 0, &runs);
        let cell = &summary.cells[1];
        assert_eq!((cell.measured, cell.failed), (0, 1));
        assert_eq!((cell.loops_per_second, cell.standing), (None, None));
        assert!(summary.overall.is_empty());
    }

    #[test]
    fn memory_and_waiting_are_summarised_too() {
        let summary = summarise(&plan(), 1, 0, &runs(&[&[100.0]]));
        let cell = &summary.cells[0];
        assert_eq!(cell.settled_rss.map(|spread| spread.median), Some(1000.0));
        assert_eq!(cell.peak_rss.map(|spread| spread.median), Some(4000.0));
        assert!((cell.waiting_share.expect("measured") - 0.3).abs() < 1e-9);
    }
}
