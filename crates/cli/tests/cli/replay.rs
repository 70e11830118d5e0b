//! `freehold replay`: recorded calls are made again, all of them, in an order that can be.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::recording::{Counts, Recorded, Workshop};
use crate::support::{Ended, directory, freehold, json, run, skipped};

/// Replays a trace with these options, and returns the document.
fn replay(trace: &Path, options: &[&str]) -> Value {
    let ended = attempt(trace, &[&["--json", "-", "--settle", "0", "-r", "2"], options].concat());
    json(&ended.with(0).out)
}

fn attempt(trace: &Path, options: &[&str]) -> Ended {
    let trace = trace.to_string_lossy();
    run(&[&["replay", &*trace], options].concat())
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// The runs of a document that gave numbers.
fn runs(document: &Value) -> impl Iterator<Item = &Value> {
    let runs = document["runs"].as_array().expect("a list").iter();
    runs.map(|run| {
        let measured = &run["outcome"]["measured"];
        assert!(measured.is_object(), "{run}");
        measured
    })
}

/// Insists that every run has made the recorded calls, each as often as it was recorded, and came
/// to the recorded peak of bytes alive within a hundredth.
#[track_caller]
fn is_reproduced(document: &Value) {
    let recorded = &document["process"]["calls"];
    let sum = |names: &[&str]| names.iter().map(|name| number(&recorded[*name])).sum::<u64>();
    let peak = number(&document["process"]["peak"]["bytes"]);
    for run in runs(document) {
        let calls = &run["calls"];
        assert_eq!(number(&calls["malloc"]), sum(&["malloc", "new"]));
        assert_eq!(number(&calls["calloc"]), sum(&["calloc"]));
        assert_eq!(number(&calls["realloc"]), sum(&["realloc"]));
        assert_eq!(number(&calls["aligned"]), sum(&["aligned"]));
        assert_eq!(number(&calls["free_null"]), sum(&["free_null"]));
        let unknown = number(&document["skipped_unknown"]);
        assert_eq!(number(&calls["free"]), sum(&["free", "delete"]) - unknown);
        let (most, end) = (&run["peak_anonymous_bytes"], &run["end"]["anonymous_bytes"]);
        assert!(number(most) >= number(end), "{most} at the peak, {end} at the end");
        let reached = number(&run["peak_live_bytes"]);
        assert!(reached.abs_diff(peak) * 100 <= peak, "peak {reached}, recorded {peak}");
        assert_eq!(run["threads"], document["process"]["threads"]);
        assert!(!run["timeline"].as_array().expect("a list").is_empty());
    }
}

#[test]
fn many_threads_with_frees_elsewhere_are_reproduced_under_every_kind_of_allocator() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(program) = workshop.calls() else { return };
    let recorded = workshop.record(&[], &[&program, "4", "return", "4000"]);
    let document = replay(&recorded.trace, &["-a", "freehold,system,model:serial"]);
    is_reproduced(&document);
    assert_eq!(runs(&document).count(), 6);
    assert!(number(&document["process"]["freed_elsewhere"]) > 1000);
    assert_eq!(document["skipped_unknown"], 0);
    assert_eq!(document["summary"].as_array().map(Vec::len), Some(3));
}

/// Replays a trace once with the allocator that counts calls, and says what it counted.
fn replayed(workshop: &Workshop, trace: &Path) -> (Ended, Counts) {
    let counts = workshop.path("replayed");
    fs::write(&counts, [0; 56]).expect("written");
    let output = freehold()
        .args(["replay", "-r", "1", "--settle", "0", "-a"])
        .arg(workshop.counter())
        .arg(trace)
        .env("COUNTS", &counts)
        .output()
        .expect("started");
    (Ended::from(output).with(0), Counts::read(&counts))
}

#[test]
fn the_allocator_sees_the_calls_that_were_recorded() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(program) = workshop.calls() else { return };
    let recorded = workshop.record(&[], &[&program, "3", "return", "3000"]);
    let made = Counts::recorded(&recorded.document);
    let (ended, seen) = replayed(&workshop, &recorded.trace);
    assert!(ended.out.contains("count"), "{}", ended.out);
    // The process that makes the calls makes a few of its own, for threads and for what it prints.
    for (seen, made) in [
        (seen.malloc, made.malloc),
        (seen.calloc, made.calloc),
        (seen.realloc, made.realloc),
        (seen.free, made.free),
        (seen.free_null, made.free_null),
    ] {
        assert!((made..made + 5000).contains(&seen), "{seen} seen, {made} recorded");
    }
    assert_eq!(seen.aligned, made.aligned);
}

