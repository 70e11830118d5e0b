//! `freehold compare`: the comparison from outside. Differences that are to be found are so large
//! that no noise hides them; nothing else depends on how fast anything is.

use std::fs;
use std::io::BufReader;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{
    Ended, compiled, directory, freehold, json, other_libraries, read, run, signal, skipped,
    wait_for_line,
};

/// A program that works for some milliseconds, most of them in malloc and free.
const WORK: &str = r"
#include <stdlib.h>
#include <string.h>
int main(void) {
    for (int round = 0; round < 200; round++) {
        char *blocks[100];
        for (int i = 0; i < 100; i++) memset(blocks[i] = malloc(i + 1), 1, i + 1);
        for (int i = 0; i < 100; i++) free(blocks[i]);
    }
    char *last = malloc(32 << 20);
    memset(last, 1, 32 << 20);
    return last[77] == 2;
}
";

/// A library that serves malloc by forwarding it, with something done before.
pub(crate) fn forwarding(before: &str) -> String {
    format!(
        "#include <stddef.h>\n#include <stdlib.h>\n#include <string.h>\n\
         void *__libc_malloc(size_t size);\nvoid __libc_free(void *block);\n\
         void *malloc(size_t size) {{ {before} return __libc_malloc(size); }}\n\
         void free(void *block) {{ __libc_free(block); }}\n"
    )
}

const SLOW: &str = "for (volatile int i = 0; i < 8000; i++) {}";

const HUNGRY: &str = "static int is_fed; if (size > 1 << 20 && !is_fed) { is_fed = 1; \
                      memset(__libc_malloc(32 << 20), 1, 32 << 20); }";

const CRASHING: &str = "static int count; if (++count > 5000) abort();";

/// The program and a library for it; `None` without a compiler.
pub(crate) fn work_and(directory: &TempDir, before: &str) -> Option<(PathBuf, PathBuf)> {
    let flags = ["-shared", "-fPIC", "-O1", "-fno-builtin-malloc"];
    let program = compiled(directory, "work", WORK, &["-O1", "-fno-builtin"])?;
    let library = compiled(directory, "libchanged.so", &forwarding(before), &flags)?;
    Some((program, library))
}

fn compare(arguments: &[&str]) -> Ended {
    run(&[&["compare"], arguments].concat())
}

/// The document that a comparison with these arguments prints.
#[track_caller]
pub(crate) fn compared(arguments: &[&str]) -> Value {
    json(&compare(&[&["--json", "-"], arguments].concat()).with(0).out)
}

/// The cell of an allocator in the first case.
pub(crate) fn cell<'a>(document: &'a Value, name: &str) -> &'a Value {
    let allocators = document["allocators"].as_array().expect("a list");
    let index = allocators.iter().position(|own| own["name"] == name).expect("it took part");
    let cells = document["summary"]["cells"].as_array().expect("a list");
    cells.iter().find(|cell| cell["case"] == 0 && cell["allocator"] == index).expect("a cell")
}

fn trials(document: &Value) -> &Vec<Value> {
    document["trials"].as_array().expect("a list")
}

pub(crate) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[test]
fn a_program_is_measured_under_each_allocator_with_proof_and_provenance() {
    let directory = directory();
    let path = |name: &str| text(&directory.path().join(name));
    let (stored, page, table) = (path("x.json"), path("x.md"), path("x.csv"));
    let outputs = ["--json", &stored, "--markdown", &page, "--csv", &table];
    let chosen = ["-a", "system,freehold", "-r", "3", "--", "python3", "-c", "print('hel' + 'lo')"];
    let ended = compare(&[&outputs[..], &chosen].concat());
    if ended.code == Some(127) {
        return skipped("no python3");
    }
    let ended = ended.with(0);
    for words in ["Time and memory", "Recommendation", "seen live in", "freehold", "system"] {
        assert!(ended.out.contains(words), "no {words:?} in:\n{}", ended.out);
    }
    assert!(!ended.out.contains("hello"), "{}", ended.out);
    assert!(ended.err.contains("too few rounds to claim anything (3)"), "{}", ended.err);

    let document = json(&read(Path::new(&stored)));
    assert_eq!((&document["kind"], &document["complete"]), (&"compare".into(), &true.into()));
    assert_eq!(document["summary"]["recommendation"]["weighed"]["choice"], "not_enough_evidence");
    assert_eq!(trials(&document).len(), 6);
    for trial in trials(&document) {
        let run = &trial["outcome"]["measured"];
        assert!(matches!(run["verdict"].as_str(), Some("live" | "loader_confirms")), "{run}");
        for field in ["wall_seconds", "user_seconds", "peak_rss_bytes", "mean_rss_bytes"] {
            assert!(run[field].as_f64().is_some_and(|value| value > 0.0), "{field} in {run}");
        }
        assert!(run["curve"].as_array().is_some_and(|curve| !curve.is_empty()), "{run}");
    }
    assert!(document["provenance"]["machine"]["kernel"].is_string());

    assert!(read(Path::new(&page)).contains("| allocator | time |"));
    let lines = read(Path::new(&table));
    assert!(lines.contains(",freehold,rss.peak,B,2,"), "{lines}");
}

