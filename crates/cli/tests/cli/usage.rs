//! What all subcommands share: help, suggestions, colours, and output that nobody reads.

use std::process::Stdio;

use crate::support::{freehold, run};

#[test]
fn help_shows_examples_exit_statuses_and_every_subcommand() {
    let help = run(&["--help"]).with(0).out;
    for word in ["Examples:", "Exit status:", "NO_COLOR", "run", "which", "allocators", "bench"] {
        assert!(help.contains(word), "no {word:?} in:\n{help}");
    }
    for subcommand in
        ["run", "which", "allocators", "compare", "diff", "bench", "report", "lib", "workload"]
    {
        let help = run(&[subcommand, "--help"]).with(0).out;
        assert!(help.contains("Examples:"), "{subcommand} shows no examples");
    }
}

#[test]
fn a_mistyped_subcommand_is_answered_by_a_suggestion() {
    let ended = run(&["benhc"]).with(2);
    assert!(ended.err.contains("'bench'"), "{}", ended.err);
}

#[test]
fn a_mistyped_option_is_answered_by_a_suggestion() {
    let ended = run(&["bench", "--sise", "1"]).with(2);
    assert!(ended.err.contains("'--sizes'"), "{}", ended.err);
}

#[test]
fn nothing_to_do_is_a_usage_error_that_shows_the_help() {
    assert!(run(&[]).with(2).err.contains("Usage:"));
}

#[test]
fn colours_are_used_when_asked_for_and_never_in_a_pipe() {
    let plain = run(&["allocators"]).with(0).out;
    assert!(!plain.contains('\x1b'));
    let painted = run(&["allocators", "--color", "always"]).with(0).out;
    assert!(painted.contains('\x1b'));
    let forced = freehold().arg("allocators").env("CLICOLOR_FORCE", "1").output();
    assert!(forced.expect("started").stdout.contains(&0x1b));
    let refused =
        freehold().args(["allocators", "--color", "never"]).env("CLICOLOR_FORCE", "1").output();
    assert!(!refused.expect("started").stdout.contains(&0x1b));
}

#[test]
fn json_is_the_same_whatever_the_colours() {
    let plain = run(&["allocators", "--json"]).with(0).out;
    assert_eq!(run(&["allocators", "--json", "--color", "always"]).with(0).out, plain);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = freehold()
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("ends");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn completions_are_printed_for_a_shell() {
    assert!(run(&["completions", "bash"]).with(0).out.contains("_freehold()"));
    run(&["completions", "cmd"]).with(2);
}
