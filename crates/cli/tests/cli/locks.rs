//! `freehold locks`: which locks threads wait for, and who waits.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{
    Ended, compiled, directory, freehold, json, known, known_sources, other_libraries, run, skipped,
};

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

/// What is waited for longest, but for threads that end: the first thread waits for those all the
/// time, maybe longer than all others for locks.
fn first_but_joins(report: &Value) -> &Value {
    let first = rows(report).iter().find(|row| row["kind"] != "join");
    first.unwrap_or_else(|| panic!("nothing was waited for: {report:#}"))
}

#[test]
fn the_arena_and_the_functions_that_wait_for_it_are_named() {
    let Some(report) = report("arena_one.c", "1.5") else { return };
    let first = first_but_joins(&report);
    assert_eq!(first["kind"], "allocator_lock", "{report:#}");
    assert_eq!(first["name"], "glibc main_arena");
    assert!(share_of_callers(first, &["grow", "shrink"]) >= 0.95, "{first:#}");
    let contended = seconds_in(&report, "allocator_lock") + seconds_in(&report, "lock");
    assert!(number(&first["seconds"]) >= 0.95 * contended, "{report:#}");
}

#[test]
fn arenas_of_threads_are_numbered() {
    let mut last = Value::Null;
    // In which of them threads meet is chance, and on a busy machine few are seen to.
    for seconds in ["2", "4", "8"] {
        let Some(report) = report("arena_many.c", seconds) else { return };
        let locks = rows(&report).iter().filter(|row| row["kind"] == "allocator_lock");
        let mut names: Vec<_> = locks.map(|row| row["name"].as_str().expect("a name")).collect();
        names.retain(|name| *name != "glibc main_arena");
        assert!(names.iter().all(|&name| name == "glibc arena #2"), "{report:#}");
        if !names.is_empty() {
            return;
        }
        last = report;
    }
    panic!("nobody waited for the second arena: {last:#}");
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
    let first = first_but_joins(&report);
    assert_eq!(first["kind"], "allocator_lock", "{report:#}");
    assert!(first["name"].as_str().expect("a name").starts_with("libjemalloc"), "{first:#}");
    assert!(share_of_callers(first, &["grow", "shrink"]) >= 0.95, "{first:#}");
}

/// Insists that nearly all waiting is for this lock, in these functions, and that the allocator is
/// acquitted.
fn insist_on(report: &Value, lock: &str, declared: Option<(&str, u32)>, callers: &[&str]) {
    let locks = rows(report).iter().filter(|row| row["kind"] == "lock");
    let first = locks.max_by(|a, b| number(&a["seconds"]).total_cmp(&number(&b["seconds"])));
    let first = first.unwrap_or_else(|| panic!("no lock: {report:#}"));
    // A lock may have several words that are waited for.
    let name = first["name"].as_str().and_then(|name| name.split('+').next());
    assert_eq!(name, Some(lock), "{first:#}");
    if let Some((file, line)) = declared {
        let place = first["file"].as_str().unwrap_or_else(|| panic!("no place: {first:#}"));
        assert!(place.ends_with(file) && first["line"] == line, "{first:#}");
    }
    assert!(share_of_callers(first, callers) >= 0.95, "{first:#}");
    let contended = seconds_in(report, "allocator_lock") + seconds_in(report, "lock");
    assert!(number(&first["seconds"]) >= 0.95 * contended, "{report:#}");
}

#[test]
fn a_lock_of_the_program_is_named_with_its_line_and_the_allocator_acquitted() {
    let Some(report) = report("mutex_app.c", "1.5") else { return };
    insist_on(&report, "mutex_app`table_lock", Some(("mutex_app.c", 5)), &["update_table"]);
}

#[test]
fn a_lock_for_readers_and_writers_is_named_with_its_line() {
    let Some(report) = report("rwlock.c", "1.5") else { return };
    insist_on(&report, "rwlock`map_lock", Some(("rwlock.c", 5)), &["change_map"]);
}

#[test]
fn names_of_cxx_are_as_in_the_source() {
    let Some(report) = report("mutex_vector.cpp", "1.5") else { return };
    let place = Some(("mutex_vector.cpp", 8));
    insist_on(&report, "mutex_vector`samples_lock", place, &["add_sample(int)", "add_sample"]);
}

#[test]
fn names_of_rust_are_as_in_the_source() {
    let directory = directory();
    let program = directory.path().join("contended");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/programs/contended.rs");
    let compiler = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let mut command = Command::new(compiler);
    command.args(["--edition", "2024", "-O", "-g", source, "-o"]).arg(&program);
    if !command.status().is_ok_and(|status| status.success()) {
        return skipped("rustc cannot be run");
    }
    let program = program.to_string_lossy();
    let report = json(&run(&["locks", "--json", "--", &program, "1.5"]).with(0).out);
    let place = Some(("contended.rs", 8));
    let name = "contended`contended::ledger::BALANCE";
    insist_on(&report, name, place, &["contended::ledger::transfer", "transfer"]);
}

#[test]
fn programs_at_fixed_addresses_at_chosen_ones_and_without_libraries_are_understood() {
    let known = known_sources();
    let source = fs::read_to_string(known.join("mutex_app.c")).expect("it is there");
    let known = known.to_string_lossy();
    for how in [&["-no-pie"][..], &["-fPIE", "-pie"], &["-static"]] {
        let directory = directory();
        let flags = [&["-O2", "-g", "-pthread", "-I", &known], how].concat();
        let Some(program) = compiled(&directory, "mutex_app", &source, &flags) else { continue };
        let program = program.to_string_lossy();
        let report = json(&run(&["locks", "--json", "--", &program, "1"]).with(0).out);
        insist_on(&report, "mutex_app`table_lock", Some(("mutex_app.c", 5)), &["update_table"]);
    }
}

