//! `freehold top`: where the time of each thread goes.

use std::process::Command;

use crate::support::{Waiting, json, run};

#[test]
fn every_interval_is_a_line_of_json_whose_shares_add_up() {
    let arguments = ["top", "--json", "--interval", "0.05", "--", "sh", "-c", "sleep 0.3; exit 3"];
    let ended = run(&arguments).with(3);
    assert!(ended.out.lines().count() >= 2, "{}", ended.out);
    for report in ended.out.lines().map(json) {
        assert_eq!(report["kind"], "top");
        assert!(!report["sources"].as_array().expect("a list").is_empty());
        for row in report["rows"].as_array().expect("a list") {
            let shares = row["shares"].as_object().expect("shares");
            let total: f64 = shares.values().filter_map(serde_json::Value::as_f64).sum();
            let was_there = row["seconds"].as_f64().expect("a number") > 0.0;
            assert!(!was_there || (total - 1.0).abs() < 1e-6, "{total}: {row}");
        }
    }
}

#[test]
fn descendants_are_rows_of_their_own() {
    let script = "sleep 1 & wait";
    let arguments = ["top", "--json", "--by", "process", "--interval", "0.6", "--count", "1"];
    let arguments = [&arguments[..], &["--", "sh", "-c", script]].concat();
    let report = json(&run(&arguments).with(0).out);
    let rows = report["rows"].as_array().expect("a list");
    let names: Vec<_> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
    assert!(names.contains(&"sh") && names.contains(&"sleep"), "{names:?}");
}

#[test]
fn a_process_that_was_there_before_goes_on() {
    let process = Waiting::start(&mut Command::new("cat"));
    let pid = process.pid();
    let arguments = ["top", "--count", "1", "--interval", "0.1", "-p", &pid];
    let ended = run(&arguments).with(0);
    let row = ended.out.lines().nth(1).expect("a row");
    assert!(row.trim_start().starts_with(&pid) && row.ends_with("cat"), "{row}");
    assert!(ended.err.contains("VCX, ICX: from status"), "{}", ended.err);
    run(&["which", &pid]).with(0);
}

#[test]
fn what_cannot_be_observed_is_named() {
    let nobody = run(&["top", "-p", "4294967295"]).with(1);
    assert!(nobody.err.contains("no such process"), "{}", nobody.err);
    let missing = run(&["top", "--", "no-such-command-anywhere"]).with(127);
    assert!(missing.err.contains("command not found"), "{}", missing.err);
    let neither = run(&["top"]).with(2);
    assert!(neither.err.contains("--pid") || neither.err.contains("COMMAND"), "{}", neither.err);
    let column = run(&["top", "--sort", "lkc", "-p", "1"]).with(2);
    assert!(column.err.contains("lck"), "{}", column.err);
}
