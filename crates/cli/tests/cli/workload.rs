//! `freehold workload`: every harness from outside, in runs that are over at once. Nothing here
//! depends on how fast anything is.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::{
    Ended, compiled, directory, found, freehold, json, other_libraries, run, skipped,
};

/// Each harness with parameters that make it short; two threads fit all of them.
const SHORT: [(&str, &[&str]); 17] = [
    ("cache-scratch", &["--iterations", "20", "--repetitions", "100", "--size", "8"]),
    ("cache-thrash", &["--iterations", "20", "--repetitions", "100", "--size", "8"]),
    ("chunk-scan", &["--rounds", "4", "--blocks", "1000"]),
    ("churn", &["--operations", "50000", "--places", "5000"]),
    ("large", &["--allocations", "10", "--buffers", "4"]),
    ("larson", &["--seconds", "0.1", "--min", "10", "--max", "500", "--rounds", "2"]),
    ("linux-scalability", &["--iterations", "5000"]),
    ("mstress", &["--iterations", "3", "--scale", "3"]),
    ("parallel", &["--messages", "3000", "--set", "200", "--depth", "3", "--buffers", "100"]),
    ("phong", &["--allocations", "4000"]),
    ("producer-consumer", &["--items", "20000", "--live", "1000"]),
    ("round-robin", &["--rounds", "3", "--bytes", "500000"]),
    ("t-test1", &["--total-threads", "6", "--steps", "1000", "--memory", "2000000"]),
    ("t-test2", &["--total-threads", "6", "--steps", "1000", "--memory", "2000000"]),
    ("tcl-cells", &["--cells", "2000", "--passes", "2", "--sizes", "sample-64"]),
    ("threadtest", &["--iterations", "3", "--objects", "5000"]),
    ("xmalloc", &["--seconds", "0.1", "--batch", "200", "--queue", "10", "--size", "0"]),
];

/// What every harness takes.
const COMMON: [&str; 7] = ["--threads", "2", "--seed", "7", "--settle", "0.01", "--verify"];

/// Runs a harness, shortly and with its contents checked, with this library preloaded.
#[track_caller]
fn record(harness: &str, options: &[&str], library: Option<&str>) -> Value {
    let mut command = freehold();
    command.args(["workload", harness]).args(options).args(COMMON);
    library.map(|library| command.env("LD_PRELOAD", library));
    let ended = Ended::from(command.output().expect("freehold can be started"));
    json(&ended.with(0).out)
}

#[test]
fn the_list_of_short_runs_has_every_harness() {
    let help = run(&["workload", "--help"]).with(0).out;
    let (_, commands) = help.split_once("Commands:\n").expect("a list of harnesses");
    let names = commands.lines().take_while(|line| !line.trim().is_empty());
    // What is indented further goes on with a line before.
    let names = names.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    // Pairs has a record of its own, and a test beside the benchmark that uses it.
    let listed: BTreeSet<_> = names.filter(|name| !["", "help", "pairs"].contains(name)).collect();
    assert_eq!(listed, SHORT.map(|(harness, _)| harness).into());
}

#[test]
fn every_harness_prints_one_record_with_all_it_was_asked_and_found() {
    for (harness, options) in SHORT {
        let record = record(harness, options, None);
        assert_eq!(record["kind"], "harness_run", "{harness}");
        assert_eq!(record["harness"], harness);
        assert_eq!(record["params"]["threads"], 2);
        assert_eq!(record["params"]["seed"], 7);
        assert_eq!(record["params"]["verify"], true);
        let positive = [
            &record["metric"]["value"],
            &record["elapsed_seconds"],
            &record["verified_blocks"],
            &record["calls"]["frees"],
            &record["memory"]["peak_live_bytes"],
            &record["memory"]["harness_bytes"],
            &record["memory"]["end"]["rss_bytes"],
            &record["memory"]["freed"]["rss_bytes"],
            &record["memory"]["settled"]["rss_bytes"],
        ];
        for (number, value) in positive.into_iter().enumerate() {
            let is_positive = value.as_f64().is_some_and(|value| value > 0.0);
            assert!(is_positive, "{harness}, value {number}:\n{record}");
        }
        assert_eq!(record["calls"]["allocations"], record["calls"]["frees"], "{harness}");
        assert!(record["timeline"].as_array().is_some_and(|list| !list.is_empty()), "{harness}");
        let object = record["proof"]["malloc_object"].as_str();
        assert!(object.is_some_and(|object| object.contains("libc")), "{harness}: {object:?}");
    }
}

/// Every harness under an allocator: what each block is filled with has to be there when it is
/// freed, and the allocator has to be the one that was asked for.
#[track_caller]
fn check_contents_under(name: &str, library: &str) {
    for (harness, options) in SHORT {
        let record = record(harness, options, Some(library));
        let object = record["proof"]["malloc_object"].as_str().expect("a proof");
        let real = std::fs::canonicalize(object).expect("it exists");
        assert_eq!(real.to_str(), Some(library), "{harness} under {name}");
        let checked = record["verified_blocks"].as_u64();
        assert!(checked.is_some_and(|checked| checked > 0), "{harness} under {name}");
    }
    // It has a command line of its own.
    let pairs = ["workload", "pairs", "--allocations", "100", "--loops", "50", "--verify"];
    let ended = freehold().args(pairs).env("LD_PRELOAD", library).output().expect("started");
    let record = json(&Ended::from(ended).with(0).out);
    assert!(record["verified_blocks"].as_u64() >= Some(5000), "pairs under {name}: {record}");
}

