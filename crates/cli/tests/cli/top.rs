//! `freehold top`: where the time of each thread goes.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};
use serde_json::Value;

use crate::support::{
    Ended, Waiting, compiled, directory, freehold, json, known, own_program, read, run, skipped,
};

/// The rows of a program's threads over the whole of its run, most of the processor first.
fn rows(command: &[&str]) -> Vec<Value> {
    let arguments = [&["top", "--json", "--interval", "100"], command].concat();
    let report = json(&run(&arguments).with(0).out);
    report["rows"].as_array().expect("a list").clone()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("not a number: {value}"))
}

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

#[test]
fn waiting_for_locks_agrees_with_what_threads_measured_themselves() {
    let directory = directory();
    let Some(program) = known(&directory, "waits_measured.c") else { return };
    let output = directory.path().join("output");
    let (program, place) = (program.to_string_lossy(), output.to_string_lossy());
    for way in ["mutex", "rwlock", "condition", "semaphore", "barrier"] {
        let arguments = ["top", "--json", "--interval", "100", "--output", &place, "--"];
        let command = [&arguments[..], &[&program, "2", way]].concat();
        let report = json(&run(&command).with(0).out);
        let printed = read(&output);
        let measured: Vec<f64> =
            printed.split_whitespace().map(|n| n.parse().expect("a number")).collect();
        let truth = measured[0] / measured[1];
        let rows = report["rows"].as_array().expect("a list").iter();
        let waiters: Vec<_> = rows.filter(|row| row["name"] == "waiter").collect();
        let sum = |of: &dyn Fn(&Value) -> f64| waiters.iter().map(|row| of(row)).sum::<f64>();
        let there = sum(&|row| number(&row["seconds"]));
        let seen = sum(&|row| number(&row["shares"]["lck"]) * number(&row["seconds"])) / there;
        let looks = number(&report["cost"]["looks_per_second"]) * number(&report["seconds"]);
        // Three points, or four standard deviations where a busy machine allows few looks: of the
        // twelve threads, the two of a pair do not wait independently.
        let deviation = (truth * (1.0 - truth) / (looks * 6.0)).sqrt();
        let allowed = f64::max(0.03, 4.0 * deviation);
        assert!((seen - truth).abs() <= allowed, "{way}: {seen} seen, {truth}, {allowed} allowed");
    }
}

#[test]
fn a_page_that_is_to_be_run_is_told_from_one_of_data() {
    let directory = directory();
    let Some(program) = own_program(&directory, "missing_page") else { return };
    if !Command::new(&program).status().is_ok_and(|status| status.success()) {
        return skipped("userfaultfd is refused");
    }
    let rows = rows(&["--", &program.to_string_lossy()]);
    let named = |name: &str| {
        let row = rows.iter().find(|row| row["name"] == name);
        row.unwrap_or_else(|| panic!("no {name}: {rows:#?}"))
    };
    let (runs, reads) = (&named("runs")["shares"], &named("reads")["shares"]);
    assert!(number(&runs["tfl"]) > 0.5 && number(&runs["dfl"]) < 0.1, "{runs}");
    assert!(number(&reads["dfl"]) > 0.5 && number(&reads["tfl"]) < 0.1, "{reads}");
}

#[test]
fn calls_and_signals_are_counted_exactly_where_that_is_allowed() {
    const SOURCE: &str = r"
        #include <signal.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        static void handle(int signal) { (void)signal; }
        int main(void) {
            signal(SIGUSR1, handle);
            // On a busy machine it takes a while to begin to count.
            usleep(1000000);
            for (int i = 0; i < 50; i++) raise(SIGUSR1);
            for (int i = 0; i < 5000; i++) syscall(SYS_getppid);
            usleep(300000);
        }";
    let directory = directory();
    let Some(program) = compiled(&directory, "busy", SOURCE, &["-O2"]) else { return };
    let program = program.to_string_lossy();
    let ended = run(&["top", "--json", "--interval", "100", "--", &program]).with(0);
    let report = json(&ended.out);
    let row = &report["rows"][0];
    if row["system_calls"].is_null() {
        let missing = report["missing"].as_array().expect("a list").iter();
        let mut gaps = missing.filter_map(|gap| gap["what"].as_str());
        assert!(gaps.any(|what| what.starts_with("SCL, SIG")), "{report:#}");
        return skipped("tracepoints are for root, and need tracefs");
    }
    // A raise is a few calls, and one more to come back from the handler.
    let calls = row["system_calls"].as_u64().expect("counted");
    assert!((5050..5500).contains(&calls), "{row:#}");
    let signals = row["signals"].as_u64().expect("counted");
    assert!((50..=51).contains(&signals), "{row:#}");
}

