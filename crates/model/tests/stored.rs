//! Documents as earlier versions wrote them, which every later version must go on reading. The
//! fixtures are never changed; a new version of the schema adds one.

use freehold_model::{
    BenchDocument, Better, HarnessRun, Outcome, ParamValue, Purpose, Stored, from_json, to_json,
};
use serde_json::Value;

const VERSION_1: &str = include_str!("fixtures/bench-1.json");
const HARNESS_1: &str = include_str!("fixtures/harness-run-1.json");

fn value(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn a_benchmark_stored_by_version_1_is_read_in_full() {
    let document: BenchDocument = from_json(VERSION_1).expect("reads");
    assert!(document.complete);
    assert_eq!(document.allocators[0].name, "freehold");
    assert_eq!(document.plan.cases.len(), 3);
    assert_eq!(document.plan.cases[2].purpose, Purpose::Retention);
    assert_eq!(document.runs.len(), 12);
    let Outcome::Measured(run) = &document.runs[0].outcome else {
        panic!("a run without numbers");
    };
    assert!(run.loops_per_second > 0.0);
}

#[test]
fn a_document_that_refers_to_what_is_not_there_is_not_read() {
    assert!(Stored::from_json(VERSION_1).is_ok());
    for (list, index) in [("runs", "case"), ("runs", "allocator")] {
        let mut damaged = value(VERSION_1);
        damaged[list][3][index] = 77.into();
        let error = Stored::from_json(&damaged.to_string()).expect_err("damaged").to_string();
        assert!(error.contains(&format!("there is no {index} 77 among")), "{error}");
    }
    let mut damaged = value(VERSION_1);
    damaged["summary"]["reference"] = 9.into();
    assert!(Stored::from_json(&damaged.to_string()).is_err());
}

#[test]
fn nothing_is_lost_between_reading_and_writing() {
    let document: BenchDocument = from_json(VERSION_1).expect("reads");
    let written = to_json(&document).expect("writes");
    assert_eq!(value(&written), value(VERSION_1));
}

#[test]
fn a_document_with_fields_of_a_later_writer_is_read_all_the_same() {
    let mut later: Value = serde_json::from_str(VERSION_1).expect("JSON");
    later["provenance"]["machine"]["phase_of_the_moon"] = "waxing".into();
    later["runs"][0]["outcome"]["measured"]["memory"]["added"] = 1.into();
    let document: BenchDocument = from_json(&later.to_string()).expect("reads");
    assert_eq!(document.runs.len(), 12);
}

#[test]
fn a_run_of_a_harness_stored_by_version_1_is_read_in_full() {
    let run: HarnessRun = from_json(HARNESS_1).expect("reads");
    assert_eq!(run.harness, "chunk-scan");
    assert_eq!(run.params["rounds"], ParamValue::Count(3));
    assert_eq!(run.params["settle"], ParamValue::Number(0.01));
    assert_eq!(run.metric.better, Better::Lower);
    let series = run.series.as_ref().expect("one row for each round");
    assert_eq!((series.columns.len(), series.rows.len()), (3, 3));
    assert!(run.verified_blocks.is_some() && run.false_sharing.is_some());
    assert_eq!(value(&to_json(&run).expect("writes")), value(HARNESS_1));
}
