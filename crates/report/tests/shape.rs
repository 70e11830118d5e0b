//! The whole of a report, letter by letter, made from a stored benchmark.

use freehold_model::{BenchDocument, from_json};
use freehold_report::{Detail, markdown, text};

const STORED: &str = include_str!("../../model/tests/fixtures/bench-1.json");

fn document() -> BenchDocument {
    from_json(STORED).expect("a stored benchmark")
}

/// Text without its paint.
fn plain(text: &str) -> String {
    text.replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[0m", "")
}

#[test]
fn the_text_of_a_benchmark_is_exactly_this() {
    let text = plain(&text(&document(), Detail::Full));
    assert_eq!(text, include_str!("expected/bench-1.txt"), "\n{text}");
}

#[test]
fn the_markdown_of_a_benchmark_is_exactly_this() {
    let markdown = markdown(&document(), Detail::Summary);
    assert_eq!(markdown, include_str!("expected/bench-1.md"), "\n{markdown}");
}

#[test]
fn no_line_of_text_outside_a_table_is_wider_than_a_page() {
    let text = plain(&text(&document(), Detail::Summary));
    for line in text.lines() {
        assert!(line.chars().count() <= 96, "{line}");
    }
}

#[test]
fn the_best_of_a_row_stands_out_and_only_that() {
    let text = text(&document(), Detail::Summary);
    assert!(text.contains("\x1b[1m9,100*\x1b[0m"), "{text}");
    assert!(text.contains("12,550="), "{text}");
    assert!(!text.contains("\x1b[1m12,550="), "{text}");
}

#[test]
fn failures_and_cases_left_out_are_shown_with_their_reasons() {
    use freehold_model::{Failure, FailureKind, Outcome, Skipped};

    let mut document = document();
    document.complete = false;
    document.plan.skipped = vec![Skipped { case: 1, reason: "too large".into() }];
    let failure = Failure { kind: FailureKind::Crashed, detail: "ended by signal 11".into() };
    document.runs[0].outcome = Outcome::Failed(failure);
    document.summary.cells[0].loops_per_second = None;
    document.summary.cells[0].failed = 1;

    let text = plain(&text(&document, Detail::Summary));
    assert!(text.contains("Median of as many of 2 rounds as were made."), "{text}");
    assert!(text.contains("failed"), "{text}");
    assert!(!text.contains("12,550"), "{text}");
    assert!(text.contains("Left out: 2 pairs, max size 256: too large"), "{text}");
    let (case, name) = (document.runs[0].case, document.runs[0].allocator);
    let failures = freehold_report::failures(&document);
    assert_eq!(failures.len(), 1);
    let name = &document.allocators[name].name;
    let max = document.plan.cases[case].params.max_bytes;
    assert!(failures[0].contains(&format!("max size {max}, {name}: crashed: ended by")));
}
