//! Results that tests invent, to see which verdicts they lead to.

use freehold_model::{
    Allocator, Better, Claim, ClaimVerdict, HarnessRun, Numbers, Panel, ReproducedOutcome,
    ReproducedRun,
};

use crate::fixtures::{harness_run, library};
use crate::reproduce::plan::Scale;
use crate::reproduce::{Evidence, find};

/// Enough rounds for some of them to differ.
const ROUNDS: u32 = 2;

/// What an experiment makes of results that were invented.
pub(crate) struct Invented {
    pub(crate) panels: Vec<Panel>,
    pub(crate) claims: Vec<Claim>,
}

impl Invented {
    /// What became of the claim that begins with these words.
    #[track_caller]
    pub(crate) fn verdict(&self, words: &str) -> (ClaimVerdict, &str) {
        let mut claims = self.claims.iter();
        let claim = claims.find(|claim| claim.text.starts_with(words));
        let claim = claim.unwrap_or_else(|| panic!("no claim {words:?} in {:?}", self.claims));
        (claim.verdict, &claim.here)
    }
}

/// An experiment on a machine with so many processors, under allocators whose runs `of` invents:
/// from the allocator and the place.
pub(crate) fn invented(
    experiment: &str,
    scale: Scale,
    allocators: &[&str],
    of: impl Fn(&str, &[u64]) -> HarnessRun,
) -> Invented {
    invented_in(ROUNDS, experiment, scale, allocators, of)
}

/// The same in so many rounds.
pub(crate) fn invented_in(
    rounds: u32,
    experiment: &str,
    scale: Scale,
    allocators: &[&str],
    of: impl Fn(&str, &[u64]) -> HarnessRun,
) -> Invented {
    let experiment = find(experiment).expect("it exists");
    let plan = experiment.plan(&scale);
    let allocators: Vec<Allocator> = allocators.iter().map(|name| library(name)).collect();
    let mut runs = Vec::new();
    for (number, case) in plan.cases.iter().enumerate() {
        for (allocator, own) in allocators.iter().enumerate() {
            for round in (0..rounds).filter(|_| case.is_under(&own.name)) {
                let run = of(&own.name, &case.place);
                let outcome = ReproducedOutcome::Measured(Numbers::Harness(Box::new(run)));
                runs.push(ReproducedRun { case: number, allocator, round, outcome, threads: None });
            }
        }
    }
    let evidence = Evidence { plan: &plan, scale: &scale, allocators: &allocators, runs: &runs };
    Invented { panels: experiment.panels(&evidence), claims: experiment.claims(&evidence) }
}

/// A run of so many seconds.
pub(crate) fn seconds(value: f64) -> HarnessRun {
    harness_run(Better::Lower, "seconds", value)
}

/// A run with so many operations a second.
pub(crate) fn rate(value: f64) -> HarnessRun {
    harness_run(Better::Higher, "operations/s", value)
}

/// A machine with so many processors and enough memory for everything.
pub(crate) fn machine(cpus: u32) -> Scale {
    Scale { cpus, available_bytes: 16 << 30, seconds: 0.1, is_quick: false }
}
