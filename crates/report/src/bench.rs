//! A benchmark in words and tables. It must not know how any of it was measured.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use freehold_model::{BenchDocument, CellSummary, Length, Outcome, PairsParams, Purpose};

use crate::numbers::{intervals, mib, seconds};
use crate::page::{self, Section};
use crate::{failure, origin, tables};

/// How much of a benchmark is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// The tables that answer the question.
    Summary,
    /// Also every case under every allocator, with spreads and waiting times.
    Full,
}

/// The benchmark as text for a terminal.
pub fn text(document: &BenchDocument, detail: Detail) -> String {
    page::text(sections(document, detail))
}

/// The benchmark as Markdown.
pub fn markdown(document: &BenchDocument, detail: Detail) -> String {
    page::markdown(sections(document, detail))
}

/// One line for each way in which runs failed, with the cells concerned.
pub fn failures(document: &BenchDocument) -> Vec<String> {
    let mut counted: BTreeMap<(usize, usize, String), u32> = BTreeMap::new();
    for run in &document.runs {
        if let Outcome::Failed(failure) = &run.outcome {
            let reason = format!("{}: {}", failure::kind(failure.kind), failure.detail);
            *counted.entry((run.case, run.allocator, reason)).or_default() += 1;
        }
    }
    let line = |((case, allocator, reason), count): ((usize, usize, String), u32)| {
        let params = &document.plan.cases[case].params;
        let name = &document.allocators[allocator].name;
        format!("{}, {name}: {reason} ({count} of its runs)", short(params))
    };
    counted.into_iter().map(line).collect()
}

pub(crate) fn sections(document: &BenchDocument, detail: Detail) -> Vec<Section> {
    let mut sections = Vec::new();
    sections.extend(speed(document));
    sections.extend(overall(document));
    let retention = tables::cases(document, Purpose::Retention);
    sections.extend(retention.map(|(case, cells)| memory(document, case, cells)));
    if detail == Detail::Full {
        sections.push(Section {
            heading: "Every case".to_owned(),
            paragraph: String::new(),
            table: Some(tables::details(document)),
        });
    }
    sections.push(origin(document));
    sections
}

fn speed(document: &BenchDocument) -> Option<Section> {
    let (first, _) = tables::cases(document, Purpose::Speed).next()?;
    let params = &document.plan.cases[first].params;
    let (best, tied) = (tables::BEST, tables::TIED);
    let paragraph = format!(
        "A loop is {} malloc by one thread of a pair and {} free by the other. {}.\n\
         {} Higher is better; {best} best of the row, {tied} cannot be told from the best.",
        params.allocations,
        params.allocations,
        settings(document, first),
        rounds(document),
    );
    Some(Section {
        heading: "Loops per second".to_owned(),
        paragraph,
        table: Some(tables::speed(document)),
    })
}

fn rounds(document: &BenchDocument) -> String {
    match (document.plan.repeat, document.complete) {
        (1, true) => "One round.".to_owned(),
        (1, false) => "Stopped within the only round.".to_owned(),
        (repeat, true) => format!("Median of {repeat} rounds."),
        (repeat, false) => format!("Median of as many of {repeat} rounds as were made."),
    }
}

fn settings(document: &BenchDocument, case: usize) -> String {
    let params = &document.plan.cases[case].params;
    let mut settings = vec![format!("Sizes {}", tables::sizes(document, case))];
    if params.memset {
        settings.push("every byte written".to_owned());
    }
    settings.push(format!("hand-off {}", params.handoff.as_str()));
    settings.push(format!("depth {}", params.depth));
    if let Length::Samples { count, seconds: each, warmup_seconds } = params.length {
        let measured = f64::from(count) * each;
        settings.push(format!(
            "{} measured after {} of warm-up or more",
            seconds(measured),
            seconds(warmup_seconds)
        ));
    }
    settings.join(", ")
}

fn overall(document: &BenchDocument) -> Option<Section> {
    let table = tables::overall(document);
    if table.is_empty() {
        return None;
    }
    let reference = &document.allocators[document.summary.reference].name;
    let brackets = intervals(document.summary.overall.iter().map(|other| other.ratio.level));
    let interval = brackets.map(|text| format!(" In brackets: {text}.")).unwrap_or_default();
    Some(Section {
        heading: format!("Speed relative to {reference}"),
        paragraph: format!(
            "The geometric mean over all cases of the ratio within a round.{interval}"
        ),
        table: Some(table),
    })
}

fn memory(document: &BenchDocument, case: usize, cells: &[CellSummary]) -> Section {
    let params = &document.plan.cases[case].params;
    let live = cells.iter().filter_map(|cell| cell.peak_live).map(|spread| spread.median);
    let live = live.fold(0.0, f64::max);
    let length = match params.length {
        Length::Loops { total } => format!("{total} loops"),
        Length::Samples { count, seconds: each, .. } => seconds(f64::from(count) * each),
    };
    let paragraph = format!(
        "{} pairs, max size {}, {length}, then everything is freed; threads stay alive and idle.\n\
         At most {} MiB were requested at once. {}. {} Lower is better.",
        params.pairs,
        params.max_bytes,
        mib(live),
        settings(document, case),
        rounds(document),
    );
    Section {
        heading: "Resident memory, in MiB".to_owned(),
        paragraph,
        table: Some(tables::retention(document, cells)),
    }
}

fn origin(document: &BenchDocument) -> Section {
    let mut section = origin::section(&document.provenance, &document.allocators);
    for skipped in &document.plan.skipped {
        let params = &document.plan.cases[skipped.case].params;
        // Writing to a string cannot fail.
        let _ = write!(section.paragraph, "\nLeft out: {}: {}", short(params), skipped.reason);
    }
    section
}

fn short(params: &PairsParams) -> String {
    let pairs = if params.pairs == 1 { "pair" } else { "pairs" };
    format!("{} {pairs}, max size {}", params.pairs, params.max_bytes)
}
