//! `freehold record`: every call of a command in a file, whatever the command does.

use std::fs;
use std::io::{BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::recording::{Counts, Recorded, Workshop};
use crate::support::{Ended, directory, freehold, json, run, signal, skipped, wait_for_line};

#[test]
fn calls_of_many_threads_are_those_that_were_counted() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(program) = workshop.calls() else { return };
    let recorded = workshop.record(&[], &[&program, "4", "return", "5000"]);
    assert_eq!(recorded.output.status.code(), Some(0), "{}", recorded.errors());
    recorded.is_exact();
    assert!(recorded.counted.total() > 40_000, "{:?}", recorded.counted);
    let process = recorded.main_process();
    assert_eq!(process["threads"], 5);
    assert_eq!(process["freed_unknown"], 0);
    assert!(process["freed_elsewhere"].as_u64() > Some(1000), "{process}");
}

#[test]
fn one_thread_is_recorded_as_exactly_as_many() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(program) = workshop.calls() else { return };
    let recorded = workshop.record(&[], &[&program, "0", "return", "20000"]);
    recorded.is_exact();
    assert_eq!(recorded.main_process()["freed_elsewhere"], 0);
}

#[test]
fn a_killed_program_leaves_a_trace_of_all_its_calls() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(program) = workshop.calls() else { return };
    let recorded = workshop.record(&[], &[&program, "2", "kill", "3000"]);
    assert_eq!(recorded.output.status.signal(), Some(9));
    assert_eq!(recorded.document["signal"], 9);
    recorded.is_exact();
}

#[test]
fn a_child_has_its_own_place_and_frees_what_it_inherited() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(program) = workshop.calls() else { return };
    let recorded = workshop.record(&[], &[&program, "2", "fork", "2000"]);
    recorded.is_exact();
    let processes = recorded.document["processes"].as_array().expect("a list");
    assert_eq!(processes.len(), 2);
    let (parent, child) = (&processes[0], &processes[1]);
    assert!(parent["forked_from"].is_null(), "{parent}");
    assert_eq!(child["forked_from"], 0);
    assert_eq!(parent["freed_unknown"], 0);
    assert!(child["freed_unknown"].as_u64() > Some(100), "{child}");
    assert_eq!(child["allocator"], parent["allocator"]);
}

#[test]
fn a_program_that_becomes_another_is_recorded_as_both() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(program) = workshop.calls() else { return };
    let recorded = workshop.record(&[], &[&program, "2", "exec", "2000"]);
    recorded.is_exact();
    let processes = recorded.document["processes"].as_array().expect("a list");
    assert_eq!(processes.len(), 2);
    assert_eq!(processes[0]["pid"], processes[1]["pid"]);
    assert!(processes.iter().all(|process| process["forked_from"].is_null()));
}

#[test]
fn thousands_of_short_lived_threads_are_told_apart() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(program) = workshop.calls() else { return };
    let recorded = workshop.record(&[], &[&program, "2000", "many", "20"]);
    recorded.is_exact();
    assert_eq!(recorded.main_process()["threads"], 2001);
}

#[test]
fn calls_of_signal_handlers_are_recorded_too() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(program) = workshop.calls() else { return };
    let recorded = workshop.record(&[], &[&program, "1", "signals", "1"]);
    let known = Counts::recorded(&recorded.document).total() + recorded.nested();
    assert_eq!(known, recorded.counted.total());
    assert!(recorded.counted.malloc >= 2000);
}

#[test]
fn calls_that_an_allocator_makes_of_itself_are_told_apart() {
    let Some(workshop) = Workshop::new() else { return };
    let source = "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdlib.h>\n\
                  #include <string.h>\n\
                  void *calloc(size_t n, size_t size) {\n\
                  void *object = malloc(n * size); \n\
                  return object ? memset(object, 0, n * size) : 0;\n}\n\
                  void *malloc(size_t size) {\n\
                  return ((void *(*)(size_t)) dlsym(RTLD_NEXT, \"malloc\"))(size);\n}\n";
    let flags = ["-shared", "-fPIC", "-fno-builtin", "-ldl"];
    let Some(library) = workshop.compile("own.so", source, &flags) else { return };
    let Some(program) = workshop.calls() else { return };
    let library = library.to_string_lossy();
    let recorded = workshop.record(&["-a", &library], &[&program, "0", "return", "1000"]);
    assert_eq!(recorded.output.status.code(), Some(0), "{}", recorded.errors());
    let calls = &recorded.main_process()["calls"];
    // One of them fails.
    assert_eq!(recorded.nested(), calls["calloc"].as_u64().expect("a number") + 1);
    assert!(recorded.nested() > 100);
}

