//! Where the memory of a process is: what `freehold explain` shows.

use serde::{Deserialize, Serialize};

use crate::evidence::{Gap, Source};
use crate::schema::Document;

/// What a part of the memory is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryUse {
    /// Heaps of the C library's allocator.
    CLibraryHeap,
    /// Large blocks of it, each with a mapping of its own.
    CLibraryBlocks,
    /// Objects of an allocator that says where they are.
    AllocatorHeap,
    /// Its own tables.
    AllocatorTables,
    /// Areas that an allocator has given its name.
    NamedHeap,
    /// Stacks of threads.
    Stack,
    /// Code of files.
    Code,
    /// Data of files.
    FileData,
    /// Shared with other processes.
    Shared,
    /// Mapped by the program or by an allocator that gives no names.
    OtherAnonymous,
    /// The kernel's.
    Kernel,
}

/// A part of the memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryRow {
    /// What it is for.
    pub usage: MemoryUse,
    /// The name of the areas, where they have one.
    pub name: String,
    /// How many areas these are.
    pub areas: u64,
    /// Bytes of addresses.
    pub virtual_bytes: u64,
    /// Bytes in memory.
    pub resident_bytes: u64,
    /// Those of them in huge pages.
    pub huge_bytes: u64,
    /// Those of them that are given back when the system needs memory.
    pub lazily_free_bytes: u64,
    /// Bytes in swap.
    pub swapped_bytes: u64,
}

/// What the heaps of the C library's allocator hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct HeapContents {
    /// How many heaps could be read.
    pub heaps: u64,
    /// How many of them changed while they were read, so that a part is missing.
    pub incomplete: u64,
    /// Bytes of blocks that are used, or kept by a thread for its next use.
    pub used_bytes: u64,
    /// Bytes of free blocks between them.
    pub free_bytes: u64,
    /// Bytes that are free at the ends.
    pub top_bytes: u64,
    /// Of the used ones, bytes that are kept by a thread for its next use, or in fast bins.
    pub kept_bytes: u64,
    /// Bytes of large blocks, each with a mapping of its own, which are in use.
    pub mapped_bytes: u64,
    /// How many arenas there are; `None` where they were not found.
    pub arenas: Option<u64>,
    /// Bytes that the arenas have from the system.
    pub system_bytes: Option<u64>,
    /// The sum of the most that each of them ever had.
    pub peak_bytes: Option<u64>,
}

/// What an allocator itself knows of its memory; `None` is what it does not tell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocatorFigures {
    /// Whose figures these are.
    pub allocator: String,
    /// Bytes of blocks that the program has in use, what is lost within them included; and what
    /// threads keep, where that is not told.
    pub live_bytes: Option<u64>,
    /// Bytes of blocks that threads keep for their next use.
    pub kept_bytes: Option<u64>,
    /// Bytes that are free, and not given back to the system.
    pub free_bytes: Option<u64>,
    /// Those of them that lie between blocks in use, on pages that cannot be given back for them.
    #[serde(default)]
    pub scattered_bytes: Option<u64>,
    /// About how many of the bytes in use were not asked for: sizes are rounded up.
    #[serde(default)]
    pub rounding_bytes: Option<u64>,
    /// Bytes of its own tables that are in memory.
    pub metadata_bytes: Option<u64>,
    /// Bytes that it has from the system for all that.
    pub held_bytes: Option<u64>,
    /// The most that this ever was.
    pub peak_bytes: Option<u64>,
    /// Where these figures come from.
    #[serde(default)]
    pub source: String,
}

impl AllocatorFigures {
    /// The same as if they were those of one heap.
    pub fn contents(&self) -> HeapContents {
        let bytes = |bytes: Option<u64>| bytes.unwrap_or(0);
        HeapContents {
            heaps: 1,
            used_bytes: bytes(self.live_bytes) + bytes(self.kept_bytes),
            free_bytes: bytes(self.free_bytes),
            kept_bytes: bytes(self.kept_bytes),
            ..HeapContents::default()
        }
    }
}

/// What a part of the resident memory is, by what the allocators say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    /// In use by the program, as far as it was asked for, if that is known.
    InUse,
    /// Given beyond what was asked for.
    Rounding,
    /// Kept by threads for their next use.
    Kept,
    /// Free, between blocks in use.
    Scattered,
    /// Free, and not given back.
    Free,
    /// The allocator's own tables.
    Tables,
    /// Less than nothing: of what the allocator says, this is not in memory.
    NotInMemory,
    /// In the allocator's areas, but none of what it tells.
    Untold,
    /// Stacks of threads.
    Stacks,
    /// Code and data of files.
    Files,
    /// Shared with other processes.
    Shared,
    /// The kernel's.
    Kernel,
    /// Mapped by the program, or by whoever else tells nothing.
    Others,
}

/// A part of the resident memory. All of them add up to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryPart {
    /// What it is.
    pub kind: PartKind,
    /// The allocator that says so, if one does.
    pub allocator: Option<String>,
    /// Bytes; below zero where what the allocators say is more than what is in memory.
    pub bytes: i64,
    /// Where the number comes from.
    pub source: String,
}

/// What huge pages keep in memory although nothing was written to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HugeSlack {
    /// Bytes of huge pages that were looked at: at most 64 MiB, spread over all of them.
    pub examined_bytes: u64,
    /// Bytes of those in pages of 4 KiB that hold nothing but zeros.
    pub unused_bytes: u64,
}

impl HugeSlack {
    /// The part that is most likely unused.
    pub fn share(&self) -> f64 {
        if self.examined_bytes == 0 {
            return 0.0;
        }
        self.unused_bytes as f64 / self.examined_bytes as f64
    }
}

/// Where the memory of a process is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryReport {
    /// The process.
    pub pid: u32,
    /// The allocator that serves it.
    pub allocator: Option<String>,
    /// Bytes in memory.
    pub resident_bytes: u64,
    /// Its areas by what they are for, the largest first.
    pub rows: Vec<MemoryRow>,
    /// What is in them, as far as allocators tell: adds up to what is in memory.
    #[serde(default)]
    pub parts: Vec<MemoryPart>,
    /// What is in the C library's heaps.
    pub heap: Option<HeapContents>,
    /// What the allocators themselves say.
    pub figures: Vec<AllocatorFigures>,
    /// What is unused in huge pages; `None` where there are none, or they may not be read.
    pub huge_slack: Option<HugeSlack>,
    /// Where the numbers come from.
    pub sources: Vec<Source>,
    /// What could not be had.
    pub missing: Vec<Gap>,
}

impl Document for MemoryReport {
    const KIND: &'static str = "memory";
}
