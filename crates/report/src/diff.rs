//! Two results beside each other, in words and tables. It must not know how they were compared.

use freehold_model::{Change, DiffDocument, Finding, Measure, RuleCheck, RuleOutcome};

use crate::compare::{finding, in_unit};
use crate::numbers::{change, percent};
use crate::page::{self, Section};
use crate::table::{Align, Cell, Table, Tone};

/// The measures that are shown where nothing else was asked for.
const HEADLINES: [&str; 4] = ["wall", "speed", "rss.peak", "rss.settled"];

/// Which changes are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffDetail {
    /// Time, speed and memory, and what rules are about.
    Headlines,
    /// All.
    Everything,
}

/// The changes as text for a terminal.
pub fn diff_text(document: &DiffDocument, detail: DiffDetail) -> String {
    page::text(sections(document, detail))
}

/// The changes as Markdown.
pub fn diff_markdown(document: &DiffDocument, detail: DiffDetail) -> String {
    page::markdown(sections(document, detail))
}

fn sections(document: &DiffDocument, detail: DiffDetail) -> Vec<Section> {
    let mut sections = vec![changes(document, detail)];
    sections.extend(rules(document));
    sections
}

fn changes(document: &DiffDocument, detail: DiffDetail) -> Section {
    let (before, after) = (&document.before.label, &document.after.label);
    let is_ruled = |index: usize| document.rules.iter().any(|check| check.change == Some(index));
    let is_shown = |index: usize, change: &Change| {
        detail == DiffDetail::Everything
            || HEADLINES.contains(&change.measure.as_str())
            || is_ruled(index)
    };
    let has_cases = document.changes.iter().any(|change| !change.case.is_empty());
    let case = has_cases.then(|| ("case".to_owned(), Align::Left));
    let left = ["allocator", "measure"].map(|name| (name.to_owned(), Align::Left));
    let right = [before.as_str(), after, "change"].map(|name| (name.to_owned(), Align::Right));
    let word = (String::new(), Align::Left);
    let mut table = Table::new(case.into_iter().chain(left).chain(right).chain([word]));
    for (index, change) in document.changes.iter().enumerate() {
        if is_shown(index, change) {
            table.push(row(change, has_cases));
        }
    }
    let paragraph = format!(
        "{before}: {}, freehold {}.\n{after}: {}, freehold {}.\n\
         Medians. In brackets the {} interval of the change; what was different between the two \
         times for other reasons is part of it.",
        document.before.started,
        document.before.tool_version,
        document.after.started,
        document.after.tool_version,
        percent(document.level),
    );
    let table = (!table.is_empty()).then_some(table);
    Section { heading: format!("From {before} to {after}"), paragraph, table }
}

fn row(change: &Change, has_cases: bool) -> Vec<Cell> {
    let measure = Measure::named(&change.measure);
    let value =
        |value: f64| measure.map_or_else(|| value.to_string(), |measure| in_unit(measure, value));
    let tone = match change.finding {
        found if found.is_worse() || found.is_better() => Tone::Strong,
        _ => Tone::Faint,
    };
    let mut row = Vec::new();
    if has_cases {
        row.push(Cell::plain(&change.case));
    }
    row.extend([
        Cell::plain(&change.allocator),
        Cell::plain(&change.measure),
        Cell::plain(value(change.before.median)),
        Cell::plain(value(change.after.median)),
        Cell::plain(self::change(&change.ratio)),
        Cell::toned(finding(change.finding), tone),
    ]);
    row
}

fn rules(document: &DiffDocument) -> Option<Section> {
    if document.rules.is_empty() {
        return None;
    }
    let lines: Vec<String> = document.rules.iter().map(|check| line(document, check)).collect();
    let paragraph = lines.join("\n");
    Some(Section { heading: "Rules".to_owned(), paragraph, table: None })
}

fn line(document: &DiffDocument, check: &RuleCheck) -> String {
    let subject = match check.change.and_then(|index| document.changes.get(index)) {
        Some(change) => {
            let case = if change.case.is_empty() { "" } else { ", " };
            let (allocator, ratio) = (&change.allocator, self::change(&change.ratio));
            format!("{allocator}{case}{}: {ratio}", change.case)
        }
        None => {
            "there is no ratio where a number is 0, or missing from the later result".to_owned()
        }
    };
    let word = match check.outcome {
        RuleOutcome::Kept => "kept",
        RuleOutcome::Broken => "BROKEN",
        RuleOutcome::NotEnoughEvidence => finding(Finding::NotEnoughEvidence),
    };
    format!("fail if {}: {word}: {subject}", check.rule)
}

#[cfg(test)]
mod tests {
    use freehold_model::{Interval, Side, Spread};

    use super::*;

    fn document() -> DiffDocument {
        let side = |label: &str| Side {
            label: label.into(),
            started: "2026-01-02T03:04:05Z".into(),
            tool_version: "0.1.0".into(),
        };
        let spread = |median| Spread { median, min: median, max: median };
        let change = |measure: &str, finding| Change {
            case: String::new(),
            allocator: "freehold".into(),
            measure: measure.into(),
            before: spread(1.0),
            runs_before: 10,
            after: spread(1.1),
            runs_after: 10,
            ratio: Interval { estimate: 1.1, low: 1.08, high: 1.12, level: 0.99 },
            finding,
        };
        let changes = vec![change("wall", Finding::Slower), change("user", Finding::Slower)];
        let broken =
            RuleCheck { rule: "wall > +5%".into(), change: Some(0), outcome: RuleOutcome::Broken };
        DiffDocument {
            before: side("main"),
            after: side("branch"),
            level: 0.99,
            changes,
            rules: vec![broken],
            unmatched: Vec::new(),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn changes_stand_between_the_names_of_the_sides_and_rules_below() {
        let page = diff_markdown(&document(), DiffDetail::Headlines);
        assert!(page.contains("### From main to branch"), "{page}");
        let row = "| freehold | wall | 1.000 s | 1.100 s | +10.0 % (+8.0 to +12.0) | **slower** |";
        assert!(page.contains(row), "{page}");
        assert!(!page.contains("| user |"), "{page}");
        let rule = "fail if wall > +5%: BROKEN: freehold: +10.0 % (+8.0 to +12.0)";
        assert!(page.contains(rule), "{page}");
        assert!(diff_text(&document(), DiffDetail::Everything).contains("user"));
    }
}
