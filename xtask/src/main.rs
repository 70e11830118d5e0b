//! The developers' chores: `cargo xtask tidy`, `cargo xtask licences` and `cargo xtask peers`.
//!
//! Each prints what is wrong, one line a finding, and fails if there was any.

#![forbid(unsafe_code)]

mod arrows;
mod licences;
mod metadata;
mod peers;
mod sources;

use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo xtask COMMAND

Commands:
  tidy      checks what the compiler does not: which crate may use which, where atomics, system
            calls and unsafe code may stand, and that every file says what it is for
  licences  checks that every dependency's licence is one of those we accept
  peers [jemalloc|mimalloc2|mimalloc3|snmalloc|rpmalloc]...
            builds these allocators, or all of them, into target/peers, where
            `freehold allocators` finds them; needs a C and a C++ compiler, make and cmake";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let findings = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy(),
        ["licences"] => licences::check(&metadata::read(true)),
        ["peers", ref wanted @ ..] => peers::build(wanted),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("{} findings", findings.len());
    ExitCode::FAILURE
}

fn tidy() -> Vec<String> {
    let metadata = metadata::read(false);
    let mut findings = arrows::check(&metadata);
    findings.extend(sources::check(&metadata));
    findings
}
