//! Where the memory of a process is, as a table. It must not know how that was found out.

use std::fmt::Write as _;

use freehold_model::{
    AllocatorFigures, HeapContents, MemoryPart, MemoryReport, MemoryRow, MemoryUse, PartKind,
};

use crate::numbers::{mib, percent};
use crate::table::{Align, Cell, Table, Tone};

/// What the memory is, as far as allocators tell; then its areas, the largest first, and what else
/// is known of heaps.
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
        "{}, process {}, allocator {allocator}\n\n{}\n{}",
        Tone::Strong.paint(&total),
        report.pid,
        parts(report),
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

/// Parts of less than that are not shown: they would be nothing, rounded.
const LEAST_SHOWN: u64 = 1 << 16;

/// What is in the areas, and who says so. It adds up to what is resident.
fn parts(report: &MemoryReport) -> String {
    let right = ["MiB", "Share"].map(|name| (name.to_owned(), Align::Right));
    let left = ["What", "From"].map(|name| (name.to_owned(), Align::Left));
    let mut table = Table::new(right.into_iter().chain(left));
    let shown = |part: &&MemoryPart| part.bytes.unsigned_abs() >= LEAST_SHOWN;
    for part in report.parts.iter().filter(shown) {
        let share = part.bytes as f64 / report.resident_bytes.max(1) as f64;
        let of = part.allocator.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
        table.push(vec![
            Cell::toned(mib(part.bytes as f64), Tone::Strong),
            Cell::plain(percent(share)),
            Cell::plain(format!("{of}{}", meant(part, report))),
            Cell::plain(part.source.clone()),
        ]);
    }
    table.text()
}

fn meant(part: &MemoryPart, report: &MemoryReport) -> &'static str {
    let own = report.figures.iter().find(|own| Some(&own.allocator) == part.allocator.as_ref());
    match part.kind {
        PartKind::InUse if own.is_none_or(|own| own.kept_bytes.is_none()) => {
            "in use, or at threads' hands"
        }
        PartKind::InUse => "in use",
        PartKind::Rounding => "in use, but not asked for: about",
        PartKind::Kept => "kept by threads for their next use",
        PartKind::Scattered => "free, between blocks in use",
        PartKind::Free => "free, not given back to the system",
        PartKind::Tables => "its tables",
        PartKind::NotInMemory => "of that not in memory: never written to, given back, swapped",
        PartKind::Untold => "in its areas, but not among its figures",
        PartKind::Stacks => "stacks",
        PartKind::Files => "files: code and data",
        PartKind::Shared => "shared with others",
        PartKind::Kernel => "the kernel's",
        PartKind::Others => "mapped by the program, or by what tells nothing",
    }
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

/// What an allocator has from the system.
fn told(text: &mut String, figures: &AllocatorFigures) {
    let mebibytes = |bytes: u64| format!("{} MiB", mib(bytes as f64));
    let held = figures.held_bytes.map(|bytes| format!("has {} from the system", mebibytes(bytes)));
    let peak = figures
        .peak_bytes
        .map(|bytes| format!("its heaps never had more than {}", mebibytes(bytes)));
    let said: Vec<_> = held.into_iter().chain(peak).collect();
    if !said.is_empty() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\n{} {}", figures.allocator, said.join("; "));
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
        let part = |kind, mebibytes: i64| MemoryPart {
            kind,
            allocator: Some("the C library".to_owned()),
            bytes: mebibytes << 20,
            source: "its notes".to_owned(),
        };
        let report = MemoryReport {
            pid: 7,
            allocator: Some("system 2.36".to_owned()),
            resident_bytes: 160 * MIB,
            rows: vec![row],
            parts: vec![part(PartKind::InUse, 15), part(PartKind::NotInMemory, -5)],
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
                held_bytes: Some(60 * MIB),
                ..AllocatorFigures::default()
            }],
            huge_slack: Some(HugeSlack { examined_bytes: 4 * MIB, unused_bytes: 3 * MIB }),
            sources: Vec::new(),
            missing: Vec::new(),
        };
        let text = explain(&report);
        assert!(text.contains("   50 %"), "{text}");
        assert!(text.contains("60.0 MiB free between"), "{text}");
        assert!(text.contains("    9 %  the C library: in use    "), "{text}");
        assert!(text.contains("   -3 %  the C library: of that not in memory"), "{text}");
        assert!(text.contains("the C library has 60.0 MiB from the system\n"), "{text}");
        assert!(!text.contains("changed while"), "{text}");
        assert!(text.contains("about 30.0 of 40.0 MiB were never written to"), "{text}");
    }
}
