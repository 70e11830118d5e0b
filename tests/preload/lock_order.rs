//! The order in which locks are taken, under programs that fork with busy threads: no thread waits
//! for a lock that comes before one that it holds. The library is the one that developers build,
//! which ends the process if one does (`freehold_sync::rank`); the one that is shipped cannot.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::support::child::Child;
use crate::support::{compile, library, tools};

/// What the library says when a thread does.
const COMPLAINT: &[u8] = b"order of locks";

const SECONDS: u64 = 2;
const PATIENCE: Duration = Duration::from_secs(120);

/// Settings under which other locks are taken, and how often a program forks then: in debugging
/// mode, where all threads share a lock, it takes a second each time.
const SETTINGS: [(&str, &str, u32); 4] = [
    ("FREEHOLD_BACKGROUND", "1", 20),
    ("FREEHOLD_GUARD", "100", 20),
    ("FREEHOLD_HARDEN", "1", 20),
    ("FREEHOLD_DEBUG", "patterns,guards", 2),
];

fn has(library: &Path, text: &[u8]) -> bool {
    let bytes = fs::read(library).expect("the library can be read");
    bytes.windows(text.len()).any(|window| window == text)
}

#[test]
fn only_the_library_for_developers_checks_the_order_of_locks() {
    assert!(has(library::checked(), COMPLAINT));
    assert!(!has(library::shared(), COMPLAINT));
    // What both say, so that the first two could be otherwise.
    assert!(has(library::shared(), b"double free") && has(library::checked(), b"double free"));
}

#[test]
fn locks_are_taken_in_order_while_busy_threads_fork() {
    for (name, value, forks) in SETTINGS {
        let program = Child::new(compile::c("fork_busy.c")).arg("8").arg(forks.to_string());
        program.preload(library::checked()).env(name, value).run().succeeded();
    }
    let crowd = Child::new(compile::c("fork_crowd.c")).args(["100", "100"]);
    crowd.preload(library::checked()).run().succeeded();
    Child::new(compile::c("fork_streams.c")).preload(library::checked()).run().succeeded();
}

#[test]
fn locks_are_taken_in_order_under_stress() {
    for (name, value, _) in SETTINGS {
        tools::say(&format!("{name}={value}"));
        let ended = Child::new(env!("CARGO_BIN_EXE_freehold-stress"))
            .args([64, SECONDS, 1].map(|it| it.to_string()))
            .preload(library::checked())
            .env(name, value)
            .within(Duration::from_secs(SECONDS) + PATIENCE)
            .run()
            .succeeded();
        ended.check(ended.value("malloc") == "Freehold", "Freehold was to serve it");
    }
}
