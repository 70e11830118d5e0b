//! `freehold report`: a stored benchmark, shown again.

use std::fs;

use crate::support::{directory, run};

#[test]
fn what_is_not_a_stored_benchmark_is_refused_with_the_reason() {
    let directory = directory();
    let path = directory.path().join("x.json");
    let name = path.to_string_lossy();
    for (text, reason) in [
        ("{", "not a valid document"),
        ("{}", "no schema_version"),
        (r#"{"schema_version": 99, "kind": "bench"}"#, "schema version 99 is newer"),
        (r#"{"schema_version": 1, "kind": "run"}"#, "kind \"run\""),
    ] {
        fs::write(&path, text).expect("writable");
        let ended = run(&["report", &name]).with(1);
        assert!(ended.err.contains(reason), "{}", ended.err);
    }
    run(&["report", "/nowhere/at/all.json"]).with(1);
}