#[test]
fn a_python_program_is_recorded_exactly() {
    let Some(workshop) = Workshop::new() else { return };
    let source = "import threading, json, os\n\
                  def work(n):\n    \
                  for i in range(200): json.loads(json.dumps({k: [k] * n for k in range(20)}))\n\
                  threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]\n\
                  [t.start() for t in threads]; [t.join() for t in threads]\n";
    let recorded = workshop.record(&[], &["python3", "-c", source]);
    if recorded.output.status.code() != Some(0) {
        return skipped(&format!("python3: {}", recorded.errors()));
    }
    assert_eq!(recorded.nested(), 0);
    assert_eq!(Counts::recorded(&recorded.document), recorded.counted);
    assert!(recorded.counted.total() > 50_000);
}

#[test]
fn operators_of_cxx_are_recorded_and_throw_when_there_is_no_memory() {
    let Some(workshop) = Workshop::new() else { return };
    let source = "#include <cstdint>\n#include <new>\n#include <vector>\n\
                  struct alignas(128) Wide { char bytes[128]; };\n\
                  int main() {\n\
                  for (int i = 0; i < 1000; i++) { delete new int; delete[] new char[100]; }\n\
                  for (int i = 0; i < 100; i++) { delete new Wide; }\n\
                  std::vector<int> all; for (int i = 0; i < 100000; i++) all.push_back(i);\n\
                  if (new (std::nothrow) char[PTRDIFF_MAX - 100]) return 1;\n\
                  volatile std::size_t huge = PTRDIFF_MAX - 100;\n\
                  try { return ::operator new(huge) != nullptr; }\n\
                  catch (const std::bad_alloc &) {}\n\
                  return 42;\n}\n";
    let flags = ["-x", "c++", "-std=c++17", "-O0", "-w", "-lstdc++"];
    let Some(program) = workshop.compile("operators", source, &flags) else { return };
    let recorded = workshop.record(&[], &[&program.to_string_lossy()]);
    assert_eq!(recorded.output.status.code(), Some(42), "{}", recorded.errors());
    assert_eq!(Counts::recorded(&recorded.document), recorded.counted);
    let calls = &recorded.main_process()["calls"];
    assert!(calls["new"].as_u64() >= Some(2000) && calls["delete"].as_u64() >= Some(2000));
    assert!(calls["aligned"].as_u64() >= Some(100) && calls["failed"].as_u64() >= Some(2));
}

#[test]
fn the_allocator_that_is_wanted_serves_the_calls() {
    let directory = directory();
    let trace = directory.path().join("trace");
    let trace = trace.to_string_lossy();
    let words = ["record", "--no-overhead", "-o", &trace, "-a", "freehold", "--", "ls", "/"];
    let ended = run(&words).with(0);
    assert!(ended.err.contains("/libfreehold-"), "{}", ended.err);
    let without = run(&["record", "--no-overhead", "-o", &trace, "--", "ls", "/"]).with(0);
    assert!(!without.err.contains("/libfreehold-"), "{}", without.err);
}

