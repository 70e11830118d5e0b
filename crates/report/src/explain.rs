//! Where the memory of a process is, as a table. It must not know how that was found out.

use std::fmt::Write as _;

use freehold_model::{AllocatorFigures, HeapContents, MemoryReport, MemoryRow, MemoryUse};

use crate::numbers::{mib, percent};
use crate::table::{Align, Cell, Table, Tone};

/// The parts of the memory, the largest first, and what the C library's heaps hold.
pub fn explain(report: &MemoryReport) -> String {
    let right = ["MiB", "Share", "Huge", "Lazy", "Swap", "Virtual", "Areas"];
    let columns = right.map(|name| (name.to_owned(), Align::Right));
    let mut table = Table::new(columns.into_iter().chain([("What".to_owned(), Align::Left)]));
    for row in report.rows.iter().filter(|row| row.resident_bytes + row.swapped_bytes > 0) {
        table.push(cells(row, report.resident_bytes));
    }
    let total = format!("{} MiB resident", mib(report.resident_bytes as f64));
    let allocator = report.allocator.as_deref().unwrap_or("unknown");
    let mut text = format!(
        "{}, process {}, allocator {allocator}\n\n{}",
        Tone::Strong.paint(&total),
        report.pid,
        table.text()
    );
    for figures in &report.figures {
        told(&mut text, figures);
    }
    if let Some(heap) = &report.heap {
        contents(&mut text, heap);
    }
    if let Some(slack) = &report.huge_slack {
        let huge: u64 = report.rows.iter().map(|row| row.huge_bytes).sum();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "\nin huge pages: about {} of {} MiB were never written to, as far as {} MiB of them \
             tell",
            mib(slack.share() * huge as f64),
            mib(huge as f64),
            mib(slack.examined_bytes as f64)
        );
    }
    text
}

fn cells(row: &MemoryRow, whole: u64) -> Vec<Cell> {
    let some = |bytes: u64| if bytes > 0 { mib(bytes as f64) } else { String::new() };
    let share = if whole > 0 { row.resident_bytes as f64 / whole as f64 } else { 0.0 };
    let name = if row.name.is_empty() { String::new() } else { format!(": {}", row.name) };
    vec![
        Cell::toned(mib(row.resident_bytes as f64), Tone::Strong),
        Cell::plain(percent(share)),
        Cell::plain(some(row.huge_bytes)),
        Cell::plain(some(row.lazily_free_bytes)),
        Cell::plain(some(row.swapped_bytes)),
        Cell::plain(mib(row.virtual_bytes as f64)),
        Cell::plain(row.areas.to_string()),
        Cell::plain(format!("{}{name}", described(row.usage))),
    ]
}

/// What an allocator says of itself, a figure a line.
fn told(text: &mut String, figures: &AllocatorFigures) {
    let kept_apart = figures.kept_bytes.is_some();
    let in_use = if kept_apart { "in use" } else { "in use, or at threads' hands" };
    let lines = [
        (in_use, figures.live_bytes),
        ("kept by threads for their next use", figures.kept_bytes),
        ("free, not given back to the system", figures.free_bytes),
        ("tables of its own", figures.metadata_bytes),
        ("from the system for all that", figures.held_bytes),
        ("the most that its heaps ever had", figures.peak_bytes),
    ];
    // Writing to a string cannot fail.
    let title = format!("{} by its own account, MiB", figures.allocator);
    let _ = writeln!(text, "\n{}", Tone::Strong.paint(&title));
    for (what, bytes) in lines {
        if let Some(bytes) = bytes {
            let _ = writeln!(text, "{:>9}  {what}", mib(bytes as f64));
        }
    }
}

fn contents(text: &mut String, heap: &HeapContents) {
    let arenas = heap.arenas.map(|count| format!(", {count} arenas")).unwrap_or_default();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "\nin {} heaps of the C library{arenas}: {} MiB free between blocks, {} MiB free at the \
         ends",
        heap.heaps,
        mib(heap.free_bytes as f64),
        mib(heap.top_bytes as f64)
    );
    if heap.incomplete > 0 {
        let _ = writeln!(
            text,
            "{} of them changed while they were read: a part of each is missing",
            heap.incomplete
        );
    }
}

fn described(usage: MemoryUse) -> &'static str {
    match usage {
        MemoryUse::CLibraryHeap => "heaps of the C library",
        MemoryUse::CLibraryBlocks => "large blocks of the C library, each mapped by itself",
        MemoryUse::AllocatorHeap => "Freehold: what it gives out",
        MemoryUse::AllocatorTables => "Freehold: its tables",
        MemoryUse::NamedHeap => "named memory",
        MemoryUse::Stack => "stacks of threads",
        MemoryUse::Code => "code",
        MemoryUse::FileData => "data of files",
        MemoryUse::Shared => "shared",
        MemoryUse::OtherAnonymous => "other anonymous mappings: allocators, the program, stacks",
        MemoryUse::Kernel => "the kernel's",
    }
}

#[cfg(test)]
mod tests {
    use freehold_model::HugeSlack;

    use super::*;

    #[test]
    fn parts_are_shown_with_their_share_and_heaps_with_what_is_free() {
        const MIB: u64 = 1 << 20;
        let row = MemoryRow {
            usage: MemoryUse::CLibraryHeap,
            name: String::new(),
            areas: 1,
            virtual_bytes: 100 * MIB,
            resident_bytes: 80 * MIB,
            huge_bytes: 40 * MIB,
            lazily_free_bytes: 0,
            swapped_bytes: 0,
        };
        let report = MemoryReport {
            pid: 7,
            allocator: Some("system 2.36".to_owned()),
            resident_bytes: 160 * MIB,
            rows: vec![row],
            heap: Some(HeapContents {
                heaps: 1,
                used_bytes: 20 * MIB,
                free_bytes: 60 * MIB,
                ..HeapContents::default()
            }),
            figures: vec![AllocatorFigures {
                allocator: "the C library".to_owned(),
                live_bytes: Some(15 * MIB),
                kept_bytes: Some(5 * MIB),
                ..AllocatorFigures::default()
            }],
            huge_slack: Some(HugeSlack { examined_bytes: 4 * MIB, unused_bytes: 3 * MIB }),
            sources: Vec::new(),
            missing: Vec::new(),
        };
        let text = explain(&report);
        assert!(text.contains("   50 %"), "{text}");
        assert!(text.contains("60.0 MiB free between"), "{text}");
        assert!(text.contains("     15.0  in use\n      5.0  kept by threads"), "{text}");
        assert!(!text.contains("changed while"), "{text}");
        assert!(text.contains("about 30.0 of 40.0 MiB were never written to"), "{text}");
    }
}
