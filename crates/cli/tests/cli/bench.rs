//! `freehold bench`: the measurement from outside. Nothing here depends on how fast anything is.

use std::fs;
use std::io::BufReader;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{compiled, directory, freehold, json, read, run, signal, wait_for_line};

/// A case that is over at once.
const TINY: [&str; 11] = [
    "bench",
    "--pairs",
    "1",
    "--sizes",
    "256",
    "--seconds",
    "0.02",
    "--warmup",
    "0.01",
    "--allocations",
    "100",
];

/// Libraries that serve malloc by forwarding it, and free in ways of their own.
const FORWARDS: &str = r"
#include <stddef.h>
void *__libc_malloc(size_t size);
void *malloc(size_t size) { return __libc_malloc(size); }
";
const CRASHES: &str = r"
#include <stdlib.h>
void __libc_free(void *block);
static int count;
void free(void *block) {
    if (__atomic_add_fetch(&count, 1, __ATOMIC_RELAXED) > 20000) abort();
    __libc_free(block);
}
";

fn bench(more: &[&str]) -> crate::support::Ended {
    run(&[&TINY, more].concat())
}

fn stored(path: &Path) -> Value {
    json(&read(path))
}

fn runs(document: &Value) -> &Vec<Value> {
    document["runs"].as_array().expect("a list of runs")
}

#[test]
fn a_quick_benchmark_is_stored_with_its_provenance_and_can_be_shown_again() {
    let directory = directory();
    let path = directory.path().join("results.json");
    let name = path.to_string_lossy();
    let list = ["--quick", "-a", "freehold,system", "--settle", "0.01"];
    let ended = run(&[&["bench", "--json", &name], &list[..]].concat()).with(0);
    let document = stored(&path);
    assert_eq!(document["schema_version"], 1);
    assert_eq!(document["kind"], "bench");
    assert_eq!(document["complete"], true);
    check_provenance(&document["provenance"]);
    // Two rounds of four cases for speed and one for memory, under two allocators.
    assert_eq!(runs(&document).len(), 2 * 5 * 2);
    for run in runs(&document) {
        check_run(run, &document["allocators"]);
    }
    for words in ["Loops per second", "freehold", "system", "after 0.01 s idle"] {
        assert!(ended.out.contains(words), "no {words:?} in:\n{}", ended.out);
    }

    let again = run(&["report", &name]).with(0).out;
    assert_eq!(again, ended.out);
    let details = run(&["report", "--details", &name]).with(0).out;
    assert!(details.contains("Every case"), "{details}");
    let markdown = run(&["report", "--markdown", &name]).with(0).out;
    assert!(markdown.contains("### Loops per second"), "{markdown}");
    assert!(markdown.contains("| pairs | max size |"), "{markdown}");
}

