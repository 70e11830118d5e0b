//! `cargo xtask verdicts`: the verdict of `freehold diagnose` on every program of `tests/known`,
//! again and again, against the one that its source names; as a matrix.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::metadata::root;

/// How long each program runs, in seconds.
const SECONDS: &str = "2";

/// How often a verdict may be wrong.
const WRONG: f64 = 0.05;

/// A program whose verdict is known.
struct Known {
    name: String,
    verdict: String,
    program: PathBuf,
}

/// How often each verdict was given, by the one that was due.
type Matrix = BTreeMap<String, BTreeMap<String, u32>>;

/// Prints the matrix of so many repeats. Findings: programs that were judged wrongly too often.
pub(crate) fn check(metadata: &Value, repeats: u32) -> Vec<String> {
    let root = root(metadata);
    let target = root.join("target/known");
    fs::create_dir_all(&target).expect("the target directory can be written");
    let freehold = built(&root);
    let mut matrix = Matrix::new();
    let mut findings = Vec::new();
    for known in programs(&root.join("tests/known"), &target) {
        let mut wrong = 0;
        for _ in 0..repeats {
            let given = diagnose(&freehold, &known.program);
            wrong += u32::from(given != known.verdict);
            let row = matrix.entry(known.verdict.clone()).or_default();
            *row.entry(given).or_default() += 1;
        }
        eprintln!("{}: {} of {repeats} right", known.name, repeats - wrong);
        if f64::from(wrong) > WRONG * f64::from(repeats) {
            findings.push(format!("{}: {wrong} of {repeats} verdicts are wrong", known.name));
        }
    }
    print!("{}", shown(&matrix));
    findings
}

/// Builds the command as users have it.
fn built(root: &Path) -> PathBuf {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let arguments = ["build", "--release", "--locked", "-p", "freehold-cli"];
    let status = Command::new(cargo).args(arguments).current_dir(root).status();
    assert!(status.is_ok_and(|status| status.success()), "freehold can be built");
    root.join("target/release/freehold")
}

/// The programs that name a verdict, compiled.
fn programs(sources: &Path, target: &Path) -> Vec<Known> {
    let files = fs::read_dir(sources).expect("the programs are there").flatten();
    let mut programs: Vec<_> = files.filter_map(|file| known(&file.path(), target)).collect();
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    programs
}

fn known(source: &Path, target: &Path) -> Option<Known> {
    let text = fs::read_to_string(source).ok()?;
    let verdict = text.split_once("Verdict: ")?.1.split_whitespace().next()?.to_owned();
    let name = source.file_stem()?.to_string_lossy().into_owned();
    let program = target.join(&name);
    let is_cpp = source.extension().is_some_and(|extension| extension == "cpp");
    let compiled = Command::new(if is_cpp { "c++" } else { "cc" })
        .args(["-O2", "-g", "-pthread", "-o"])
        .args([&program, source])
        .status();
    assert!(compiled.is_ok_and(|status| status.success()), "{name} can be compiled");
    Some(Known { name, verdict, program })
}

/// The verdict on a program; what went wrong if there is none.
fn diagnose(freehold: &Path, program: &Path) -> String {
    let mut command = Command::new(freehold);
    command.args(["diagnose", "--quiet", "--json", "--"]).arg(program).arg(SECONDS);
    let output = command.stderr(Stdio::inherit()).output().expect("freehold runs");
    let diagnosis: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    diagnosis["cause"].as_str().unwrap_or("no verdict").to_owned()
}

/// The matrix as text: a row for each verdict that was due.
fn shown(matrix: &Matrix) -> String {
    let mut text = String::new();
    for (due, given) in matrix {
        let all: u32 = given.values().sum();
        let right = given.get(due).copied().unwrap_or(0);
        let others = given.iter().filter(|(cause, _)| *cause != due);
        let others: Vec<_> = others.map(|(cause, times)| format!("{cause} {times}")).collect();
        let line = format!("{due:<22} {right:>4} of {all:<4} {}", others.join(", "));
        text.extend([line.trim_end(), "\n"]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrix_names_what_was_said_instead() {
        let row = |pairs: &[(&str, u32)]| {
            pairs.iter().map(|&(cause, times)| (cause.to_owned(), times)).collect()
        };
        let matrix = Matrix::from([
            ("idle".to_owned(), row(&[("idle", 20)])),
            ("starved".to_owned(), row(&[("computing", 2), ("starved", 18)])),
        ]);
        assert_eq!(
            shown(&matrix),
            "idle                     20 of 20\n\
             starved                  18 of 20   computing 2\n"
        );
    }
}
