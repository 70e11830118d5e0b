//! A grid in words and tables: for each harness its metric and what it cost in memory, and each
//! allocator relative to the reference. It must not know how any of it was measured.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use freehold_model::{
    Better, GridCase, GridCell, GridDocument, GridOutcome, GridPart, Interval, Metric, Spread,
    Standing,
};

use crate::bench::Detail;
use crate::numbers::{change, grouped, intervals, mib, rate, ratio, seconds, time};
use crate::page::{self, Section};
use crate::table::{Align, Cell, Table, Tone};
use crate::tables::{BEST, TIED};
use crate::{failure, origin};

/// What stands in a cell without a number.
const NOTHING: &str = "-";

/// The grid as text for a terminal.
pub fn grid_text(document: &GridDocument, detail: Detail) -> String {
    page::text(sections(document, detail))
}

/// The grid as Markdown.
pub fn grid_markdown(document: &GridDocument, detail: Detail) -> String {
    page::markdown(sections(document, detail))
}

/// One line for each way in which runs failed, with the cells concerned.
pub fn grid_failures(document: &GridDocument) -> Vec<String> {
    let mut counted: BTreeMap<(usize, usize, String), u32> = BTreeMap::new();
    for run in &document.runs {
        if let GridOutcome::Failed(failure) = &run.outcome {
            let reason = format!("{}: {}", failure::kind(failure.kind), failure.detail);
            *counted.entry((run.case, run.allocator, reason)).or_default() += 1;
        }
    }
    let line = |((case, allocator, reason), count): ((usize, usize, String), u32)| {
        let (case, name) = (document.plan.name(case), &document.allocators[allocator].name);
        let plural = if count == 1 { "" } else { "s" };
        format!("{case}, {name}: {reason} ({count} run{plural}; not tried again)")
    };
    counted.into_iter().map(line).collect()
}

/// The sections of the page, in their order.
pub(crate) fn sections(document: &GridDocument, detail: Detail) -> Vec<Section> {
    let mut sections = Vec::new();
    for harness in harnesses(document) {
        sections.extend(of_harness(document, harness));
    }
    sections.extend(overall(document));
    if detail == Detail::Full {
        sections.push(Section {
            heading: "Every case".to_owned(),
            paragraph: "Medians; faults and context switches are of the measured part.".to_owned(),
            table: Some(details(document)),
        });
    }
    sections.extend(origins(document));
    sections
}

/// The harnesses, in the order of their cases.
pub(crate) fn harnesses(document: &GridDocument) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for case in &document.plan.cases {
        if !names.contains(&case.harness.as_str()) {
            names.push(&case.harness);
        }
    }
    names
}

/// The cells of a case, which has one for each allocator.
pub(crate) fn cells(document: &GridDocument, case: usize) -> &[GridCell] {
    let width = document.allocators.len();
    document.summary.cells.get(case * width..(case + 1) * width).unwrap_or_default()
}

/// The cases of a harness, with their indices.
pub(crate) fn cases<'a>(
    document: &'a GridDocument,
    harness: &str,
) -> impl Iterator<Item = (usize, &'a GridCase)> {
    document.plan.cases.iter().enumerate().filter(move |(_, case)| case.harness == harness)
}

/// The tables of a harness: what it is about, and memory.
fn of_harness(document: &GridDocument, harness: &str) -> Vec<Section> {
    let Some(metric) = document.metric(harness) else { return Vec::new() };
    let better = match metric.better {
        Better::Higher => "Higher",
        Better::Lower => "Lower",
    };
    let speed = Section {
        heading: format!("{harness}: {}, in {}", metric.name, metric.unit),
        paragraph: format!(
            "{} {better} is better; {BEST} best of the row, {TIED} cannot be told from the best.",
            rounds(document, harness),
        ),
        table: Some(rows(document, harness, |cell| metric_cell(metric, cell))),
    };
    let memory = |heading: &str, measure: &'static str| Section {
        heading: format!("{harness}: {heading}, in MiB"),
        paragraph: format!("Lower is better; {BEST} least of the row."),
        table: Some(memory_table(document, harness, measure)),
    };
    let mut sections = vec![speed, memory("peak of resident memory", "rss.peak")];
    let mut all = cases(document, harness).flat_map(|(case, _)| cells(document, case));
    if all.any(|cell| cell.median("rss.settled").is_some()) {
        sections.push(memory("resident memory after free and idle time", "rss.settled"));
    }
    sections
}