#[test]
fn freehold_keeps_the_contents_of_every_block_in_every_harness() {
    let (name, library) = found().iter().find(|(name, _)| name == "freehold").expect("embedded");
    check_contents_under(name, library);
}

#[test]
fn the_harnesses_find_no_fault_with_other_allocators() {
    let others = other_libraries();
    for family in ["jemalloc", "mimalloc"] {
        match others.iter().find(|(name, _)| name == family) {
            Some((name, library)) => check_contents_under(name, library),
            None => skipped(&format!("{family} is not installed")),
        }
    }
}

#[test]
fn freehold_leaves_free_memory_alone_so_that_the_printed_chunk_scan_runs_under_it() {
    let (_, library) = found().iter().find(|(name, _)| name == "freehold").expect("embedded");
    let words = ["workload", "chunk-scan", "--rounds", "3", "--blocks", "1000", "--as-printed"];
    let ended = freehold().args(words).env("LD_PRELOAD", library).output().expect("started");
    let record = json(&Ended::from(ended).with(0).out);
    assert_eq!(record["calls"]["allocations"], 3000);
    assert_eq!(record["calls"]["frees"], 3000);
    // All that was kept, and one block of each round that the printed program leaks.
    assert_eq!(record["memory"]["end"]["live_bytes"], (3 * 500 + 3) * 512);
}

#[test]
fn pairs_checks_contents_and_counts_shared_lines_as_well() {
    let pairs = ["workload", "pairs", "--pairs", "2", "--allocations", "100", "--loops", "50"];
    let record = json(&run(&[&pairs[..], &["--verify", "--false-sharing"]].concat()).with(0).out);
    assert!(record["verified_blocks"].as_u64().is_some_and(|checked| checked >= 5000), "{record}");
    assert!(record["false_sharing"]["blocks"].as_u64() >= Some(5000), "{record}");
    assert!(record["memory"]["end"]["rss_bytes"].as_u64() > Some(0), "{record}");
}

/// An allocator that gives out blocks which overlap the ones behind them.
const OVERLAPS: &str = r"
#include <stddef.h>
#include <stdint.h>
void *__libc_malloc(size_t size);
static char *last;
void *malloc(size_t size) {
    char *block = __libc_malloc(2 * size);
    if (size != 777) return block;
    /* The second half of the block before. */
    char *given = last ? last + 400 : block;
    last = last ? NULL : block;
    return given;
}
void free(void *block) { (void)block; }
";

#[test]
fn an_allocator_whose_blocks_overlap_is_found_out() {
    let directory = directory();
    let flags = ["-shared", "-fPIC"];
    let Some(library) = compiled(&directory, "liboverlap.so", OVERLAPS, &flags) else { return };
    let words = ["workload", "threadtest", "--size", "777", "--objects", "100", "--iterations"];
    let mut command = freehold();
    command.args(words).args(["1", "--verify"]).env("LD_PRELOAD", &library);
    let ended = Ended::from(command.output().expect("started")).with(1);
    assert!(ended.err.contains("the allocator is broken: byte "), "{}", ended.err);
    assert_eq!(ended.out, "");
}

#[test]
fn blocks_on_shared_cache_lines_are_counted_on_request() {
    let words = ["workload", "threadtest", "--threads", "2", "--objects", "1000", "--iterations"];
    let record = json(&run(&[&words[..], &["2", "--false-sharing"]].concat()).with(0).out);
    assert_eq!(record["false_sharing"]["blocks"], 2000);
    assert_eq!(record["verified_blocks"], serde_json::Value::Null);
}

#[test]
fn a_parameter_out_of_range_is_answered_by_the_range() {
    let ended = run(&["workload", "larson", "--threads", "257"]).with(2);
    assert!(ended.err.contains("must be a whole number from 1 to 256"), "{}", ended.err);
    let ended = run(&["workload", "larson", "--min", "100", "--max", "10"]).with(2);
    assert!(ended.err.contains("max, 10, is less than min, 100"), "{}", ended.err);
}

#[test]
fn a_mistyped_harness_or_parameter_is_answered_by_a_suggestion() {
    let ended = run(&["workload", "larsen"]).with(2);
    assert!(ended.err.contains("'larson'"), "{}", ended.err);
    let ended = run(&["workload", "larson", "--thread", "2"]).with(2);
    assert!(ended.err.contains("'--threads'"), "{}", ended.err);
}

#[test]
fn help_names_every_harness_and_where_it_comes_from() {
    let list = run(&["workload", "--help"]).with(0).out;
    for (harness, _) in SHORT {
        assert!(list.contains(harness), "no {harness} in:\n{list}");
        let help = run(&["workload", harness, "--help"]).with(0).out;
        for words in ["Source:", "Measures:", "--threads", "--verify", "[default: "] {
            assert!(help.contains(words), "{harness}: no {words:?} in:\n{help}");
        }
    }
}
