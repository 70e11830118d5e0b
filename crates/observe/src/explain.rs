//! `freehold explain`: where the resident memory of a process is, and what the C library's heaps
//! hold.

use std::collections::BTreeMap;
use std::{fs, io};

use freehold_model::{Gap, HeapContents, MemoryReport, MemoryRow, MemoryUse, Source};

use crate::chunks::{Contents, arena_heap, main_heap};
use crate::proc::smaps::{self, Area};
use crate::proc::syscall::{self, Doing};
use crate::proc::tree;
use crate::reading::Window;
use crate::target::{self, TargetError};

/// How the kernel names the C library's first heap.
const HEAP: &str = "[heap]";

/// How it begins the names that programs give their memory.
const NAMED: &str = "[anon:";

/// Explains the memory of a process, which goes on meanwhile.
pub fn explain(pid: u32) -> Result<MemoryReport, TargetError> {
    target::check(pid)?;
    let areas = smaps::parse(&fs::read_to_string(format!("/proc/{pid}/smaps"))?);
    let stacks = stack_pointers(pid);
    let mut heaps = Heaps::of(pid);
    let mut rows: BTreeMap<(MemoryUse, String), MemoryRow> = BTreeMap::new();
    for area in &areas {
        let usage = usage(area, &stacks, &mut heaps);
        let name = name(area, usage);
        add(rows.entry((usage, name)).or_insert_with_key(row), area);
    }
    let mut rows: Vec<_> = rows.into_values().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.resident_bytes));
    Ok(MemoryReport {
        pid,
        allocator: None,
        resident_bytes: areas.iter().map(|area| area.resident).sum(),
        rows,
        heap: (heaps.contents.heaps > 0).then_some(heaps.contents),
        sources: vec![
            Source::new("resident, huge, swapped", "smaps", "exact, an area at a time"),
            Source::new(
                "used and free",
                "the C library's own notes before each block",
                "a moment's; what threads keep for themselves counts as used",
            ),
        ],
        missing: vec![
            Gap::nowhere("fragmentation within blocks: what was asked for is not noted there"),
            Gap::nowhere("what other allocators than the C library's hold free"),
        ],
    })
}

/// What the heaps of the C library hold; nothing where there are none.
pub(crate) fn heap_contents(pid: u32) -> io::Result<Option<HeapContents>> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let mut heaps = Heaps::of(pid);
    // The first lines of areas, without the rest: that is what maps are.
    for area in &smaps::parse(&maps) {
        heaps.is_heap(area);
    }
    Ok((heaps.contents.heaps > 0).then_some(heaps.contents))
}

/// Reads heaps and adds up what they hold.
struct Heaps {
    memory: Window,
    contents: HeapContents,
}

impl Heaps {
    fn of(pid: u32) -> Self {
        Self { memory: Window::over(pid), contents: HeapContents::default() }
    }

    /// Whether an area is a heap of the C library's; if so, its contents are added.
    fn is_heap(&mut self, area: &Area) -> bool {
        let contents = if area.name == HEAP {
            Some(main_heap(&mut self.memory, &area.addresses))
        } else if area.name.is_empty() && !area.is_shared {
            arena_heap(&mut self.memory, area.addresses.start)
        } else {
            None
        };
        if let Some(contents) = contents {
            self.add(contents);
        }
        contents.is_some()
    }

    fn add(&mut self, contents: Contents) {
        let all = &mut self.contents;
        all.heaps += 1;
        all.incomplete += u64::from(!contents.is_complete);
        all.used_bytes += contents.used;
        all.free_bytes += contents.free;
        all.top_bytes += contents.top;
    }
}

/// What an area is for.
fn usage(area: &Area, stacks: &[u64], heaps: &mut Heaps) -> MemoryUse {
    let name = area.name.as_str();
    let holds_stack = stacks.iter().any(|pointer| area.addresses.contains(pointer));
    match name {
        _ if heaps.is_heap(area) => MemoryUse::CLibraryHeap,
        _ if name == "[stack]" || (name.is_empty() && holds_stack) => MemoryUse::Stack,
        _ if name.starts_with(NAMED) => MemoryUse::NamedHeap,
        _ if name.starts_with('[') => MemoryUse::Kernel,
        _ if area.is_shared => MemoryUse::Shared,
        "" => MemoryUse::OtherAnonymous,
        _ if area.is_executable => MemoryUse::Code,
        _ => MemoryUse::FileData,
    }
}

/// The name that areas of this use are put together under.
fn name(area: &Area, usage: MemoryUse) -> String {
    match usage {
        MemoryUse::NamedHeap => {
            area.name.trim_start_matches(NAMED).trim_end_matches(']').to_owned()
        }
        MemoryUse::Shared => area.name.clone(),
        _ => String::new(),
    }
}

fn row((usage, name): &(MemoryUse, String)) -> MemoryRow {
    MemoryRow {
        usage: *usage,
        name: name.clone(),
        areas: 0,
        virtual_bytes: 0,
        resident_bytes: 0,
        huge_bytes: 0,
        lazily_free_bytes: 0,
        swapped_bytes: 0,
    }
}

fn add(row: &mut MemoryRow, area: &Area) {
    row.areas += 1;
    row.virtual_bytes += area.addresses.end - area.addresses.start;
    row.resident_bytes += area.resident;
    row.huge_bytes += area.huge;
    row.lazily_free_bytes += area.lazily_free;
    row.swapped_bytes += area.swapped;
}

/// Where the stacks are of threads that wait just now.
fn stack_pointers(pid: u32) -> Vec<u64> {
    let doing = |tid: u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok()?;
        match syscall::parse(&text)? {
            Doing::Call(call) => Some(call.sp),
            Doing::Fault { sp, .. } => Some(sp),
            Doing::Running => None,
        }
    };
    tree::threads(pid).into_iter().filter_map(doing).collect()
}
