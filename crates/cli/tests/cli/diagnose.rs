//! `freehold diagnose`: the verdict on programs whose behaviour is known. Each says in its source
//! what the verdict has to be.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{
    Waiting, directory, family, found, freehold, json, known, known_sources, run, signal, skipped,
};

/// For how many seconds a program runs: longer if the verdict was wrong, since a machine that is
/// busy with other things shows little of a program within a second.
const SECONDS: [&str; 3] = ["1", "2.5", "5"];

/// A program and what has to be said of it.
struct Known {
    name: String,
    verdict: String,
    /// The allocator that it is meant to run under.
    allocator: Option<String>,
}

/// The programs with a verdict.
fn programs() -> Vec<Known> {
    let files = fs::read_dir(known_sources()).expect("the programs").flatten();
    let named = files.filter_map(|file| {
        let source = fs::read_to_string(file.path()).ok()?;
        let word = |what| Some(source.split_once(what)?.1.split_whitespace().next()?.to_owned());
        let name = file.file_name().into_string().ok()?;
        Some(Known { name, verdict: word("Verdict: ")?, allocator: word("Allocator: ") })
    });
    let mut programs: Vec<_> = named.collect();
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    programs
}

/// Insists that the verdict is right, in one of some attempts.
fn insist(name: &str, verdict: &str, diagnose: impl Fn(&str) -> Value) {
    let mut last = Value::Null;
    for seconds in SECONDS {
        last = diagnose(seconds);
        if last["cause"] == verdict {
            return;
        }
    }
    panic!("{name}: not {verdict} but {last:#}");
}

/// A number that tells what the allocator costs.
fn charge<'a>(diagnosis: &'a Value, name: &str) -> &'a Value {
    let charges = diagnosis["charges"].as_array().expect("a list");
    charges.iter().find(|charge| charge["name"] == name).unwrap_or_else(|| panic!("{diagnosis:#}"))
}

/// Checks the programs whose verdict is one of these.
fn check(verdicts: &[&str]) {
    let directory = directory();
    let mut checked = 0;
    for own in programs().iter().filter(|own| verdicts.contains(&own.verdict.as_str())) {
        if let Some(allocator) = &own.allocator
            && !found().iter().any(|(name, _)| name == allocator)
        {
            skipped(&format!("{}: {allocator} is not installed", own.name));
            continue;
        }
        let Some(program) = known(&directory, &own.name) else { return };
        let program = program.to_string_lossy();
        insist(&own.name, &own.verdict, |seconds| {
            let allocator = own.allocator.as_deref().map(|name| ["--allocator", name]);
            let allocator = allocator.as_ref().map_or(&[][..], |words| &words[..]);
            let words = [&["diagnose", "--json"], allocator, &["--", &program, seconds]].concat();
            json(&run(&words).with(0).out)
        });
        checked += 1;
    }
    assert!(checked >= verdicts.len(), "{verdicts:?}: {checked} programs");
}

#[test]
fn there_are_two_dozen_programs() {
    assert!(programs().len() >= 24);
}

#[test]
fn locks_are_told_from_each_other_and_from_having_nothing_to_do() {
    check(&["allocator_contention", "other_lock", "idle"]);
}

#[test]
fn computing_is_told_by_whom_and_by_how_many() {
    check(&["computing", "starved", "allocator_cpu", "thread_churn", "too_short"]);
}

#[test]
fn a_busy_kernel_is_explained() {
    check(&["page_faults", "mapping_storm", "advice_storm"]);
}

#[test]
fn lines_that_threads_share_are_found_without_counters_of_the_processor() {
    if cfg!(not(target_arch = "x86_64")) {
        return skipped("instructions are decoded on x86-64 only");
    }
    if fs::read_to_string("/sys/devices/system/cpu/online").is_ok_and(|list| list.trim() == "0") {
        return skipped("on one processor no two threads share anything at a time");
    }
    check(&["spinning", "false_sharing"]);
}

#[test]
fn memory_that_grows_or_is_not_given_back_is_noticed() {
    check(&["memory_grows", "memory_held"]);
}