#[test]
fn a_small_limit_is_kept_and_a_share_of_the_objects_is_recorded() {
    let Some(workshop) = Workshop::new() else { return };
    let source = "#include <stdlib.h>\nstatic void *all[400000];\n\
                  int main(void) {\n\
                  for (int i = 0; i < 400000; i++) all[i] = malloc(16 + i % 200);\n\
                  for (int i = 0; i < 400000; i++) free(all[i]);\n\
                  return 0;\n}\n";
    let Some(program) = workshop.compile("fill", source, &["-O0"]) else { return };
    let recorded = workshop.record(&["--limit", "1M"], &[&program.to_string_lossy()]);
    assert!(fs::metadata(&recorded.trace).expect("there").len() <= 1 << 20);
    let process = recorded.main_process();
    assert!(process["exact_seconds"].as_f64().is_some(), "{process}");
    let estimated = Counts::recorded(&recorded.document);
    for (estimate, counted) in [
        (estimated.malloc, recorded.counted.malloc),
        (process["peak"]["objects"].as_u64().expect("a number"), 400_000),
    ] {
        assert!(estimate.abs_diff(counted) < counted / 4, "{estimate} {counted}");
    }
    assert!(recorded.errors().contains("counts are estimates"), "{}", recorded.errors());
}

#[test]
fn what_realloc_moves_out_of_the_share_does_not_seem_to_live_on() {
    let Some(workshop) = Workshop::new() else { return };
    let source = "#include <stdlib.h>\nstatic void *all[2000];\n\
                  int main(void) {\n\
                  for (int i = 0; i < 400000; i++)\n\
                  all[i % 2000] = realloc(all[i % 2000], 16 + i % 997);\n\
                  for (int i = 0; i < 2000; i++) free(all[i]);\n\
                  return 0;\n}\n";
    let Some(program) = workshop.compile("moves", source, &["-O0"]) else { return };
    let recorded = workshop.record(&["--limit", "2M"], &[&program.to_string_lossy()]);
    let process = recorded.main_process();
    assert!(process["exact_seconds"].as_f64().is_some(), "{process}");
    assert_eq!(process["lost"], 0, "the end is missing");
    let [asked, left] = [&process["peak"]["bytes"], &process["remaining"]["bytes"]];
    assert!(asked.as_u64() < Some(8 << 20) && left.as_u64() < Some(1 << 20), "{process}");
}

#[test]
fn what_a_full_trace_has_no_room_for_is_told() {
    let Some(workshop) = Workshop::new() else { return };
    let source = "#include <stdlib.h>\nstatic void *all[600000];\n\
                  int main(void) {\n\
                  for (int i = 0; i < 600000; i++) all[i] = malloc(16 + i % 200);\n\
                  for (int i = 0; i < 600000; i++) free(all[i]);\n\
                  return 0;\n}\n";
    let Some(program) = workshop.compile("much", source, &["-O0"]) else { return };
    let recorded = workshop.record(&["--limit", "1M"], &[&program.to_string_lossy()]);
    let process = recorded.main_process();
    let lost = process["lost"].as_u64().expect("a number");
    let known = Counts::recorded(&recorded.document).total();
    assert!(lost > 0 || known.abs_diff(1_200_000) < 300_000, "{lost} lost, about {known} known");
    assert_eq!(recorded.errors().contains("the trace is full"), lost > 0, "{}", recorded.errors());
}

#[test]
fn processes_that_there_is_no_room_for_are_told() {
    let Some(workshop) = Workshop::new() else { return };
    let source = "#include <stdlib.h>\n#include <sys/wait.h>\n#include <unistd.h>\n\
                  int main(void) {\n\
                  for (int i = 0; i < 400; i++) {\n\
                  if (fork() == 0) { free(malloc(1)); _exit(0); }\n\
                  wait(0);\n}\nreturn 0;\n}\n";
    let Some(program) = workshop.compile("forks", source, &["-O0"]) else { return };
    let recorded = workshop.record(&["--limit", "1M"], &[&program.to_string_lossy()]);
    let known = recorded.document["processes"].as_array().expect("a list").len() as u64;
    let absent = recorded.document["absent_processes"].as_u64().expect("a number");
    assert!(absent > 100 && known + absent == 401, "{known} known, {absent} not");
    let text = format!("{absent} further processes: nothing of them is in the trace");
    assert!(recorded.errors().contains(&text), "{}", recorded.errors());
    assert!(recorded.errors().contains("the trace is full"), "{}", recorded.errors());
}

