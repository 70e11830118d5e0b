//! `freehold run`: a command under an allocator, with proof.

use std::io::{BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use crate::support::{
    compiled, directory, family, found, freehold, json, read, run, signal, skipped, wait_for_line,
};

#[test]
fn the_exit_status_of_the_command_is_passed_through() {
    run(&["run", "--", "sh", "-c", "exit 0"]).with(0);
    run(&["run", "--", "sh", "-c", "exit 7"]).with(7);
    run(&["run", "sh", "-c", "exit 255"]).with(255);
}

#[test]
fn a_command_that_ends_by_a_signal_ends_us_by_it() {
    for (name, number) in [("TERM", 15), ("KILL", 9), ("SEGV", 11), ("INT", 2)] {
        let command = format!("kill -{name} $$");
        let status = freehold().args(["run", "-q", "--", "sh", "-c", &command]).status();
        assert_eq!(status.expect("started").signal(), Some(number), "{name}");
    }
}

#[test]
fn a_signal_sent_to_us_reaches_the_command() {
    for name in ["TERM", "INT", "HUP", "USR1", "QUIT"] {
        let script = format!("trap 'exit 9' {name}; echo ready; while :; do sleep 0.02; done");
        let mut child = freehold()
            .args(["run", "-q", "--", "sh", "-c", &script])
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        wait_for_line(&mut out, "ready");
        signal(child.id(), name);
        assert_eq!(child.wait().expect("ends").code(), Some(9), "{name}");
    }
}

#[test]
fn a_signal_that_we_were_started_to_ignore_stays_ignored_in_the_command() {
    let own = env!("CARGO_BIN_EXE_freehold");
    let script = format!("trap '' HUP; exec {own} run -q -- sh -c 'kill -HUP $$; echo survived'");
    let output = std::process::Command::new("sh").args(["-c", &script]).output();
    assert_eq!(String::from_utf8_lossy(&output.expect("started").stdout), "survived\n");
}

#[test]
fn standard_streams_are_those_of_the_command() {
    let mut child = freehold()
        .args(["run", "--", "sh", "-c", "cat; echo to-err >&2"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    child.stdin.take().expect("piped").write_all(b"to-out\n").expect("it reads");
    let output = child.wait_with_output().expect("ends");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "to-out\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("to-err\n"));
}

#[test]
fn every_found_allocator_is_proved_live_and_really_mapped() {
    let directory = directory();
    let proof = directory.path().join("proof.json");
    let proof_name = proof.to_string_lossy();
    for (name, path) in found() {
        let words = ["run", "-a", name, "--json", &proof_name, "--", "cat", "/proc/self/maps"];
        let ended = run(&words).with(0);
        assert!(ended.out.contains(path.as_str()), "{name} is not in:\n{}", ended.out);
        assert!(ended.err.contains(&format!("freehold: {} ", family(name))), "{}", ended.err);
        let report = json(&read(&proof));
        assert_eq!(report["kind"], "run");
        assert_eq!(report["exit_status"], 0);
        assert_eq!(report["allocator"]["name"], family(name));
        assert_eq!(report["allocator"]["library"]["path"], path.as_str());
        let verdict = report["verdict"].as_str();
        assert!(matches!(verdict, Some("live" | "loader_confirms")), "{report}");
    }
}

#[test]
fn a_quiet_run_adds_nothing_to_the_commands_output() {
    let ended = run(&["run", "--quiet", "--", "echo", "hello"]).with(0);
    assert_eq!((ended.out.as_str(), ended.err.as_str()), ("hello\n", ""));
}

#[test]
fn what_was_preloaded_already_stays_behind_the_allocator() {
    let directory = directory();
    let flags = ["-shared", "-fPIC"];
    let Some(other) = compiled(&directory, "libother.so", "int other;", &flags) else { return };
    let output = freehold()
        .args(["run", "-q", "--", "sh", "-c", "echo $LD_PRELOAD"])
        .env("LD_PRELOAD", &other)
        .output()
        .expect("started");
    let out = String::from_utf8_lossy(&output.stdout);
    let freehold = &found()[0].1;
    assert_eq!(out.trim_end(), format!("{freehold}:{}", other.display()));
}

#[test]
fn an_unknown_allocator_is_answered_by_a_suggestion() {
    let ended = run(&["run", "-a", "mimaloc", "--", "true"]).with(2);
    assert!(ended.err.contains("did you mean \"mimalloc\"?"), "{}", ended.err);
    let ended = run(&["run", "-a", "banana", "--", "true"]).with(2);
    assert!(ended.err.contains("give one of freehold, system"), "{}", ended.err);
}

#[test]
fn a_known_allocator_that_is_not_installed_says_how_to_get_it() {
    let known = ["llalloc", "rpmalloc", "hoard", "snmalloc", "scudo"];
    let is_missing = |name: &&&str| !found().iter().any(|(own, _)| own == **name);
    let Some(name) = known.iter().find(is_missing) else {
        return skipped("every known allocator is installed");
    };
    let ended = run(&["run", "-a", name, "--", "true"]).with(5);
    assert!(ended.err.contains("was not found"), "{}", ended.err);
    assert!(ended.err.contains("hint:"), "{}", ended.err);
}

#[test]
fn a_library_that_is_not_an_allocator_is_refused() {
    let own = std::env::current_exe().expect("a path");
    let ended = run(&["run", "-a", &own.to_string_lossy(), "--", "true"]).with(5);
    assert!(ended.err.contains("exports no malloc"), "{}", ended.err);
}

#[test]
fn a_command_that_is_missing_or_not_executable_has_a_status_of_its_own() {
    run(&["run", "--", "no-such-command-anywhere"]).with(127);
    run(&["run", "--", "/no/such/path"]).with(127);
    run(&["run", "--", "/etc/passwd"]).with(126);
    run(&["run", "--json", "/nowhere/at/all.json", "--", "true"]).with(125);
}

#[test]
fn a_static_program_is_refused_before_it_runs_and_forced_if_wanted() {
    let directory = directory();
    let source = "#include <stdio.h>\nint main(void) { puts(\"ran\"); return 3; }";
    let Some(program) = compiled(&directory, "static", source, &["-static"]) else { return };
    let program = program.to_string_lossy();
    let refused = run(&["run", "--", &program]).with(5);
    assert_eq!(refused.out, "");
    assert!(refused.err.contains("statically linked"), "{}", refused.err);
    let forced = run(&["run", "--force", "--", &program]).with(3);
    assert_eq!(forced.out, "ran\n");
    assert!(forced.err.contains("is not live"), "{}", forced.err);
}

#[test]
fn a_program_that_brings_its_own_malloc_is_refused() {
    let directory = directory();
    let source = "#include <stddef.h>\n#include <stdlib.h>\nstatic char heap[1 << 20];\n\
                  static size_t used;\n\
                  void *malloc(size_t n) { used += (n + 31) & ~15ul; return heap + used - n; }\n\
                  void free(void *p) { (void) p; }\n\
                  int main(void) { return malloc(1) == 0; }";
    let Some(program) = compiled(&directory, "own", source, &["-rdynamic"]) else { return };
    let refused = run(&["run", "--", &program.to_string_lossy()]).with(5);
    assert!(refused.err.contains("comes before any preload"), "{}", refused.err);
}

#[test]
fn a_dry_run_prints_a_line_for_the_shell_and_runs_nothing() {
    let ended = run(&["run", "-n", "--", "sh", "-c", "echo it ran"]).with(0);
    let freehold = &found()[0].1;
    assert_eq!(ended.out, format!("LD_PRELOAD={freehold} sh -c 'echo it ran'\n"));
}
