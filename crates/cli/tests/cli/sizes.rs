//! `freehold sizes`: histograms of a trace, and of a command that is recorded for it.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::recording::Workshop;
use crate::support::{Ended, compiled, directory, freehold, json, run, signal};

/// Allocates known sizes, and frees half of the large ones in another thread.
const KNOWN: &str = "\
#include <pthread.h>
#include <stdlib.h>
static void *large[1000];
static void *other(void *arg) {
    for (int i = 0; i < 500; i++) free(large[i]);
    return arg;
}
int main(void) {
    for (int i = 0; i < 3000; i++) free(malloc(77));
    for (int i = 0; i < 1000; i++) large[i] = malloc(5000);
    pthread_t thread;
    pthread_create(&thread, 0, other, 0);
    pthread_join(thread, 0);
    for (int i = 500; i < 800; i++) free(large[i]);
    for (int i = 0; i < 10; i++) malloc(20000);
    return 0;
}
";

fn count_of(document: &Value, size: u64) -> u64 {
    let sizes = document["sizes"].as_array().expect("a list").iter();
    let count = |entry: &Value| entry["count"].as_u64().expect("a number");
    sizes.filter(|entry| entry["size"] == size).map(count).sum()
}

fn sizes(trace: &Path, options: &[&str]) -> Ended {
    let trace = trace.to_string_lossy();
    run(&[&["sizes", &*trace], options].concat())
}

#[test]
fn every_size_is_counted_in_all_its_forms() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(program) = workshop.compile("known", KNOWN, &["-O0", "-pthread"]) else { return };
    let recorded = workshop.record(&[], &[&program.to_string_lossy()]);
    let document = json(&sizes(&recorded.trace, &["--json"]).with(0).out);
    assert_eq!(document["kind"], "sizes");
    assert_eq!(count_of(&document, 77), 3000);
    assert_eq!(count_of(&document, 5000), 1000);
    let power = |least: u64| {
        let bins = document["powers"].as_array().expect("a list").iter();
        bins.filter(|bin| bin["least"] == least).find_map(|bin| bin["count"].as_u64())
    };
    assert!((3000..3100).contains(&power(64).expect("a bin")), "{document}");
    assert!((1000..1050).contains(&power(4096).expect("a bin")), "{document}");
    assert_eq!(power(16384), Some(10));
    assert_eq!(document["linear"]["bins"].as_array().map(Vec::len), Some(16));
    assert_eq!(document["linear"]["above"], 10);
    let fates = &document["fates"];
    assert_eq!(fates["freed_elsewhere"]["objects"], 500);
    assert_eq!(fates["freed_elsewhere"]["bytes"], 500 * 5000);
    let never = fates["never_freed"]["objects"].as_u64().expect("a number");
    assert!((210..230).contains(&never), "{fates}");
    let here = fates["freed_here"]["objects"].as_u64().expect("a number");
    assert!(here >= 3300);
    let lifetimes = document["lifetimes"].as_array().expect("a list").iter();
    let lived: u64 = lifetimes.map(|bin| bin["count"].as_u64().expect("a number")).sum();
    assert_eq!(lived, here + 500);
}

#[test]
fn the_histograms_are_those_of_dtrace_with_the_bounds_that_are_wanted() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(program) = workshop.compile("known", KNOWN, &["-O0", "-pthread"]) else { return };
    let recorded = workshop.record(&[], &[&program.to_string_lossy()]);
    let text = sizes(&recorded.trace, &[]).with(0).out;
    assert!(text.contains("value  ------------- Distribution ------------- count"), "{text}");
    assert!(text.contains("\n              64 |@@@@@@@@@@@@@@@@@@@@@@@@@"), "{text}");
    assert!(text.contains("\n        >= 16384 |"), "{text}");
    assert!(text.contains("freed by another thread"), "{text}");
    let text = sizes(&recorded.trace, &["--linear", "4000,6000,500"]).with(0).out;
    assert!(text.contains("\n            5000 |"), "{text}");
    assert!(text.contains("\n         >= 6000 |"), "{text}");
    sizes(&recorded.trace, &["--linear", "9,3,1"]).with(2);
}

#[test]
fn weights_are_a_line_for_each_size() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(program) = workshop.compile("known", KNOWN, &["-O0", "-pthread"]) else { return };
    let recorded = workshop.record(&[], &[&program.to_string_lossy()]);
    let text = sizes(&recorded.trace, &["--weights", "-"]).with(0).out;
    assert!(text.lines().any(|line| line == "77 3000"), "{text}");
    let is_pair = |line: &str| {
        line.split(' ')
            .map(str::parse::<u64>)
            .collect::<Result<Vec<_>, _>>()
            .is_ok_and(|pair| pair.len() == 2)
    };
    assert!(text.lines().skip(1).all(is_pair), "{text}");
    let file = workshop.path("weights");
    let name = file.to_string_lossy();
    sizes(&recorded.trace, &["--weights", &name]).with(0);
    assert_eq!(fs::read_to_string(&file).expect("written"), text);
    let drawn = ["--distribution", &name, "--cells", "100", "--passes", "1", "--threads", "1"];
    run(&[&["workload", "tcl-cells"][..], &drawn].concat()).with(0);
}