#[test]
fn very_many_calls_are_estimated_rather_than_all_counted() {
    const SOURCE: &str = r#"
        #include <stdio.h>
        #include <sys/syscall.h>
        #include <time.h>
        #include <unistd.h>
        int main(void) {
            struct timespec began, now;
            unsigned long calls = 0;
            clock_gettime(CLOCK_MONOTONIC, &began);
            do {
                for (int i = 0; i < 1000; i++) syscall(SYS_getppid);
                calls += 1000;
                clock_gettime(CLOCK_MONOTONIC, &now);
            } while ((now.tv_sec - began.tv_sec) * 1000000000 + now.tv_nsec - began.tv_nsec
                     < 2500000000);
            fprintf(stderr, "%lu\n", calls);
        }"#;
    let directory = directory();
    let Some(program) = compiled(&directory, "calling", SOURCE, &["-O2"]) else { return };
    let program = program.to_string_lossy();
    let ended = run(&["--quiet", "top", "--json", "--interval", "1", "--", &program]).with(0);
    let own: f64 = ended.err.trim().parse().expect("its own count");
    let reports: Vec<_> = ended.out.lines().map(json).collect();
    let precise = |report: &Value| {
        let sources = report["sources"].as_array().expect("a list").iter();
        let mut calls = sources.filter(|source| source["of"] == "SCL, SIG");
        calls.next().and_then(|source| source["precision"].as_str()).unwrap_or_default().to_owned()
    };
    if precise(&reports[0]).is_empty() {
        return skipped("tracepoints are for root, and need tracefs");
    }
    if own < 1e6 {
        return skipped("the machine is too busy for very many calls");
    }
    assert!(precise(&reports[0]).starts_with("estimates"), "{:#}", reports[0]);
    let rows = reports.iter().flat_map(|report| report["rows"].as_array().expect("rows"));
    let counted: u64 = rows.filter_map(|row| row["system_calls"].as_u64()).sum();
    // What counting takes is known about only, and these calls take no longer than that; and what
    // else the processor does in the 20 ms that stand for a second is not known at all.
    let ratio = counted as f64 / own;
    assert!((0.25..4.0).contains(&ratio), "{counted} estimated, {own} made");
}

#[test]
fn it_runs_under_valgrind() {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["-q", "--error-exitcode=99"]).arg(freehold().get_program());
    valgrind.args(["--quiet", "top", "--json", "--interval", "0.5", "--", "sleep", "1"]);
    let Ok(output) = valgrind.stdin(Stdio::null()).output() else {
        return skipped("valgrind is not installed");
    };
    let ended = Ended::from(output).with(0);
    let reports: Vec<_> = ended.out.lines().map(json).collect();
    let named = |report: &Value| report["rows"][0]["name"] == "sleep";
    assert!(reports.iter().any(named), "{}", ended.out);
}

#[test]
fn a_key_adds_up_by_process_on_the_screen() {
    let command = "--interval 0.1 -- sh -c 'sleep 5 & wait'";
    let line = format!("{} top {command}", freehold().get_program().to_string_lossy());
    let mut terminal = Command::new("script");
    terminal.args(["-qefc", &line, "/dev/null"]).env("TERM", "xterm");
    terminal.stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut child) = terminal.spawn() else { return skipped("script is not installed") };
    let mut keys = child.stdin.take().expect("piped");
    let mut screen = child.stdout.take().expect("piped");
    let mut wait_for = |words: &str| {
        let mut seen = Vec::new();
        let mut some = [0; 4096];
        while !String::from_utf8_lossy(&seen).contains(words) {
            let read = screen.read(&mut some).expect("readable");
            assert_ne!(read, 0, "no {words:?} in {}", String::from_utf8_lossy(&seen));
            seen.extend_from_slice(&some[..read]);
        }
    };
    wait_for("p shows processes");
    keys.write_all(b"p").expect("it reads");
    wait_for("p shows threads");
    keys.write_all(b"q").expect("it reads");
    // It says so when its command goes on; ended by the signal that it gets at the end of this.
    drop(keys);
    let _ = child.kill();
    child.wait().expect("it ends");
}

#[test]
fn the_screen_ends_when_its_terminal_is_gone() {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags).expect("a terminal");
    unlockpt(&master).expect("it can be used");
    let name = ptsname(&master, Vec::new()).expect("it has a name");
    let terminal = OpenOptions::new()
        .read(true)
        .write(true)
        .open(name.to_str().expect("in UTF-8"))
        .expect("it can be opened");
    let end = || Stdio::from(terminal.try_clone().expect("another descriptor"));
    let mut child = freehold()
        .args(["top", "--interval", "0.1", "-p", &std::process::id().to_string()])
        .env("TERM", "xterm")
        .stdin(end())
        .stdout(end())
        .stderr(end())
        .spawn()
        .expect("freehold starts");
    let mut master = File::from(master);
    let (mut seen, mut part) = (String::new(), [0; 4096]);
    while !seen.contains("q ends") {
        let count = master.read(&mut part).expect("something is shown");
        seen.push_str(&String::from_utf8_lossy(&part[..count]));
    }
    drop((master, terminal));
    let late = Instant::now() + Duration::from_secs(20);
    while child.try_wait().expect("it can be waited for").is_none() {
        if Instant::now() > late {
            child.kill().expect("it can be ended");
            panic!("it was to end by itself");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
