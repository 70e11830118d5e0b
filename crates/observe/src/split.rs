//! The resident memory taken apart by what allocators say of it, so that it adds up. Pure: it must
//! not know where the figures come from.
//!
//! An allocator counts what it has given out, whether or not anybody has written to it; `smaps`
//! counts pages in memory. So what an allocator says of its areas and what is in memory of them
//! differ, and the difference is a part of its own. Below zero it is what was never written to, was
//! given back within blocks, or is in swap; of which of the other parts, nobody knows.

use freehold_model::{AllocatorFigures, MemoryPart, MemoryRow, MemoryUse, PartKind};

use crate::figures::{C_LIBRARY, FREEHOLD};

const SMAPS: &str = "smaps";
const DIFFERENCE: &str = "smaps, less the figures above";

/// The parts, those of allocators first. They add up to what is resident of all rows.
pub(crate) fn split(rows: &[MemoryRow], figures: &[AllocatorFigures]) -> Vec<MemoryPart> {
    let resident = |uses: &[MemoryUse]| -> i64 {
        let own = rows.iter().filter(|row| uses.contains(&row.usage));
        own.map(|row| row.resident_bytes.cast_signed()).sum()
    };
    let mut parts = Vec::new();
    // Areas of allocators that do not say where they have them are among all the others.
    let anonymous = [MemoryUse::OtherAnonymous, MemoryUse::NamedHeap];
    let mut unplaced = (resident(&anonymous), None);
    let places: [(&str, &[MemoryUse]); 2] = [
        (FREEHOLD, &[MemoryUse::AllocatorHeap, MemoryUse::AllocatorTables]),
        (C_LIBRARY, &[MemoryUse::CLibraryHeap, MemoryUse::CLibraryBlocks]),
    ];
    for (name, uses) in places {
        let area = resident(uses);
        let own = figures.iter().find(|own| own.allocator == name);
        let told = own.map_or(0, |own| tell(&mut parts, own));
        let allocator = Some(name.to_owned());
        parts.extend(difference(area - told, allocator, PartKind::Untold, told > 0));
    }
    for own in figures.iter().filter(|own| places.iter().all(|it| it.0 != own.allocator)) {
        unplaced.0 -= tell(&mut parts, own);
        unplaced.1 = Some(own.allocator.clone());
    }
    let is_told = unplaced.1.is_some();
    let allocator = unplaced.1.filter(|_| unplaced.0 < 0);
    parts.extend(difference(unplaced.0, allocator, PartKind::Others, is_told));
    let rest = [
        (PartKind::Stacks, &[MemoryUse::Stack][..]),
        (PartKind::Files, &[MemoryUse::Code, MemoryUse::FileData]),
        (PartKind::Shared, &[MemoryUse::Shared]),
        (PartKind::Kernel, &[MemoryUse::Kernel]),
    ];
    for (kind, uses) in rest {
        parts.extend(part(kind, None, resident(uses), SMAPS));
    }
    parts
}

/// Adds what an allocator says; returns how much that is.
fn tell(parts: &mut Vec<MemoryPart>, own: &AllocatorFigures) -> i64 {
    let bytes = |bytes: Option<u64>| bytes.unwrap_or(0).cast_signed();
    let (live, free) = (bytes(own.live_bytes), bytes(own.free_bytes));
    let (rounding, scattered) =
        (bytes(own.rounding_bytes).min(live), bytes(own.scattered_bytes).min(free));
    let told = [
        (PartKind::InUse, live - rounding),
        (PartKind::Rounding, rounding),
        (PartKind::Kept, bytes(own.kept_bytes)),
        (PartKind::Scattered, scattered),
        (PartKind::Free, free - scattered),
        (PartKind::Tables, bytes(own.metadata_bytes)),
    ];
    for (kind, bytes) in told {
        parts.extend(part(kind, Some(own.allocator.clone()), bytes, &own.source));
    }
    told.iter().map(|(_, bytes)| bytes).sum()
}

/// What is left of some areas, or what is missing of them.
fn difference(
    bytes: i64,
    allocator: Option<String>,
    left: PartKind,
    is_told: bool,
) -> Option<MemoryPart> {
    let kind = if bytes < 0 { PartKind::NotInMemory } else { left };
    part(kind, allocator, bytes, if is_told { DIFFERENCE } else { SMAPS })
}

fn part(kind: PartKind, allocator: Option<String>, bytes: i64, source: &str) -> Option<MemoryPart> {
    let source = source.to_owned();
    (bytes != 0).then_some(MemoryPart { kind, allocator, bytes, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(usage: MemoryUse, resident_bytes: u64) -> MemoryRow {
        MemoryRow {
            usage,
            name: String::new(),
            areas: 1,
            virtual_bytes: resident_bytes,
            resident_bytes,
            huge_bytes: 0,
            lazily_free_bytes: 0,
            swapped_bytes: 0,
        }
    }

    fn figures(allocator: &str, live: u64, free: u64) -> AllocatorFigures {
        AllocatorFigures {
            allocator: allocator.to_owned(),
            live_bytes: Some(live),
            free_bytes: Some(free),
            scattered_bytes: Some(free / 2),
            ..AllocatorFigures::default()
        }
    }

    fn of(parts: &[MemoryPart], kind: PartKind) -> Option<i64> {
        parts.iter().find(|part| part.kind == kind).map(|part| part.bytes)
    }

    #[test]
    fn parts_add_up_whatever_allocators_say() {
        let rows = [
            row(MemoryUse::CLibraryHeap, 1000),
            row(MemoryUse::CLibraryBlocks, 200),
            row(MemoryUse::OtherAnonymous, 5000),
            row(MemoryUse::Stack, 30),
            row(MemoryUse::Code, 400),
            row(MemoryUse::FileData, 50),
            row(MemoryUse::Shared, 6),
            row(MemoryUse::Kernel, 7),
        ];
        let all: i64 = 6693;
        let told = [figures(C_LIBRARY, 900, 200), figures("jemalloc", 4000, 500)];
        let too_much = [figures("jemalloc", 9000, 500)];
        let sum = |parts: &[MemoryPart]| parts.iter().map(|part| part.bytes).sum::<i64>();
        let nothing = split(&rows, &[]);
        assert_eq!(sum(&nothing), all);
        assert_eq!(of(&nothing, PartKind::Untold), Some(1200));
        let parts = split(&rows, &told);
        assert_eq!(sum(&parts), all);
        assert_eq!(of(&parts, PartKind::Untold), Some(100));
        assert_eq!(of(&parts, PartKind::Others), Some(500));
        assert_eq!(of(&parts, PartKind::Scattered), Some(100));
        assert_eq!(of(&parts, PartKind::Files), Some(450));
        let parts = split(&rows, &too_much);
        assert_eq!(sum(&parts), all);
        assert_eq!(of(&parts, PartKind::NotInMemory), Some(-4500));
        assert_eq!(of(&parts, PartKind::Others), None);
    }

    #[test]
    fn what_is_not_asked_for_is_told_from_what_is() {
        let own = AllocatorFigures { rounding_bytes: Some(30), ..figures("it", 100, 0) };
        let parts = split(&[row(MemoryUse::OtherAnonymous, 100)], &[own]);
        assert_eq!(of(&parts, PartKind::InUse), Some(70));
        assert_eq!(of(&parts, PartKind::Rounding), Some(30));
    }
}
