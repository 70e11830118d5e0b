//! `freehold workload`: every harness from outside, in runs that are over at once. Nothing here
//! depends on how fast anything is.

use crate::support::{json, run};

/// Each harness with parameters that make it short.
const SHORT: [(&str, &[&str]); 3] = [
    ("larson", &["--seconds", "0.05", "--min", "10", "--max", "100", "--rounds", "2"]),
    ("t-test1", &["--total-threads", "4", "--steps", "300", "--memory", "100000"]),
    ("threadtest", &["--iterations", "2", "--objects", "1000"]),
];

#[test]
fn every_harness_prints_one_record_with_all_it_was_asked_and_found() {
    for (harness, options) in SHORT {
        let common = ["--threads", "2", "--seed", "7", "--settle", "0.01", "--verify"];
        let ended = run(&[&["workload", harness], options, &common].concat()).with(0);
        let record = json(&ended.out);
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
            &record["memory"]["settled"]["rss_bytes"],
        ];
        for value in positive {
            assert!(value.as_f64().is_some_and(|value| value > 0.0), "{harness}:\n{}", ended.out);
        }
        assert_eq!(record["calls"]["allocations"], record["calls"]["frees"], "{harness}");
        let object = record["proof"]["malloc_object"].as_str();
        assert!(object.is_some_and(|object| object.contains("libc")), "{harness}: {object:?}");
    }
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
        for words in ["Source:", "Measures:", "--threads", "--verify", "[default: 1]"] {
            assert!(help.contains(words), "{harness}: no {words:?} in:\n{help}");
        }
    }
}
