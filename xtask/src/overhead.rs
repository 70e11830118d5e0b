//! `cargo xtask overhead`: what observing costs the program that is observed, and what it takes of
//! a processor itself. Runs with and without it alternate, since a machine does not stay as it is.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::metadata::root;
use crate::verdicts::{User, compiled, directory_with_command};

/// How long each run takes, in seconds.
const SECONDS: &str = "2";

/// A way to observe, and by how much it may slow the program down: that of root, who sees
/// everything, and that of a user without rights.
struct Way {
    name: &'static str,
    arguments: &'static [&'static str],
    most: f64,
    most_unprivileged: f64,
}

const WAYS: [Way; 4] = [
    Way {
        name: "top",
        arguments: &["top", "--count", "2", "--json"],
        most: 0.05,
        most_unprivileged: 0.05,
    },
    Way { name: "locks", arguments: &["locks", "--json"], most: 0.05, most_unprivileged: 0.05 },
    Way {
        name: "diagnose",
        arguments: &["diagnose", "--json"],
        most: 0.25,
        most_unprivileged: 0.05,
    },
    Way {
        name: "diagnose --count",
        arguments: &["diagnose", "--json", "--count"],
        most: 0.25,
        most_unprivileged: 0.25,
    },
];

impl Way {
    fn most(&self, user: User) -> f64 {
        let is_root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
        match user {
            User::Own if is_root => self.most,
            User::Own | User::Nobody => self.most_unprivileged,
        }
    }
}

/// The part of a processor that `top` may take for 256 threads.
const TOP_CPUS: f64 = 0.01;

/// Seconds that `top` is watched for.
const TOP_SECONDS: usize = 10;

/// Prints what observing costs, from so many pairs of runs. Findings: what costs too much.
pub(crate) fn check(metadata: &Value, pairs: u32) -> Vec<String> {
    let root = root(metadata);
    let (directory, freehold) = directory_with_command(&root);
    let program = |name: &str| {
        let source = root.join("tests/known").join(name);
        compiled(&source, directory.path())
    };
    let contended = program("arena_counted.c");
    let outputs = directory.path().join("outputs");
    fs::create_dir(&outputs).expect("it is ours");
    fs::set_permissions(&outputs, fs::Permissions::from_mode(0o777)).expect("it is ours");
    let mut findings = Vec::new();
    for user in User::all(&freehold) {
        for way in WAYS {
            let mut slowdowns: Vec<f64> =
                (0..pairs).map(|_| slowdown(&freehold, &way, user, &contended, &outputs)).collect();
            slowdowns.sort_by(f64::total_cmp);
            let (median, least, most) = spread(&slowdowns);
            let name = format!("{}, {user}", way.name);
            println!(
                "{name:<38} slows a contended program down by {:5.1} % ({:.1} to {:.1}, {pairs} \
                 pairs; {:.0} % allowed)",
                median * 100.0,
                least * 100.0,
                most * 100.0,
                way.most(user) * 100.0,
            );
            if median > way.most(user) {
                findings.push(format!("{name}: more than {:.0} %", way.most(user) * 100.0));
            }
        }
    }
    let cpus = cost_of_top(&freehold, &program("many_threads.c"));
    println!("top, once a second, takes {:.2} % of a processor for 256 threads", cpus * 100.0);
    if cpus > TOP_CPUS {
        findings.push(format!("top: more than {:.0} % of a processor", TOP_CPUS * 100.0));
    }
    findings
}

/// The median, the least and the greatest of sorted numbers.
fn spread(sorted: &[f64]) -> (f64, f64, f64) {
    let last = sorted.len() - 1;
    let median = f64::midpoint(sorted[last / 2], sorted[sorted.len() / 2]);
    (median, sorted[0], sorted[last])
}

/// How much less a program gets done while it is observed, as a part of what it does alone, before
/// and after.
fn slowdown(freehold: &Path, way: &Way, user: User, program: &Path, outputs: &Path) -> f64 {
    let alone = || {
        let output = user.command(program).arg(SECONDS).output().expect("it runs");
        number(&String::from_utf8_lossy(&output.stdout))
    };
    let before = alone();
    // Each user has a file of their own.
    let place = outputs.join(format!("{user:?}"));
    let mut command = user.command(freehold);
    command.arg("--quiet").args(way.arguments).arg("--output").arg(&place);
    command.arg("--").arg(program).arg(SECONDS).stdout(Stdio::null());
    let status = command.status().expect("freehold runs");
    assert!(status.success(), "{}: {status}", way.name);
    let observed = number(&fs::read_to_string(&place).expect("it printed"));
    let after = alone();
    1.0 - observed / f64::midpoint(before, after)
}

fn number(text: &str) -> f64 {
    text.trim().parse().unwrap_or_else(|_| panic!("not a number: {text}"))
}

/// The part of a processor that `top` takes, as the scheduler counts it.
fn cost_of_top(freehold: &Path, program: &PathBuf) -> f64 {
    let seconds = (TOP_SECONDS + 3).to_string();
    let mut command = Command::new(freehold);
    command.args(["--quiet", "top", "--json", "--interval", "1", "--"]).arg(program).arg(seconds);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("freehold runs");
    let output = child.stdout.take().expect("piped");
    let mut lines = BufReader::new(output).lines();
    let statistics = format!("/proc/{}/schedstat", child.id());
    let ran = || {
        let text = fs::read_to_string(&statistics).unwrap_or_default();
        text.split_whitespace().next().map_or(0.0, number) / 1e9
    };
    // What it takes to begin does not count.
    lines.next();
    let (began, before) = (Instant::now(), ran());
    for _ in 0..TOP_SECONDS {
        lines.next();
    }
    let cost = (ran() - before) / began.elapsed().as_secs_f64();
    lines.for_each(drop);
    // It ends as its command does, which nobody doubts.
    let _ = child.wait();
    cost
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_two() {
        assert_eq!(spread(&[1.0, 2.0, 4.0, 9.0]), (3.0, 1.0, 9.0));
        assert_eq!(spread(&[1.0, 2.0, 9.0]), (2.0, 1.0, 9.0));
    }
}