#[test]
fn a_program_that_forbids_itself_all_but_memory_is_recorded_and_so_is_its_child() {
    let Some(workshop) = Workshop::new() else { return };
    let source = include_str!("programs/filtered.c");
    let Some(program) = workshop.compile("filtered", source, &["-O0"]) else { return };
    let program = program.to_string_lossy();
    let plain = Command::new(&*program).status().expect("started");
    if plain.code() != Some(7) {
        return skipped(&format!("calls cannot be filtered here: {plain}"));
    }
    let recorded = workshop.record(&[], &[&program]);
    assert_eq!(recorded.output.status.code(), Some(7), "{}", recorded.errors());
    recorded.is_exact();
    let processes = recorded.document["processes"].as_array().expect("a list");
    assert_eq!(processes.len(), 2);
    assert_eq!(processes[1]["program"], processes[0]["program"]);
    assert_eq!(processes[1]["command"], processes[0]["command"]);
    let counted = run(&["diagnose", "--count", "--", &program]);
    assert_eq!(counted.code, Some(7), "{}", counted.err);
}

#[test]
fn a_trace_that_cannot_be_sealed_is_kept_as_it_is_and_the_command_ends_as_it_does() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(program) = workshop.calls() else { return };
    // Sealing writes there.
    fs::create_dir(workshop.path("trace.sealing")).expect("made");
    let recorded = workshop.record(&["--limit", "16M"], &[&program, "2", "kill", "3000"]);
    assert_eq!(recorded.output.status.signal(), Some(9), "{}", recorded.errors());
    assert!(recorded.errors().contains("could not be sealed"), "{}", recorded.errors());
    recorded.is_exact();
    assert!(recorded.document["file_bytes"].as_u64() < Some(4 << 20), "{}", recorded.document);
    run(&["sizes", &recorded.trace.to_string_lossy()]).with(0);
}

/// On a file system of two megabytes, which who is root in a namespace of its own can make.
#[test]
fn a_disk_that_is_full_costs_the_rest_of_the_trace_and_nothing_else() {
    let Some(workshop) = Workshop::new() else { return };
    let source = "#include <stdlib.h>\nstatic void *all[600000];\n\
                  int main(void) {\n\
                  for (int i = 0; i < 600000; i++) all[i] = malloc(16 + i % 200);\n\
                  for (int i = 0; i < 600000; i++) free(all[i]);\n\
                  return 7;\n}\n";
    let Some(program) = workshop.compile("much", source, &["-O0"]) else { return };
    let disk = workshop.path("disk");
    fs::create_dir(&disk).expect("made");
    let script = "mount -t tmpfs -o size=2m none \"$1\" || exit 99
                  \"$0\" record --no-overhead -o \"$1/trace\" -- \"$2\"";
    let mut unshared = Command::new("unshare");
    unshared.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
    unshared.arg(env!("CARGO_BIN_EXE_freehold")).args([&disk, &program]);
    let ended = match unshared.output() {
        Ok(output) => Ended::from(output),
        Err(error) => return skipped(&format!("unshare: {error}")),
    };
    if matches!(ended.code, Some(1 | 99)) && !ended.err.contains("freehold") {
        return skipped(&ended.err);
    }
    let ended = ended.with(7);
    assert!(ended.err.contains("no room for the trace"), "{}", ended.err);
    assert!(ended.err.contains("could not be sealed"), "{}", ended.err);
    assert!(ended.err.contains("calls that there was no room for"), "{}", ended.err);
}

#[test]
fn where_files_may_not_be_long_the_trace_is_limited_to_that() {
    let directory = directory();
    let trace = directory.path().join("trace");
    let record = |kibibytes: &str| {
        let script = format!("ulimit -f {kibibytes}; exec \"$0\" record --no-overhead -o \"$@\"");
        let mut shell = Command::new("bash");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_freehold")]).arg(&trace).args(["--", "ls"]);
        shell.output().map(Ended::from)
    };
    let Ok(ended) = record("4096") else { return skipped("no bash") };
    let ended = ended.with(0);
    assert!(ended.err.contains("limited to 4 MiB"), "{}", ended.err);
    let ended = record("100").expect("as before").with(125);
    assert!(ended.err.contains("102400 bytes") && ended.err.contains("ulimit -f"), "{}", ended.err);
}