#[test]
fn a_lock_within_a_shared_library_is_named_with_its_line() {
    let directory = directory();
    let Some((_, program)) = store(&directory) else { return };
    let program = program.to_string_lossy();
    let report = json(&run(&["locks", "--json", "--", &program, "1.5"]).with(0).out);
    insist_on(&report, "store`store_lock", Some(("store.c", 4)), &["put_locked"]);
}

/// A shared library with a lock of its own, and a program that uses it.
fn store(directory: &TempDir) -> Option<(PathBuf, PathBuf)> {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/programs");
    let source = |name: &str| fs::read_to_string(programs.join(name)).expect("it is there");
    let flags = ["-O2", "-g", "-shared", "-fPIC", "-Wl,--build-id"];
    let library = compiled(directory, "store", &source("store.c"), &flags)?;
    let path = library.to_string_lossy().into_owned();
    let known = known_sources().to_string_lossy().into_owned();
    let flags = ["-O2", "-pthread", "-I", &known, &path];
    let program = compiled(directory, "stores", &source("stores.c"), &flags)?;
    Some((library, program))
}

/// Puts the debug information of a library where it is looked for by build-id, and takes it out of
/// the library; nothing where the tools for that are missing.
fn strip_apart(library: &Path, directory: &Path) -> Option<()> {
    let note = directory.join("note");
    let succeeds = |command: &mut Command| command.status().is_ok_and(|status| status.success());
    let mut only_note = Command::new("objcopy");
    only_note.args(["-O", "binary", "--only-section=.note.gnu.build-id"]).arg(library).arg(&note);
    if !succeeds(&mut only_note) {
        return None;
    }
    // The number follows the note's head and its owner's name.
    let id: String = fs::read(&note).ok()?.get(16..)?.iter().fold(String::new(), |mut id, byte| {
        let _ = write!(id, "{byte:02x}");
        id
    });
    let (first, rest) = id.split_at_checked(2)?;
    let place = directory.join(".build-id").join(first);
    fs::create_dir_all(&place).ok()?;
    let debug = place.join(format!("{rest}.debug"));
    let separate =
        succeeds(Command::new("objcopy").arg("--only-keep-debug").arg(library).arg(debug));
    (separate && succeeds(Command::new("strip").arg(library))).then_some(())
}

#[test]
fn a_stripped_library_is_understood_by_its_separate_debug_file() {
    let directory = directory();
    let Some((library, program)) = store(&directory) else { return };
    if strip_apart(&library, directory.path()).is_none() {
        return skipped("objcopy and strip are not installed");
    }
    let observed = |debug_directory: &Path| {
        let mut command = freehold();
        command.args(["locks", "--json", "--"]).arg(&program).arg("1.5");
        command.env("FREEHOLD_DEBUG_DIRS", debug_directory);
        json(&Ended::from(command.output().expect("it runs")).with(0).out)
    };
    let report = observed(directory.path());
    insist_on(&report, "store`store_lock", Some(("store.c", 4)), &["put_locked"]);
    let without = observed(&directory.path().join("nothing-here"));
    let named = rows(&without).iter().any(|row| row["name"] == "store`store_lock");
    assert!(!named, "not stripped: {without:#}");
}

#[test]
fn spinning_is_shown_as_such_and_is_no_waiting() {
    if cfg!(not(target_arch = "x86_64")) {
        return skipped("instructions are decoded on x86-64 only");
    }
    if fs::read_to_string("/sys/devices/system/cpu/online").is_ok_and(|list| list.trim() == "0") {
        return skipped("on one processor no two threads share anything at a time");
    }
    // The longer, the busier the machine is with other things: it takes samples.
    let seen = |seconds: &&str| report("spin.c", seconds).filter(|own| !own["spins"][0].is_null());
    let Some(report) = ["2", "5", "10"].iter().find_map(seen).or_else(|| report("spin.c", "2"))
    else {
        return;
    };
    if report["samples"].is_null() {
        return skipped("samples of running code are not allowed here");
    }
    let first = &report["spins"][0];
    assert_eq!(first["name"], "spin`lock", "{report:#}");
    assert!(share_of_callers(first, &["take_ticket"]) >= 0.95, "{first:#}");
    assert!(seconds_in(&report, "lock") < 0.05 * number(&report["thread_seconds"]), "{report:#}");
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

#[test]
fn the_articles_table_of_locks_is_made_again() {
    let path = freehold().get_program().to_string_lossy().into_owned();
    let observed = |pairs: &str, seconds: &str| {
        let words = ["locks", "--json", "-a", "model:serial", "--", &path, "workload", "pairs"];
        let options = ["--pairs", pairs, "--max", "4096", "--seconds", seconds];
        json(&run(&[&words[..], &options].concat()).with(0).out)
    };
    let share =
        |report: &Value| seconds_in(report, "allocator_lock") / number(&report["thread_seconds"]);
    // The longer, the busier the machine is with other things: it takes looks.
    let seen = |report: &Value| seconds_in(report, "allocator_lock") > 0.0;
    let many = ["1.5", "4", "8"].iter().map(|seconds| observed("16", seconds));
    let many = many.into_iter().find(seen).expect("one of them waits");
    let first = rows(&many).iter().find(|row| row["kind"] == "allocator_lock");
    let name = first.and_then(|row| row["name"].as_str()).unwrap_or_default();
    assert!(name.contains("freehold_model_serial::MODEL"), "{many:#}");
    let one = observed("1", "1.5");
    assert!(share(&one) < share(&many), "{one:#} {many:#}");
}
