//! `cargo xtask verdicts`: the verdict of `freehold diagnose` on every program of `tests/known`,
//! again and again, against the one that its source names; as a matrix.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
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

/// How often each verdict was given, by the program, and the one that was due to it.
type Given = BTreeMap<(String, String), BTreeMap<String, u32>>;

/// Who diagnoses.
#[derive(Debug, Clone, Copy)]
pub(crate) enum User {
    /// Who asks.
    Own,
    /// Somebody without any rights.
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

impl User {
    /// The command, to be run by this user.
    pub(crate) fn command(self, program: &Path) -> Command {
        let mut command = Command::new(program);
        if let Self::Nobody = self {
            command
                .uid(NOBODY)
                .gid(NOBODY)
                .env_remove("XDG_CACHE_HOME")
                .env("HOME", "/nonexistent");
        }
        command
    }

    /// All that can be taken for running this program.
    pub(crate) fn all(program: &Path) -> Vec<Self> {
        let mut users = vec![Self::Own, Self::Nobody];
        users.retain(|user| {
            let version = user.command(program).arg("--version").output();
            let is_possible = version.is_ok_and(|output| output.status.success());
            if !is_possible {
                eprintln!("{user}: not possible here, left out");
            }
            is_possible
        });
        users
    }
}

/// A directory in which everybody can run what is in it, with the command, as users have it.
pub(crate) fn directory_with_command(root: &Path) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(directory.path(), open).expect("it is ours");
    let freehold = directory.path().join("freehold");
    fs::copy(built(root), &freehold).expect("it was built");
    (directory, freehold)
}

/// Prints the matrices of so many repeats: our own, and, if we are root, that of a user without
/// rights; of all programs, or of those that are named. Findings: programs that were judged wrongly
/// too often.
pub(crate) fn check(metadata: &Value, repeats: u32, names: &[&str]) -> Vec<String> {
    let root = root(metadata);
    let (directory, freehold) = directory_with_command(&root);
    let sources = root.join("tests/known");
    let programs = match programs(&sources, directory.path(), &allocators(&freehold), names) {
        Ok(programs) => programs,
        Err(unknown) => return vec![unknown],
    };
    let users = User::all(&freehold);
    let mut given = vec![Given::new(); users.len()];
    // All once, then all again: whatever else the machine does, it does to all of them.
    for repeat in 1..=repeats {
        let mut wrong = Vec::new();
        for (&user, given) in users.iter().zip(&mut given) {
            for known in &programs {
                let verdict = diagnose(user.command(&freehold), known);
                if verdict != known.verdict {
                    wrong.push(format!("; {} {user}: {verdict}", known.name));
                }
                let row = given.entry((known.name.clone(), known.verdict.clone())).or_default();
                *row.entry(verdict).or_default() += 1;
            }
        }
        let all = programs.len() * users.len();
        let right = all - wrong.len();
        eprintln!("{repeat}. repeat: {right} of {all} right{}", wrong.concat());
    }
    for (user, given) in users.iter().zip(&given) {
        print!("{user}:\n{}", shown(given));
    }
    users.iter().zip(&given).flat_map(|(user, given)| too_wrong(*user, given)).collect()
}

/// The programs that were judged wrongly too often.
fn too_wrong(user: User, given: &Given) -> Vec<String> {
    let finding = |((name, due), verdicts): (&(String, String), &BTreeMap<String, u32>)| {
        let (right, all) = counted(due, verdicts);
        let wrong = all - right;
        let is_too_much = f64::from(wrong) > WRONG * f64::from(all);
        is_too_much.then(|| format!("{user}: {name}: {wrong} of {all} verdicts are wrong"))
    };
    given.iter().filter_map(finding).collect()
}