#[test]
fn a_slower_allocator_is_found_to_be_slower_and_not_recommended() {
    let directory = directory();
    let Some((program, library)) = work_and(&directory, SLOW) else { return };
    let list = format!("{},system", text(&library));
    let document = compared(&["-a", &list, "-r", "8", "--", &text(&program)]);
    let measures = &cell(&document, "changed")["measures"];
    assert_eq!(measures["wall"]["finding"], "slower");
    let ratio = &measures["wall"]["ratio"];
    assert!(ratio["low"].as_f64().is_some_and(|low| low > 1.0), "{ratio}");
    assert_eq!(ratio["level"], 0.99);
    let advice = &document["summary"]["recommendation"]["weighed"];
    assert_eq!((&advice["choice"], &advice["allocator"]), (&"stay".into(), &1.into()));
    // The other way round, it is a reason to switch.
    let other = ["--reference", "changed", "-a", &list, "-r", "8", "--", &text(&program)];
    let advice = &compared(&other)["summary"]["recommendation"]["weighed"];
    assert_eq!((&advice["choice"], &advice["allocator"]), (&"switch".into(), &1.into()));
}

#[test]
fn an_allocator_that_takes_more_memory_is_found_to_take_more() {
    let directory = directory();
    let Some((program, library)) = work_and(&directory, HUNGRY) else { return };
    let list = format!("system,{}", text(&library));
    let document = compared(&["-a", &list, "-r", "8", "--", &text(&program)]);
    let measures = &cell(&document, "changed")["measures"];
    assert_eq!(measures["rss.peak"]["finding"], "more");
    let peak = measures["rss.peak"]["median"]["estimate"].as_f64().expect("a number");
    assert!((64e6..90e6).contains(&peak), "{peak}");
    assert_eq!(document["summary"]["recommendation"]["for_memory"]["choice"], "stay");
}

#[test]
fn memory_and_time_of_children_count() {
    let script = "x = bytearray(60 << 20); sum(range(10**6))";
    let command = format!("python3 -c '{script}'; true");
    let ended = compare(&["--json", "-", "-a", "system", "-r", "1", "--", "sh", "-c", &command]);
    let document = json(&ended.with(0).out);
    let run = &trials(&document)[0]["outcome"]["measured"];
    if run["peak_rss_bytes"].as_f64().is_some_and(|peak| peak < 10e6) {
        return skipped("no python3, or a kernel that does not tell children");
    }
    assert!(run["peak_rss_bytes"].as_f64().is_some_and(|peak| peak > 60e6), "{run}");
    assert!(run["user_seconds"].as_f64().is_some_and(|user| user > 0.005), "{run}");
    assert!(run["processes"].as_u64().is_some_and(|processes| processes >= 2), "{run}");
}

#[test]
fn measuring_ends_when_the_precision_is_reached() {
    let directory = directory();
    let Some((program, library)) = work_and(&directory, SLOW) else { return };
    let list = format!("system,{}", text(&library));
    let until = ["--until", "100%", "-a", &list, "--", &text(&program)];
    let document = compared(&until);
    assert_eq!(document["complete"], true);
    // Not before the first look, and far from the limit of 100.
    assert!(matches!(document["summary"]["rounds"].as_u64(), Some(12 | 18 | 27)), "{document}");
}