#[test]
fn a_command_is_recorded_for_it_and_its_status_is_ours() {
    let directory = directory();
    let source = "#include <stdio.h>\n#include <stdlib.h>\nint main(void) {\n\
                  for (int i = 0; i < 5000; i++) free(malloc(333));\n\
                  puts(\"noise\"); return 7; }\n";
    let Some(program) = compiled(&directory, "few", source, &["-O0"]) else { return };
    let program = program.to_string_lossy();
    let ended = run(&["sizes", "--json", "--", &program]).with(7);
    assert_eq!(count_of(&json(&ended.out), 333), 5000);
    let loud = run(&["sizes", "--output", "inherit", "--", &program]).with(7);
    assert!(loud.out.starts_with("noise\n"), "{}", loud.out);
    assert!(loud.out.contains("\n             256 |@@@@"), "{}", loud.out);
}

#[test]
fn what_is_no_trace_or_has_no_such_process_is_named() {
    let directory = directory();
    let letter = directory.path().join("letter");
    fs::write(&letter, "dear reader").expect("written");
    let ended = sizes(&letter, &[]).with(1);
    assert!(ended.err.contains("not a trace") && ended.err.contains("hint:"), "{}", ended.err);
    sizes(Path::new("/no/such/file"), &[]).with(1);
    run(&["sizes"]).with(2);
    let trace = directory.path().join("trace");
    let trace_name = trace.to_string_lossy();
    run(&["record", "--no-overhead", "-o", &trace_name, "--", "true"]).with(0);
    let ended = sizes(&trace, &["--process", "9"]).with(2);
    assert!(ended.err.contains("there is no process 9"), "{}", ended.err);
}

#[test]
fn a_damaged_trace_is_refused_with_the_place_and_salvaged_if_wanted() {
    let directory = directory();
    let trace = directory.path().join("trace");
    let trace_name = trace.to_string_lossy();
    run(&["record", "--no-overhead", "-o", &trace_name, "--", "ls", "/"]).with(0);
    let whole = fs::read(&trace).expect("written");
    let expected = sizes(&trace, &[]).with(0).out;
    let seed = std::env::var("FREEHOLD_SEED").ok().and_then(|seed| seed.parse().ok());
    let mut state = seed.unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("FREEHOLD_SEED={state}");
    let mut random = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut refused = 0;
    for round in 0..40 {
        let mut damaged = whole.clone();
        // Behind the header, most of which is not used.
        let at = 4096 + random(whole.len() - 4096);
        match round % 4 {
            0 => damaged.truncate(at),
            1 => damaged[at] ^= 1 << random(8),
            2 => damaged[at..].iter_mut().take(100).for_each(|byte| *byte = 0),
            _ => damaged.extend_from_slice(&whole[..at]),
        }
        fs::write(&trace, &damaged).expect("written");
        let strict = sizes(&trace, &[]);
        match strict.code {
            // What is behind the end, or never looked at, is no damage.
            Some(0) => assert_eq!(strict.out, expected, "round {round}, byte {at}"),
            Some(1) => {
                refused += 1;
                assert!(strict.err.starts_with("error: "), "{}", strict.err);
            }
            other => panic!("{other:?}, round {round}, byte {at}: {}", strict.err),
        }
        let salvaged = sizes(&trace, &["--salvage"]);
        assert!(matches!(salvaged.code, Some(0 | 1 | 5)), "{:?} {}", salvaged.code, salvaged.err);
    }
    assert!(refused > 15, "{refused} of 40 were refused");
}

#[test]
fn an_interrupt_before_the_first_call_leaves_nothing_behind() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(program) = workshop.calls() else { return };
    let recorded = workshop.record(&[], &[&program, "2", "return", "20000"]);
    let trace = recorded.trace.to_string_lossy().into_owned();
    for arguments in [&["sizes", "--", "sleep", "1000"][..], &["replay", &trace]] {
        let temporary = directory();
        let is_empty = || fs::read_dir(&temporary).expect("there").next().is_none();
        let mut child = freehold()
            .args(arguments)
            .env("TMPDIR", temporary.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("started");
        while is_empty() {
            thread::sleep(Duration::from_millis(1));
        }
        signal(child.id(), "INT");
        assert_ne!(child.wait().expect("ends").code(), Some(0), "{arguments:?}");
        assert!(is_empty(), "{arguments:?}");
    }
}
