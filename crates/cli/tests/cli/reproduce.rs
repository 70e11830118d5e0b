//! `freehold reproduce`: from outside. Nothing here depends on how fast anything is.

use serde_json::Value;

use crate::support::{directory, json, read, run};

fn reproduce(words: &[&str]) -> Value {
    let ended = run(&[&["reproduce", "--json", "-"], words].concat()).with(0);
    json(&ended.out)
}

#[test]
fn tables_and_figures_are_listed_and_can_be_outlined() {
    let listing = run(&["reproduce", "--list"]).with(0).out;
    let names = listing.lines().filter_map(|line| line.split(' ').next());
    let names: Vec<_> = names.collect();
    assert!(names.contains(&"oracle-table1") && names.contains(&"gove-chunksize"), "{listing}");
    for name in [names[0], names[names.len() - 1]] {
        let outline = run(&["reproduce", name, "--dry-run", "-a", "freehold,model:mtmalloc"]);
        assert!(outline.with(0).out.contains("freehold workload "), "{name}");
    }
}

#[test]
fn a_name_that_is_unknown_is_answered_by_a_suggestion() {
    let ended = run(&["reproduce", "oracle-table3"]).with(2);
    assert!(ended.err.contains("did you mean \"oracle-table"), "{}", ended.err);
    run(&["reproduce"]).with(2);
}

#[test]
fn a_quick_look_has_the_originals_numbers_ours_and_a_verdict_on_every_claim() {
    let directory = directory();
    let path = directory.path().join("table1.json");
    let name = path.to_string_lossy();
    let words = ["reproduce", "oracle-table1", "--quick", "-a", "freehold,model:serial"];
    let ended = run(&[&words[..], &["--json", &name]].concat()).with(0);
    for text in ["the original", "5,497", "What was claimed", "[cannot be tested here]"] {
        assert!(ended.out.contains(text), "no {text:?} in:\n{}", ended.out);
    }
    let document = json(&read(&path));
    assert_eq!(document["kind"], "reproduction");
    assert_eq!(document["complete"], true);
    let columns = document["panels"][0]["columns"].as_array().expect("a list");
    let of = |whose: &str| columns.iter().filter(|column| column["whose"] == whose).count();
    assert_eq!((of("original"), of("here")), (6, 2));
    for claim in document["claims"].as_array().expect("a list") {
        assert!(claim["verdict"].is_string() && claim["here"].is_string(), "{claim}");
    }
    for run in document["runs"].as_array().expect("a list") {
        let measured = &run["outcome"]["measured"]["pairs"];
        assert!(measured["loops_per_second"].as_f64().is_some_and(|it| it > 0.0), "{run}");
    }
}

#[test]
fn the_articles_listings_have_a_row_a_thread() {
    let words = ["oracle-listing1", "--quick", "--repeat", "1", "-a", "freehold,model:serial"];
    let document = reproduce(&words);
    let panels = document["panels"].as_array().expect("a list");
    let rows = |panel: &Value| panel["rows"].as_array().expect("a list").len();
    // Two threads a pair; Freehold may have one of its own.
    let pairs = [1, 1, 4, 4, 16, 16];
    assert_eq!(panels.len(), pairs.len(), "{document:#}");
    for (panel, pairs) in panels.iter().zip(pairs) {
        assert!((2 * pairs..=2 * pairs + 1).contains(&rows(panel)), "{panel:#}");
    }
    for claim in document["claims"].as_array().expect("a list") {
        assert_ne!(claim["verdict"], "untestable", "{claim}");
    }
}

#[test]
fn a_stored_reproduction_is_shown_again_as_text_as_a_page_and_as_numbers() {
    let directory = directory();
    let file = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    let [stored, page, numbers] = ["r.json", "r.html", "r.csv"].map(file);
    let words = ["reproduce", "hoard-threadtest", "--quick", "-a", "freehold,model:serial"];
    let shown = run(&[&words[..], &["--json", &stored]].concat()).with(0).out;
    assert_eq!(run(&["report", &stored]).with(0).out, shown);
    run(&["report", &stored, "-o", &page]).with(0);
    let html = read(page.as_ref());
    assert!(html.contains("What was claimed") && html.contains("16.5"), "{html}");
    run(&["report", &stored, "-o", &numbers]).with(0);
    let csv = read(numbers.as_ref());
    for text in ["2 threads", "model:serial", "wall", "rss.peak"] {
        assert!(csv.contains(text), "no {text:?} in:\n{csv}");
    }
}

#[test]
fn a_case_of_some_allocators_runs_under_those_alone_with_its_variable_set() {
    let document = reproduce(&["gove-chunksize", "--quick", "-a", "freehold,model:mtmalloc"]);
    let cases = document["cases"].as_array().expect("a list");
    let runs = document["runs"].as_array().expect("a list");
    // Three chunk sizes for the model, and none for Freehold.
    assert_eq!(runs.len(), 4);
    for run in runs {
        let case = &cases[run["case"].as_u64().expect("an index") as usize];
        let has_chunk_size = case["environment"].as_array().is_some_and(|all| !all.is_empty());
        assert_eq!(has_chunk_size, run["allocator"] == 1, "{case}");
    }
    // The smaller the chunks, the more of them are searched in vain.
    let rows = document["panels"][3]["columns"].as_array().expect("a list");
    assert_eq!(rows.len(), 4);
}

#[test]
fn where_the_time_of_threads_goes_adds_up_for_each_of_them() {
    let document = reproduce(&["oracle-figure5", "--quick", "-a", "freehold"]);
    let panel = &document["panels"][0];
    let columns = panel["columns"].as_array().expect("a list");
    let threads = panel["rows"].as_array().expect("a list").len();
    assert!(threads >= 2, "{panel}");
    for thread in 0..threads {
        let share = |column: &Value| column["values"][thread].as_f64().unwrap_or_default();
        let sum: f64 = columns.iter().map(share).sum();
        assert!((sum - 1.0).abs() < 0.01, "{sum} of thread {thread} in {panel}");
    }
}

#[test]
fn every_table_and_figure_runs_to_its_end_and_judges_each_of_its_claims() {
    let listing = run(&["reproduce", "--list"]).with(0).out;
    for name in listing.lines().filter_map(|line| line.split(' ').next()) {
        let document = reproduce(&[name, "--quick", "--seconds", "0.02", "-a", "freehold"]);
        let claims = document["claims"].as_array().expect("a list");
        let of = |whose: bool| claims.iter().filter(|it| it["is_published"] == whose).count();
        assert!(of(true) > 0 && of(false) > 0, "{name}: {claims:?}");
        assert!(claims.iter().all(|it| it["here"] != ""), "{name}: {claims:?}");
        assert!(document["scaled"].as_array().is_some_and(|it| !it.is_empty()), "{name}");
        let panels = document["panels"].as_array().expect("a list");
        let columns = panels.iter().filter_map(|panel| panel["columns"].as_array()).flatten();
        let ours = columns.filter(|column| column["whose"] == "here");
        let numbers = ours.filter_map(|column| column["values"].as_array()).flatten();
        assert!(numbers.filter_map(Value::as_f64).count() > 0, "{name}: {panels:?}");
    }
}
