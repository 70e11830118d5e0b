//! The developers' chores: `cargo xtask tidy`, `licences`, `peers`, `kernels`, `bench-peers`,
//! `floor`, `startup`, `verdicts`, `overhead`, `comparisons`, `security` and `soak`.
//!
//! Each prints what is wrong, one line a finding, and fails if there was any.

#![forbid(unsafe_code)]

mod arrows;
mod bench_peers;
mod comparisons;
mod floor;
mod kernels;
mod licences;
mod metadata;
mod overhead;
mod peers;
mod security;
mod soak;
mod sources;
mod startup;
mod verdicts;

use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo xtask COMMAND

Commands:
  tidy      checks what the compiler does not: which crate may use which, where atomics, system
            calls and unsafe code may stand, and that every file says what it is for
  licences  checks that every dependency's licence is one of those we accept
  peers [jemalloc|mimalloc2|mimalloc3|snmalloc|rpmalloc]...
            builds these allocators, or all of them, into target/peers, where
            `freehold allocators` finds them; needs a C and a C++ compiler, make and cmake
  kernels   fetches two of Debian's kernels into target/kernels, for the virtual machines that tests
            boot: one for x86-64, and one for aarch64 with pages of 16 KiB; needs apt
  bench-peers DIR [ROUNDS [ALLOCATORS]]
            runs the programs of mimalloc-bench, which is in DIR, real ones (g++, Python, Perl,
            SQLite, z3, Redis: those that are there), and every harness under every allocator that
            is found, or those in a list, and prints tables of time and memory; needs a C and a C++
            compiler and cmake
  floor [ROUNDS [NAME=LIBRARY]...]
            times three loops of malloc and free under Freehold, and under other libraries, beside
            two functions that do nothing; fails where Freehold takes longer than is the aim; needs
            a C compiler
  startup [RUNS [NAME=LIBRARY]...]
            measures what a program that prints a line takes more with Freehold, an empty library,
            and other libraries, than without any: time and resident memory; fails where Freehold
            takes more than is the aim; needs a C compiler
  verdicts [REPEATS [PROGRAM]...]
            diagnoses the programs of tests/known so often, or those that are named, and prints how
            often each verdict was given to whom; fails if more than 5 % are wrong of any program;
            needs a C and a C++ compiler, and three minutes for each repeat
  overhead [PAIRS]
            measures how much observing slows a contended program down, for root and for a user
            without rights, by so many pairs of runs with and without, and what top takes for 256
            threads; on a machine with nothing else to do
  comparisons [same|delay|repeats [N]]
            tries on real processes whether `freehold compare` claims what is not there, finds a
            slowdown of 5 %, and gives the same answer again; takes half an hour
  soak --hours N | --minutes N
            runs every harness in turn in one process under the library, and says whether resident
            memory comes back to where it was after the first round, which takes two minutes
  security DIR [NAME=LIBRARY]...
            runs the programs of mimalloc-bench's bench/security, which is in DIR, under the C
            library's malloc, Freehold, and other libraries, and prints which are stopped; needs
            a C and a C++ compiler and cmake";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let findings = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy(),
        ["licences"] => licences::check(&metadata::read(true)),
        ["peers", ref wanted @ ..] => peers::build(wanted),
        ["kernels"] => kernels::fetch(),
        ["bench-peers", suite, ref rest @ ..] if rest.len() <= 2 => {
            let rounds = rest.first().map_or(Ok(5), |text| text.parse::<u32>());
            match rounds {
                Ok(rounds @ 1..) => {
                    let allocators = rest.get(1).copied();
                    bench_peers::run(&metadata::read(false), suite, rounds, allocators)
                }
                _ => vec!["bench-peers: the number of rounds is not a number from 1 on".to_owned()],
            }
        }
        ["verdicts"] => verdicts::check(&metadata::read(false), 1, &[]),
        ["verdicts", repeats, ref names @ ..]
            if repeats.parse::<u32>().is_ok_and(|repeats| repeats > 0) =>
        {
            verdicts::check(&metadata::read(false), repeats.parse().unwrap_or(1), names)
        }
        ["floor"] => floor::check(9, &[]),
        ["floor", rounds, ref others @ ..] if rounds.parse::<u32>().is_ok_and(|n| n > 0) => {
            floor::check(rounds.parse().unwrap_or(1), others)
        }
        ["startup"] => startup::check(400, &[]),
        ["startup", runs, ref others @ ..] if runs.parse::<u32>().is_ok_and(|n| n > 0) => {
            startup::check(runs.parse().unwrap_or(1), others)
        }
        ["comparisons", ref words @ ..] => comparisons::run(words),
        ["security", suite, ref others @ ..] => security::check(suite, others),
        ["overhead"] => overhead::check(&metadata::read(false), 5),
        ["overhead", pairs] if pairs.parse::<u32>().is_ok_and(|pairs| pairs > 0) => {
            overhead::check(&metadata::read(false), pairs.parse().unwrap_or(1))
        }
        ["soak", unit @ ("--hours" | "--minutes"), count] if count.parse::<u32>().is_ok() => {
            let seconds = if unit == "--hours" { 3600 } else { 60 };
            soak::run(&metadata::read(false), seconds * count.parse::<u64>().unwrap_or(1))
        }
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
