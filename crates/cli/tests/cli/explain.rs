//! `freehold explain`: where the memory of a process is.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{
    Waiting, compiled, directory, freehold, json, known, own_program, run, signal, skipped,
};

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

/// Bytes of objects that an allocator may need for itself, or count otherwise.
const SMALL_PART: f64 = 100_000.0;

/// What a program tells of its allocator, and what is seen from outside.
fn told_and_seen(preload: &str) -> Option<([f64; 4], Value)> {
    let directory = directory();
    let program = own_program(&directory, "figures")?;
    let mut process = Waiting::start(Command::new(program).env("LD_PRELOAD", preload));
    let told = process.ask();
    let numbers: Vec<f64> = told.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let report = json(&run(&["explain", "--json", &process.pid()]).with(0).out);
    Some((numbers.try_into().expect("four numbers"), report))
}

#[track_caller]
fn assert_near(told: f64, seen: &Value, report: &Value) {
    let seen = seen.as_f64().unwrap_or_else(|| panic!("no number: {report:#}"));
    assert!((told - seen).abs() <= SMALL_PART, "{seen} is not {told}: {report:#}");
}

#[test]
fn the_figures_of_the_c_library_are_those_that_it_tells_within_the_process() {
    let Some(([in_use, large, fast, free], report)) = told_and_seen("") else { return };
    let figures = &report["figures"][0];
    let kept = figures["kept_bytes"].as_f64().expect("known");
    // What threads keep counts as in use within, and what is in fast bins as free.
    assert_near(in_use + large + fast - kept, &figures["live_bytes"], &report);
    assert_near(free - fast, &figures["free_bytes"], &report);
    assert_near(in_use + large + free, &figures["held_bytes"], &report);
    assert_eq!(report["heap"]["arenas"], 2, "{report:#}");
    assert!(kept > fast, "each thread keeps some: {report:#}");
    let large_rows = report["rows"].as_array().expect("a list").iter();
    let large_rows: Vec<_> = large_rows.filter(|row| row["usage"] == "c_library_blocks").collect();
    assert_eq!(large_rows.len(), 1, "{report:#}");
}

#[test]
fn the_figures_of_freehold_are_those_that_it_tells_within_the_process() {
    let library = run(&["lib"]).with(0).out;
    let Some(([in_use, _, _, free], report)) = told_and_seen(library.trim()) else { return };
    let figures = &report["figures"][0];
    assert_eq!(figures["allocator"], "Freehold");
    assert_near(in_use, &figures["live_bytes"], &report);
    assert_near(free, &figures["free_bytes"], &report);
    let rows = report["rows"].as_array().expect("a list");
    let resident = |usage: &str| {
        let own = rows.iter().filter(|row| row["usage"] == usage);
        own.filter_map(|row| row["resident_bytes"].as_f64()).sum::<f64>()
    };
    assert!(resident("allocator_heap") >= in_use / 2.0, "{report:#}");
    assert!(resident("allocator_tables") > 0.0 && resident("allocator_tables") < in_use / 10.0);
}

#[test]
fn a_process_that_does_not_exist_has_no_memory() {
    let ended = run(&["explain", "4294967295"]).with(1);
    assert!(ended.err.contains("no such process"), "{}", ended.err);
}

#[test]
fn what_huge_pages_keep_for_nothing_is_told_and_stacks_are_found() {
    let directory = directory();
    let Some(program) = own_program(&directory, "huge") else { return };
    let process = Waiting::start(Command::new(program).env_remove("LD_PRELOAD"));
    let report = json(&run(&["explain", "--json", &process.pid()]).with(0).out);
    let rows = report["rows"].as_array().expect("a list");
    let sum = |name: &str| rows.iter().filter_map(|row| row[name].as_u64()).sum::<u64>();
    assert!(rows.iter().any(|row| row["usage"] == "stack"), "{report:#}");
    if sum("huge_bytes") == 0 {
        return skipped("the system gives no huge pages");
    }
    let slack = &report["huge_slack"];
    let part = |name: &str| slack[name].as_f64().unwrap_or_else(|| panic!("{report:#}"));
    // Of each but a page or two, at the beginning, nothing was written.
    assert!(part("unused_bytes") >= 0.9 * part("examined_bytes"), "{report:#}");
}

#[test]
fn memory_in_use_under_another_allocator_is_known_while_its_calls_are_counted() {
    const SOURCE: &str = r#"
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <unistd.h>
        int main(void) {
            static void *volatile blocks[20000];
            for (int i = 0; i < 20000; i++) blocks[i] = memset(malloc(1000), 1, 1000);
            printf("%d\n", getpid());
            fflush(stdout);
            sleep(30);
        }"#;
    let directory = directory();
    let Some(program) = compiled(&directory, "holds", SOURCE, &["-O1"]) else { return };
    let output = directory.path().join("output");
    let started = |more: &[&str]| {
        // What a run before has written is not for this one.
        let _ = fs::remove_file(&output);
        let mut command = freehold();
        command.args(["diagnose", "--json", "-a", "model:serial", "--output"]).arg(&output);
        command.args(more).arg("--").arg(&program).stdout(Stdio::null()).stderr(Stdio::null());
        let watching = Running(command.spawn().expect("it starts"));
        loop {
            let printed = fs::read_to_string(&output).unwrap_or_default();
            if let Some(pid) = printed.strip_suffix('\n') {
                return (watching, pid.to_owned());
            }
            std::thread::yield_now();
        }
    };
    let (counting, pid) = started(&["--count"]);
    let report = json(&run(&["explain", "--json", &pid]).with(0).out);
    let live = report["figures"][0]["live_bytes"].as_f64();
    assert!(live.is_some_and(|live| (19.9e6..23e6).contains(&live)), "{report:#}");
    signal(pid.parse().expect("a number"), "KILL");
    drop(counting);

    let (observing, pid) = started(&[]);
    let report = json(&run(&["explain", "--json", &pid]).with(0).out);
    assert_eq!(report["figures"].as_array().map(Vec::len), Some(0), "{report:#}");
    let missing = report["missing"].as_array().expect("a list").iter();
    let mut remedies = missing.filter_map(|gap| gap["remedy"].as_str());
    assert!(remedies.any(|remedy| remedy.contains("--count")), "{report:#}");
    signal(pid.parse().expect("a number"), "KILL");
    drop(observing);
}
