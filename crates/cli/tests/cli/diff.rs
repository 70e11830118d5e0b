//! `freehold diff`: two stored results, and rules. The results are of a real comparison, with
//! numbers that were written over, so that nothing depends on how fast anything is.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Ended, directory, json, run};

/// What a benchmark of an earlier version wrote.
const BENCH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../model/tests/fixtures/bench-1.json");

/// A comparison of eight rounds, made once.
fn measured() -> &'static Value {
    static MEASURED: OnceLock<Value> = OnceLock::new();
    MEASURED.get_or_init(|| {
        let chosen = ["-a", "system,freehold", "-r", "8", "-w", "0"];
        json(
            &run(&[&["compare", "--json", "-"], &chosen[..], &["--", "sleep", "0"]].concat())
                .with(0)
                .out,
        )
    })
}

/// A result in which time is 1 s and the peak 100 MiB, all but for tiny differences between
/// rounds, times these factors under Freehold.
fn result(directory: &TempDir, name: &str, time: f64, memory: f64, rounds: u64) -> String {
    let mut document = measured().clone();
    let trials = document["trials"].as_array_mut().expect("a list");
    trials.retain(|trial| trial["round"].as_u64().is_some_and(|round| round < rounds));
    for trial in trials {
        let jitter = 1.0 + trial["round"].as_f64().expect("a round") / 1000.0;
        let (time, memory) = if trial["allocator"] == 1 { (time, memory) } else { (1.0, 1.0) };
        let run = &mut trial["outcome"]["measured"];
        run["wall_seconds"] = (time * jitter).into();
        run["peak_rss_bytes"] = ((memory * jitter * f64::from(100 << 20)) as u64).into();
    }
    let path = directory.path().join(name);
    fs::write(&path, document.to_string()).expect("written");
    path.to_string_lossy().into_owned()
}

fn diff(arguments: &[&str]) -> Ended {
    run(&[&["diff"], arguments].concat())
}

#[test]
fn a_result_beside_itself_shows_no_difference_and_breaks_no_rule() {
    let directory = directory();
    let same = result(&directory, "same.json", 1.0, 1.0, 8);
    let ended = diff(&["--fail-if", "wall > +1%", "--fail-if", "rss.peak>+1%", &same, &same]);
    let ended = ended.with(0);
    assert!(ended.out.contains("no difference shown"), "{}", ended.out);
    assert!(ended.out.contains("fail if rss.peak>+1%: kept: freehold"), "{}", ended.out);
}

#[test]
fn a_change_beyond_the_limit_breaks_the_rule_and_has_a_status_of_its_own() {
    let directory = directory();
    let before = result(&directory, "before.json", 1.0, 1.0, 8);
    let after = result(&directory, "after.json", 0.9, 1.08, 8);
    let broken = diff(&["--fail-if", "rss.peak > +5%", &before, &after]).with(3);
    assert!(broken.out.contains("BROKEN: freehold: +8.0 %"), "{}", broken.out);
    assert!(broken.out.contains("kept: system"), "{}", broken.out);
    diff(&["--fail-if", "rss.peak > +10%", "--fail-if", "wall > 0%", &before, &after]).with(0);
    diff(&["--fail-if", "system:rss.peak > +5%", &before, &after]).with(0);
    diff(&["--fail-if", "freehold:wall < -5%", &before, &after]).with(3);
    diff(&[&before, &after]).with(0);
}

#[test]
fn a_rule_about_readings_of_nothing_is_not_enough_evidence() {
    let directory = directory();
    let before = result(&directory, "before.json", 1.0, 1.0, 8);
    let after = result(&directory, "after.json", 0.0, 1.0, 8);
    let ended = diff(&["--fail-if", "freehold:wall > +5%", &before, &after]).with(4);
    assert!(ended.out.contains("there is no ratio where a number is 0"), "{}", ended.out);
    // A slip is still one.
    diff(&["--fail-if", "nobody:wall > +5%", &before, &after]).with(2);
}

#[test]
fn results_are_written_for_machines_and_for_comments_under_the_names_given() {
    let directory = directory();
    let before = result(&directory, "before.json", 1.0, 1.0, 8);
    let after = result(&directory, "after.json", 1.2, 1.0, 8);
    let named = ["--label", "main,branch"];
    let document =
        json(&diff(&[&named[..], &["--json", "-", &before, &after]].concat()).with(0).out);
    assert_eq!((&document["kind"], &document["before"]["label"]), (&"diff".into(), &"main".into()));
    let changes = document["changes"].as_array().expect("a list");
    let is_it = |change: &&Value| change["allocator"] == "freehold" && change["measure"] == "wall";
    let wall = changes.iter().find(is_it).expect("it changed");
    assert_eq!(wall["finding"], "slower");
    assert!(wall["ratio"]["low"].as_f64().is_some_and(|low| low > 1.19), "{wall}");
    let page = diff(&[&named[..], &["--markdown", "-", &before, &after]].concat()).with(0).out;
    assert!(page.contains("### From main to branch"), "{page}");
    assert!(page.contains("| freehold | wall |"), "{page}");
    // The names may stand right before the files.
    diff(&[&named[..], &[&before, &after]].concat()).with(0);
}

#[test]
fn too_few_runs_settle_nothing_and_say_so() {
    let directory = directory();
    let before = result(&directory, "before.json", 1.0, 1.0, 2);
    let after = result(&directory, "after.json", 2.0, 2.0, 2);
    let ended = diff(&["--fail-if", "rss.peak > +5%", &before, &after]).with(4);
    assert!(ended.out.contains("not enough evidence"), "{}", ended.out);
    assert!(ended.err.contains("--repeat 5 or more"), "{}", ended.err);
}

#[test]
fn a_rule_that_is_not_understood_or_about_nothing_is_refused() {
    let directory = directory();
    let same = result(&directory, "same.json", 1.0, 1.0, 8);
    let refused = |rule: &str| diff(&["--fail-if", rule, &same, &same]).with(2).err;
    assert!(refused("rss.peek > +5%").contains("did you mean \"rss.peak\"?"));
    assert!(refused("banana > +5%").contains("they are wall, speed"));
    assert!(refused("rss.peak").contains("write a rule as"));
    assert!(refused("speed < -5%").contains("both have freehold:"));
    assert!(refused("jemalloc:wall > 5%").contains("nothing that this is about"));
}

#[test]
fn benchmarks_are_compared_as_well_and_what_is_missing_is_named() {
    let ended = diff(&["--all", BENCH, BENCH]).with(0);
    assert!(ended.out.contains("speed"), "{}", ended.out);
    let directory = directory();
    let other = result(&directory, "other.json", 1.0, 1.0, 8);
    let ended = diff(&[BENCH, &other]).with(0);
    assert!(ended.err.contains("not about the same thing"), "{}", ended.err);
    assert!(ended.err.contains("has freehold"), "{}", ended.err);
}

#[test]
fn what_is_not_a_stored_result_is_refused_with_the_reason() {
    let directory = directory();
    let path = directory.path().join("x.json");
    let name = path.to_string_lossy();
    fs::write(Path::new(&path), r#"{"schema_version": 1, "kind": "run"}"#).expect("written");
    assert!(diff(&[&name, &name]).with(1).err.contains("kind \"run\""));
    diff(&["/nowhere/at/all.json", &name]).with(1);
    diff(&["--json", "-", "--markdown", "-", &name, &name]).with(2);
}
