//! Recorded calls made again, as a table. It must not know how the runs were made.

use freehold_model::{Interval, ReplayDocument, ReplayOutcome, ReplaySummary, Spread, Touch};

use crate::numbers::{mib, percent, ratio};
use crate::page::{self, Section};
use crate::table::{Align, Cell, Table, Tone};
use crate::trace::{bytes, count, name};

/// What stands in a cell without a number.
const NOTHING: &str = "-";

/// What was made again, and how each allocator fared, as text for a terminal.
pub fn replay_text(document: &ReplayDocument) -> String {
    page::text(vec![section(document)])
}

/// The same as Markdown.
pub fn replay_markdown(document: &ReplayDocument) -> String {
    page::markdown(vec![section(document)])
}

pub(crate) fn section(document: &ReplayDocument) -> Section {
    let process = &document.process;
    let touched = match document.touch {
        Touch::None => "nothing written",
        Touch::First => "a byte of each page written",
        Touch::All => "every byte written",
    };
    let paragraph = format!(
        "{} by {}, at most {} alive; {}, {touched}",
        count(document.calls.total(), "call"),
        count(process.threads.into(), "thread"),
        bytes(document.peak_live_bytes),
        count(rounds(document), "round"),
    );
    Section { heading: heading(document), paragraph, table: Some(table(document)) }
}

/// Whose calls they are.
pub(crate) fn heading(document: &ReplayDocument) -> String {
    format!("Replay of {} (pid {})", name(&document.process), document.process.pid)
}

fn rounds(document: &ReplayDocument) -> u64 {
    document.runs.iter().map(|run| u64::from(run.round) + 1).max().unwrap_or_default()
}

fn table(document: &ReplayDocument) -> Table {
    let reference = &document.allocators[document.reference].name;
    let settled = format!("after {} s", document.settle_seconds);
    let names = [
        "CPU s".to_owned(),
        format!("to {reference}"),
        "wall s".to_owned(),
        "waiting".to_owned(),
        "peak MiB".to_owned(),
        "peak/live".to_owned(),
        "end MiB".to_owned(),
        settled,
    ];
    let head = [("allocator".to_owned(), Align::Left)];
    let mut table = Table::new(head.into_iter().chain(names.map(|name| (name, Align::Right))));
    let fastest = least(&document.summary, |row| row.processor);
    let smallest = least(&document.summary, |row| row.peak);
    for row in &document.summary {
        let memory = |spread: Option<Spread>| spread.map_or(NOTHING.to_owned(), |s| mib(s.median));
        let seconds =
            |spread: Option<Spread>| spread.map_or(NOTHING.to_owned(), |s| time(s.median));
        let overhead = row
            .peak
            .filter(|_| document.peak_live_bytes > 0)
            .map(|peak| format!("{:.2}", peak.median / document.peak_live_bytes as f64));
        table.push(vec![
            Cell::plain(&document.allocators[row.allocator].name),
            marked(seconds(row.processor), row.processor, fastest),
            Cell::plain(relative(row, document.reference)),
            Cell::plain(seconds(row.wall)),
            Cell::plain(row.waiting_share.map_or(NOTHING.to_owned(), percent)),
            marked(memory(row.peak), row.peak, smallest),
            Cell::plain(overhead.unwrap_or_else(|| NOTHING.to_owned())),
            Cell::plain(memory(row.end)),
            Cell::plain(memory(row.settled)),
        ]);
    }
    table
}

fn least(rows: &[ReplaySummary], value: impl Fn(&ReplaySummary) -> Option<Spread>) -> Option<f64> {
    rows.iter().filter_map(|row| Some(value(row)?.median)).min_by(f64::total_cmp)
}

/// A cell that stands out if it is the least of its column.
fn marked(text: String, spread: Option<Spread>, least: Option<f64>) -> Cell {
    let is_least = spread.zip(least).is_some_and(|(spread, least)| spread.median <= least);
    Cell::toned(text, if is_least { Tone::Strong } else { Tone::Plain })
}

fn relative(row: &ReplaySummary, reference: usize) -> String {
    let known: Option<&Interval> = row.ratio.as_ref().filter(|_| row.allocator != reference);
    known.map_or_else(|| NOTHING.to_owned(), ratio)
}

fn time(seconds: f64) -> String {
    if seconds < 10.0 { format!("{seconds:.3}") } else { format!("{seconds:.1}") }
}

/// A sentence for each allocator of which runs failed.
pub fn replay_failures(document: &ReplayDocument) -> Vec<String> {
    let sentence = |row: &ReplaySummary| {
        let name = &document.allocators[row.allocator].name;
        let runs = document.runs.iter().filter(|run| run.allocator == row.allocator);
        let first = runs.into_iter().find_map(|run| match &run.outcome {
            ReplayOutcome::Failed(failure) => Some(&failure.detail),
            ReplayOutcome::Measured(_) => None,
        })?;
        Some(format!(
            "{name}: {} of {} runs failed: {first}",
            row.failed,
            row.failed + row.measured
        ))
    };
    document.summary.iter().filter_map(sentence).collect()
}