/// A row for each number of threads and size, a column for each allocator.
fn rows(document: &GridDocument, harness: &str, cell: impl Fn(&GridCell) -> Cell) -> Table {
    let has_sizes = cases(document, harness).any(|(_, case)| case.size.is_some());
    let names = document.allocators.iter().map(|allocator| allocator.name.clone());
    // The mark behind a number takes a place of its own, so that digits stay in line.
    let columns = names.map(|name| (format!("{name} "), Align::Right));
    let head =
        [("threads", true), ("size", has_sizes)].into_iter().filter(|(_, is_there)| *is_there);
    let mut apart: Vec<&str> =
        cases(document, harness).flat_map(|(_, case)| document.plan.sets_apart(case)).collect();
    apart.sort_unstable();
    apart.dedup();
    let head = head.map(|(name, _)| name).chain(apart.iter().copied());
    let head = head.map(|name| (name.to_owned(), Align::Right));
    let mut table = Table::new(head.chain(columns));
    for (index, case) in cases(document, harness) {
        let mut row = vec![Cell::plain(case.threads.to_string())];
        if has_sizes {
            let size = case.size.map_or_else(|| NOTHING.to_owned(), grouped);
            row.push(Cell::plain(size));
        }
        row.extend(apart.iter().map(|name| {
            let value = case.params.get(*name).map(ToString::to_string);
            Cell::plain(value.unwrap_or_else(|| NOTHING.to_owned()))
        }));
        row.extend(cells(document, index).iter().map(&cell));
        table.push(row);
    }
    table
}

fn metric_cell(metric: &Metric, cell: &GridCell) -> Cell {
    let Some(spread) = cell.metric else { return missing(cell) };
    let number = value(metric, spread.median);
    match cell.standing {
        Some(Standing::Best) => Cell::toned(format!("{number}{BEST}"), Tone::Strong),
        Some(Standing::Tied) => Cell::plain(format!("{number}{TIED}")),
        Some(Standing::Behind) | None => Cell::plain(format!("{number} ")),
    }
}

fn missing(cell: &GridCell) -> Cell {
    Cell::toned(if cell.failed > 0 { "failed " } else { "- " }, Tone::Faint)
}

/// A value of a metric, without its unit unless that has to vary.
pub(crate) fn value(metric: &Metric, value: f64) -> String {
    if metric.unit == "seconds" { time(value) } else { rate(value) }
}

fn memory_table(document: &GridDocument, harness: &str, measure: &str) -> Table {
    let least = |case: usize| {
        let medians = cells(document, case).iter().filter_map(|cell| cell.median(measure));
        medians.min_by(f64::total_cmp)
    };
    rows(document, harness, |cell| match (cell.median(measure), least(cell.case)) {
        (Some(own), Some(least)) if own <= least => {
            Cell::toned(format!("{}{BEST}", mib(own)), Tone::Strong)
        }
        (Some(own), _) => Cell::plain(format!("{} ", mib(own))),
        (None, _) => missing(cell),
    })
}

fn rounds(document: &GridDocument, harness: &str) -> String {
    let all = cases(document, harness).flat_map(|(case, _)| cells(document, case));
    let measured: Vec<u32> = all.map(|cell| cell.measured).filter(|own| *own > 0).collect();
    let (least, most) = (measured.iter().min(), measured.iter().max());
    match (least, most) {
        (Some(1), Some(1)) => "One round.".to_owned(),
        (Some(least), Some(most)) if least == most => format!("Median of {most} rounds."),
        (Some(least), Some(most)) => format!("Median of {least} to {most} rounds."),
        _ => "Nothing was measured.".to_owned(),
    }
}

