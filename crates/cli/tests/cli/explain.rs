//! `freehold explain`: where the memory of a process is.

use std::process::{Command, Stdio};

use crate::support::{directory, json, known, run};

/// A process that is ended with the test.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn free_memory_between_blocks_is_told_from_memory_in_use() {
    let directory = directory();
    let Some(program) = known(&directory, "fragments.c") else { return };
    let mut command = Command::new(program);
    command.arg("60").env_remove("LD_PRELOAD").stdout(Stdio::null());
    let child = Running(command.spawn().expect("it starts"));
    let pid = child.0.id().to_string();
    // 400,000 blocks of 208 bytes each, all but a fiftieth of which it frees; it takes its time.
    // There may be no heap at first.
    let mib = |value: &serde_json::Value| value.as_f64().unwrap_or_default() / 1_048_576.0;
    let report = (0..600).find_map(|_| {
        let report = json(&run(&["explain", "--json", &pid]).with(0).out);
        let is_thinned = mib(&report["heap"]["free_bytes"]) > 70.0;
        std::thread::yield_now();
        is_thinned.then_some(report)
    });
    let report = report.expect("it frees most of its memory");
    let heap = &report["heap"];
    assert!((1.0..10.0).contains(&mib(&heap["used_bytes"])), "{heap}");
    let rows = report["rows"].as_array().expect("a list");
    assert_eq!(rows[0]["usage"], "c_library_heap", "{report:#}");
    let sum: f64 = rows.iter().map(|row| mib(&row["resident_bytes"])).sum();
    assert!((sum - mib(&report["resident_bytes"])).abs() < 1e-6, "{report:#}");
    assert!(report["allocator"].as_str().expect("known").starts_with("system"));
}

#[test]
fn a_process_that_does_not_exist_has_no_memory() {
    let ended = run(&["explain", "4294967295"]).with(1);
    assert!(ended.err.contains("no such process"), "{}", ended.err);
}