#[test]
fn a_command_that_fails_is_reported_with_its_last_words_and_is_no_number() {
    let script = "echo 'cannot find it' >&2; exit 3";
    let ended = compare(&["-a", "system,freehold", "--", "sh", "-c", script]).with(1);
    assert!(ended.err.contains("exit status 3: cannot find it"), "{}", ended.err);
    assert!(ended.err.contains("in the warm-up"), "{}", ended.err);
    assert_eq!(ended.out, "");
    let short = ["-a", "system", "-r", "1", "--json", "-"];
    for (ignored, code) in [("-i", 0), ("--ignore-failure=3,4", 0), ("--ignore-failure=4", 1)] {
        compare(&[&short[..], &[ignored, "--", "sh", "-c", script]].concat()).with(code);
    }
}

#[test]
fn an_allocator_under_which_the_command_crashes_is_left_out() {
    let directory = directory();
    let Some((program, library)) = work_and(&directory, CRASHING) else { return };
    let list = format!("system,freehold,{}", text(&library));
    let ended = compare(&["--json", "-", "-r", "2", "-a", &list, "--", &text(&program)]).with(1);
    assert!(ended.err.contains("changed, in the warm-up: crashed: ended by signal 6"));
    let document = json(&ended.out);
    assert_eq!(cell(&document, "changed")["failed"], 1);
    assert_eq!(cell(&document, "freehold")["measured"], 2);
}

#[test]
fn parameters_take_turns_and_a_list_that_is_not_used_is_refused() {
    let lists = ["-L", "n=1,2", "-L", "word=a", "-a", "system", "-r", "1"];
    let command = ["--", "sh", "-c", "test {word} = a && test {n} -ge 1"];
    let document = compared(&[&lists[..], &command].concat());
    let cases = document["plan"]["cases"].as_array().expect("a list");
    assert_eq!((cases.len(), &cases[1]["n"]), (2, &"2".into()));
    assert_eq!(trials(&document).len(), 2);
    let unused = compare(&["-L", "m=1,2", "--", "true"]).with(2);
    assert!(unused.err.contains("no command mentions {m}"), "{}", unused.err);
    let dry = compare(&[&["--dry-run"], &lists[..], &command].concat()).with(0);
    assert!(dry.out.contains("test a = a && test 2 -ge 1"), "{}", dry.out);
}

#[test]
fn preparing_and_cleaning_up_surround_every_run() {
    let directory = directory();
    let log = text(&directory.path().join("log"));
    let [prepare, own, cleanup] = ["p", "r", "c"].map(|word| format!("printf {word} >> {log}"));
    let around = ["--prepare", &prepare, "--cleanup", &cleanup, "-w", "0", "-r", "2"];
    compare(&[&around[..], &["-a", "system", "--", "sh", "-c", &own]].concat()).with(0);
    assert_eq!(read(Path::new(&log)), "prcprc");
    let failing = compare(&["-a", "system", "--prepare", "exit 9", "--", "true"]).with(1);
    assert!(failing.err.contains("--prepare: exit status: 9"), "{}", failing.err);
}

#[test]
fn an_input_file_is_read_by_every_run_and_output_is_shown_when_asked_for() {
    let directory = directory();
    let path = directory.path().join("input");
    fs::write(&path, "from the file\n").expect("written");
    let shown = ["--show-output", "--input", &text(&path), "-a", "system", "-r", "1"];
    let ended = compare(&[&shown[..], &["-w", "1", "--", "cat"]].concat()).with(0);
    assert_eq!(ended.out.matches("from the file\n").count(), 2);
}

#[test]
fn what_a_command_leaves_behind_is_ended_and_said() {
    let script = "sleep 987654 & sleep 0.01";
    let ended = compare(&["-a", "system", "-r", "1", "--", "sh", "-c", script]).with(0);
    assert!(ended.err.contains("left 1 process behind"), "{}", ended.err);
    let Ok(listing) = Command::new("pgrep").args(["-f", "sleep 987654"]).output() else {
        return skipped("no pgrep");
    };
    assert_eq!(String::from_utf8_lossy(&listing.stdout), "");
}