#[test]
fn the_command_keeps_its_streams_its_status_and_its_signal() {
    let directory = directory();
    let trace = directory.path().join("trace");
    let trace = trace.to_string_lossy();
    let script = "echo out; echo err >&2; exit 7";
    let ended = run(&["record", "--no-overhead", "-o", &trace, "--", "sh", "-c", script]).with(7);
    assert_eq!(ended.out, "out\n");
    assert!(ended.err.starts_with("err\n") && ended.err.contains(" calls "), "{}", ended.err);
    let words = ["record", "-q", "--no-overhead", "-o", &trace, "--", "sh", "-c", "kill -TERM $$"];
    let status = freehold().args(words).status().expect("started");
    assert_eq!(status.signal(), Some(15));
}

#[test]
fn what_cannot_be_recorded_is_refused_with_the_reason() {
    let Some(workshop) = Workshop::new() else { return };
    let source = "int main(void) { return 0; }";
    let Some(program) = workshop.compile("static", source, &["-static"]) else { return };
    let trace = workshop.path("trace");
    let record = |trace: &Path, command: &str| {
        run(&["record", "--no-overhead", "-o", &trace.to_string_lossy(), "--", command])
    };
    let ended = record(&trace, &program.to_string_lossy()).with(5);
    assert!(ended.err.contains("statically linked"), "{}", ended.err);
    record(&trace, "no-such-command-anywhere").with(127);
    record(Path::new("/nowhere/at/all"), "true").with(125);
    fs::write(&trace, "a letter").expect("written");
    let ended = record(&trace, "true").with(125);
    assert!(ended.err.contains("not a trace"), "{}", ended.err);
    assert_eq!(fs::read(&trace).expect("there"), b"a letter");
}

#[test]
fn a_trace_that_is_recorded_into_is_refused_to_a_second_recording() {
    let Some(workshop) = Workshop::new() else { return };
    let source = "#include <stdio.h>\n#include <stdlib.h>\nint main(void) {\n\
                  puts(\"ready\"); fflush(stdout); getchar();\n\
                  for (int i = 0; i < 1000; i++) free(malloc(222));\n\
                  return 7;\n}\n";
    let Some(program) = workshop.compile("first", source, &["-O0"]) else { return };
    let trace = workshop.path("trace");
    let record = |command: &[&str]| {
        let mut record = freehold();
        record.args(["record", "--no-overhead", "-o"]).arg(&trace).arg("--").args(command);
        record
    };
    let mut first = record(&[&program.to_string_lossy()]);
    let mut first = first.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("started");
    wait_for_line(&mut BufReader::new(first.stdout.take().expect("piped")), "ready");
    let second = Ended::from(record(&["true"]).output().expect("started")).with(125);
    assert!(second.err.contains("another freehold is recording"), "{}", second.err);
    assert!(second.err.contains("--output"), "{}", second.err);
    drop(first.stdin.take());
    assert_eq!(first.wait().expect("it ends").code(), Some(7));
    let weights = run(&["sizes", "--weights", "-", &trace.to_string_lossy()]).with(0);
    assert!(weights.out.contains("\n222 1000\n"), "{}", weights.out);
    // One within the other: the inner is refused, and the outer has its trace.
    let name = trace.to_string_lossy();
    let inner = [env!("CARGO_BIN_EXE_freehold"), "record", "-o", &name, "--", "true"];
    let nested = Ended::from(record(&inner).output().expect("started")).with(125);
    assert!(nested.err.contains("another freehold is recording"), "{}", nested.err);
    assert!(nested.err.contains("process 0, freehold (pid"), "{}", nested.err);
}

#[test]
fn a_command_that_cannot_be_executed_leaves_the_trace_that_was_there() {
    let directory = directory();
    let (trace, letter) = (directory.path().join("trace"), directory.path().join("letter"));
    fs::write(&letter, "no program").expect("written");
    let name = trace.to_string_lossy();
    let record = |command: &str| run(&["record", "--no-overhead", "-o", &name, "--", command]);
    record(&letter.to_string_lossy()).with(126);
    assert!(!trace.exists(), "a trace of nothing");
    record("true").with(0);
    let before = fs::read(&trace).expect("there");
    record(&letter.to_string_lossy()).with(126);
    assert!(fs::read(&trace).expect("there") == before, "the trace has changed");
}

