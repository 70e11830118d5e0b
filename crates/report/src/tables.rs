//! The tables of a benchmark, cell by cell. It must not know whether they become text or
//! Markdown.

use freehold_model::{BenchDocument, CellSummary, Purpose, Sizes, Standing};

use crate::numbers::{grouped, mib, percent, rate, ratio};
use crate::table::{Align, Cell, Table, Tone};

/// What stands in a cell without a number.
const NOTHING: &str = "-";

/// What follows a number that is the best of its row, and one that cannot be told from it.
pub(crate) const BEST: char = '*';
pub(crate) const TIED: char = '=';

/// Loops per second: a row for each number of pairs and size, a column for each allocator.
pub(crate) fn speed(document: &BenchDocument) -> Table {
    let names = document.allocators.iter().map(|allocator| allocator.name.clone());
    // The mark behind a number takes a place of its own, so that digits stay in line.
    let columns = names.map(|name| (format!("{name} "), Align::Right));
    let head = [("pairs".to_owned(), Align::Right), ("max size".to_owned(), Align::Right)];
    let mut table = Table::new(head.into_iter().chain(columns));
    for (index, cells) in cases(document, Purpose::Speed) {
        let params = &document.plan.cases[index].params;
        let mut row = vec![
            Cell::plain(params.pairs.to_string()),
            Cell::plain(grouped(u64::from(params.max_bytes))),
        ];
        row.extend(cells.iter().map(speed_cell));
        table.push(row);
    }
    table
}

fn speed_cell(cell: &CellSummary) -> Cell {
    let Some(spread) = cell.loops_per_second else {
        let text = if cell.failed > 0 { "failed " } else { "- " };
        return Cell::toned(text, Tone::Faint);
    };
    let number = rate(spread.median);
    match cell.standing {
        Some(Standing::Best) => Cell::toned(format!("{number}{BEST}"), Tone::Strong),
        Some(Standing::Tied) => Cell::plain(format!("{number}{TIED}")),
        Some(Standing::Behind) | None => Cell::plain(format!("{number} ")),
    }
}

/// Memory of the cases that are measured for it: a row for each allocator.
pub(crate) fn retention(document: &BenchDocument, cells: &[CellSummary]) -> Table {
    let idle =
        cells.first().map_or(0.0, |cell| document.plan.cases[cell.case].params.settle_seconds);
    let after_idle = format!("after {idle} s idle");
    let names = ["peak", "peak/live", "after free", &after_idle, "of it lazily freed"];
    let numbers = names.map(|name| (name.to_owned(), Align::Right));
    let speed = ("loops/s".to_owned(), Align::Right);
    let head = ("allocator".to_owned(), Align::Left);
    let mut table = Table::new([head].into_iter().chain(numbers).chain([speed]));
    let median = |spread: Option<freehold_model::Spread>| spread.map(|spread| spread.median);
    let least = cells.iter().filter_map(|cell| median(cell.settled_rss)).min_by(f64::total_cmp);
    for cell in cells {
        let memory = |spread| Cell::plain(median(spread).map_or_else(|| NOTHING.to_owned(), mib));
        let settled = match (median(cell.settled_rss), least) {
            (Some(own), Some(least)) if own <= least => Cell::toned(mib(own), Tone::Strong),
            _ => memory(cell.settled_rss),
        };
        let overhead = match (cell.peak_rss, cell.peak_live) {
            (Some(peak), Some(live)) if live.median > 0.0 => {
                format!("{:.2}", peak.median / live.median)
            }
            _ => NOTHING.to_owned(),
        };
        let speed = median(cell.loops_per_second).map_or_else(|| NOTHING.to_owned(), rate);
        table.push(vec![
            Cell::plain(&document.allocators[cell.allocator].name),
            memory(cell.peak_rss),
            Cell::plain(overhead),
            memory(cell.freed_rss),
            settled,
            memory(cell.settled_lazy),
            Cell::plain(speed),
        ]);
    }
    table
}

/// Each allocator relative to the reference.
pub(crate) fn overall(document: &BenchDocument) -> Table {
    let columns = [("allocator", Align::Left), ("speed", Align::Left), ("cases", Align::Right)];
    let mut table = Table::new(columns.map(|(name, align)| (name.to_owned(), align)));
    for other in &document.summary.overall {
        table.push(vec![
            Cell::plain(&document.allocators[other.allocator].name),
            Cell::plain(ratio(&other.ratio)),
            Cell::plain(other.cases.to_string()),
        ]);
    }
    table
}

/// Everything that is known of each case under each allocator.
pub(crate) fn details(document: &BenchDocument) -> Table {
    let names = [
        ("pairs", Align::Right),
        ("max size", Align::Right),
        ("allocator", Align::Left),
        ("loops/s", Align::Right),
        ("least", Align::Right),
        ("most", Align::Right),
        ("against reference", Align::Left),
        ("waiting", Align::Right),
        ("peak MiB", Align::Right),
        ("freed MiB", Align::Right),
        ("runs", Align::Right),
    ];
    let mut table = Table::new(names.map(|(name, align)| (name.to_owned(), align)));
    for cell in &document.summary.cells {
        let params = &document.plan.cases[cell.case].params;
        let speed = |value: fn(&freehold_model::Spread) -> f64| {
            let text = cell.loops_per_second.as_ref().map(|spread| rate(value(spread)));
            Cell::plain(text.unwrap_or_else(|| NOTHING.to_owned()))
        };
        let memory = |spread: Option<freehold_model::Spread>| {
            Cell::plain(spread.map_or_else(|| NOTHING.to_owned(), |spread| mib(spread.median)))
        };
        let against = cell.ratio.as_ref().filter(|_| cell.allocator != document.summary.reference);
        table.push(vec![
            Cell::plain(params.pairs.to_string()),
            Cell::plain(grouped(u64::from(params.max_bytes))),
            Cell::plain(&document.allocators[cell.allocator].name),
            speed(|spread| spread.median),
            speed(|spread| spread.min),
            speed(|spread| spread.max),
            Cell::plain(against.map_or_else(|| NOTHING.to_owned(), ratio)),
            Cell::plain(cell.waiting_share.map_or_else(|| NOTHING.to_owned(), percent)),
            memory(cell.peak_rss),
            memory(cell.freed_rss),
            Cell::plain(format!("{}", cell.measured)),
        ]);
    }
    table
}

/// The cases of a purpose that were not left out, each with its cells.
pub(crate) fn cases(
    document: &BenchDocument,
    purpose: Purpose,
) -> impl Iterator<Item = (usize, &[CellSummary])> {
    let width = document.allocators.len().max(1);
    let is_kept =
        move |case: usize| document.plan.skipped.iter().all(|skipped| skipped.case != case);
    let cells = document.summary.cells.chunks(width).enumerate();
    cells.filter(move |(case, _)| document.plan.cases[*case].purpose == purpose && is_kept(*case))
}

/// The sizes of a case in words.
pub(crate) fn sizes(document: &BenchDocument, case: usize) -> String {
    let params = &document.plan.cases[case].params;
    match params.sizes {
        Sizes::Random => format!("random, {} bytes and up to max more", params.min_bytes),
        Sizes::Fixed => "always max bytes".to_owned(),
    }
}
