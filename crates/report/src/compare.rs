//! A comparison in words and tables. It must not know how any of it was measured.

use std::collections::BTreeMap;

use freehold_model::{
    Advice, Choice, CompareCell, CompareDocument, Finding, Interval, Kind, Measure, MeasureSummary,
    TrialOutcome, Unit, Verdict,
};

use crate::numbers::{change, grouped, intervals, mib, percent, time};
use crate::page::{self, Section};
use crate::table::{Align, Cell, Table, Tone};
use crate::{failure, origin};

/// The measures of the first table.
const HEADLINES: [&str; 2] = ["wall", "rss.peak"];

/// What stands in a cell without a number.
const NOTHING: &str = "-";

/// More rounds than this are nothing to recommend.
const MANY_ROUNDS: u32 = 300;

/// System calls that are named for each allocator.
const CALLS_NAMED: usize = 4;

/// The measures of the second table, with the heads of their columns.
const OTHERS: [(&str, &str); 9] = [
    ("user", "user"),
    ("system", "system"),
    ("rss.mean", "mean RSS"),
    ("rss.settled", "after load"),
    ("rss.return", "back after"),
    ("faults.minor", "faults"),
    ("faults.major", "major"),
    ("switches.voluntary", "waits"),
    ("switches.involuntary", "preempted"),
];

/// The comparison as text for a terminal.
pub fn compare_text(document: &CompareDocument) -> String {
    page::text(sections(document))
}

/// The comparison as Markdown.
pub fn compare_markdown(document: &CompareDocument) -> String {
    page::markdown(sections(document))
}

/// One line for each way in which runs failed.
pub fn compare_failures(document: &CompareDocument) -> Vec<String> {
    let mut lines = Vec::new();
    for trial in &document.trials {
        if let TrialOutcome::Failed(reason) = &trial.outcome {
            let name = &document.allocators[trial.allocator].name;
            let case = document.plan.case_name(trial.case);
            let case = if case.is_empty() { case } else { format!(", {case}") };
            let when = trial.round.map_or_else(
                || "in the warm-up".to_owned(),
                |round| format!("in round {}", round + 1),
            );
            let kind = failure::kind(reason.kind);
            lines.push(format!("{name}{case}, {when}: {kind}: {}", reason.detail));
        }
    }
    lines
}

pub(crate) fn sections(document: &CompareDocument) -> Vec<Section> {
    if document.summary.cells.iter().all(|cell| cell.measured == 0) {
        return Vec::new();
    }
    let mut sections = vec![headlines(document)];
    sections.extend(others(document));
    sections.extend(system_calls(document));
    sections.push(recommendation(document));
    sections.push(proof(document));
    sections
}

fn headlines(document: &CompareDocument) -> Section {
    let reference = &document.allocators[document.summary.reference].name;
    let wall = if document.plan.load.is_some() { "time of the load" } else { "time" };
    let mut table = Table::new(columns(
        document,
        &[wall, "change", "", "peak RSS", "change", ""],
        &[Align::Right, Align::Right, Align::Left, Align::Right, Align::Right, Align::Left],
    ));
    for cell in &document.summary.cells {
        let mut row = head(document, cell.case, cell.allocator);
        for name in HEADLINES {
            row.extend(headline(cell, name));
        }
        table.push(row);
    }
    let measures = document
        .summary
        .cells
        .iter()
        .flat_map(|cell| HEADLINES.iter().filter_map(|name| cell.measures.get(*name)?.ratio));
    let brackets = intervals(measures.map(|ratio| ratio.level));
    let brackets = brackets.map(|text| format!("; in brackets {text}")).unwrap_or_default();
    let paragraph = format!(
        "{}\nMedian of {}. Changes are those within a round from {reference} to the other\
         {brackets}.",
        what(document),
        rounds(document),
    );
    Section { heading: "Time and memory".to_owned(), paragraph, table: Some(table) }
}

fn what(document: &CompareDocument) -> String {
    let command = document.plan.command.join(" ");
    match &document.plan.load {
        Some(load) => format!("{command}\nunder the load: {}", load.command),
        None => command,
    }
}

fn rounds(document: &CompareDocument) -> String {
    let (made, planned) = (document.summary.rounds, document.plan.repeat);
    let plural = if made == 1 { "" } else { "s" };
    match document.plan.until {
        _ if !document.complete => format!("the {made} round{plural} that were made of {planned}"),
        Some(precision) if made < planned => format!(
            "{made} round{plural}, after which every interval was within ±{}",
            percent(precision)
        ),
        _ => format!("{made} round{plural}"),
    }
}

/// The columns that name a row, and those with numbers.
fn columns(
    document: &CompareDocument,
    names: &[&str],
    aligns: &[Align],
) -> impl IntoIterator<Item = (String, Align)> + use<> {
    let case = has_cases(document).then(|| ("case".to_owned(), Align::Left));
    let allocator = ("allocator".to_owned(), Align::Left);
    let numbers: Vec<_> =
        names.iter().map(|name| (*name).to_owned()).zip(aligns.to_vec()).collect();
    case.into_iter().chain([allocator]).chain(numbers)
}

