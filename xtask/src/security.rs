//! `cargo xtask security DIR`: the programs of mimalloc-bench's `bench/security`, under each
//! allocator. Each does something that it must not, and prints `NOT_CAUGHT` if it gets that far.
//!
//! What the suite's own script says decides: a program is stopped if it does not print that. The
//! programs are built by the suite's own `CMakeLists.txt`, below `target/security`; nothing of them
//! is part of this repository.

use crate::metadata::{self, root, target};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What a program prints that was not stopped.
const NOT_STOPPED: &str = "NOT_CAUGHT";

/// How long a program may take. One that takes longer has not been stopped.
const LIMIT: Duration = Duration::from_secs(60);

/// The sizes that most programs are built for, as their names end.
const SIZES: [&str; 3] = ["small", "medium", "large"];

/// How the programs are run.
struct Subject {
    name: String,
    /// What is preloaded, if anything.
    library: Option<PathBuf>,
    /// Variables that are set.
    variables: Vec<(String, String)>,
    /// How many it must stop.
    due: usize,
}

/// The programs that are stopped, for each subject.
type Stopped = Vec<BTreeSet<String>>;

/// Builds and runs the suite in a directory, under the C library's malloc, Freehold, and others
/// given as `NAME=LIBRARY`, and prints a table. Findings: what Freehold was to stop and did not.
pub(crate) fn check(suite: &str, others: &[&str]) -> Vec<String> {
    let workspace = metadata::read(false);
    match run(Path::new(suite), others, &root(&workspace), &target(&workspace)) {
        Ok(findings) => findings,
        Err(reason) => vec![reason],
    }
}

fn run(suite: &Path, others: &[&str], root: &Path, target: &Path) -> Result<Vec<String>, String> {
    let mut subjects = own(&built_library(root, target)?);
    for other in others {
        let (name, library) = named_library(other)?;
        subjects.push(Subject {
            name: name.to_owned(),
            library: Some(library),
            variables: Vec::new(),
            due: 0,
        });
    }
    let programs = built_programs(suite, &target.join("security"))?;
    let mut stopped: Stopped = Vec::new();
    for subject in &subjects {
        eprintln!("{}: {} programs", subject.name, programs.len());
        let of_this = programs.iter().filter(|(_, program)| is_stopped(program, subject));
        stopped.push(of_this.map(|(name, _)| name.clone()).collect());
    }
    print!("{}", table(&subjects, &programs, &stopped));
    let missing = subjects.iter().zip(&stopped).filter(|(it, stopped)| stopped.len() < it.due);
    Ok(missing
        .map(|(it, stopped)| format!("{} stops {}, not {}", it.name, stopped.len(), it.due))
        .collect())
}

/// The C library's malloc, and Freehold, with what that must stop.
fn own(library: &Path) -> Vec<Subject> {
    let subject = |name: &str, library: Option<&Path>, variables: &[(&str, &str)], due| Subject {
        name: name.to_owned(),
        library: library.map(Path::to_owned),
        variables: variables.iter().map(|&(n, v)| (n.to_owned(), v.to_owned())).collect(),
        due,
    };
    vec![
        subject("C library", None, &[], 0),
        subject("Freehold", Some(library), &[], 70),
        subject("Freehold, hardened", Some(library), &[("FREEHOLD_HARDEN", "1")], 100),
    ]
}

/// What `NAME=LIBRARY` says: the name, and where the library is.
pub(crate) fn named_library(argument: &str) -> Result<(&str, PathBuf), String> {
    let (name, library) =
        argument.split_once('=').ok_or(format!("{argument}: not NAME=LIBRARY"))?;
    let library = fs::canonicalize(library).map_err(|e| format!("{library}: {e}"))?;
    Ok((name, library))
}

/// Builds the library, and tells where it is.
pub(crate) fn built_library(root: &Path, target: &Path) -> Result<PathBuf, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let arguments = ["build", "--locked", "-p", "freehold-capi", "--profile", "preload"];
    succeed(Command::new(cargo).args(arguments).current_dir(root))?;
    Ok(target.join("preload/libfreehold.so"))
}

