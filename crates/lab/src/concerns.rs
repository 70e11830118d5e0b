//! Reasons to doubt a benchmark, found in its own results and provenance. It finds facts; what
//! to advise is said elsewhere.

use freehold_model::{Case, CellSummary, Length, Plan, Provenance, Purpose, Summary};

use crate::surroundings::{Surroundings, surroundings};

/// Repetitions further apart than this, relative to their median, are called noisy.
const NOISY: f64 = 0.25;

/// A measured time below this is short.
const SHORT_SECONDS: f64 = 0.2;

/// A reason to doubt.
#[derive(Debug, Clone, PartialEq)]
pub enum Concern {
    /// Repetitions of a case differ much.
    Noisy {
        /// Cells concerned.
        cells: usize,
        /// All cells with repetitions.
        of: usize,
        /// The largest difference, relative to its median.
        worst: f64,
        /// The case of that cell.
        case: usize,
        /// The allocator of that cell.
        allocator: usize,
    },
    /// Something about the machine.
    Surroundings(Surroundings),
    /// More threads than processors: the scheduler takes part in the result.
    Oversubscribed {
        /// The least number of pairs concerned.
        pairs: u32,
        /// Processors that could be used.
        cpus: u32,
    },
    /// Every case was measured once: nothing is known of the noise.
    OneRound,
    /// Runs are too short for allocators that take their time to settle.
    Short {
        /// The measured time of a run.
        seconds: f64,
    },
}

/// Looks for reasons to doubt.
pub fn concerns(plan: &Plan, summary: &Summary, provenance: &Provenance) -> Vec<Concern> {
    let machine = &provenance.machine;
    let mut concerns = Vec::new();
    concerns.extend(noise(plan, summary));
    concerns.extend((plan.repeat == 1).then_some(Concern::OneRound));
    concerns.extend(shortest(&plan.cases).map(|seconds| Concern::Short { seconds }));
    let crowded = plan.cases.iter().map(|case| case.params.pairs);
    if let Some(pairs) = crowded.filter(|pairs| 2 * pairs > machine.cpus_usable).min() {
        concerns.push(Concern::Oversubscribed { pairs, cpus: machine.cpus_usable });
    }
    concerns.extend(surroundings(provenance).into_iter().map(Concern::Surroundings));
    concerns
}

/// The measured time of a run, where it is short.
fn shortest(cases: &[Case]) -> Option<f64> {
    let measured = cases.iter().filter_map(|case| match case.params.length {
        Length::Samples { count, seconds, .. } => Some(f64::from(count) * seconds),
        Length::Loops { .. } => None,
    });
    measured.min_by(f64::total_cmp).filter(|&seconds| seconds < SHORT_SECONDS)
}

fn noise(plan: &Plan, summary: &Summary) -> Option<Concern> {
    let relative = |cell: &CellSummary| {
        let spread = cell.loops_per_second.filter(|_| cell.measured > 1)?;
        Some(((spread.max - spread.min) / spread.median, cell.case, cell.allocator))
    };
    let speed = |cell: &&CellSummary| plan.cases[cell.case].purpose == Purpose::Speed;
    let spreads: Vec<_> = summary.cells.iter().filter(speed).filter_map(relative).collect();
    let cells = spreads.iter().filter(|(spread, ..)| *spread > NOISY).count();
    let (worst, case, allocator) = spreads.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0))?;
    (cells > 0).then_some(Concern::Noisy { cells, of: spreads.len(), worst, case, allocator })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::summarise;
    use crate::summary::tests::{plan, runs};

    fn quiet() -> Provenance {
        let mut provenance = Provenance::default();
        provenance.machine.cpus_usable = 64;
        provenance.machine.cgroup_cpu_max = Some("max 100000".into());
        provenance
    }

    #[test]
    fn a_calm_machine_and_close_repetitions_raise_no_concern() {
        let summary = summarise(&plan(), 1, 0, &runs(&[&[100.0, 101.0, 102.0]]));
        assert_eq!(concerns(&plan(), &summary, &quiet()), []);
    }

    #[test]
    fn repetitions_far_apart_are_counted_and_the_worst_is_named() {
        let summary =
            summarise(&plan(), 2, 0, &runs(&[&[100.0, 101.0, 102.0], &[50.0, 100.0, 150.0]]));
        let expected = Concern::Noisy { cells: 1, of: 2, worst: 1.0, case: 0, allocator: 1 };
        assert_eq!(concerns(&plan(), &summary, &quiet()), [expected]);
    }

    #[test]
    fn the_machine_and_its_environment_are_looked_at() {
        let mut provenance = quiet();
        provenance.load_before = Some(3.0);
        provenance.machine.cpus_usable = 1;
        provenance.machine.cpu_governor = Some("powersave".into());
        provenance.machine.cgroup_cpu_max = Some("50000 100000".into());
        provenance.environment.insert("MALLOC_CONF".into(), "narenas:1".into());
        let plan = Plan { repeat: 1, ..plan() };
        let found = concerns(&plan, &Summary::default(), &provenance);
        assert_eq!(
            found,
            [
                Concern::OneRound,
                Concern::Oversubscribed { pairs: 1, cpus: 1 },
                Concern::Surroundings(Surroundings::Busy { load: 3.0 }),
                Concern::Surroundings(Surroundings::Governor { name: "powersave".into() }),
                Concern::Surroundings(Surroundings::Quota { limit: "50000 100000".into() }),
                Concern::Surroundings(Surroundings::Tuned { names: vec!["MALLOC_CONF".into()] }),
            ]
        );
    }
}