#[test]
fn an_interrupt_keeps_and_prints_what_was_measured() {
    let directory = directory();
    let path = directory.path().join("partial.json");
    let mut child = freehold()
        .args(["compare", "-a", "system,freehold", "-r", "1000", "--progress", "always"])
        .args(["--json", &text(&path), "--", "sh", "-c", "sleep 0.01"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let mut err = BufReader::new(child.stderr.take().expect("piped"));
    wait_for_line(&mut err, "freehold: 6/2002 ");
    signal(child.id(), "INT");
    wait_for_line(&mut err, "stopping after the current run");
    // Keeps reading, so that the command never waits for us.
    let reader = std::thread::spawn(move || std::io::copy(&mut err, &mut std::io::sink()));
    let output = child.wait_with_output().expect("ends");
    reader.join().expect("no panic").expect("readable");
    assert_eq!(output.status.code(), Some(130));
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(out.contains("rounds that were made of 1000"), "{out}");
    let document = json(&read(&path));
    assert_eq!(document["complete"], false);
    assert!((4..2000).contains(&trials(&document).len()), "{}", trials(&document).len());
}

#[test]
fn an_interrupt_from_the_terminal_spares_what_is_run_around_the_command() {
    let directory = directory();
    let path = |name: &str| directory.path().join(name);
    let (begun, cleaned, stored) = (path("begun"), path("cleaned"), path("partial.json"));
    let prepare = format!("touch {}; sleep 0.5; true", begun.display());
    let cleanup = format!("sleep 0.5; touch {}", cleaned.display());
    let around = ["--prepare", &prepare, "--cleanup", &cleanup, "--json", &text(&stored)];
    let mut child = freehold()
        .args(["compare", "-a", "system", "-w", "0", "-r", "1000"])
        .args(around)
        .args(["--", "true"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .expect("started");
    while !begun.exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    // The terminal sends it to everybody in the group.
    let group = format!("-{}", child.id());
    let sent = Command::new("kill").args(["-INT", "--", &group]).status();
    assert!(sent.expect("kill exists").success());
    assert_eq!(child.wait().expect("ends").code(), Some(130));
    assert!(cleaned.exists());
    let document = json(&read(&stored));
    assert_eq!(trials(&document).len(), 1);
    assert!(trials(&document)[0]["outcome"]["measured"].is_object(), "{document}");
}

#[test]
fn a_second_interrupt_does_not_keep_the_command_from_being_cleaned_up_after() {
    let directory = directory();
    let (begun, cleaned) = (directory.path().join("begun"), directory.path().join("cleaned"));
    let program = format!("touch {}; sleep 1000", begun.display());
    let cleanup = format!("sleep 0.3; touch {}", cleaned.display());
    let mut child = freehold()
        .args(["compare", "-a", "system", "-w", "0", "--cleanup", &cleanup])
        .args(["--", "sh", "-c", &program])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let mut err = BufReader::new(child.stderr.take().expect("piped"));
    while !begun.exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    signal(child.id(), "INT");
    wait_for_line(&mut err, "stopping after the current run");
    signal(child.id(), "INT");
    assert_eq!(child.wait().expect("ends").code(), Some(130));
    assert!(cleaned.exists());
}

#[test]
fn a_server_is_not_asked_for_ever_whether_it_is_ready() {
    let start = Instant::now();
    let never = ["-a", "system", "--load", "true", "--ready", "sleep 1000", "--timeout", "0.2"];
    let ended = compare(&[&never[..], &["--", "sleep", "1000"]].concat()).with(1);
    assert!(ended.err.contains("did not become ready in time"), "{}", ended.err);
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_time_limit_ends_it_between_rounds() {
    let limit = ["--time-limit", "0.3", "-r", "1000", "-w", "0", "-a", "system"];
    let ended = compare(&[&limit[..], &["--json", "-", "--", "sleep", "0.05"]].concat()).with(0);
    assert!(ended.err.contains("the time limit was reached"), "{}", ended.err);
    let made = trials(&json(&ended.out)).len();
    assert!((1..10).contains(&made), "{made}");
}

#[test]
fn a_run_that_takes_too_long_is_ended_and_reported() {
    let ended = compare(&["-a", "system", "--timeout", "0.1", "--", "sleep", "1000"]).with(1);
    assert!(ended.err.contains("timed out: took more than 0.1 s"), "{}", ended.err);
}

/// A server that keeps some memory for each connection, and a port for it.
fn server() -> Option<(u16, &'static str)> {
    if Command::new("python3").arg("--version").output().is_err() {
        skipped("no python3");
        return None;
    }
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    Some((
        free.expect("a free port").port(),
        "import socket, sys\n\
         s = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n\
         kept = []\n\
         while True:\n    c, _ = s.accept(); kept.append(bytearray(1 << 20)); c.close()",
    ))
}

#[test]
fn a_server_is_driven_once_it_answers_and_the_time_of_the_load_counts() {
    let Some((port, script)) = server() else { return };
    let port = port.to_string();
    let client = format!(
        "import socket\nfor _ in range(20): \
                          socket.create_connection(('127.0.0.1', {port})).recv(1)"
    );
    let load = format!("python3 -c \"{client}\"");
    let server = ["--load", &load, "--port", &port, "--settle", "0.05"];
    let command = ["-a", "system,freehold", "-r", "2", "--", "python3", "-c", script, &port];
    let document = compared(&[&server[..], &command].concat());
    assert_eq!(trials(&document).len(), 4);
    for trial in trials(&document) {
        let run = &trial["outcome"]["measured"];
        // The first connection is the one that found it ready.
        assert!(run["peak_rss_bytes"].as_f64().is_some_and(|peak| peak > 20e6), "{run}");
        assert!(run["settled_rss_bytes"].as_f64().is_some_and(|rss| rss > 20e6), "{run}");
        assert_eq!(run["exit_status"], Value::Null, "it was ended by SIGTERM");
    }
}

#[test]
fn a_server_that_is_not_ours_or_never_ready_is_no_number() {
    let Some((_, script)) = server() else { return };
    let busy = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = busy.local_addr().expect("an address").port().to_string();
    let load = ["-a", "system", "--load", "true", "--port", &port];
    let taken = compare(&[&load[..], &["--", "sleep", "1000"]].concat()).with(1);
    assert!(taken.err.contains("something else answers at port"), "{}", taken.err);
    let never = ["-a", "system", "--load", "true", "--ready", "false", "--timeout", "0.2"];
    let ended = compare(&[&never[..], &["--", "sleep", "1000"]].concat()).with(1);
    assert!(ended.err.contains("did not become ready in time"), "{}", ended.err);
    let dead = ["-a", "system", "--load", "true", "--ready", "false", "--"];
    let ended = compare(&[&dead[..], &["python3", "-c", script, "no port"]].concat()).with(1);
    assert!(ended.err.contains("ended before it was ready"), "{}", ended.err);
    assert!(ended.err.contains("ValueError"), "{}", ended.err);
    let unknown = compare(&["--load", "true", "--", "sleep", "1"]).with(2);
    assert!(unknown.err.contains("--port"), "{}", unknown.err);
}

#[test]
fn a_program_that_was_linked_with_an_allocator_is_compared_with_that_one() {
    let directory = directory();
    let Some((name, path)) = other_libraries().into_iter().find(|(name, _)| name != "tbbmalloc")
    else {
        return;
    };
    let flags = ["-Wl,--no-as-needed", &path];
    let Some(program) = compiled(&directory, "linked", WORK, &flags) else { return };
    let document = compared(&["-r", "1", "--", &text(&program)]);
    let reference = document["summary"]["reference"].as_u64().expect("an index") as usize;
    assert_eq!(document["allocators"][reference]["name"], name.as_str());
    // And the C library's own can be live in it all the same.
    assert_eq!(cell(&document, "system")["measured"], 1);
}

#[test]
fn secrets_are_kept_out_of_what_is_stored() {
    let options = ["--redact", "swordfish", "-a", "system", "-r", "1"];
    let script = "true swordfish";
    let command = ["--", "env", "DB_PASSWORD=hunter2", "sh", "-c", script];
    let ended = compare(&[&["--json", "-"], &options[..], &command].concat()).with(0);
    assert!(!ended.out.contains("hunter2"), "{}", ended.out);
    assert!(!ended.out.contains("swordfish"), "{}", ended.out);
    assert!(ended.out.contains("DB_PASSWORD=***"), "{}", ended.out);
    // Nor do they come back as parameters of cases, or by what a program says before it fails.
    let script = "echo swordfish, db://user:hunter2@host/ >&2; exit {status}";
    let lists = ["-L", "status=0,3", "-L", "word=swordfish", "-L", "token=hunter2"];
    let command = ["--prepare", ": {word} {token}", "--", "sh", "-c", script];
    let ended = compare(&[&["--json", "-"], &options[..], &lists, &command].concat()).with(1);
    assert!(ended.out.contains("exit status 3"), "{}", ended.out);
    assert!(!ended.out.contains("hunter2"), "{}", ended.out);
    assert!(!ended.out.contains("swordfish"), "{}", ended.out);
}

#[test]
fn what_cannot_be_compared_is_refused_before_anything_runs() {
    compare(&["--", "no-such-command-anywhere"]).with(127);
    assert!(compare(&["-a", "freehodl", "--", "true"]).with(2).err.contains("\"freehold\"?"));
    compare(&["--json", "-", "--csv", "-", "--", "true"]).with(2);
    compare(&["--until", "nothing", "--", "true"]).with(2);
    let reference = compare(&["-a", "system", "--reference", "freehold", "--", "true"]).with(2);
    assert!(reference.err.contains("they are system"), "{}", reference.err);
    let directory = directory();
    let Some(program) = compiled(&directory, "static", WORK, &["-static"]) else { return };
    let refused = compare(&["--", &text(&program)]).with(5);
    assert!(refused.err.contains("statically linked"), "{}", refused.err);
}

#[test]
fn system_calls_are_counted_in_a_run_of_their_own() {
    let directory = directory();
    let before = "static int count; if (++count % 100 == 0) getppid();";
    let library = format!("#include <unistd.h>\n{}", forwarding(before));
    let flags = ["-shared", "-fPIC", "-O1", "-fno-builtin-malloc"];
    let Some(program) = compiled(&directory, "work", WORK, &["-O1", "-fno-builtin"]) else {
        return;
    };
    let library = compiled(&directory, "libasking.so", &library, &flags).expect("a compiler");
    let allocators = format!("system,{}", library.display());
    let program = program.to_string_lossy();
    let words = ["-a", &allocators, "-w", "0", "-r", "2", "--syscalls", "--json", "-"];
    let document = json(&compare(&[&words[..], &["--", &program]].concat()).with(0).out);
    let counted = document["system_calls"].as_array().expect("a list");
    assert_eq!(counted.len(), 2, "{document}");
    let asked = |counted: &Value| {
        let rows = counted["calls"].as_array().into_iter().flatten();
        let row = rows.clone().find(|row| row["name"] == "getppid");
        row.map_or(0, |row| row["count"].as_u64().expect("a count"))
    };
    // 20,001 blocks, and what the C library asks for before.
    assert_eq!([asked(&counted[0]), asked(&counted[1])], [0, 200], "{document}");
}

#[test]
fn the_system_calls_of_a_server_are_counted_until_its_load_is_over() {
    let directory = directory();
    let ready = directory.path().join("ready");
    let server = format!("touch {}; exec sleep 1000", ready.display());
    let is_ready = format!("test -e {}", ready.display());
    let cleanup = format!("rm -f {}", ready.display());
    let words = ["-a", "system", "-w", "0", "-r", "1", "--syscalls", "--settle", "0"];
    let driven = ["--load", "true", "--ready", &is_ready, "--cleanup", &cleanup, "--json", "-"];
    let command = ["--", "sh", "-c", &server];
    let ended = compare(&[&words[..], &driven, &command].concat());
    let document = json(&ended.with(0).out);
    let calls = document["system_calls"][0]["calls"].as_array().expect("a list");
    assert!(calls.iter().any(|row| row["name"] == "execve"), "{document}");
}