#[test]
fn what_realloc_is_asked_for_stays_a_call_of_it() {
    let Some(workshop) = Workshop::new() else { return };
    let source = "#include <stdlib.h>\n\
                  void *volatile kept;\n\
                  void *(*volatile resize)(void *, size_t) = realloc;\n\
                  int main(void) {\n\
                  for (int i = 0; i < 20000; i++) kept = resize(resize(NULL, 100), 0);\n}\n";
    let Some(program) = workshop.compile("resizes", source, &["-O0"]) else { return };
    let recorded = workshop.record(&[], &[&program.to_string_lossy()]);
    let (_, seen) = replayed(&workshop, &recorded.trace);
    assert!(seen.realloc >= 40_000, "{seen:?}");
}

#[test]
fn thousands_of_short_lived_threads_are_reproduced() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(program) = workshop.calls() else { return };
    let recorded = workshop.record(&[], &[&program, "2000", "many", "20"]);
    is_reproduced(&replay(&recorded.trace, &["-a", "freehold,system"]));
}

#[test]
fn a_killed_program_is_reproduced() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(program) = workshop.calls() else { return };
    let recorded = workshop.record(&[], &[&program, "2", "kill", "3000"]);
    is_reproduced(&replay(&recorded.trace, &["-a", "freehold,system"]));
}

#[test]
fn both_sides_of_a_fork_are_reproduced_as_far_as_they_are_known() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(program) = workshop.calls() else { return };
    let recorded = workshop.record(&[], &[&program, "2", "fork", "2000"]);
    let parent = replay(&recorded.trace, &["--process", "0", "-a", "freehold"]);
    is_reproduced(&parent);
    assert_eq!(parent["skipped_unknown"], 0);
    let child = replay(&recorded.trace, &["--process", "1", "-a", "freehold"]);
    is_reproduced(&child);
    assert!(number(&child["skipped_unknown"]) > 100);
    let warnings = child["warnings"].to_string();
    assert!(warnings.contains("not seen being given out"), "{warnings}");
}

#[test]
fn a_python_program_is_reproduced() {
    let Some(workshop) = Workshop::new() else { return };
    let source = "import threading\n\
                  def work(n):\n    \
                  data = [{str(k): [k] * n for k in range(50)} for i in range(60)]\n\
                  threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]\n\
                  [t.start() for t in threads]; [t.join() for t in threads]\n\
                  d = {i: str(i) for i in range(20000)}\n";
    let recorded = workshop.record(&[], &["python3", "-c", source]);
    if recorded.output.status.code() != Some(0) {
        return skipped(&format!("python3: {}", recorded.errors()));
    }
    is_reproduced(&replay(&recorded.trace, &["-a", "freehold,system"]));
}

#[test]
fn a_run_of_redis_under_its_benchmark_is_reproduced() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(recorded) = record_redis(&workshop) else { return };
    let process = recorded.main_process();
    assert!(number(&process["recorded_calls"]) > 10_000, "{process}");
    is_reproduced(&replay(&recorded.trace, &["-a", "freehold,system"]));
}

/// Records a server while its benchmark drives it; `None` without one.
fn record_redis(workshop: &Workshop) -> Option<Recorded> {
    for program in ["redis-server", "redis-benchmark", "redis-cli"] {
        let found = Command::new(program).arg("--version").stdout(Stdio::null()).status();
        if !found.is_ok_and(|status| status.success()) {
            skipped(&format!("{program} is not installed"));
            return None;
        }
    }
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let port = port.expect("a port").port().to_string();
    let quiet = |command: &mut Command| {
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
    };
    thread::scope(|scope| {
        let driver = scope.spawn(|| {
            let client =
                |words: &[&str]| quiet(Command::new("redis-cli").args(["-p", &port]).args(words));
            // Until the server answers; it ends with an error if it cannot be started.
            for _ in 0..600 {
                if client(&["ping"]) {
                    break;
                }
                thread::sleep(Duration::from_millis(50));
            }
            let words = ["-n", "3000", "-c", "20", "-d", "300", "-r", "2000", "-q"];
            let tests = ["-t", "set,get,lpush,lrange_100,hset"];
            let driven =
                quiet(Command::new("redis-benchmark").args(["-p", &port]).args(words).args(tests));
            client(&["shutdown", "nosave"]);
            driven
        });
        let command = ["redis-server", "--port", &port, "--save", "", "--appendonly", "no"];
        let recorded = workshop.record(&[], &command);
        assert!(driver.join().expect("it does not panic"), "{}", recorded.errors());
        Some(recorded)
    })
}

#[test]
fn what_every_call_was_recorded_of_is_reproduced_and_the_rest_is_said() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(program) = workshop.calls() else { return };
    let recorded = workshop.record(&["--limit", "1M"], &[&program, "2", "return", "60000"]);
    assert!(recorded.main_process()["exact_seconds"].is_number());
    let document = replay(&recorded.trace, &["-a", "freehold,system"]);
    let warnings = document["warnings"].to_string();
    assert!(warnings.contains("every call was recorded until"), "{warnings}");
    for run in runs(&document) {
        assert_eq!(run["calls"], document["calls"]);
    }
    let first = replay(&recorded.trace, &["-a", "freehold", "--calls", "1000"]);
    let calls = first["calls"].as_object().expect("an object").values().map(number).sum::<u64>();
    assert!((900..=1000).contains(&calls), "{calls}");
}

