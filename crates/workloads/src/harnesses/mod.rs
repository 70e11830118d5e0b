//! The harnesses, one file each.

mod bins;
mod cache;
mod chunk_scan;
mod churn;
mod large;
mod larson;
mod linux_scalability;
mod mstress;
mod parallel;
mod phong;
mod producer_consumer;
mod round_robin;
mod t_test1;
mod t_test2;
mod tcl_cells;
mod threadtest;
mod xmalloc;

use crate::harness::Harness;

/// In the order in which they are listed.
const ALL: &[&Harness] = &[
    &t_test1::HARNESS,
    &t_test2::HARNESS,
    &parallel::HARNESS,
    &threadtest::HARNESS,
    &larson::HARNESS,
    &cache::SCRATCH,
    &cache::THRASH,
    &linux_scalability::HARNESS,
    &phong::HARNESS,
    &producer_consumer::HARNESS,
    &round_robin::HARNESS,
    &chunk_scan::HARNESS,
    &tcl_cells::HARNESS,
    &xmalloc::HARNESS,
    &mstress::HARNESS,
    &churn::HARNESS,
    &large::HARNESS,
];

/// All harnesses with a description.
pub fn all() -> impl Iterator<Item = &'static Harness> {
    ALL.iter().copied()
}

/// The harness of this name.
pub fn find(name: &str) -> Option<&'static Harness> {
    all().find(|harness| harness.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;
    use crate::settings::Settings;
    use crate::sharing::FalseSharing;

    fn run_with(harness: &Harness, settings: &[(&str, &str)], check: &str) -> Outcome {
        let mut values = Settings::new(harness);
        for (name, value) in settings.iter().chain(&[(check, "true")]) {
            values.set(harness, name, value).unwrap_or_else(|error| panic!("{error}"));
        }
        let outcome = harness.run(&values).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(outcome.calls.allocations, outcome.calls.frees, "{}", harness.name);
        outcome
    }

    /// Runs a harness with these settings and defaults otherwise, contents checked.
    pub(super) fn run(harness: &Harness, settings: &[(&str, &str)]) -> Outcome {
        let outcome = run_with(harness, settings, "verify");
        let checked = outcome.calls.frees + outcome.calls.reallocations;
        assert_eq!(outcome.verified_blocks, Some(checked), "{}", harness.name);
        outcome
    }

    /// Runs a harness with these settings and defaults otherwise, shared lines counted.
    pub(super) fn count_sharing(harness: &Harness, settings: &[(&str, &str)]) -> FalseSharing {
        run_with(harness, settings, "false-sharing").false_sharing.expect("asked for")
    }
}
