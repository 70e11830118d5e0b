//! `cargo xtask verdicts`: the verdict of `freehold diagnose` on every program of `tests/known`,
//! again and again, against the one that its source names; as a matrix.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::metadata::root;

/// How long each program runs, in seconds.
const SECONDS: &str = "2";

/// How often a verdict may be wrong.
const WRONG: f64 = 0.05;

/// The user without any rights.
const NOBODY: u32 = 65_534;

/// A program whose verdict is known.
struct Known {
    name: String,
    verdict: String,
    /// The allocator that it is meant to run under.
    allocator: Option<String>,
    program: PathBuf,
}

/// How often each verdict was given, by the one that was due.
type Matrix = BTreeMap<String, BTreeMap<String, u32>>;

/// Who diagnoses.
#[derive(Debug, Clone, Copy)]
enum User {
    Own,
    Nobody,
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Own => "as the user who asks",
            Self::Nobody => "as nobody",
        })
    }
}

/// Prints the matrices of so many repeats: our own, and, if we are root, that of a user without
/// rights. Findings: programs that were judged wrongly too often.
pub(crate) fn check(metadata: &Value, repeats: u32) -> Vec<String> {
    let root = root(metadata);
    // Where everybody can run what is in it.
    let directory = tempfile::tempdir().expect("a temporary directory");
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(directory.path(), open).expect("it is ours");
    let freehold = directory.path().join("freehold");
    fs::copy(built(&root), &freehold).expect("it was built");
    let programs = programs(&root.join("tests/known"), directory.path(), &allocators(&freehold));
    let users = [User::Own, User::Nobody];
    let users = users.into_iter().filter(|&user| {
        let version = command(&freehold, user).arg("--version").output();
        let is_possible = version.is_ok_and(|output| output.status.success());
        if !is_possible {
            eprintln!("{user}: not possible here, left out");
        }
        is_possible
    });
    users.flat_map(|user| judged(&freehold, user, &programs, repeats)).collect()
}

/// Prints the matrix of one user. Findings as above.
fn judged(freehold: &Path, user: User, programs: &[Known], repeats: u32) -> Vec<String> {
    let mut matrix = Matrix::new();
    let mut findings = Vec::new();
    for known in programs {
        let mut wrong = 0;
        for _ in 0..repeats {
            let given = diagnose(command(freehold, user), known);
            wrong += u32::from(given != known.verdict);
            let row = matrix.entry(known.verdict.clone()).or_default();
            *row.entry(given).or_default() += 1;
        }
        eprintln!("{user}: {}: {} of {repeats} right", known.name, repeats - wrong);
        if f64::from(wrong) > WRONG * f64::from(repeats) {
            let name = &known.name;
            findings.push(format!("{user}: {name}: {wrong} of {repeats} verdicts are wrong"));
        }
    }
    print!("{user}:\n{}", shown(&matrix));
    findings
}

/// The command, to be run by this user.
fn command(freehold: &Path, user: User) -> Command {
    let mut command = Command::new(freehold);
    if let User::Nobody = user {
        command.uid(NOBODY).gid(NOBODY).env_remove("XDG_CACHE_HOME").env("HOME", "/nonexistent");
    }
    command
}

/// The allocators that are on this machine.
fn allocators(freehold: &Path) -> BTreeSet<String> {
    let output = Command::new(freehold).args(["allocators", "--json"]).output();
    let list = output.map(|output| serde_json::from_slice(&output.stdout).unwrap_or_default());
    let list: Value = list.unwrap_or_default();
    let found = list["found"].as_array().into_iter().flatten();
    found.filter_map(|own| Some(own["name"].as_str()?.to_owned())).collect()
}

/// Builds the command as users have it.
pub(crate) fn built(root: &Path) -> PathBuf {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let arguments = ["build", "--release", "--locked", "-p", "freehold-cli"];
    let status = Command::new(cargo).args(arguments).current_dir(root).status();
    assert!(status.is_ok_and(|status| status.success()), "freehold can be built");
    root.join("target/release/freehold")
}

/// The programs that name a verdict, compiled; without those whose allocator is not to be had.
fn programs(sources: &Path, target: &Path, allocators: &BTreeSet<String>) -> Vec<Known> {
    let files = fs::read_dir(sources).expect("the programs are there").flatten();
    let mut programs: Vec<_> = files.filter_map(|file| known(&file.path(), target)).collect();
    programs.retain(|known| {
        let missing = known.allocator.as_ref().filter(|name| !allocators.contains(*name));
        if let Some(name) = missing {
            eprintln!("{}: skipped, since {name} is not on this machine", known.name);
        }
        missing.is_none()
    });
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    programs
}

fn known(source: &Path, target: &Path) -> Option<Known> {
    let text = fs::read_to_string(source).ok()?;
    let named = |what| Some(text.split_once(what)?.1.split_whitespace().next()?.to_owned());
    let (verdict, allocator) = (named("Verdict: ")?, named("Allocator: "));
    let name = source.file_stem()?.to_string_lossy().into_owned();
    let program = compiled(source, target);
    Some(Known { name, verdict, allocator, program })
}

/// Compiles a program into a directory.
pub(crate) fn compiled(source: &Path, target: &Path) -> PathBuf {
    let program = target.join(source.file_stem().unwrap_or_default());
    let is_cpp = source.extension().is_some_and(|extension| extension == "cpp");
    let compiled = Command::new(if is_cpp { "c++" } else { "cc" })
        .args(["-O2", "-g", "-pthread", "-o"])
        .args([program.as_path(), source])
        .status();
    assert!(compiled.is_ok_and(|status| status.success()), "{} can be compiled", source.display());
    program
}

/// The verdict on a program; what went wrong if there is none.
fn diagnose(mut command: Command, known: &Known) -> String {
    command.args(["diagnose", "--quiet", "--json"]);
    if let Some(allocator) = &known.allocator {
        command.args(["--allocator", allocator]);
    }
    command.arg("--").arg(&known.program).arg(SECONDS);
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
