//! Python, all of whose objects are made to come from malloc, and parts of its own tests.

use std::time::Duration;

use super::{Scratch, script};
use crate::support::child::Child;
use crate::support::tools;
use crate::support::witness::same_with_and_without;

/// Every part of Python's own tests has many more.
const FEWEST_CASES: usize = 50;

/// They take a minute each on a slow machine.
const TIME_LIMIT: Duration = Duration::from_secs(600);

/// Python in a directory of its own, without its own pools in front of malloc.
fn python(scratch: &Scratch) -> Option<impl Fn() -> Child> {
    let python = tools::find("python3")?;
    Some(move || {
        let child = Child::new(&python).env("PYTHONMALLOC", "malloc").env("PYTHONHASHSEED", "0");
        scratch.dir_of(child.arg("-B"), &[])
    })
}

fn runs_a_script(name: &str) {
    let scratch = Scratch::new();
    let Some(python) = python(&scratch) else { return };
    same_with_and_without(&["python3"], || python().arg(script(name)));
}

#[test]
fn python_with_threads() {
    runs_a_script("threads.py");
}

#[test]
fn python_with_processes() {
    runs_a_script("processes.py");
}

/// Runs a part of Python's own tests: each case must end as it does without Freehold.
fn passes_a_test_of_its_own(test: &str) {
    let scratch = Scratch::new();
    let Some(python) = python(&scratch) else { return };
    let import = format!("import test.{test}");
    if !python().args(["-c", &import]).run().status.success() {
        return tools::skip(
            "Python's own tests are not installed (Debian: libpython3.N-testsuite)",
        );
    }
    let ended = same_with_and_without(&["python3"], || {
        python().arg(script("own_tests.py")).arg(test).within(TIME_LIMIT)
    });
    let passed = ended.out().lines().filter(|line| !line.contains(' ')).count();
    ended.check(passed > FEWEST_CASES, "it was to test something");
}

#[test]
fn python_passes_its_test_of_json() {
    passes_a_test_of_its_own("test_json");
}

#[test]
fn python_passes_its_test_of_regular_expressions() {
    passes_a_test_of_its_own("test_re");
}

#[test]
fn python_passes_its_test_of_dictionaries() {
    passes_a_test_of_its_own("test_dict");
}

#[test]
fn python_passes_its_test_of_threads() {
    passes_a_test_of_its_own("test_threading");
}

#[test]
fn python_passes_its_test_of_child_processes() {
    passes_a_test_of_its_own("test_subprocess");
}