/// How many verdicts are the one that was due, and how many there are.
fn counted(due: &str, verdicts: &BTreeMap<String, u32>) -> (u32, u32) {
    (verdicts.get(due).copied().unwrap_or(0), verdicts.values().sum())
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

/// The programs that name a verdict, or those of them that are named, compiled; without those whose
/// allocator is not to be had. Otherwise the name of a program that there is not.
fn programs(
    sources: &Path,
    target: &Path,
    allocators: &BTreeSet<String>,
    names: &[&str],
) -> Result<Vec<Known>, String> {
    let files = fs::read_dir(sources).expect("the programs are there").flatten();
    let mut sources: Vec<_> = files.map(|file| file.path()).collect();
    let is = |path: &PathBuf, name: &str| path.file_stem().is_some_and(|stem| stem == name);
    if let Some(unknown) = names.iter().find(|name| !sources.iter().any(|path| is(path, name))) {
        return Err(format!("{unknown}: no program of tests/known"));
    }
    sources.retain(|path| names.is_empty() || names.iter().any(|name| is(path, name)));
    let mut programs: Vec<_> = sources.iter().filter_map(|path| known(path, target)).collect();
    programs.retain(|known| {
        let missing = known.allocator.as_ref().filter(|name| !allocators.contains(*name));
        if let Some(name) = missing {
            eprintln!("{}: skipped, since {name} is not on this machine", known.name);
        }
        missing.is_none()
    });
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(programs)
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

/// The matrix as text: a row for each verdict that was due, all together, and then the programs
/// that were given another.
fn shown(given: &Given) -> String {
    let mut by_verdict = BTreeMap::<&str, BTreeMap<String, u32>>::new();
    for ((_, due), verdicts) in given {
        let row = by_verdict.entry(due).or_default();
        for (verdict, times) in verdicts {
            *row.entry(verdict.clone()).or_default() += times;
        }
    }
    let mut text = String::new();
    let (mut all_right, mut all_given) = (0, 0);
    for (due, verdicts) in &by_verdict {
        let (right, all) = counted(due, verdicts);
        (all_right, all_given) = (all_right + right, all_given + all);
        text += &line(due, due, verdicts);
    }
    let _ = writeln!(text, "{:<22} {all_right:>4} of {all_given}", "all");
    for ((name, due), verdicts) in given {
        let (right, all) = counted(due, verdicts);
        if right < all {
            text += &line(&format!("  {name}"), due, verdicts);
        }
    }
    text
}

/// How often what was due was given, and what was given instead.
fn line(name: &str, due: &str, verdicts: &BTreeMap<String, u32>) -> String {
    let (right, all) = counted(due, verdicts);
    let others = verdicts.iter().filter(|(verdict, _)| *verdict != due);
    let others: Vec<_> = others.map(|(verdict, times)| format!("{verdict} {times}")).collect();
    let line = format!("{name:<22} {right:>4} of {all:<4} {}", others.join(", "));
    format!("{}\n", line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program, what was due to it, and what it was given.
    type Row<'a> = (&'a str, &'a str, &'a [(&'a str, u32)]);

    fn given(rows: &[Row<'_>]) -> Given {
        let row = |&(name, due, verdicts): &Row<'_>| {
            let verdicts = verdicts.iter().map(|&(verdict, times)| (verdict.to_owned(), times));
            ((name.to_owned(), due.to_owned()), verdicts.collect())
        };
        rows.iter().map(row).collect()
    }

    #[test]
    fn the_matrix_names_what_was_said_instead_and_of_which_program() {
        let given = given(&[
            ("pool", "idle", &[("idle", 20)]),
            ("asleep", "idle", &[("idle", 20)]),
            ("crowd", "starved", &[("computing", 2), ("starved", 18)]),
        ]);
        assert_eq!(
            shown(&given),
            "idle                     40 of 40\n\
             starved                  18 of 20   computing 2\n\
             all                      58 of 60\n\
             \x20 crowd                  18 of 20   computing 2\n"
        );
    }

    #[test]
    fn one_wrong_verdict_of_twenty_is_allowed_to_each_program() {
        let given = given(&[
            ("pool", "idle", &[("computing", 1), ("idle", 19)]),
            ("crowd", "starved", &[("computing", 2), ("starved", 18)]),
        ]);
        let expected = "as nobody: crowd: 2 of 20 verdicts are wrong";
        assert_eq!(too_wrong(User::Nobody, &given), [expected]);
    }
}
