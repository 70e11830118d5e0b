//! `freehold explain`: where the memory of a process is.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::{
    Waiting, compiled, directory, family, found, freehold, json, known, other_libraries,
    own_program, run, signal, skipped,
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
    assert_parts_add_up(&report);
    assert!(report["allocator"].as_str().expect("known").starts_with("system"));
}

/// What is in memory is told in parts that add up to it, each with where it comes from.
#[track_caller]
fn assert_parts_add_up(report: &Value) {
    let parts = report["parts"].as_array().expect("a list");
    let sum: i64 = parts.iter().map(|part| part["bytes"].as_i64().expect("a number")).sum();
    assert_eq!(Some(sum), report["resident_bytes"].as_i64(), "{report:#}");
    assert!(parts.iter().all(|part| !part["source"].as_str().unwrap_or("").is_empty()));
}

/// Bytes of the parts of a kind, those that an allocator tells.
fn told(report: &Value, kind: &str) -> f64 {
    let parts = report["parts"].as_array().expect("a list").iter();
    parts.filter(|part| part["kind"] == kind).filter_map(|part| part["bytes"].as_f64()).sum()
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
    assert_parts_add_up(&report);
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
fn the_allocator_is_known_while_its_calls_are_counted() {
    let allocator = |more: &[&str]| {
        let words = [&["explain", "--json", "--after", "0.3"], more, &["--", "sleep", "1"]];
        let report = json(&run(&words.concat()).with(0).out);
        report["allocator"].as_str().unwrap_or("unknown").to_owned()
    };
    let plain = allocator(&[]);
    assert!(plain.starts_with("system "), "{plain}");
    // Whose version is not looked for.
    assert_eq!(allocator(&["--count"]), "system");
    let Some((name, library)) = other_libraries().into_iter().next() else { return };
    let counted = allocator(&["--count", "-a", &library]);
    assert!(counted.starts_with(family(&name)), "{counted}, not {name}");
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

/// A command that `freehold explain` has started, to look at it in an hour.
struct Asked {
    /// The process, and what it has said of itself.
    pid: u32,
    numbers: Vec<f64>,
    explaining: Running,
}

impl Asked {
    /// Starts a program that says its number and others, in one line.
    fn start(program: &Path, directory: &Path, allocator: &str, words: &[&str]) -> Self {
        let output = directory.join(format!("output-{}", allocator.replace('/', "-")));
        let mut command = freehold();
        command.args(["explain", "--after", "3600", "-a", allocator, "--output"]).arg(&output);
        command.arg("--").arg(program).args(words).stdout(Stdio::null()).stderr(Stdio::null());
        let mut explaining = Running(command.spawn().expect("it starts"));
        loop {
            let printed = fs::read_to_string(&output).unwrap_or_default();
            if let Some(line) = printed.strip_suffix('\n') {
                let numbers = line.split(' ').map(|word| word.parse().expect("a number"));
                let numbers: Vec<f64> = numbers.collect();
                return Self { pid: numbers[0] as u32, numbers, explaining };
            }
            assert!(explaining.0.try_wait().expect("it is ours").is_none(), "it has ended");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn explain(&self) -> Value {
        let report = json(&run(&["explain", "--json", &self.pid.to_string()]).with(0).out);
        assert_parts_add_up(&report);
        report
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        signal(self.pid, "KILL");
        let _ = self.explaining.0.wait();
    }
}

/// Tries allocators that can be asked within a process; says which are missing.
fn with_those_that_tell(mut attempt: impl FnMut(&str, &str)) {
    attempt("system", "mallinfo2");
    for (name, function) in [("jemalloc", "mallctl"), ("tcmalloc", "MallocExtension")] {
        let all: Vec<_> = found().iter().filter(|it| family(&it.0) == name).collect();
        if all.is_empty() {
            skipped(&format!("{name} is not installed"));
        }
        for (_, path) in all {
            attempt(path, function);
        }
    }
}

#[test]
fn allocators_that_are_asked_within_tell_what_the_program_itself_knows_to_be_in_use() {
    let directory = directory();
    let Some(program) = own_program(&directory, "asked") else { return };
    with_those_that_tell(|allocator, function| {
        let asked = Asked::start(&program, directory.path(), allocator, &[]);
        let [_, small, large] = asked.numbers[..] else { panic!("three numbers") };
        let report = asked.explain();
        let figures = &report["figures"][0];
        let source = figures["source"].as_str().expect("a text");
        assert!(source.starts_with(function), "{report:#}");
        // Beside each block the C library counts a word.
        let words = if allocator == "system" { 40_000.0 * 8.0 } else { 0.0 };
        assert_near(small + large + words, &figures["live_bytes"], &report);
        // Nobody has written to the large block.
        assert!(told(&report, "not_in_memory") < -0.9 * large, "{report:#}");
        let scattered = told(&report, "scattered");
        assert!(scattered > 0.2 * small, "two thirds were freed in between: {report:#}");
        let missing = report["missing"].to_string();
        assert!(!missing.contains("holds free"), "{report:#}");
    });
}

#[test]
fn a_busy_process_is_asked_again_and_again_and_goes_on() {
    const TIMES: u32 = 20;
    let directory = directory();
    let Some(program) = own_program(&directory, "asked") else { return };
    with_those_that_tell(|allocator, function| {
        let asked = Asked::start(&program, directory.path(), allocator, &["busy"]);
        for _ in 0..TIMES {
            let report = asked.explain();
            assert!(report["figures"][0]["source"].as_str().unwrap().starts_with(function));
            // Copies of the process that it makes meanwhile are not asked in its place.
            assert_eq!(report["pid"], asked.pid);
        }
        // Within each of its threads the kernel still counts time.
        let busy = || {
            let stat = fs::read_to_string(format!("/proc/{}/stat", asked.pid)).expect("it runs");
            let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
            fields[11].parse::<u64>().unwrap()
        };
        let before = busy();
        let start = Instant::now();
        while busy() == before {
            assert!(start.elapsed() < Duration::from_secs(60), "it stands still");
            std::thread::sleep(Duration::from_millis(10));
        }
    });
}

#[test]
fn a_process_that_is_stopped_does_not_answer_and_that_is_said() {
    let directory = directory();
    let Some(program) = own_program(&directory, "asked") else { return };
    let asked = Asked::start(&program, directory.path(), "system", &[]);
    signal(asked.pid, "STOP");
    // Its other threads go on until that which the signal was given to has run.
    let stat =
        || fs::read_to_string(format!("/proc/{}/task/{0}/stat", asked.pid)).expect("it is there");
    let start = Instant::now();
    while !stat().rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T')) {
        assert!(start.elapsed() < Duration::from_secs(60), "it does not stop");
        std::thread::sleep(Duration::from_millis(1));
    }
    let report = asked.explain();
    signal(asked.pid, "CONT");
    assert!(report["missing"].to_string().contains("has not answered within 5 s"), "{report:#}");
    let source = report["figures"][0]["source"].as_str().expect("a text");
    assert!(source.contains("notes before each block"), "{report:#}");
    // It answers the next question, and not the last one.
    let again = asked.explain();
    assert!(again["figures"][0]["source"].as_str().unwrap().starts_with("mallinfo2"), "{again:#}");
}

#[test]
fn the_thread_that_waits_for_questions_is_in_no_programs_way() {
    let directory = directory();
    let Some(program) = own_program(&directory, "guest") else { return };
    let output = directory.path().join("output");
    let mut command = freehold();
    command.args(["explain", "--after", "3600", "--output"]).arg(&output).arg("--").arg(program);
    let ended = command.output().expect("it starts");
    // It has ended before the hour was over: so the thread has ended as well.
    let error = String::from_utf8_lossy(&ended.stderr);
    assert!(error.contains("has ended before it was looked at"), "{error}");
    let said = fs::read_to_string(output).expect("written");
    let lines: Vec<_> = said.lines().collect();
    let expected =
        ["signals are taken here", "the user is set", "the child is done", "the last thread ends"];
    assert_eq!(lines, expected);
}

#[test]
fn a_command_is_looked_at_while_it_runs_and_its_end_is_ours() {
    const SOURCE: &str = r"
        #include <stdlib.h>
        #include <string.h>
        #include <unistd.h>
        int main(void) {
            memset(malloc(20000000), 1, 20000000);
            sleep(3);
            return 7;
        }";
    let directory = directory();
    let Some(program) = compiled(&directory, "brief", SOURCE, &["-O0"]) else { return };
    let program = program.to_string_lossy().into_owned();
    let look = ["explain", "--json", "--count", "--after", "1", "--", &program];
    let report = json(&run(&look).with(7).out);
    assert_parts_add_up(&report);
    let figures = &report["figures"][0];
    assert!((20e6..20.2e6).contains(&figures["live_bytes"].as_f64().expect("known")), "{report:#}");
    // A large block is whole pages.
    assert!(figures["rounding_bytes"].as_f64().is_some_and(|bytes| bytes < 10_000.0), "{report:#}");
    let text = run(&["explain", "--after", "1", "--", &program]).with(7).out;
    assert!(text.contains("the C library: in use"), "{text}");
}
