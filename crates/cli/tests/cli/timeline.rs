//! `freehold timeline`: where each thread's time goes, as a picture.

use std::path::Path;

use serde_json::Value;

use crate::support::{directory, json, known, own_program, read, run};

#[test]
fn every_thread_is_a_bar_and_every_column_the_whole_of_its_time() {
    let directory = directory();
    let Some(program) = known(&directory, "lock_asleep.c") else { return };
    let (svg, numbers) = (directory.path().join("run.svg"), directory.path().join("run.json"));
    let (svg_path, numbers_path) = (svg.to_string_lossy(), numbers.to_string_lossy());
    let program = program.to_string_lossy();
    let arguments = ["timeline", "--svg", &svg_path, "--json", &numbers_path, "--", &program, "1"];
    run(&arguments).with(0);

    let recorded = json(&read(&numbers));
    let columns = recorded["columns"].as_array().expect("a list");
    let threads = recorded["threads"].as_array().expect("a list");
    assert_eq!(threads.len(), 7, "{recorded:#}");
    let there = |thread: &Value| {
        let shares = thread["columns"].as_array().expect("a list");
        assert_eq!(shares.len(), columns.len());
        shares.iter().filter_map(Value::as_object).cloned().collect::<Vec<_>>()
    };
    for shares in threads.iter().flat_map(there) {
        let total: f64 = shares.values().filter_map(Value::as_f64).sum();
        assert!((total - 1.0).abs() < 1e-6, "{total}: {shares:?}");
    }
    let picture = read(&svg);
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
    // Orange: all but one of the six wait for the lock at any time.
    assert!(picture.matches("#f08c1e").count() > threads.len(), "{picture}");
    assert_eq!(picture.matches("<g><title>").count(), threads.len());

    // The numbers make a page as well, and a table.
    let page = directory.path().join("run.html");
    let page_path = page.to_string_lossy();
    run(&["report", &numbers_path, "-o", &page_path]).with(0);
    let page = read(&page);
    assert_eq!(page.matches("<div class=\"lane\">").count(), threads.len(), "{page}");
    assert!(page.contains("waiting for a lock") && page.contains("resident, up to"), "{page}");
    let table = run(&["report", &numbers_path]).with(0).out;
    let rows = table.lines().filter(|line| line.contains("lock_asleep") && line.contains('%'));
    assert_eq!(rows.count(), threads.len(), "{table}");
    let refused = run(&["report", &numbers_path, "-o", "run.csv"]).with(2);
    assert!(refused.err.contains("a timeline cannot be written as CSV"), "{}", refused.err);
}

/// The columns of a timeline of a program, made with these further arguments.
fn columns(program: &Path, arguments: &[&str]) -> Vec<Value> {
    let directory = directory();
    let numbers = directory.path().join("run.json").to_string_lossy().into_owned();
    let svg = directory.path().join("run.svg").to_string_lossy().into_owned();
    let program = program.to_string_lossy();
    let all = [&["timeline", "--svg", &svg, "--json", &numbers], arguments, &["--", &program]];
    run(&all.concat()).with(0);
    let recorded = json(&read(Path::new(&numbers)));
    let columns = recorded["columns"].as_array().expect("a list").iter();
    // Of a process that has ended there is nothing to be told.
    columns.filter(|column| column["resident_bytes"] != 0).cloned().collect()
}

/// Bytes in use at the end, of which 20,000 times 1000 are known.
#[track_caller]
fn assert_in_use(columns: &[Value]) {
    let live = columns.iter().rev().find_map(|column| column["live_bytes"].as_f64());
    let live = live.unwrap_or_else(|| panic!("it is known: {columns:#?}"));
    // A thread is up to 64 calls behind.
    assert!((19.9e6..23e6).contains(&live), "{live}");
}

#[test]
fn memory_in_use_is_what_the_process_has_not_freed_whatever_its_copies_do() {
    let directory = directory();
    let Some(program) = own_program(&directory, "forked") else { return };
    assert_in_use(&columns(&program, &["--count"]));
    // Freehold tells of its own accord, and so it is known of a process that runs already.
    assert_in_use(&columns(&program, &["--allocator", "freehold"]));
    let unknown = columns(&program, &[]);
    assert!(unknown.iter().all(|column| column["live_bytes"].is_null()), "{unknown:#?}");
}
