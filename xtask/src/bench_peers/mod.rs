//! `cargo xtask bench-peers`: programs that nobody here wrote, under every allocator found: those
//! of the field's public suite, and real ones; and this project's harnesses. `freehold compare` and
//! `freehold bench` measure; this says what to run, and adds up.
//!
//! Nothing of the suite is part of this repository: it is built from a directory that the caller
//! gives, below `target/bench-peers`, where the results are left, too.

mod harnesses;
mod programs;
mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::metadata::{root, target};
use crate::verdicts::built;
use programs::Program;
use table::Row;

/// Measures every program and harness in so many rounds, under the allocators in a list like that
/// of `freehold compare`, or all, and prints tables. Findings: what could not be measured.
pub(crate) fn run(
    metadata: &Value,
    suite: &str,
    rounds: u32,
    allocators: Option<&str>,
) -> Vec<String> {
    let scratch = target(metadata).join("bench-peers");
    let programs = match built_suite(Path::new(suite), &scratch) {
        Ok(built) => programs::of_suite(Path::new(suite), &built),
        Err(reason) => return vec![reason],
    };
    let programs: Vec<_> = programs.into_iter().chain(programs::real(suite)).collect();
    let freehold = built(&root(metadata));
    let (mut rows, mut findings) = (Vec::new(), Vec::new());
    for program in &programs {
        if let Some(missing) = program.missing() {
            eprintln!("{}: skipped, since there is no {missing}", program.name);
            continue;
        }
        eprintln!("{}: {}", program.name, program.command.join(" "));
        match measured(&freehold, program, rounds, allocators, &scratch) {
            Ok(row) => rows.push(row),
            Err(reason) => findings.push(format!("{}: {reason}", program.name)),
        }
    }
    eprintln!("the harnesses");
    match harnesses::measured(&freehold, rounds, allocators, &scratch) {
        Ok(more) => rows.extend(more),
        Err(reason) => findings.push(format!("the harnesses: {reason}")),
    }
    let text = table::of(&rows);
    print!("{text}");
    if let Err(error) = fs::write(scratch.join("table.md"), text) {
        findings.push(format!("table.md: {error}"));
    }
    findings
}

/// Builds the suite's programs outside of its directory, by its own rules.
fn built_suite(suite: &Path, scratch: &Path) -> Result<PathBuf, String> {
    let sources = suite.join("bench");
    if !sources.join("CMakeLists.txt").is_file() {
        return Err(format!("{}: not a directory with mimalloc-bench", suite.display()));
    }
    let built = scratch.join("built");
    fs::create_dir_all(&built).map_err(|error| format!("{}: {error}", built.display()))?;
    let cmake = |arguments: &mut Command| {
        let status = arguments.stdout(Stdio::null()).status();
        let status = status.map_err(|error| format!("cmake: {error}"))?;
        if status.success() { Ok(()) } else { Err(format!("{arguments:?}: {status}")) }
    };
    let mut configure = Command::new("cmake");
    configure.arg("-DCMAKE_BUILD_TYPE=Release").arg("-S").arg(&sources).arg("-B").arg(&built);
    // shbench has to be fetched from its owner. The suite's rules do without it on one system only.
    if !sources.join("shbench/sh6bench-new.c").is_file() {
        configure.arg("-DAPPLE=ON");
    }
    cmake(&mut configure)?;
    cmake(Command::new("cmake").arg("--build").arg(&built).args(["--parallel", "2"]))?;
    Ok(built)
}

/// Has a program measured, and reads the result. What is said of it goes to a file of its own.
fn measured(
    freehold: &Path,
    program: &Program,
    rounds: u32,
    allocators: Option<&str>,
    scratch: &Path,
) -> Result<Row, String> {
    let result = scratch.join(format!("{}.json", program.name));
    let mut command = Command::new(freehold);
    command.args(["--quiet", "compare", "--warmup", "0", "--repeat", &rounds.to_string()]);
    command.args(allocators.map(|list| ["--allocators", list]).into_iter().flatten());
    command.args(program.load.iter().flat_map(|load| ["--load", load.as_str()]));
    command.args(program.port.iter().flat_map(|port| ["--port", port.as_str()]));
    command.args(program.input.iter().flat_map(|input| ["--input".as_ref(), input.as_os_str()]));
    command.arg("--json").arg(&result).arg("--").args(&program.command);
    command.current_dir(scratch).stdout(Stdio::null());
    table::read(&program.name, &result_of(&mut command, &result)?)
        .ok_or_else(|| "its result is not as expected".to_owned())
}

/// Runs a measurement, and reads the file that it leaves.
fn result_of(command: &mut Command, result: &Path) -> Result<Value, String> {
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    // One means that something failed under some allocator, which the result says.
    if !matches!(status.code(), Some(0 | 1)) {
        return Err(format!("{command:?}: {status}"));
    }
    let text = fs::read_to_string(result).map_err(|error| format!("its result: {error}"))?;
    serde_json::from_str(&text).map_err(|error| format!("its result: {error}"))
}
