//! `cargo xtask soak`: every harness in turn in one process under the preloaded library, for hours;
//! whether resident memory comes back to where it was after the first round.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::metadata::root;

/// How much more may be resident after the last round than after the first.
const MOST: f64 = 1.1;

fn build(root: &Path, arguments: &[&str]) {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let status =
        Command::new(cargo).args(["build", "--locked"]).args(arguments).current_dir(root).status();
    assert!(status.is_ok_and(|status| status.success()), "{arguments:?} can be built");
}

/// Runs the harnesses for so many seconds, and prints what the program says. Findings: what went
/// wrong, and memory that did not come back.
pub(crate) fn run(metadata: &Value, seconds: u64) -> Vec<String> {
    let root = root(metadata);
    build(&root, &["-p", "freehold-capi", "--profile", "preload"]);
    build(&root, &["-p", "freehold-tests", "--bin", "freehold-soak"]);
    let library = root.join("target/preload/libfreehold.so");
    let mut child = Command::new(root.join("target/debug/freehold-soak"))
        .arg(seconds.to_string())
        .env("LD_PRELOAD", &library)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let output = child.stdout.take().expect("piped");
    let (mut rounds, mut is_live) = (Vec::new(), false);
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        println!("{line}");
        rounds.extend(resident_after_round(&line));
        is_live |= line == format!("malloc: {}", library.display());
    }
    let status = child.wait().expect("it can be waited for");
    let mut findings = judge(&rounds);
    if !status.success() {
        findings.push(format!("soak: the program ended with {status}"));
    }
    if !is_live {
        findings.push(format!("soak: {} did not serve the program", library.display()));
    }
    findings
}

/// The bytes in a line that tells of a round's end.
fn resident_after_round(line: &str) -> Option<u64> {
    let (_, rest) = line.strip_prefix("round ")?.split_once(": ")?;
    rest.split(' ').next()?.parse().ok()
}

/// Findings about what was resident after each round.
fn judge(rounds: &[u64]) -> Vec<String> {
    let [first, .., last] = *rounds else {
        return vec!["soak: two rounds are needed to compare: give it more time".to_owned()];
    };
    let ratio = last as f64 / first as f64;
    println!("after {} rounds {ratio:.2} of what was resident after the first", rounds.len());
    if ratio > MOST {
        return vec![format!("soak: {last} bytes are resident at the end, {first} were at first")];
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_stays_is_found_and_memory_that_comes_back_is_not() {
        assert!(judge(&[100, 500, 110]).is_empty());
        assert!(judge(&[100, 50, 111])[0].contains("111 bytes are resident"));
        assert!(judge(&[100])[0].contains("two rounds"));
    }

    #[test]
    fn only_the_ends_of_rounds_are_read() {
        assert_eq!(resident_after_round("round 3: 4096 bytes resident"), Some(4096));
        assert_eq!(resident_after_round("round-robin: 4096 bytes resident, after 1.0 s"), None);
    }
}
