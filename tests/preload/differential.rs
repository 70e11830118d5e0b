//! H29: random calls with random arguments have the same outcome under Freehold as under the C
//! library's own malloc: what is given and what refused, with which `errno`, what is aligned, kept,
//! zero, and left alone.

use crate::support::child::Child;
use crate::support::{compile, seed, tools};

/// Calls in a run, and runs.
const CALLS: u32 = 40_000;
const RUNS: u64 = 6;

#[test]
fn random_calls_have_the_same_outcome_as_under_glibcs_malloc() {
    if cfg!(not(target_env = "gnu")) {
        return tools::skip("the C library is another one than glibc");
    }
    have_the_same_outcome(RUNS, "0");
}

/// The same in hardened mode.
pub(crate) fn have_the_same_outcome_in_hardened_mode() {
    if cfg!(target_env = "gnu") {
        have_the_same_outcome(2, "1");
    }
}

fn have_the_same_outcome(runs: u64, hardened: &str) {
    let first = seed::any();
    for seed in first..first + runs {
        let calls = || {
            let program = Child::new(compile::c("differential.c"));
            program.args([CALLS.to_string(), seed.to_string()])
        };
        let expected = calls().run().succeeded().out();
        let ours = calls().env("FREEHOLD_HARDEN", hardened).freehold().run().succeeded();
        let differing = expected.lines().zip(ours.out().lines()).find_map(|(glibc, freehold)| {
            (glibc != freehold).then(|| format!("seed {seed}: {glibc}, but Freehold: {freehold}"))
        });
        assert_eq!(differing, None);
        ours.check(expected.lines().count() > 1000, "much was to be said");
        ours.check(ours.out() == expected, "as much was to be said");
        for outcome in ["-> block", "null, errno ENOMEM", "= EINVAL", "= ENOMEM"] {
            ours.check(expected.contains(outcome), &format!("{outcome} was to come about"));
        }
    }
}