/// Each allocator relative to the reference.
fn overall(document: &GridDocument) -> Option<Section> {
    if document.summary.overall.is_empty() {
        return None;
    }
    let columns = ["harness", "allocator", "speed", "peak memory", "memory after free"];
    let left = columns.map(|name| (name.to_owned(), Align::Left));
    let mut table = Table::new(left.into_iter().chain([("cases".to_owned(), Align::Right)]));
    for own in &document.summary.overall {
        let shown = |number: Option<(u32, Interval)>, show: fn(&Interval) -> String| {
            let text = number.map_or_else(|| NOTHING.to_owned(), |(_, ratio)| show(&ratio));
            Cell::plain(text)
        };
        let cases = own.speed.or(own.peak).map_or(0, |(cases, _)| cases);
        table.push(vec![
            Cell::plain(own.harness.as_deref().unwrap_or("all")),
            Cell::plain(&document.allocators[own.allocator].name),
            shown(own.speed, ratio),
            shown(own.peak, change),
            shown(own.settled, change),
            Cell::plain(cases.to_string()),
        ]);
    }
    let reference = document.allocators.get(document.summary.reference)?;
    let all = document.summary.overall.iter();
    let means = all.flat_map(|own| [own.speed, own.peak, own.settled].into_iter().flatten());
    let brackets = intervals(means.map(|(_, ratio)| ratio.level));
    let interval = brackets.map(|text| format!(" In brackets: {text}.")).unwrap_or_default();
    Some(Section {
        heading: format!("Relative to {}", reference.name),
        paragraph: format!(
            "Geometric means over all cases of the ratio within a round: more speed is better, \
             less memory is.{interval}"
        ),
        table: Some(table),
    })
}

/// Everything that is known of each case under each allocator.
fn details(document: &GridDocument) -> Table {
    let left = ["case", "allocator"].map(|name| (name.to_owned(), Align::Left));
    let right = [
        "median",
        "least",
        "most",
        "against reference",
        "user",
        "system",
        "peak MiB",
        "freed MiB",
        "faults",
        "waits",
        "preempted",
        "runs",
    ];
    let right = right.map(|name| (name.to_owned(), Align::Right));
    let mut table = Table::new(left.into_iter().chain(right));
    for cell in document.summary.cells.iter().filter(|cell| cell.measured > 0) {
        let case = &document.plan.cases[cell.case];
        let Some(metric) = document.metric(&case.harness) else { continue };
        let number = |of: fn(&Spread) -> f64| {
            let text = cell.metric.as_ref().map(|spread| value(metric, of(spread)));
            Cell::plain(text.unwrap_or_else(|| NOTHING.to_owned()))
        };
        let measure = |name: &str, show: fn(f64) -> String| {
            Cell::plain(cell.median(name).map_or_else(|| NOTHING.to_owned(), show))
        };
        let count = |number: f64| grouped(number.round() as u64);
        table.push(vec![
            Cell::plain(document.plan.name(cell.case)),
            Cell::plain(&document.allocators[cell.allocator].name),
            number(|spread| spread.median),
            number(|spread| spread.min),
            number(|spread| spread.max),
            Cell::plain(cell.gain.as_ref().map_or_else(|| NOTHING.to_owned(), ratio)),
            measure("user", time),
            measure("system", time),
            measure("rss.peak", mib),
            measure("rss.freed", mib),
            measure("faults.minor", count),
            measure("switches.voluntary", count),
            measure("switches.involuntary", count),
            Cell::plain(cell.measured.to_string()),
        ]);
    }
    table
}

/// Where the numbers come from, machine by machine.
fn origins(document: &GridDocument) -> Vec<Section> {
    let mut sections: Vec<_> = (document.parts.iter())
        .map(|part| origin::section(&part.provenance, &document.allocators))
        .collect();
    for (section, part) in sections.iter_mut().zip(&document.parts) {
        section.paragraph.push_str(&part_of(part));
    }
    if let Some(last) = sections.last_mut() {
        for harness in harnesses(document) {
            // Writing to a string cannot fail.
            let _ = write!(last.paragraph, "\n{harness}: {}", parameters(document, harness));
        }
        for sentence in &document.plan.left_out {
            let _ = write!(last.paragraph, "\nLeft out: {sentence}");
        }
        if let Some(limit) = document.plan.time_limit_seconds.filter(|_| !document.complete) {
            let _ = write!(last.paragraph, "\nTime limit: {}", seconds(limit));
        }
    }
    sections
}

fn part_of(part: &GridPart) -> String {
    let shard = part.shard.map(|shard| format!("\nShard {} of {}", shard.number, shard.of));
    let end = if part.complete { "" } else { "\nEnded early" };
    shard.unwrap_or_default() + end
}

/// The parameters that all cases of a harness share.
fn parameters(document: &GridDocument, harness: &str) -> String {
    let all: Vec<&GridCase> =
        document.plan.cases.iter().filter(|case| case.harness == harness).collect();
    let first = all[0];
    let shared = first.params.iter().filter(|(name, value)| {
        all.iter().all(|case| case.params.get(*name) == Some(value)) && name.as_str() != "threads"
    });
    let words: Vec<_> = shared.map(|(name, value)| format!("{name} {value}")).collect();
    words.join(", ")
}