/// The command as a user without any rights would run it; `None` where that cannot be tried.
fn as_nobody(directory: &TempDir) -> Option<impl Fn() -> Command> {
    const NOBODY: u32 = 65_534;
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("ours");
    let copy = directory.path().join("freehold");
    fs::copy(freehold().get_program(), &copy).expect("copied");
    let command = move || {
        let mut command = Command::new(&copy);
        command.uid(NOBODY).gid(NOBODY).env_remove("LD_PRELOAD");
        command
    };
    let works = command().arg("--version").output().is_ok_and(|output| output.status.success());
    works.then_some(command)
}

#[test]
fn no_root_is_needed_for_the_verdict() {
    if !rustix::process::geteuid().is_root() {
        return skipped("the other tests run without root already");
    }
    let directory = directory();
    let Some(command) = as_nobody(&directory) else {
        return skipped("nothing can be run as nobody");
    };
    for name in ["arena_one.c", "mutex_app.c", "mmap_storm.c", "cpu_bound.c"] {
        let Some(program) = known(&directory, name) else { return };
        let verdict =
            programs().into_iter().find(|own| own.name == name).expect("it has one").verdict;
        insist(name, &verdict, |seconds| {
            let mut command = command();
            command.args(["diagnose", "--json", "--"]).arg(&program).arg(seconds);
            json(&String::from_utf8_lossy(&command.output().expect("it runs").stdout))
        });
    }
}

#[test]
fn what_somebody_elses_threads_wait_for_is_not_guessed() {
    if !rustix::process::geteuid().is_root() {
        return skipped("only root can have a process that nobody else may look into");
    }
    let directory = directory();
    let Some(command) = as_nobody(&directory) else {
        return skipped("nothing can be run as nobody");
    };
    let Some(program) = known(&directory, "lock_asleep.c") else { return };
    let mut waiting = Command::new(program).arg("60").spawn().expect("it runs");
    let mut observing = command();
    observing.args(["diagnose", "--json", "--seconds", "1", "-p", &waiting.id().to_string()]);
    let output = observing.output().expect("it runs");
    waiting.kill().expect("it is ours");
    waiting.wait().expect("it ends");
    let diagnosis = json(&String::from_utf8_lossy(&output.stdout));
    assert_eq!(diagnosis["cause"], "too_few_looks", "{diagnosis:#}");
    assert!(diagnosis["findings"]["seconds"].as_f64() > Some(0.9), "it was there all the time");
}

#[test]
fn a_command_that_changes_its_user_does_so_while_it_is_observed() {
    if !rustix::process::geteuid().is_root() {
        return skipped("only root can make a program that changes its user");
    }
    let directory = directory();
    let Some(command) = as_nobody(&directory) else {
        return skipped("nothing can be run as nobody");
    };
    let program = directory.path().join("who");
    fs::copy("/usr/bin/id", &program).expect("there is one");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).expect("ours");
    let mut alone = Command::new("setpriv");
    alone.args(["--reuid=65534", "--clear-groups"]).arg(&program).arg("-u");
    if !alone.output().is_ok_and(|output| output.stdout == b"0\n") {
        return skipped("programs cannot change their user here");
    }
    let printed = directory.path().join("printed");
    for observing in ["top", "locks", "diagnose"] {
        fs::write(&printed, "").expect("ours");
        fs::set_permissions(&printed, fs::Permissions::from_mode(0o666)).expect("ours");
        let mut command = command();
        command.args(["--quiet", observing, "--json", "--output"]).arg(&printed);
        let output = command.arg("--").arg(&program).arg("-u").output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // What is traced would be nobody.
        assert_eq!(fs::read_to_string(&printed).expect("ours"), "0\n", "{observing}");
    }
}

#[test]
fn the_verdict_reads_as_text_with_the_command_that_would_measure_a_change() {
    let directory = directory();
    let Some(program) = known(&directory, "arena_one.c") else { return };
    let program = program.to_string_lossy();
    insist("arena_one.c", "allocator_contention", |seconds| {
        let said = run(&["diagnose", "--", &program, seconds]).with(0).out;
        let is_right = said.starts_with("Allocator contention");
        if is_right {
            // Lines are broken at any word.
            let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
            for part in [
                "glibc main_arena",
                &format!("freehold compare -- {program} "),
                "of all threads' time goes into waiting for its locks",
                "What was not measured",
            ] {
                assert!(words.contains(part), "{part} is missing in {said}");
            }
        }
        serde_json::json!({ "cause": if is_right { "allocator_contention" } else { "" } })
    });
}

