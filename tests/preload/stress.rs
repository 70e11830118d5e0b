//! The stress program (`programs/stress`), in which Freehold serves many threads.
//!
//! `FREEHOLD_STRESS_SECONDS` makes it longer, and `FREEHOLD_STRESS_SEED` repeats a run, as far as
//! threads can be repeated.

use std::env;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::support::child::Child;
use crate::support::tools;

const SECONDS: u64 = 5;

/// How long the program may take longer than it is told, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is not a number")))
}

fn run(threads: u64) {
    let seconds = number("FREEHOLD_STRESS_SECONDS").unwrap_or(SECONDS);
    let seed = number("FREEHOLD_STRESS_SEED").unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.map_or(0, |it| it.as_secs() ^ u64::from(it.subsec_nanos()))
    });
    tools::say(&format!("FREEHOLD_STRESS_SEED={seed}, {seconds} seconds"));
    let ended = Child::new(env!("CARGO_BIN_EXE_freehold-stress"))
        .args([threads, seconds, seed].map(|it| it.to_string()))
        .freehold()
        .within(Duration::from_secs(seconds) + PATIENCE)
        .run()
        .succeeded();
    ended.check(ended.value("malloc") == "Freehold", "Freehold was to serve it");
    ended.check(ended.number("threads") > threads, "threads were to come and go");
    for done in ["operations", "forks", "freed elsewhere", "resized", "questions"] {
        ended.check(ended.number(done) > 0, &format!("{done} was not to be 0"));
    }
    ended.check(ended.number("calls unused") == 0, "every call was to be used");
}

#[test]
fn stress_with_8_threads() {
    run(8);
}

#[test]
fn stress_with_64_threads() {
    run(64);
}
