//! `cargo xtask floor`: loops of malloc and free under several libraries, beside two functions that
//! do nothing. All take turns, and ratios are formed within a turn.
//!
//! Each run has a copy of its library to itself: two copies of one differ by up to 3 % as long as
//! they are not copied anew, probably by where the system has put their pages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::metadata::{self, root, target};
use crate::security::{built_library, named_library};
use crate::startup::median;
use crate::verdicts::compiled;

/// The loops of `tests/floor/loops.c`, in their order.
const LOOPS: [&str; 3] = ["pair", "batch of 32", "random replacement"];

/// How many times as long as with functions that do nothing it may take, in all loops but the
/// first, of which instructions are counted (`tests/preload/fast_path.rs`).
const MOST: f64 = 1.15;

/// Prints how long the loops take under Freehold and libraries given as `NAME=LIBRARY`, relative to
/// functions that do nothing, in so many rounds. Findings: where Freehold takes too long.
pub(crate) fn check(rounds: u32, others: &[&str]) -> Vec<String> {
    let workspace = metadata::read(false);
    match run(&root(&workspace), &target(&workspace), rounds, others) {
        Ok(findings) => findings,
        Err(reason) => vec![format!("floor: {reason}")],
    }
}

/// A library, and how long the loops took with it in each round.
struct Subject {
    name: String,
    library: PathBuf,
    rounds: Vec<[f64; LOOPS.len()]>,
}

impl Subject {
    fn new(name: &str, library: PathBuf) -> Self {
        Self { name: name.to_owned(), library, rounds: Vec::new() }
    }
}

fn run(root: &Path, target: &Path, rounds: u32, others: &[&str]) -> Result<Vec<String>, String> {
    let directory = tempfile::tempdir().map_err(|e| e.to_string())?;
    let sources = root.join("tests/floor");
    let loops = compiled(&sources.join("loops.c"), directory.path());
    let floor = directory.path().join("floor.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-fno-builtin", "-shared", "-fPIC", "-o"]).arg(&floor);
    let status = compiler.arg(sources.join("floor.c")).status().map_err(|e| format!("cc: {e}"))?;
    if !status.success() {
        return Err(format!("cc: {status}"));
    }
    let mut subjects = vec![
        Subject::new("nothing", floor),
        Subject::new("Freehold", built_library(root, target)?),
    ];
    for other in others {
        let (name, library) = named_library(other)?;
        subjects.push(Subject::new(name, library));
    }
    let copy = directory.path().join("copy.so");
    for _ in 0..rounds {
        for subject in &mut subjects {
            fs::copy(&subject.library, &copy).map_err(|e| e.to_string())?;
            subject
                .rounds
                .push(times(&loops, &copy).map_err(|e| format!("{}: {e}", subject.name))?);
            fs::remove_file(&copy).map_err(|e| e.to_string())?;
        }
    }
    println!("{:<12} {:>12} {:>12} {:>20}", "", LOOPS[0], LOOPS[1], LOOPS[2]);
    let ratios: Vec<_> = subjects.iter().map(|subject| ratios(subject, &subjects[0])).collect();
    for (Subject { name, .. }, [pair, batch, replacement]) in subjects.iter().zip(&ratios) {
        println!("{name:<12} {pair:>12.3} {batch:>12.3} {replacement:>20.3}");
    }
    let own = LOOPS.iter().zip(ratios[1]).skip(1);
    Ok(own
        .filter(|&(_, ratio)| ratio > MOST)
        .map(|(name, ratio)| format!("floor: {name}: {ratio:.3}, and at most {MOST} is the aim"))
        .collect())
}

/// How long the loops take with a library, in nanoseconds a pair.
fn times(loops: &Path, library: &Path) -> Result<[f64; LOOPS.len()], String> {
    let output = Command::new(loops).env("LD_PRELOAD", library).output();
    let output = output.map_err(|e| format!("{}: {e}", loops.display()))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let numbers = numbers.try_into().map_err(|_| format!("{}, printed: {text}", output.status));
    if output.status.success() { numbers } else { Err(format!("{}: {text}", output.status)) }
}

/// The medians of the ratios within a round.
fn ratios(subject: &Subject, floor: &Subject) -> [f64; LOOPS.len()] {
    std::array::from_fn(|n| {
        let pairs = subject.rounds.iter().zip(&floor.rounds);
        median(pairs.map(|(took, least)| took[n] / least[n]).collect())
    })
}