fn check_provenance(provenance: &Value) {
    assert_eq!(provenance["tool_version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(provenance["seed"], 1);
    let words = provenance["command_line"].as_array().expect("a list");
    assert!(words.iter().any(|word| word == "--quick"));
    for field in ["started", "finished"] {
        let time = provenance[field].as_str().unwrap_or_default();
        assert!(time.ends_with('Z'), "{field} in {provenance}");
    }
    let machine = &provenance["machine"];
    let kernel = machine["kernel"].as_str().unwrap_or_default();
    assert!(kernel.starts_with("Linux "), "{machine}");
    for field in ["cpus_usable", "memory_total_bytes", "page_bytes"] {
        let value = machine[field].as_u64().unwrap_or_default();
        assert!(value > 0, "{field} in {machine}");
    }
}

/// A run has numbers, and a proof that they are those of its allocator.
fn check_run(run: &Value, allocators: &Value) {
    let index = run["allocator"].as_u64().expect("an index") as usize;
    let library = &allocators[index]["library"];
    assert_eq!(library["sha256"].as_str().map(str::len), Some(64));
    let measured = &run["outcome"]["measured"];
    let object = measured["proof"]["malloc_object"].as_str();
    let real = fs::canonicalize(object.expect("a proof")).expect("it exists");
    assert_eq!(real.to_str(), library["path"].as_str());
    let speed = measured["loops_per_second"].as_f64().unwrap_or_default();
    assert!(speed > 0.0, "{measured}");
    let peak = measured["memory"]["peak_rss_bytes"].as_u64();
    assert!(peak.unwrap_or_default() > 0, "{measured}");
}

#[test]
fn json_on_standard_output_stands_alone() {
    let ended = bench(&["-a", "system", "--repeat", "1", "--skip", "memory", "--json", "-"]);
    let document = json(&ended.with(0).out);
    assert_eq!(runs(&document).len(), 1);
}

#[test]
fn every_parameter_of_the_harness_reaches_the_child() {
    let ended = run(&[
        "bench",
        "-a",
        "system",
        "--skip",
        "memory",
        "--repeat",
        "1",
        "--json",
        "-",
        "--pairs",
        "2",
        "--sizes",
        "300",
        "--allocations",
        "77",
        "--fixed-size",
        "--min",
        "16",
        "--memset",
        "--handoff",
        "futex",
        "--depth",
        "3",
        "--seed",
        "9",
        "--loops",
        "50",
    ]);
    let document = json(&ended.with(0).out);
    let measured = &runs(&document)[0]["outcome"]["measured"];
    let params = &measured["params"];
    assert_eq!(params["pairs"], 2);
    assert_eq!(params["max_bytes"], 300);
    assert_eq!(params["allocations"], 77);
    assert_eq!(params["sizes"], "fixed");
    assert_eq!(params["min_bytes"], 16);
    assert_eq!(params["memset"], true);
    assert_eq!(params["handoff"], "futex");
    assert_eq!(params["depth"], 3);
    assert_eq!(params["seed"], 9);
    assert_eq!(params["length"]["total"], 50);
    assert!(measured["loops"].as_f64().is_some_and(|loops| loops >= 50.0));
}

#[test]
fn an_interrupt_keeps_and_prints_what_was_measured() {
    let directory = directory();
    let path = directory.path().join("partial.json");
    let name = path.to_string_lossy();
    let more = ["-a", "system", "--repeat", "1000", "--progress", "always", "--json", &name];
    let mut child = freehold()
        .args([&TINY, &more[..]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let mut err = BufReader::new(child.stderr.take().expect("piped"));
    wait_for_line(&mut err, "freehold: 2/2000 ");
    signal(child.id(), "INT");
    wait_for_line(&mut err, "stopping after the current run");
    // Keeps reading, so that the command never waits for us.
    let reader = std::thread::spawn(move || std::io::copy(&mut err, &mut std::io::sink()));
    let output = child.wait_with_output().expect("ends");
    reader.join().expect("no panic").expect("readable");
    assert_eq!(output.status.code(), Some(130));
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(out.contains("of 1000 rounds as were made"), "{out}");
    let document = stored(&path);
    assert_eq!(document["complete"], false);
    let made = runs(&document).len();
    assert!((2..2000).contains(&made), "{made} runs");
}

#[test]
fn a_second_interrupt_ends_the_current_run_too() {
    let mut child = freehold()
        .args(["bench", "-a", "system", "--skip", "memory", "--pairs", "1", "--sizes", "256"])
        .args(["--seconds", "100000", "--repeat", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let mut err = BufReader::new(child.stderr.take().expect("piped"));
    wait_for_line(&mut err, "an interrupt stops early");
    signal(child.id(), "INT");
    wait_for_line(&mut err, "stopping after the current run");
    // If the first came before the run had begun, there is none to end, and nobody to signal.
    if child.try_wait().expect("a child").is_none() {
        signal(child.id(), "INT");
    }
    assert_eq!(child.wait().expect("ends").code(), Some(130));
}

#[test]
fn an_allocator_that_crashes_is_reported_and_the_others_go_on() {
    let directory = directory();
    let source = format!("{FORWARDS}{CRASHES}");
    let flags = ["-shared", "-fPIC"];
    let Some(library) = compiled(&directory, "libcrash.so", &source, &flags) else { return };
    let list = format!("{},system", library.display());
    let short = ["bench", "--repeat", "1", "--skip", "memory", "--pairs", "1", "--sizes", "256"];
    let fixed = ["--loops", "1000", "--allocations", "100", "-a", &list];
    let ended = run(&[&short[..], &fixed].concat()).with(1);
    assert!(ended.out.contains("failed"), "{}", ended.out);
    assert!(ended.err.contains("crash: crashed: ended by signal 6"), "{}", ended.err);
}

#[test]
fn a_run_whose_allocator_is_not_live_is_an_error_and_never_a_number() {
    let directory = directory();
    let flags = ["-shared", "-fPIC"];
    // It serves malloc and leaves free to the C library.
    let Some(library) = compiled(&directory, "libhalf.so", FORWARDS, &flags) else { return };
    let path = directory.path().join("results.json");
    let list = format!("{},system", library.display());
    let name = path.to_string_lossy();
    let ended = bench(&["-a", &list, "--repeat", "1", "--skip", "memory", "--json", &name]).with(5);
    assert!(ended.err.contains("the allocator was not live: free came from"), "{}", ended.err);
    let document = stored(&path);
    let failed: Vec<_> =
        runs(&document).iter().filter(|run| run["outcome"]["failed"].is_object()).collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0]["outcome"]["failed"]["kind"], "not_live");
}

#[test]
fn a_run_that_takes_too_long_is_ended_and_reported() {
    let ended = run(&[
        "bench",
        "-a",
        "system",
        "--skip",
        "memory",
        "--pairs",
        "1",
        "--sizes",
        "256",
        "--seconds",
        "100000",
        "--repeat",
        "1",
        "--timeout",
        "0.2",
    ]);
    let ended = ended.with(1);
    assert!(ended.err.contains("timed out: took more than 0.2 s"), "{}", ended.err);
}

#[test]
fn a_dry_run_prints_what_would_be_run() {
    let ended = run(&["bench", "--dry-run", "-a", "freehold,system", "--pairs", "1,2"]).with(0);
    assert!(ended.out.contains("66 runs of about"), "{}", ended.out);
    assert!(ended.out.contains("--pairs=2"), "{}", ended.out);
    assert!(!ended.out.contains("--pairs=16"), "{}", ended.out);
}

#[test]
fn allocators_that_cannot_be_used_are_refused_before_anything_runs() {
    assert!(bench(&["-a", "freehodl"]).with(2).err.contains("did you mean \"freehold\"?"));
    let own = std::env::current_exe().expect("a path");
    bench(&["-a", &own.to_string_lossy()]).with(5);
    let reference = bench(&["-a", "system", "--reference", "freehold"]).with(2);
    assert!(reference.err.contains("they are system"), "{}", reference.err);
}

#[test]
fn results_that_could_not_be_stored_are_refused_before_anything_runs() {
    bench(&["-a", "system", "--json", "/nowhere/at/all.json"]).with(1);
    bench(&["-a", "system", "--json", "-", "--markdown", "-"]).with(2);
}

#[test]
fn a_harness_run_by_hand_prints_its_result() {
    let ended = run(&["workload", "pairs", "--loops", "20", "--allocations", "10"]).with(0);
    let result = json(&ended.out);
    assert_eq!(result["kind"], "pairs_run");
    assert!(result["loops"].as_f64().is_some_and(|loops| loops >= 20.0), "{result}");
}