#[test]
fn a_limit_must_be_an_amount_of_memory_that_holds_something() {
    for limit in ["5", "many", "1X", "-1"] {
        let ended = run(&["record", "--limit", limit, "--", "true"]).with(2);
        assert!(ended.err.contains("--limit"), "{}", ended.err);
    }
}

/// A server that is killed while it works, as a crash would.
#[test]
fn a_trace_of_a_program_killed_in_the_middle_can_be_read() {
    let Some(workshop) = Workshop::new() else { return };
    let source = "#include <pthread.h>\n#include <signal.h>\n#include <stdlib.h>\n\
                  static void *work(void *arg) { for (;;) free(malloc(50 + (size_t) arg)); }\n\
                  int main(void) {\n\
                  pthread_t thread;\n\
                  for (size_t i = 0; i < 3; i++) pthread_create(&thread, 0, work, (void *) i);\n\
                  for (int i = 0; i < 300000; i++) free(malloc(100));\n\
                  raise(SIGKILL);\n}\n";
    let Some(program) = workshop.compile("busy", source, &["-pthread"]) else { return };
    let recorded = workshop.record(&[], &[&program.to_string_lossy()]);
    assert_eq!(recorded.output.status.signal(), Some(9));
    let known = Counts::recorded(&recorded.document);
    // A call that is under way in a thread is counted and not yet recorded, or the other way round.
    assert!(known.malloc.abs_diff(recorded.counted.malloc) <= 3, "{known:?} {recorded:?}");
    assert!(known.free.abs_diff(recorded.counted.free) <= 3, "{known:?} {recorded:?}");
    assert_eq!(recorded.main_process()["freed_unknown"], 0);
}

