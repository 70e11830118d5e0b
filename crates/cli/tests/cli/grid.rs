//! `freehold bench HARNESS`: grids from outside. Nothing here depends on how fast anything is.

use std::io::BufReader;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Ended, directory, freehold, json, read, run, signal, wait_for_line};

/// Harnesses that are over at once.
const TINY: [&str; 11] = [
    "bench",
    "larson",
    "threadtest",
    "--seconds",
    "0.02",
    "--settle",
    "0.01",
    "--set",
    "objects=100",
    "--set",
    "threadtest:iterations=2",
];

fn grid(more: &[&str]) -> Ended {
    run(&[&TINY, more].concat())
}

fn stored(path: &Path) -> Value {
    json(&read(path))
}

fn list<'a>(document: &'a Value, field: &str) -> &'a Vec<Value> {
    document[field].as_array().unwrap_or_else(|| panic!("no list {field}"))
}

#[test]
fn every_harness_is_crossed_with_threads_sizes_and_allocators() {
    let directory = directory();
    let path = directory.path().join("grid.json");
    let csv = directory.path().join("grid.csv");
    let (name, csv_name) = (path.to_string_lossy(), csv.to_string_lossy());
    let axes = ["--threads", "1,2", "--sizes", "16,64", "-a", "system,freehold"];
    let out = ["--repeat", "2", "--json", &name, "--csv", &csv_name, "--details"];
    let ended = grid(&[&axes[..], &out].concat()).with(0);
    let document = stored(&path);
    assert_eq!(document["kind"], "grid");
    assert_eq!(document["complete"], true);
    assert_eq!(list(&document["plan"], "cases").len(), 2 * 2 * 2);
    let runs = list(&document, "runs");
    assert_eq!(runs.len(), 2 * 2 * 2 * 2 * 2);
    for run in runs {
        let measured = &run["outcome"]["measured"];
        let case = &document["plan"]["cases"][run["case"].as_u64().expect("an index") as usize];
        assert_eq!(measured["params"], case["params"]);
        assert_eq!(measured["params"]["threads"], case["threads"]);
        assert!(measured["metric"]["value"].as_f64().is_some_and(|value| value > 0.0));
        for extra in ["minor_faults", "voluntary_switches", "involuntary_switches"] {
            assert!(measured["usage"][extra].is_u64(), "no {extra} in {measured}");
        }
    }
    check_tables(&ended.out);
    check_csv(&read(&csv));
    // Every block of runs stays together: all allocators of a case, one after the other.
    for block in runs.chunks(2) {
        assert_eq!(block[0]["case"], block[1]["case"]);
        assert_ne!(block[0]["allocator"], block[1]["allocator"]);
    }
}

fn check_tables(out: &str) {
    for words in [
        "larson: throughput, in operations/s",
        "threadtest: elapsed time, in seconds",
        "larson: peak of resident memory, in MiB",
        "threadtest: resident memory after free and idle time, in MiB",
        "Relative to system",
        "Every case",
        "seconds 0.02",
    ] {
        assert!(out.contains(words), "no {words:?} in:\n{out}");
    }
}

fn check_csv(csv: &str) {
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("case,allocator,measure,unit,round,value"));
    for wanted in [
        "larson threads=2 size=64,freehold,speed,1/s,1,",
        "threadtest threads=1 size=16,system,wall,s,0,",
        "larson threads=1 size=16,system,rss.peak,B,0,",
    ] {
        assert!(csv.contains(wanted), "no {wanted:?} in:\n{csv}");
    }
}

#[test]
fn a_precision_ends_a_grid_at_the_look_that_finds_it() {
    // Where there is nothing to compare with, the first look, after twelve rounds, is enough.
    let ended = grid(&["--threads", "1", "-a", "system", "--until", "2%", "--json", "-"]).with(0);
    let document = json(&ended.out);
    assert_eq!(list(&document, "runs").len(), 2 * 12);
    assert_eq!(document["plan"]["rounds"], 100);
    assert_eq!(document["complete"], true);
}

#[test]
fn a_time_limit_ends_a_grid_and_says_so() {
    let axes = ["--threads", "1", "--repeat", "1000", "-a", "system", "--time-limit", "1"];
    let ended = grid(&[&axes[..], &["--json", "-"]].concat()).with(0);
    assert!(ended.err.contains("time limit was reached"), "{}", ended.err);
    let document = json(&ended.out);
    assert_eq!(document["complete"], false);
    let made = list(&document, "runs").len();
    assert!((1..2000).contains(&made), "{made} runs");
}

