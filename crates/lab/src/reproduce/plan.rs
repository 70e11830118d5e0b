//! What an experiment is, what it runs, and how that is scaled to a machine.

use std::time::Duration;

use freehold_model::{Claim, PairsParams, Panel, ReproducedCase};

use crate::child;
use crate::reproduce::Evidence;

/// A published table or figure.
#[derive(Debug)]
pub struct Experiment {
    /// The name that selects it.
    pub name: &'static str,
    /// What it is, in a line.
    pub title: &'static str,
    /// Where it was published.
    pub source: &'static str,
    /// How the original was measured, in a sentence or two.
    pub method: &'static str,
    /// The allocators without which it would not be itself: the models of those it compared.
    pub models: &'static [&'static str],
    /// What to run.
    pub(crate) plan: fn(&Scale) -> Plan,
    /// Tables and figures of what the runs gave.
    pub(crate) panels: fn(&Evidence<'_>) -> Vec<Panel>,
    /// What became of the claims.
    pub(crate) claims: fn(&Evidence<'_>) -> Vec<Claim>,
}

impl Experiment {
    /// What to run on such a machine.
    pub fn plan(&self, scale: &Scale) -> Plan {
        (self.plan)(scale)
    }

    /// Tables and figures of what the runs gave.
    pub fn panels(&self, evidence: &Evidence<'_>) -> Vec<Panel> {
        (self.panels)(evidence)
    }

    /// What became of the claims.
    pub fn claims(&self, evidence: &Evidence<'_>) -> Vec<Claim> {
        (self.claims)(evidence)
    }
}

/// What an experiment is scaled to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    /// Processors that may be used.
    pub cpus: u32,
    /// Memory that a run may fill.
    pub available_bytes: u64,
    /// Seconds that a run measures, where its length is a time.
    pub seconds: f64,
    /// Whether it is only to be seen that everything works.
    pub is_quick: bool,
}

/// How many threads a processor is given at most, where the original had as many as it had
/// strands, or more.
const MOST_THREADS_A_CPU: u64 = 32;

impl Scale {
    /// Of the original's numbers of threads, those that this machine can do something with; in
    /// quick mode the first and the last of them.
    pub(crate) fn threads(&self, original: &[u64], threads_each: u64) -> Vec<u64> {
        let most = MOST_THREADS_A_CPU * u64::from(self.cpus) / threads_each;
        let kept = original.iter().copied().filter(|count| *count <= most);
        let kept: Vec<u64> = kept.collect();
        match kept.as_slice() {
            [] => vec![most.max(1)],
            [first, .., last] if self.is_quick => vec![*first, *last],
            _ => kept,
        }
    }

    /// A sentence on the threads that are left out, if any are.
    pub(crate) fn left_out(&self, original: &[u64], kept: &[u64], what: &str) -> Option<String> {
        let left: Vec<String> =
            original.iter().filter(|n| !kept.contains(n)).map(u64::to_string).collect();
        (!left.is_empty()).then(|| {
            let why = if self.is_quick { "this is a quick look" } else { "it would be too many" };
            format!("{what} {} are left out: {} processors, {why}", left.join(", "), self.cpus)
        })
    }
}

/// What is to be run.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The cases.
    pub cases: Vec<Case>,
    /// What is different from the original, in sentences.
    pub scaled: Vec<String>,
}

/// Which allocators a case is run under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Under {
    /// All of them.
    All,
    /// These.
    Only(&'static [&'static str]),
    /// All but these.
    AllBut(&'static [&'static str]),
}

/// A combination of parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// What it is, in words.
    pub label: String,
    /// Where its numbers stand: the values that tell it from other cases.
    pub(crate) place: Vec<u64>,
    pub(crate) work: Work,
    /// Variables that are set for it.
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) under: Under,
    /// If it is watched where its threads spend their time: from when on, and for how long.
    pub(crate) watched: Option<(Duration, Duration)>,
    /// Bytes of memory that are touched before each run, so that none of its pages is new to the
    /// machine.
    pub(crate) touched_bytes: u64,
    /// How long it takes, roughly.
    pub seconds: f64,
}