#[test]
fn a_table_compares_the_allocators_with_the_reference() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(program) = workshop.calls() else { return };
    let recorded = workshop.record(&[], &[&program, "2", "return", "500"]);
    let options = ["-a", "system,freehold", "--reference", "system", "-r", "2", "--touch", "all"];
    let ended = attempt(&recorded.trace, &options).with(0);
    assert!(ended.out.contains("to system"), "{}", ended.out);
    assert!(ended.out.contains("every byte written"), "{}", ended.out);
    assert!(ended.out.contains("\n  freehold ") && ended.out.contains("\n  system "));
    attempt(&recorded.trace, &["-a", "system", "--reference", "freehold"]).with(2);
    attempt(&recorded.trace, &["-a", "no-such-allocator"]).with(2);
}

#[test]
fn a_stored_replay_is_shown_as_a_page_with_curves_and_compared_with_another() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(program) = workshop.calls() else { return };
    let recorded = workshop.record(&[], &[&program, "2", "return", "60000"]);
    let path = |name: &str| workshop.path(name).to_string_lossy().into_owned();
    let (stored, page) = (path("replay.json"), path("page.html"));
    let options = ["-a", "freehold,system", "-r", "5", "--settle", "0", "--json", &stored];
    let shown = attempt(&recorded.trace, &options).with(0).out;
    assert_eq!(run(&["report", &stored]).with(0).out, shown);
    run(&["report", &stored, "-o", &page]).with(0);
    let page = fs::read_to_string(&page).expect("written");
    for part in ["Replay of ", "Resident memory over time", "alive, under freehold"] {
        assert!(page.contains(part), "{part}");
    }
    let ended = run(&["diff", "--all", "--fail-if", "rss.peak > +900%", &stored, &stored]).with(0);
    assert!(ended.out.contains("rss.peak"), "{}", ended.out);
}

#[test]
fn an_allocator_that_returns_null_gives_no_number() {
    let Some(workshop) = Workshop::new() else { return };
    let source = "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stddef.h>\n\
                  void *malloc(size_t size) {\n\
                  if (size == 33333) return 0;\n\
                  return ((void *(*)(size_t)) dlsym(RTLD_NEXT, \"malloc\"))(size);\n}\n\
                  void free(void *object) {\n\
                  ((void (*)(void *)) dlsym(RTLD_NEXT, \"free\"))(object);\n}\n";
    let flags = ["-shared", "-fPIC", "-fno-builtin", "-ldl"];
    let Some(library) = workshop.compile("null.so", source, &flags) else { return };
    let program = "#include <stdlib.h>\nint main(void) { free(malloc(33333)); return 0; }\n";
    let Some(program) = workshop.compile("one", program, &["-O0"]) else { return };
    let recorded = workshop.record(&[], &[&program.to_string_lossy()]);
    let ended = attempt(&recorded.trace, &["-a", &library.to_string_lossy(), "-r", "1"]).with(1);
    assert!(ended.err.contains("a call for 33333 bytes returned null"), "{}", ended.err);
}

#[test]
fn a_script_that_is_none_is_refused() {
    let directory = directory();
    let script = directory.path().join("script");
    for bytes in [&b"dear reader"[..], &[0; 100], b"frhdscrp"] {
        fs::write(&script, bytes).expect("written");
        run(&["workload", "replay", &script.to_string_lossy()]).with(1);
    }
}

#[test]
fn what_recording_costs_is_measured_and_told() {
    let directory = directory();
    let trace = directory.path().join("trace");
    let document = directory.path().join("document");
    let source = "for i in range(30000): [i]";
    let output = freehold()
        .args(["record", "-o"])
        .arg(&trace)
        .arg("--json")
        .arg(&document)
        .args(["--", "python3", "-c", source])
        .env("PYTHONMALLOC", "malloc")
        .output()
        .expect("started");
    let ended = Ended::from(output);
    if ended.code != Some(0) {
        return skipped(&format!("python3: {}", ended.err));
    }
    assert!(ended.err.contains("overhead: "), "{}", ended.err);
    let cost = &json(&fs::read_to_string(&document).expect("written"))["cost"];
    assert!(cost["ratio"]["estimate"].as_f64().is_some_and(|ratio| ratio > 0.0), "{cost}");
    assert!(number(&cost["calls"]) > 20_000);
    let few = run(&["record", "-o", &trace.to_string_lossy(), "--", "true"]).with(0);
    assert!(few.err.contains("too few calls"), "{}", few.err);
}
