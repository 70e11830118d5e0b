//! Proof that Freehold was live in a program and in everything that the program started.
//!
//! A second, tiny library is preloaded behind Freehold; in every process it asks, through the same
//! symbols as the program, whether malloc is Freehold's, and appends the answer to a file.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::child::{Child, Ended};
use super::{compile, library};

/// What was witnessed in a run.
pub(crate) struct Testimony {
    directory: TempDir,
}

impl Testimony {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a directory") }
    }

    /// Preloads Freehold and the witness.
    pub(crate) fn of(&self, child: Child) -> Child {
        child
            .preload(library::shared())
            .preload(&compile::c_library("witness.c"))
            .env("FREEHOLD_WITNESS", self.file())
    }

    fn file(&self) -> std::path::PathBuf {
        self.directory.path().join("testimony")
    }

    /// For every program that ran, by its file's name, in how many processes malloc was
    /// Freehold's, and in how many it was not.
    fn programs(&self) -> BTreeMap<String, (u32, u32)> {
        let text = fs::read_to_string(self.file()).unwrap_or_default();
        let mut programs = BTreeMap::<String, (u32, u32)>::new();
        for line in text.lines() {
            let (program, verdict) = line.rsplit_once(' ').expect("two words a line");
            let name = Path::new(program).file_name().unwrap_or_default();
            let counts = programs.entry(name.to_string_lossy().into_owned()).or_default();
            match verdict {
                "freehold" => counts.0 += 1,
                _ => counts.1 += 1,
            }
        }
        programs
    }

    /// Fails the test unless each of these programs ran under Freehold, and nothing ran without it
    /// but what is excepted.
    #[track_caller]
    pub(crate) fn is_of(&self, expected: &[&str], excepted: &[&str]) {
        let programs = self.programs();
        for name in expected {
            let ran = programs.iter().any(|(program, counts)| {
                // An interpreter's file may carry its version: python3.11.
                program.starts_with(name) && counts.0 > 0 && counts.1 == 0
            });
            assert!(ran, "{name} did not run under Freehold: {programs:?}");
        }
        for (program, counts) in &programs {
            let is_excepted = excepted.iter().any(|name| program.starts_with(name));
            assert!(counts.1 == 0 || is_excepted, "{program} ran without Freehold: {programs:?}");
        }
    }
}

/// Runs a program without Freehold and with it, and fails the test unless both end well and write
/// the same, and `expected` programs ran under Freehold. Returns the second run.
#[track_caller]
pub(crate) fn same_with_and_without(expected: &[&str], make: impl Fn() -> Child) -> Ended {
    let without = make().run().succeeded();
    let testimony = Testimony::new();
    let with = testimony.of(make()).run().succeeded();
    testimony.is_of(expected, &[]);
    with.check(
        with.stdout == without.stdout,
        &format!("without Freehold it wrote\n{}\n", without.out()),
    );
    with.check(
        with.stderr == without.stderr,
        &format!("without Freehold it complained\n{}\n", without.err()),
    );
    with
}