#[test]
fn what_the_allocator_costs_is_told_number_by_number() {
    let directory = directory();
    let Some(program) = known(&directory, "churn.c") else { return };
    let program = program.to_string_lossy();
    let found = json(&run(&["diagnose", "--json", "--", &program, "1"]).with(0).out);
    let names = [
        "allocator_cpu",
        "allocator_locks",
        "mapping_calls",
        "allocator_faults",
        "frees_elsewhere",
        "threads_begun",
        "memory_in_use",
        "memory_held",
    ];
    for name in names {
        let charge = charge(&found, name);
        if charge["value"].is_number() {
            let said = charge["source"].is_string() && charge["precision"].is_string();
            assert!(said, "{charge}");
        } else {
            assert!(charge["remedy"].is_string(), "{charge}");
        }
    }
    if found["findings"]["samples"].is_null() {
        return skipped("performance events are refused");
    }
    let begun = charge(&found, "threads_begun")["value"].as_f64();
    assert!(begun.is_some_and(|begun| begun > 10.0), "{found:#}");
}

#[test]
fn what_another_thread_frees_is_told_where_calls_are_counted() {
    let directory = directory();
    let Some(program) = known(&directory, "queue_grows.c") else { return };
    let program = program.to_string_lossy();
    let found = json(&run(&["diagnose", "--json", "--count", "--", &program, "1"]).with(0).out);
    let counted = &found["findings"]["counted"];
    let number = |name: &str| counted[name].as_f64().unwrap_or_else(|| panic!("{found:#}"));
    // The consumer frees what the producer asked for, and does not keep up with it.
    assert!(number("followed") > 0.0 && number("elsewhere") >= 0.9 * number("followed"));
    assert!(number("followed") <= 0.2 * number("frees"), "{counted}");
    assert!(number("allocations") > number("frees"), "{counted}");
    assert!(number("live_bytes") > 1_000_000.0, "{counted}");
    assert!(number("allocated_bytes") >= number("requested_bytes"), "{counted}");
    let elsewhere = charge(&found, "frees_elsewhere");
    assert!(elsewhere["value"].as_f64().is_some_and(|share| share >= 0.9), "{elsewhere}");
    assert!(elsewhere["source"].is_string() && elsewhere["precision"].is_string(), "{elsewhere}");
    let plain = json(&run(&["diagnose", "--json", "--", "true"]).with(0).out);
    assert!(plain["findings"]["counted"].is_null(), "{plain:#}");
    assert!(charge(&plain, "frees_elsewhere")["value"].is_null(), "{plain:#}");
    let missing = plain["missing"].as_array().expect("a list").iter();
    let remedies: Vec<_> = missing.filter_map(|gap| gap["remedy"].as_str()).collect();
    assert!(remedies.iter().any(|remedy| remedy.contains("--count")), "{plain:#}");
}

#[test]
fn memory_that_another_allocator_holds_is_told_where_it_is_asked() {
    let directory = directory();
    let Some(program) = known(&directory, "fragments.c") else { return };
    let program = program.to_string_lossy();
    let Some((_, library)) = found().iter().find(|it| family(&it.0) == "jemalloc") else {
        return skipped("jemalloc is not installed");
    };
    let diagnosed = |more: &[&str], seconds: &str| {
        let words = [&["diagnose", "--json", "-a", library], more, &["--", &program, seconds]];
        json(&run(&words.concat()).with(0).out)
    };
    // The heaps are asked for at the end if it gets to free within that time.
    insist("fragments.c under jemalloc", "memory_held", |seconds| diagnosed(&["--ask"], seconds));
    let plain = diagnosed(&[], "1");
    let held = charge(&plain, "memory_held");
    assert!(held["value"].is_null(), "{held}");
    assert!(held["remedy"].as_str().is_some_and(|remedy| remedy.contains("--ask")), "{held}");
}

#[test]
fn a_process_that_is_stopped_is_not_said_to_have_nothing_to_do() {
    let cat = Waiting::start(&mut Command::new("cat"));
    let pid = cat.pid();
    let number = pid.parse().expect("a number");
    signal(number, "STOP");
    let found = run(&["diagnose", "--seconds", "1", "-p", &pid]);
    signal(number, "CONT");
    let found = found.with(0);
    assert!(found.out.contains("has stopped the process"), "{}", found.out);
}