fn has_cases(document: &CompareDocument) -> bool {
    document.plan.cases.len() > 1
}

/// The cells that name a row.
fn head(document: &CompareDocument, case: usize, allocator: usize) -> Vec<Cell> {
    let case = has_cases(document).then(|| Cell::plain(document.plan.case_name(case)));
    let name = Cell::plain(&document.allocators[allocator].name);
    case.into_iter().chain([name]).collect()
}

/// The median of a measure, its change, and what that shows.
fn headline(cell: &CompareCell, name: &str) -> [Cell; 3] {
    let Some((measure, summary)) = summary(cell, name) else {
        let text = if cell.failed > 0 { "failed" } else { NOTHING };
        return [Cell::toned(text, Tone::Faint), Cell::plain(""), Cell::plain("")];
    };
    let median = Cell::plain(in_unit(measure, summary.median.estimate));
    let changed = summary.ratio.map(|ratio| change(&ratio)).unwrap_or_default();
    let word = match summary.finding {
        Some(found @ (Finding::NoDifferenceShown | Finding::NotEnoughEvidence)) => {
            Cell::toned(finding(found), Tone::Faint)
        }
        Some(found) => Cell::toned(finding(found), Tone::Strong),
        None => Cell::plain(""),
    };
    [median, Cell::plain(changed), word]
}

fn summary<'a>(
    cell: &'a CompareCell,
    name: &str,
) -> Option<(&'static Measure, &'a MeasureSummary)> {
    Measure::named(name).zip(cell.measures.get(name))
}

/// A finding in words.
pub(crate) fn finding(finding: Finding) -> &'static str {
    match finding {
        Finding::Faster => "faster",
        Finding::Slower => "slower",
        Finding::Less => "less",
        Finding::More => "more",
        Finding::NoDifferenceShown => "no difference shown",
        Finding::NotEnoughEvidence => "not enough evidence",
    }
}

/// A value in its unit.
pub fn in_unit(measure: &Measure, value: f64) -> String {
    match measure.unit {
        Unit::Seconds => time(value),
        Unit::Bytes => format!("{} MiB", mib(value)),
        Unit::Count => grouped(value.round() as u64),
        Unit::PerSecond => format!("{}/s", crate::numbers::rate(value)),
    }
}

/// Everything else that was measured, as medians.
fn others(document: &CompareDocument) -> Option<Section> {
    let cells = &document.summary.cells;
    let has = |name: &str| cells.iter().any(|cell| cell.measures.contains_key(name));
    let shown: Vec<_> = OTHERS.iter().filter(|(name, _)| has(name)).collect();
    if shown.is_empty() {
        return None;
    }
    let names: Vec<&str> = shown.iter().map(|(_, title)| *title).collect();
    let mut table = Table::new(columns(document, &names, &vec![Align::Right; names.len()]));
    for cell in cells.iter().filter(|cell| cell.measured > 0) {
        let numbers = shown.iter().map(|(name, _)| {
            let found = summary(cell, name);
            let text = found.map(|(measure, own)| in_unit(measure, own.median.estimate));
            Cell::plain(text.unwrap_or_else(|| NOTHING.to_owned()))
        });
        let numbers: Vec<Cell> = numbers.collect();
        table.push(head(document, cell.case, cell.allocator).into_iter().chain(numbers).collect());
    }
    Some(Section {
        heading: "What it took".to_owned(),
        paragraph: "Medians; children included.".to_owned(),
        table: Some(table),
    })
}

/// System calls of the runs that counted them.
fn system_calls(document: &CompareDocument) -> Option<Section> {
    if document.system_calls.is_empty() {
        return None;
    }
    let aligns = [Align::Right, Align::Left];
    let mut table = Table::new(columns(document, &["calls", "most often"], &aligns));
    for counted in &document.system_calls {
        let most = counted.calls.iter().take(CALLS_NAMED);
        let most: Vec<_> = most.map(|row| format!("{} {}", row.name, grouped(row.count))).collect();
        let numbers = [grouped(counted.total()), most.join(", ")].map(Cell::plain);
        let head = head(document, counted.case, counted.allocator);
        table.push(head.into_iter().chain(numbers).collect());
    }
    Some(Section {
        heading: "System calls".to_owned(),
        paragraph: "Of one more run under each, children included. Counting slows a program \
                    down, and one with threads may make other calls then."
            .to_owned(),
        table: Some(table),
    })
}

fn recommendation(document: &CompareDocument) -> Section {
    let heading = "Recommendation".to_owned();
    let Some(advice) = &document.summary.recommendation else {
        let paragraph = "There is nothing to choose from: fewer than two allocators gave numbers, \
                         or the reference did not."
            .to_owned();
        return Section { heading, paragraph, table: None };
    };
    let mut lines = vec![chosen(document, &advice.weighed)];
    lines.extend(evidence(document, &advice.weighed));
    lines.extend(alike(document, &advice.weighed));
    let [speed, memory] =
        [&advice.for_speed, &advice.for_memory].map(|advice| short(document, advice));
    lines.push(format!("If only speed mattered: {speed}. If only memory mattered: {memory}."));
    lines.push(weighing(document.plan.memory_weight));
    Section { heading, paragraph: lines.join("\n"), table: None }
}