/// `freehold record` itself is killed: nobody seals the trace.
#[test]
fn what_was_recorded_until_now_is_shown_of_a_process_that_goes_on() {
    let Some(workshop) = Workshop::new() else { return };
    let source = "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\nint main(void) {\n\
                  for (int i = 0; i < 5000; i++) free(malloc(444));\n\
                  printf(\"ready %d\\n\", getpid()); fflush(stdout); getchar(); return 7;\n}\n";
    let Some(program) = workshop.compile("goes-on", source, &["-O0"]) else { return };
    let mut child = freehold()
        .args(["record", "--no-overhead", "-o"])
        .arg(workshop.path("trace"))
        .arg("--")
        .arg(&program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    let line = wait_for_line(&mut output, "ready");
    let pid = line.trim().rsplit(' ').next().expect("a number").to_owned();
    let shown = run(&["record", "-p", &pid]).with(0);
    assert!(shown.out.contains("goes-on (pid"), "{}", shown.out);
    let document = json(&run(&["record", "--json", "-", "-p", &pid]).with(0).out);
    let calls = &document["processes"][0]["calls"];
    assert!(calls["malloc"].as_u64().is_some_and(|calls| calls >= 5000), "{document}");
    assert!(document["file_bytes"].as_u64().is_some_and(|bytes| bytes < 100 << 20), "{document}");
    drop(child.stdin.take());
    assert_eq!(child.wait().expect("it ends").code(), Some(7));
    run(&["record", "-p", &pid]).with(1);
}

#[test]
fn a_process_that_was_not_started_by_it_is_told_what_it_is_bound_to() {
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let child = child.as_mut().expect("started");
    // Its answer says that it is no longer on its way to becoming another program.
    child.stdin.as_mut().expect("piped").write_all(b"ready\n").expect("it reads");
    wait_for_line(&mut BufReader::new(child.stdout.take().expect("piped")), "ready");
    let refused = run(&["record", "-p", &child.id().to_string()]).with(5);
    assert!(refused.err.contains("libc"), "{}", refused.err);
    assert!(refused.err.contains("freehold record -- cat"), "{}", refused.err);
    drop(child.stdin.take());
    child.wait().expect("it ends");
    run(&["record", "-p", "1", "--", "true"]).with(2);
}

#[test]
fn a_trace_whose_recorder_was_killed_can_be_read_and_its_rest_is_missed() {
    let Some(workshop) = Workshop::new() else { return };
    let source = "#include <stdio.h>\n#include <stdlib.h>\nint main(void) {\n\
                  for (int i = 0; i < 5000; i++) free(malloc(444));\n\
                  puts(\"ready\"); fflush(stdout); getchar(); return 0;\n}\n";
    let Some(program) = workshop.compile("waits", source, &["-O0"]) else { return };
    let trace = workshop.path("trace");
    let mut child = freehold()
        .args(["record", "--limit", "16M", "-o"])
        .arg(&trace)
        .arg("--")
        .arg(&program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    wait_for_line(&mut BufReader::new(child.stdout.take().expect("piped")), "ready");
    signal(child.id(), "KILL");
    child.wait().expect("it ends");
    let sizes = |options: &[&str]| {
        run(&[&["sizes", "--weights", "-", &*trace.to_string_lossy()], options].concat())
    };
    let read = sizes(&[]).with(0);
    assert!(read.out.contains("\n444 5000\n"), "{}", read.out);
    assert!(read.err.contains("recording has not ended"), "{}", read.err);
    // Cut behind the first blocks: what is missing is said.
    let whole = fs::read(&trace).expect("there");
    fs::write(&trace, &whole[..3 * 4096]).expect("written");
    let refused = sizes(&[]).with(1);
    assert!(refused.err.contains("it ends after 12288 bytes"), "{}", refused.err);
    let salvaged = sizes(&["--salvage"]).with(0);
    assert!(salvaged.err.contains("damaged in 1 place"), "{}", salvaged.err);
}

#[test]
fn a_child_that_outlives_the_command_goes_on_undisturbed() {
    let Some(workshop) = Workshop::new() else { return };
    let source = "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
                  int main(int argc, char **argv) {\n\
                  int ends[2]; if (argc < 2 || pipe(ends)) return 1;\n\
                  if (fork()) { close(ends[0]); free(malloc(1)); return 0; }\n\
                  close(ends[1]); char byte; free(malloc(2));\n\
                  /* Until the parent has ended. */\n\
                  if (read(ends[0], &byte, 1) != 0) return 1;\n\
                  for (int i = 0; i < 300000; i++) free(malloc(i % 3000));\n\
                  FILE *file = fopen(argv[1], \"w\");\n\
                  return fputs(\"fine\", file) < 0 || fclose(file);\n}\n";
    let Some(program) = workshop.compile("outlives", source, &["-O0"]) else { return };
    let word = workshop.path("word");
    let (program, name) = (program.to_string_lossy(), word.to_string_lossy());
    let recorded = workshop.record(&[], &[&program, &name]);
    assert_eq!(recorded.output.status.code(), Some(0), "{}", recorded.errors());
    // It has been sealed, and the child goes on writing into what was there before.
    for _ in 0..1000 {
        if fs::read_to_string(&word).is_ok_and(|word| word == "fine") {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("the child did not end well");
}

impl std::fmt::Debug for Recorded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "counted {:?}", self.counted)
    }
}

#[test]
fn an_interrupt_when_the_command_has_ended_ends_the_measuring_of_what_it_has_cost() {
    let Some(workshop) = Workshop::new() else { return };
    let source = "#include <stdlib.h>\n\
                  int main(void) {\n\
                  for (int i = 0; i < 1500000; i++) {\n\
                  void *volatile block = malloc(i % 1000); free(block); }\n}\n";
    let Some(program) = workshop.compile("busy", source, &["-O1"]) else { return };
    let mut child = freehold()
        .args(["record", "-o"])
        .arg(workshop.path("trace"))
        .arg("--")
        .arg(program)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let mut err = BufReader::new(child.stderr.take().expect("piped"));
    wait_for_line(&mut err, "reading the trace");
    signal(child.id(), "INT");
    wait_for_line(&mut err, "interrupted");
    std::io::copy(&mut err, &mut std::io::sink()).expect("readable");
    assert_eq!(child.wait().expect("ends").code(), Some(0));
}
