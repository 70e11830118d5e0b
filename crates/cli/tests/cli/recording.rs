//! What the tests of traces share: programs to record, an independent count of their calls, and
//! recording them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{compiled, directory, freehold, json, read};

/// Calls, as they were counted behind the recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) malloc: u64,
    pub(crate) calloc: u64,
    pub(crate) realloc: u64,
    pub(crate) aligned: u64,
    pub(crate) free: u64,
    pub(crate) free_null: u64,
    pub(crate) failed: u64,
}

impl Counts {
    const KINDS: usize = 7;

    pub(crate) fn total(&self) -> u64 {
        let Self { malloc, calloc, realloc, aligned, free, free_null, failed } = self;
        malloc + calloc + realloc + aligned + free + free_null + failed
    }

    pub(crate) fn read(path: &Path) -> Self {
        let bytes = fs::read(path).expect("the counters are there");
        let mut words = bytes.chunks_exact(8).map(|word| word.try_into().expect("eight bytes"));
        let mut next = || u64::from_le_bytes(words.next().expect("a counter"));
        Self {
            malloc: next(),
            calloc: next(),
            realloc: next(),
            aligned: next(),
            free: next(),
            free_null: next(),
            failed: next(),
        }
    }

    /// The sum over the processes of a document.
    pub(crate) fn recorded(document: &Value) -> Self {
        let sum = |names: &[&str]| -> u64 {
            let processes = document["processes"].as_array().expect("a list").iter();
            let calls = |process: &Value, name: &str| process["calls"][name].as_u64();
            processes
                .flat_map(|process| names.iter().map(move |name| calls(process, name)))
                .map(|number| number.expect("a number"))
                .sum()
        };
        Self {
            malloc: sum(&["malloc", "new"]),
            calloc: sum(&["calloc"]),
            realloc: sum(&["realloc"]),
            aligned: sum(&["aligned"]),
            free: sum(&["free", "delete"]),
            free_null: sum(&["free_null"]),
            failed: sum(&["failed"]),
        }
    }
}

/// A place where programs are compiled and recorded.
pub(crate) struct Workshop {
    directory: TempDir,
    counter: PathBuf,
}

/// What became of a recorded program.
pub(crate) struct Recorded {
    pub(crate) output: Output,
    pub(crate) counted: Counts,
    pub(crate) document: Value,
    pub(crate) trace: PathBuf,
}

impl Recorded {
    /// What was written to standard error.
    pub(crate) fn errors(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    /// The process with the most calls.
    pub(crate) fn main_process(&self) -> &Value {
        let processes = self.document["processes"].as_array().expect("a list").iter();
        let calls = |process: &&Value| process["recorded_calls"].as_u64();
        processes.max_by_key(calls).expect("a process")
    }

    /// Calls that were passed on and not recorded, because they were made within another.
    pub(crate) fn nested(&self) -> u64 {
        let processes = self.document["processes"].as_array().expect("a list").iter();
        processes.map(|process| process["nested"].as_u64().expect("a number")).sum()
    }

    /// Insists that what was recorded is what was counted.
    #[track_caller]
    pub(crate) fn is_exact(&self) {
        assert_eq!(self.nested(), 0);
        assert_eq!(Counts::recorded(&self.document), self.counted, "{}", self.errors());
    }
}

impl Workshop {
    /// `None`, with a word on standard error, without a C compiler.
    pub(crate) fn new() -> Option<Self> {
        let directory = directory();
        let counter = compiled(&directory, "count.so", include_str!("programs/count.c"), &SHARED)?;
        Some(Self { directory, counter })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The library that counts.
    pub(crate) fn counter(&self) -> &Path {
        &self.counter
    }

    pub(crate) fn compile(&self, name: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
        compiled(&self.directory, name, source, flags)
    }

    /// The program of `programs/calls.c`.
    pub(crate) fn calls(&self) -> Option<String> {
        let program = self.compile("calls", include_str!("programs/calls.c"), &["-pthread"])?;
        Some(program.to_string_lossy().into_owned())
    }

    /// Records a command, with these options before it.
    pub(crate) fn record(&self, options: &[&str], command: &[&str]) -> Recorded {
        let counts = self.path("counts");
        fs::write(&counts, [0; 8 * Counts::KINDS]).expect("written");
        let (trace, document) = (self.path("trace"), self.path("document.json"));
        let counter = self.counter.to_string_lossy();
        let behind = if options.contains(&"-a") { vec![] } else { vec!["-a", &counter] };
        let output = freehold()
            .args(["record", "--no-overhead", "-o"])
            .arg(&trace)
            .arg("--json")
            .arg(&document)
            .args(behind)
            .args(options)
            .arg("--")
            .args(command)
            .env("COUNTS", &counts)
            .env("PYTHONMALLOC", "malloc")
            .output()
            .expect("freehold can be started");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(document.exists(), "{errors}");
        let document = json(&read(&document));
        Recorded { output, counted: Counts::read(&counts), document, trace }
    }
}

const SHARED: [&str; 4] = ["-shared", "-fPIC", "-O1", "-ldl"];