fn chosen(document: &CompareDocument, advice: &Advice) -> String {
    let reference = name(document, document.summary.reference);
    match (advice.choice, advice.allocator) {
        (Choice::Switch, Some(chosen)) => format!("Use {}.", name(document, chosen)),
        (Choice::Stay, _) => {
            format!(
                "Stay with {reference}: no other was shown to be better, speed and memory together."
            )
        }
        _ => {
            let needed = advice.rounds_needed.map(more_rounds).unwrap_or_default();
            format!("Not enough evidence to choose.{needed}")
        }
    }
}

/// What it would take to choose.
fn more_rounds(rounds: u32) -> String {
    if rounds <= MANY_ROUNDS {
        return format!(" About {rounds} rounds might decide it (--repeat {rounds}).");
    }
    format!(
        " With so much noise it would take about {} rounds: use a quieter machine, or longer runs.",
        grouped(u64::from(rounds))
    )
}

/// What the choice rests on: speed and memory of the chosen one, case by case.
fn evidence(document: &CompareDocument, advice: &Advice) -> Vec<String> {
    let (Choice::Switch, Some(chosen)) = (advice.choice, advice.allocator) else {
        return Vec::new();
    };
    let reference = name(document, document.summary.reference);
    let cells = document.summary.cells.iter().filter(|cell| cell.allocator == chosen);
    let line = |cell: &CompareCell| {
        let case = document.plan.case_name(cell.case);
        let case = if case.is_empty() { String::new() } else { format!("With {case}: ") };
        let speed = in_words(cell, "wall", "as fast");
        let memory = in_words(cell, "rss.peak", "as much memory");
        format!("{case}{speed}; {memory}; compared with {reference}.")
    };
    cells.map(line).collect()
}

fn in_words(cell: &CompareCell, measure: &str, same: &str) -> String {
    let Some((measure, summary)) = summary(cell, measure) else { return NOTHING.to_owned() };
    let Some(ratio) = &summary.ratio else { return NOTHING.to_owned() };
    let amount = if measure.kind == Kind::Amount { " memory at the peak" } else { "" };
    match summary.finding {
        Some(found @ (Finding::Faster | Finding::Slower | Finding::Less | Finding::More)) => {
            format!("{} {}{amount}", size(ratio), finding(found))
        }
        Some(Finding::NoDifferenceShown) => {
            format!("{same}, as far as can be seen ({})", change(ratio))
        }
        _ => format!("whether {same} is open ({})", change(ratio)),
    }
}

/// How large a change is, without its sign, with its interval.
fn size(ratio: &Interval) -> String {
    let share = |ratio: f64| format!("{:.1}", (ratio - 1.0).abs() * 100.0);
    let mut ends = [share(ratio.low), share(ratio.high)];
    if ratio.estimate < 1.0 {
        ends.reverse();
    }
    format!("{} % ({} to {})", share(ratio.estimate), ends[0], ends[1])
}

fn alike(document: &CompareDocument, advice: &Advice) -> Option<String> {
    let names: Vec<_> = advice.alike.iter().map(|&other| name(document, other)).collect();
    (!names.is_empty()).then(|| format!("It cannot be told from: {}.", names.join(", ")))
}

fn short<'a>(document: &'a CompareDocument, advice: &Advice) -> &'a str {
    advice.allocator.map_or("not enough evidence", |chosen| name(document, chosen))
}

fn weighing(weight: f64) -> String {
    if weight > 0.0 {
        format!("1 % of memory weighs as much as {weight} % of time (--memory-weight).")
    } else {
        "Memory does not count (--memory-weight 0).".to_owned()
    }
}

fn name(document: &CompareDocument, allocator: usize) -> &str {
    &document.allocators[allocator].name
}

/// How the allocators were shown to be live, and where the numbers come from.
fn proof(document: &CompareDocument) -> Section {
    let mut section = origin::section(&document.provenance, &document.allocators);
    let mut counts: BTreeMap<bool, u32> = BTreeMap::new();
    for trial in &document.trials {
        if let TrialOutcome::Measured(run) = &trial.outcome {
            *counts.entry(matches!(run.verdict, Verdict::Live { .. })).or_default() += 1;
        }
    }
    let [asked, seen] = [false, true].map(|was_seen| counts.get(&was_seen).copied().unwrap_or(0));
    let also = if asked > 0 {
        format!("; in {asked} that ended too soon, the loader confirmed it")
    } else {
        String::new()
    };
    section.paragraph =
        format!("The allocator was seen live in {seen} runs{also}.\n{}", section.paragraph);
    section
}
