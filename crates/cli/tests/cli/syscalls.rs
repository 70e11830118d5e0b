//! `freehold syscalls`: which system calls a program makes.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{directory, freehold, json, known, read, run, signal, wait_for_line};

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

/// Says when it runs, waits for a line, and says so in a file.
const PATIENT: &str = "echo ready; read line; echo \"$line\" > \"$0\"; exit 7";

#[test]
fn a_command_has_our_input_and_is_waited_for_when_observing_is_over() {
    let directory = directory();
    for (index, command) in ["syscalls", "locks", "diagnose", "top --count 1"].iter().enumerate() {
        let file = directory.path().join(index.to_string());
        let mut words: Vec<_> = command.split(' ').collect();
        if words.len() == 1 {
            words.extend(["--seconds", "0.3"]);
        } else {
            words.extend(["--interval", "0.3"]);
        }
        let mut own = freehold();
        own.args(words).args(["--output", "inherit", "--", "sh", "-c", PATIENT]).arg(&file);
        own.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut own = own.spawn().expect("started");
        let mut told = BufReader::new(own.stderr.take().expect("piped"));
        wait_for_line(&mut told, "waiting for the command to end");
        writeln!(own.stdin.as_mut().expect("piped"), "a line").expect("it reads");
        assert_eq!(own.wait().expect("it ends").code(), Some(7), "{command}");
        assert_eq!(read(&file), "a line\n", "{command}");
    }
}

#[test]
fn an_interrupt_ends_a_command_that_is_traced() {
    let mut own = freehold();
    own.args(["syscalls", "--output", "inherit", "--", "sh", "-c", "echo $$; exec sleep 1000"]);
    let mut own = own.stdout(Stdio::piped()).spawn().expect("started");
    let mut out = BufReader::new(own.stdout.take().expect("piped"));
    let pid = wait_for_line(&mut out, "").trim().to_owned();
    signal(own.id(), "TERM");
    assert_eq!(own.wait().expect("it ends").code(), Some(130));
    assert!(!Path::new("/proc").join(&pid).exists(), "{pid} was left alone");
}

#[test]
fn a_command_is_waited_for_also_when_nobody_reads_what_was_observed() {
    let directory = directory();
    for command in ["top --interval 0.1", "locks --seconds 0.1", "syscalls --seconds 0.1"] {
        let file = directory.path().join("line");
        let mut own = freehold();
        own.args(command.split(' ')).args(["--", "sh", "-c", PATIENT]).arg(&file);
        own.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut own = own.spawn().expect("started");
        drop(own.stdout.take());
        let mut told = BufReader::new(own.stderr.take().expect("piped"));
        wait_for_line(&mut told, "waiting for the command to end");
        writeln!(own.stdin.as_mut().expect("piped"), "a line").expect("it reads");
        assert_eq!(own.wait().expect("it ends").code(), Some(0), "{command}");
        assert_eq!(read(&file), "a line\n", "{command}");
    }
}
