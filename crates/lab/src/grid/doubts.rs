//! Reasons to doubt a grid, found in its own results and provenance. It finds facts; what to advise
//! is said elsewhere.

use freehold_model::{GridCell, GridDocument, GridPart};

use crate::surroundings::{Surroundings, surroundings};

/// Rounds further apart than this, relative to their median, are called noisy.
const NOISY: f64 = 0.25;

/// A reason to doubt.
#[derive(Debug, Clone, PartialEq)]
pub enum Doubt {
    /// Every case was measured once: nothing is known of the noise.
    OneRound,
    /// Rounds of a case differ much.
    Noisy {
        /// Cells concerned.
        cells: usize,
        /// All cells with several rounds.
        of: usize,
        /// The largest difference, relative to its median.
        worst: f64,
        /// The case of that cell.
        case: usize,
        /// The allocator of that cell.
        allocator: usize,
    },
    /// More threads than processors: the scheduler takes part in the result.
    Crowded {
        /// The least number of threads concerned.
        threads: u64,
        /// Processors that could be used.
        cpus: u32,
    },
    /// The parts were made on machines that differ.
    Machines {
        /// Kinds of machines.
        kinds: usize,
    },
    /// Something about a machine.
    Surroundings(Surroundings),
}

/// Looks for reasons to doubt.
pub fn doubts(document: &GridDocument) -> Vec<Doubt> {
    let cells = &document.summary.cells;
    let mut doubts = Vec::new();
    if cells.iter().map(|cell| cell.measured).max() == Some(1) {
        doubts.push(Doubt::OneRound);
    }
    doubts.extend(noise(cells));
    let cpus = document.parts.iter().map(|part| part.provenance.machine.cpus_usable).min();
    let cpus = cpus.unwrap_or_default();
    let threads = document.plan.cases.iter().map(|case| case.threads);
    if let Some(threads) = threads.filter(|threads| *threads > u64::from(cpus)).min() {
        doubts.push(Doubt::Crowded { threads, cpus });
    }
    let kinds = kinds_of_machines(&document.parts);
    if kinds > 1 {
        doubts.push(Doubt::Machines { kinds });
    }
    for part in &document.parts {
        let found = surroundings(&part.provenance).into_iter().map(Doubt::Surroundings);
        doubts.extend(found);
    }
    doubts
}

fn noise(cells: &[GridCell]) -> Option<Doubt> {
    let relative = |cell: &GridCell| {
        let spread = cell.metric.filter(|_| cell.measured > 1)?;
        Some(((spread.max - spread.min) / spread.median, cell.case, cell.allocator))
    };
    let spreads: Vec<_> = cells.iter().filter_map(relative).collect();
    let cells = spreads.iter().filter(|(spread, ..)| *spread > NOISY).count();
    let (worst, case, allocator) = spreads.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0))?;
    (cells > 0).then_some(Doubt::Noisy { cells, of: spreads.len(), worst, case, allocator })
}

/// Machines that differ in what makes programs fast or slow.
fn kinds_of_machines(parts: &[GridPart]) -> usize {
    let mut kinds = Vec::new();
    for part in parts {
        let machine = &part.provenance.machine;
        let kind = (&machine.cpu, machine.cpus_usable, &machine.kernel);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds.len()
}

#[cfg(test)]
mod tests {
    use freehold_model::{Better, GridPlan, Provenance};

    use super::super::summarise;
    use super::super::summary::tests::{case, runs};
    use super::*;
    use crate::fixtures::library;

    fn document(values: &[f64]) -> GridDocument {
        let mut provenance = Provenance::default();
        provenance.machine.cpus_usable = 2;
        let plan = GridPlan { cases: vec![case("x", 2)], rounds: 3, ..GridPlan::default() };
        let runs = runs(0, (Better::Lower, "seconds"), &[values]);
        GridDocument {
            complete: true,
            parts: vec![GridPart { provenance, complete: true, shard: None }],
            allocators: vec![library("a")],
            summary: summarise(&plan, 1, 0, &runs),
            plan,
            warnings: Vec::new(),
            runs,
        }
    }

    #[test]
    fn a_calm_machine_and_close_rounds_raise_no_doubt() {
        assert_eq!(doubts(&document(&[1.0, 1.01, 1.02])), []);
    }

    #[test]
    fn noise_single_rounds_crowds_and_mixed_machines_are_doubted() {
        let noisy = Doubt::Noisy { cells: 1, of: 1, worst: 1.0, case: 0, allocator: 0 };
        assert_eq!(doubts(&document(&[0.5, 1.0, 1.5])), [noisy]);
        let mut once = document(&[1.0]);
        once.plan.cases[0].threads = 8;
        let mut other = once.parts[0].clone();
        other.provenance.machine.cpu = Some("another".to_owned());
        once.parts.push(other);
        let crowded = Doubt::Crowded { threads: 8, cpus: 2 };
        let expected = [Doubt::OneRound, crowded, Doubt::Machines { kinds: 2 }];
        assert_eq!(doubts(&once), expected);
    }
}