/// Builds the programs outside of their directory, and finds them by their names.
fn built_programs(suite: &Path, scratch: &Path) -> Result<BTreeMap<String, PathBuf>, String> {
    let found = [suite.join("bench/security"), suite.to_owned()];
    let sources = found.iter().find(|it| it.join("common.h").is_file());
    let sources = sources.ok_or_else(|| {
        format!("{}: neither mimalloc-bench nor its bench/security", suite.display())
    })?;
    let sources = fs::canonicalize(sources).map_err(|e| e.to_string())?;
    fs::create_dir_all(scratch).map_err(|e| e.to_string())?;
    // As bench/CMakeLists.txt of the suite has it: optimized, without warnings.
    let project = format!(
        "cmake_minimum_required(VERSION 3.5)\nproject(security C CXX)\n\
         set(CMAKE_C_FLAGS -w)\nset(CMAKE_CXX_FLAGS -w)\nadd_subdirectory({} programs)\n",
        sources.display()
    );
    fs::write(scratch.join("CMakeLists.txt"), project).map_err(|e| e.to_string())?;
    let built = scratch.join("built");
    let configure = ["-DCMAKE_BUILD_TYPE=Release", "-S"];
    let quiet = |command: &mut Command| succeed(command.stdout(Stdio::null()));
    quiet(Command::new("cmake").args(configure).arg(scratch).arg("-B").arg(&built))?;
    quiet(Command::new("cmake").arg("--build").arg(&built))?;
    let files = fs::read_dir(built.join("programs")).map_err(|e| e.to_string())?.flatten();
    let programs = files.filter(|file| {
        file.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    });
    Ok(programs.map(|it| (it.file_name().to_string_lossy().into_owned(), it.path())).collect())
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}")) }
}

/// Whether the program is stopped before it prints that it was not.
fn is_stopped(program: &Path, subject: &Subject) -> bool {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.envs(subject.variables.iter().map(|(name, value)| (name, value)));
    if let Some(library) = &subject.library {
        command.env("LD_PRELOAD", library);
    }
    let Ok(mut child) = command.spawn() else { return false };
    let output = child.stdout.take().map(|mut pipe| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // What cannot be read was not said.
            let _ = std::io::Read::read_to_end(&mut pipe, &mut bytes);
            bytes
        })
    });
    let in_time = ends(&mut child);
    let output = output.and_then(|reader| reader.join().ok()).unwrap_or_default();
    in_time && !String::from_utf8_lossy(&output).contains(NOT_STOPPED)
}

/// Waits for the end of a program, which comes within the limit or is made. Whether it came.
fn ends(child: &mut Child) -> bool {
    let start = Instant::now();
    while start.elapsed() < LIMIT {
        if !matches!(child.try_wait(), Ok(None)) {
            return true;
        }
        sleep(Duration::from_millis(1));
    }
    // It may have ended just now.
    let _ = child.kill();
    let _ = child.wait();
    false
}

/// A row for each program, with the sizes that each subject stops, and the sums.
fn table(subjects: &[Subject], programs: &BTreeMap<String, PathBuf>, stopped: &Stopped) -> String {
    let names: Vec<_> = subjects.iter().map(|it| it.name.as_str()).collect();
    let mut text =
        format!("| program | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
    let sums = stopped.iter().map(|it| format!("{} of {}", it.len(), programs.len()));
    let mut row = |name: &str, cells: Vec<String>| {
        text.extend(["| ", name, " | ", &cells.join(" | "), " |\n"]);
    };
    let kinds: BTreeSet<_> = programs.keys().map(|name| kind(name)).collect();
    for kind in kinds {
        row(kind, stopped.iter().map(|stopped| cell(kind, programs, stopped)).collect());
    }
    row("**stopped**", sums.collect());
    text
}

/// A program's name without the size that it was built for.
fn kind(name: &str) -> &str {
    let sized = name.rsplit_once('_').filter(|(_, size)| SIZES.contains(size));
    sized.map_or(name, |(kind, _)| kind)
}

/// Of the sizes that a program is built for, those that are stopped.
fn cell(kind: &str, programs: &BTreeMap<String, PathBuf>, stopped: &BTreeSet<String>) -> String {
    if programs.contains_key(kind) {
        return if stopped.contains(kind) { "yes" } else { "–" }.to_owned();
    }
    let caught = SIZES.iter().filter(|size| stopped.contains(&format!("{kind}_{size}")));
    let caught: Vec<_> = caught.copied().collect();
    match caught.len() {
        0 => "–".to_owned(),
        3 => "all".to_owned(),
        _ => caught.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_the_sizes_that_are_stopped() {
        let names = ["leap_small", "leap_medium", "leap_large", "mismatch"];
        let programs = names.map(|name| (name.to_owned(), PathBuf::new())).into();
        let stopped: BTreeSet<_> = ["leap_small", "leap_large"].map(str::to_owned).into();
        assert_eq!(cell("leap", &programs, &stopped), "small, large");
        assert_eq!(cell("mismatch", &programs, &stopped), "–");
        let subject = own(Path::new("")).remove(0);
        let text = table(&[subject], &programs, &vec![stopped]);
        assert!(text.contains("| leap | small, large |\n"), "{text}");
        assert!(text.ends_with("| **stopped** | 2 of 4 |\n"), "{text}");
    }
}