/// What a case runs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Work {
    /// The harness `pairs`.
    Pairs(PairsParams),
    /// Another harness, with its options.
    Harness(&'static str, Vec<(&'static str, String)>),
}

/// The value of an option that is asked for and has no value.
pub(crate) const FLAG: &str = "";

impl Work {
    /// A harness whose options are numbers.
    pub(crate) fn harness(name: &'static str, options: &[(&'static str, u64)]) -> Self {
        let options = options.iter().map(|(name, value)| (*name, value.to_string()));
        Self::Harness(name, options.collect())
    }

    /// The same with one more option.
    pub(crate) fn and(self, name: &'static str, value: &str) -> Self {
        match self {
            Self::Harness(harness, mut options) => {
                options.push((name, value.to_owned()));
                Self::Harness(harness, options)
            }
            pairs @ Self::Pairs(_) => pairs,
        }
    }
}

impl Case {
    /// A case that runs under all allocators.
    pub(crate) fn new(label: String, place: &[u64], work: Work, seconds: f64) -> Self {
        Self {
            label,
            place: place.to_vec(),
            work,
            environment: Vec::new(),
            under: Under::All,
            watched: None,
            touched_bytes: 0,
            seconds,
        }
    }

    /// Sets a variable for it.
    pub(crate) fn with(mut self, variable: &str, value: u64) -> Self {
        self.environment.push((variable.to_owned(), value.to_string()));
        self
    }

    /// Whether it is run under the allocator of this name.
    pub fn is_under(&self, allocator: &str) -> bool {
        match self.under {
            Under::All => true,
            Under::Only(names) => names.contains(&allocator),
            Under::AllBut(names) => !names.contains(&allocator),
        }
    }

    /// The arguments of a child that is to run it.
    pub fn arguments(&self) -> Vec<String> {
        match &self.work {
            Work::Pairs(params) => child::arguments(params),
            Work::Harness(name, options) => {
                let words = ["workload", name].map(str::to_owned).into_iter();
                let options = options.iter().map(|(name, value)| match value.as_str() {
                    FLAG => format!("--{name}"),
                    value => format!("--{name}={value}"),
                });
                words.chain(options).collect()
            }
        }
    }

    /// What is recorded of it.
    pub fn record(&self) -> ReproducedCase {
        ReproducedCase {
            label: self.label.clone(),
            arguments: self.arguments(),
            environment: self.environment.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::all;
    use crate::reproduce::invented::machine;

    fn scale(cpus: u32, is_quick: bool) -> Scale {
        Scale { is_quick, ..machine(cpus) }
    }

    #[test]
    fn threads_are_those_of_the_original_that_the_machine_can_bear() {
        assert_eq!(scale(2, false).threads(&[1, 4, 8, 16, 32], 2), [1, 4, 8, 16, 32]);
        assert_eq!(scale(2, false).threads(&[32, 64, 128], 2), [32]);
        assert_eq!(scale(2, false).threads(&[64, 128], 1), [64]);
        assert_eq!(scale(1, false).threads(&[64, 128], 2), [16]);
        assert_eq!(scale(2, true).threads(&[1, 4, 8, 16, 32], 2), [1, 32]);
        let left = scale(2, false).left_out(&[32, 64, 128], &[32], "pairs");
        assert_eq!(
            left.as_deref(),
            Some("pairs 64, 128 are left out: 2 processors, it would be too many")
        );
    }

    #[test]
    fn every_experiment_plans_something_on_every_machine_and_no_place_twice() {
        for experiment in all() {
            for (cpus, is_quick) in [(1, false), (2, true), (2, false), (64, false), (256, false)] {
                let plan = experiment.plan(&scale(cpus, is_quick));
                let name = experiment.name;
                assert!(!plan.cases.is_empty() && !plan.scaled.is_empty(), "{name}");
                let mut places: Vec<_> = plan.cases.iter().map(|case| &case.place).collect();
                places.sort();
                assert!(places.windows(2).all(|pair| pair[0] != pair[1]), "{name}: {places:?}");
            }
        }
    }

    #[test]
    fn names_are_in_lower_case_and_none_is_used_twice() {
        let mut names: Vec<_> = all().map(|experiment| experiment.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(names.iter().all(|name| name.chars().all(is_plain)), "{names:?}");
    }
}
