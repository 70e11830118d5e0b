//! Programs that people use, under Freehold: each must do exactly what it does without.
//!
//! What they are made to do is deterministic, so that all they write can be compared, and such that
//! they use their threads and child processes. A witness proves that Freehold was live.

mod cargo;
mod compilers;
mod git;
mod java;
mod models;
mod node;
mod perl;
mod python;
mod redis;
mod shell;
mod sqlite;

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::support::child::Child;
use crate::support::compile;

/// A script that stands in `scripts/`.
fn script(name: &str) -> PathBuf {
    compile::sources().join("real/scripts").join(name)
}

/// A directory for a program to work in. Both runs get the same path, since many programs write it
/// into what they make, and both find it as it was at first.
struct Scratch {
    parent: TempDir,
}

impl Scratch {
    fn new() -> Self {
        Self { parent: tempfile::tempdir().expect("a directory") }
    }

    fn path(&self) -> PathBuf {
        self.parent.path().join("work")
    }

    /// Empties it, but for these files, and makes it the program's directory and home: nothing that
    /// the user has configured is to matter.
    fn dir_of(&self, child: Child, files: &[(&str, &str)]) -> Child {
        let path = self.path();
        if path.exists() {
            fs::remove_dir_all(&path).expect("what a program left can be removed");
        }
        fs::create_dir(&path).expect("a directory");
        for (name, text) in files {
            write(&path.join(name), text);
        }
        child.dir(&path)
    }
}

fn write(file: &Path, text: &str) {
    fs::create_dir_all(file.parent().expect("it is in a directory")).expect("a directory");
    fs::write(file, text).expect("files can be written there");
}
