//! `freehold syscalls`: which system calls a program makes.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{directory, json, known, run};

fn call<'a>(rows: &'a Value, name: &str) -> &'a Value {
    let mut rows = rows.as_array().expect("a list").iter();
    rows.find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn calls_and_errors_are_counted_exactly_by_call_and_by_thread() {
    let directory = directory();
    let Some(program) = known(&directory, "calls.c") else { return };
    let report = json(&run(&["syscalls", "--json", "--", &program.to_string_lossy()]).with(7).out);
    let calls = &report["calls"];
    assert_eq!(call(calls, "getppid")["count"], 4000);
    assert_eq!(call(calls, "getppid")["errors"], 0);
    let threads = report["threads"].as_array().expect("a list");
    let failing = threads.iter().find(|own| own["name"] == "failing").expect("its name");
    assert_eq!(call(&failing["calls"], "getppid")["count"], 1000);
    assert_eq!(call(&failing["calls"], "close")["errors"], 500);
}

#[test]
fn a_process_that_was_traced_goes_on_as_before() {
    let mut cat = Command::new("cat");
    let mut cat = cat.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
    let pid = cat.id().to_string();
    let arguments = ["syscalls", "--seconds", "0.1", "-p", &pid];
    run(&arguments).with(0);
    let mut input = cat.stdin.take().expect("piped");
    writeln!(input, "still here").expect("it reads");
    let mut line = String::new();
    BufReader::new(cat.stdout.take().expect("piped")).read_line(&mut line).expect("it writes");
    assert_eq!(line, "still here\n");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    assert!(status.contains("TracerPid:\t0\n"), "{status}");
    drop(input);
    assert!(cat.wait().expect("it ends").success());
}

#[test]
fn the_commands_end_is_ours_and_so_is_that_it_cannot_be_started() {
    let ended = run(&["syscalls", "--", "sh", "-c", "exit 9"]).with(9);
    assert!(ended.out.contains("exit_group"), "{}", ended.out);
    run(&["syscalls", "--", "no-such-command-anywhere"]).with(127);
    run(&["syscalls", "--", "/etc/passwd"]).with(126);
    run(&["syscalls", "-p", "4294967295"]).with(1);
}
