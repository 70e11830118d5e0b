//! `freehold locks`: which locks threads wait for, and who waits.

use std::fs;

use serde_json::Value;

use crate::support::{Ended, directory, json, known, other_libraries, run, skipped};

/// The report on a known program that runs for so many seconds.
fn report(name: &str, seconds: &str) -> Option<Value> {
    let directory = directory();
    let program = known(&directory, name)?;
    let program = program.to_string_lossy();
    Some(json(&run(&["locks", "--json", "--", &program, seconds]).with(0).out))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("not a number: {value}"))
}

fn rows(report: &Value) -> &Vec<Value> {
    report["waits"].as_array().expect("a list")
}

/// The time waited for this kind of thing.
fn seconds_in(report: &Value, kind: &str) -> f64 {
    rows(report).iter().filter(|row| row["kind"] == kind).map(|row| number(&row["seconds"])).sum()
}

/// The part of a lock's time that callers of these names waited.
fn share_of_callers(row: &Value, names: &[&str]) -> f64 {
    let sites = row["sites"].as_array().expect("a list");
    let is_one = |site: &&Value| names.iter().any(|name| site["caller"]["function"] == *name);
    let named: f64 = sites.iter().filter(is_one).map(|site| number(&site["seconds"])).sum();
    named / number(&row["seconds"])
}

#[test]
fn the_arena_and_the_functions_that_wait_for_it_are_named() {
    let Some(report) = report("arena_one.c", "1.5") else { return };
    let first = &rows(&report)[0];
    assert_eq!(first["kind"], "allocator_lock", "{report:#}");
    assert_eq!(first["name"], "glibc main_arena");
    assert!(share_of_callers(first, &["grow", "shrink"]) >= 0.95, "{first:#}");
    let contended = seconds_in(&report, "allocator_lock") + seconds_in(&report, "lock");
    assert!(number(&first["seconds"]) >= 0.95 * contended, "{report:#}");
}

#[test]
fn arenas_of_threads_are_numbered() {
    let Some(report) = report("arena_many.c", "2") else { return };
    let locks = rows(&report).iter().filter(|row| row["kind"] == "allocator_lock");
    let mut names: Vec<_> = locks.map(|row| row["name"].as_str().expect("a name")).collect();
    // In which of them threads meet is chance.
    names.retain(|name| *name != "glibc main_arena");
    assert_eq!(names, ["glibc arena #2"], "{report:#}");
}

#[test]
fn the_lock_of_another_allocator_is_named_by_its_library() {
    let directory = directory();
    let all = other_libraries();
    let Some((_, library)) = all.iter().find(|(name, _)| name == "jemalloc") else {
        return skipped("jemalloc is not installed");
    };
    let Some(program) = known(&directory, "arena_one.c") else { return };
    let (program, preload) = (program.to_string_lossy(), format!("LD_PRELOAD={library}"));
    let one_arena = "MALLOC_CONF=narenas:1,tcache:false";
    let command = ["locks", "--json", "--", "env", &preload, one_arena, &program, "2"];
    let report = json(&run(&command).with(0).out);
    let first = &rows(&report)[0];
    assert_eq!(first["kind"], "allocator_lock", "{report:#}");
    assert!(first["name"].as_str().expect("a name").starts_with("libjemalloc"), "{first:#}");
    assert!(share_of_callers(first, &["grow", "shrink"]) >= 0.95, "{first:#}");
}

#[test]
fn a_lock_of_the_program_is_named_and_the_allocator_acquitted() {
    let Some(report) = report("mutex_app.c", "1.5") else { return };
    let locks = rows(&report).iter().filter(|row| row["kind"] == "lock");
    let first = locks.max_by(|a, b| number(&a["seconds"]).total_cmp(&number(&b["seconds"])));
    let first = first.expect("a lock");
    assert_eq!(first["name"], "mutex_app`table_lock");
    assert!(share_of_callers(first, &["update_table"]) >= 0.95, "{first:#}");
    let in_allocator = seconds_in(&report, "allocator_lock");
    assert!(in_allocator <= 0.05 * number(&first["seconds"]), "{report:#}");
}

#[test]
fn idle_threads_are_not_contention() {
    let Some(report) = report("pool_idle.c", "1") else { return };
    let idle = seconds_in(&report, "condition") + seconds_in(&report, "join");
    assert!(idle > 0.9 * number(&report["lck_seconds"]), "{report:#}");
    let contended = seconds_in(&report, "allocator_lock") + seconds_in(&report, "lock");
    assert!(contended < 0.02 * number(&report["thread_seconds"]), "{report:#}");
}

#[test]
fn all_waits_together_are_the_lck_of_top_in_the_same_run() {
    let Some(report) = report("mutex_app.c", "1") else { return };
    let waited: f64 = rows(&report).iter().map(|row| number(&row["seconds"])).sum();
    let lck = number(&report["lck_seconds"]);
    assert!(lck > 0.0 && (waited - lck).abs() < 1e-6 * lck, "{waited} of {lck}");
}

#[test]
fn time_waited_agrees_with_what_the_threads_measured_themselves() {
    let directory = directory();
    let Some(program) = known(&directory, "mutex_measured.c") else { return };
    let output = directory.path().join("output");
    let (program, place) = (program.to_string_lossy(), output.to_string_lossy());
    let ended: Ended = run(&["locks", "--json", "--output", &place, "--", &program, "2"]);
    let report = json(&ended.with(0).out);
    let printed = fs::read_to_string(&output).expect("it printed");
    let measured: Vec<f64> = printed.split_whitespace().map(|n| n.parse().expect("n")).collect();
    let [truth, starved] = measured[..] else { panic!("{printed}") };
    let seen = seconds_in(&report, "lock");
    let threads = number(&report["thread_seconds"]);
    let looks = number(&report["cost"]["looks_per_second"]) * number(&report["seconds"]) * 4.0;
    // Four standard deviations of a share that looks are to tell, and what the threads measured
    // but did not wait for the lock: that they had no processor.
    let allowed = starved + threads * 4.0 * 0.5 / looks.sqrt();
    assert!((seen - truth).abs() <= allowed, "{seen} s seen, {truth} s, {allowed} s allowed");
}