#[test]
fn an_interrupt_keeps_and_prints_what_was_measured() {
    let directory = directory();
    let path = directory.path().join("partial.json");
    let name = path.to_string_lossy();
    let more = ["-a", "system", "--threads", "1", "--repeat", "1000", "--json", &name];
    let mut child = freehold()
        .args([&TINY, &more[..], &["--progress", "always"]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let mut err = BufReader::new(child.stderr.take().expect("piped"));
    wait_for_line(&mut err, "freehold: 2/2000 ");
    signal(child.id(), "INT");
    wait_for_line(&mut err, "stopping after the current run");
    let reader = std::thread::spawn(move || std::io::copy(&mut err, &mut std::io::sink()));
    let output = child.wait_with_output().expect("ends");
    reader.join().expect("no panic").expect("readable");
    assert_eq!(output.status.code(), Some(130));
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(out.contains("Ended early"), "{out}");
    let document = stored(&path);
    assert_eq!(document["complete"], false);
    assert!(list(&document, "runs").len() >= 2);
}

#[test]
fn shards_share_out_the_cases() {
    let outline = |shard: &str| {
        let axes = ["--dry-run", "--threads", "1,2,4", "-a", "system"];
        let out = grid(&[&axes[..], &["--shard", shard]].concat()).with(0).out;
        let cases = out.lines().filter(|line| line.starts_with("  freehold workload "));
        cases.map(str::to_owned).collect::<Vec<_>>()
    };
    let whole = outline("1/1");
    assert_eq!(whole.len(), 6);
    let mut parts = [outline("1/4"), outline("2/4"), outline("3/4"), outline("4/4")].concat();
    assert_eq!(parts.len(), 6);
    parts.sort_unstable();
    let mut sorted = whole;
    sorted.sort_unstable();
    assert_eq!(parts, sorted);
}

#[test]
fn what_cannot_be_measured_is_refused_before_anything_runs() {
    let refused = |words: &[&str], reason: &str| {
        let ended = run(&[&["bench"], words].concat()).with(2);
        assert!(ended.err.contains(reason), "no {reason:?} in:\n{}", ended.err);
    };
    refused(&["larsen"], "did you mean \"larson\"?");
    refused(&["larson", "--set", "colour=red"], "has a parameter \"colour\"");
    refused(&["larson", "--set", "threads=3"], "--threads");
    refused(&["larson", "--shard", "3/2"], "K from 1 to N");
    refused(&["larson", "--pairs", "4"], "cannot be used with");
    refused(&["--threads", "4"], "HARNESS|SUITE");
    refused(&["larson", "pairs"], "run freehold bench pairs");
}

#[test]
fn shards_are_shown_as_one_grid_and_results_given_twice_are_refused() {
    let directory = directory();
    let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    let (first, second, whole) = (path("1.json"), path("2.json"), path("whole.json"));
    for (shard, file) in [("1/2", &first), ("2/2", &second)] {
        let axes = ["--threads", "1,2", "-a", "freehold,system", "--repeat", "1"];
        grid(&[&axes[..], &["--shard", shard, "--json", file]].concat()).with(0);
    }
    run(&["report", &first, &second, "-o", &whole]).with(0);
    let document = stored(Path::new(&whole));
    assert_eq!(list(&document, "parts").len(), 2);
    assert_eq!(list(&document["plan"], "cases").len(), 4);
    assert_eq!(list(&document, "runs").len(), 4 * 2);
    let shown = run(&["report", &whole]).with(0).out;
    for words in ["larson: throughput", "threadtest: elapsed time", "Shard 2 of 2"] {
        assert!(shown.contains(words), "no {words:?} in:\n{shown}");
    }
    assert!(run(&["report", &first, &first]).with(1).err.contains("are there twice"));
    assert!(run(&["report", &whole, "-o", &path("x.pdf")]).with(2).err.contains("use .html"));
    let markdown = path("whole.md");
    run(&["report", &whole, "-o", &markdown]).with(0);
    assert!(read(Path::new(&markdown)).contains("### larson: throughput"));
}

#[test]
fn results_of_other_work_are_not_taken_for_a_change_without_a_word() {
    let directory = directory();
    let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    let (before, after) = (path("before.json"), path("after.json"));
    for (iterations, stored) in [("iterations=2", &before), ("iterations=20", &after)] {
        let chosen = ["bench", "threadtest", "--threads", "1", "-a", "system", "-r", "1"];
        let set = ["--set", "objects=100", "--set", iterations, "--settle", "0"];
        run(&[&chosen[..], &set, &["--json", stored]].concat()).with(0);
    }
    let ended = run(&["diff", &before, &after]).with(0);
    let words = "iterations differs: 2 in";
    assert!(ended.err.contains(words), "{}", ended.err);
    let same = run(&["diff", &before, &before]).with(0);
    assert!(!same.err.contains("differs"), "{}", same.err);
    // Made one, they are told apart.
    let page = run(&["report", &before, &after]).with(0).out;
    assert!(page.contains("iterations"), "{page}");
}

#[test]
fn what_is_no_file_is_no_allocator() {
    for path in ["/dev/zero", "/"] {
        let refused = run(&["bench", "larson", "-n", "-a", path]);
        assert!(refused.err.contains("not a regular file"), "{}", refused.err);
    }
}
