//! `freehold explain`: where the resident memory of a process is, and what the C library's heaps
//! hold.

use std::collections::BTreeMap;
use std::time::Duration;
use std::{fs, io, thread};

use freehold_model::{Gap, HeapContents, MemoryReport, MemoryRow, MemoryUse, Source};

use crate::chunks::{Contents, arena_heap, main_heap};
use crate::huge;
use crate::proc::smaps::{self, Area};
use crate::proc::syscall::{self, Doing};
use crate::proc::tree;
use crate::reading::Window;
use crate::target::{self, TargetError};

/// How the kernel names the C library's first heap.
const HEAP: &str = "[heap]";

/// How it begins the names that programs give their memory.
const NAMED: &str = "[anon:";

/// How often threads are looked at until all of them were seen at rest, and how long in between.
const STACK_LOOKS: u32 = 40;
const STACK_PAUSE: Duration = Duration::from_millis(1);

/// Explains the memory of a process, which goes on meanwhile.
pub fn explain(pid: u32) -> Result<MemoryReport, TargetError> {
    target::check(pid)?;
    let areas = smaps::parse(&fs::read_to_string(format!("/proc/{pid}/smaps"))?);
    let (stacks, unknown) = stack_pointers(pid);
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
        huge_slack: huge::slack(pid, &areas),
        sources: vec![
            Source::new("resident, huge, swapped", "smaps", "exact, an area at a time"),
            Source::new(
                "unused in huge pages",
                "pages of 4 KiB in them that hold nothing but zeros",
                "an estimate, of 64 MiB at most",
            ),
            Source::new(
                "used and free",
                "the C library's own notes before each block",
                "a moment's; what threads keep for themselves counts as used",
            ),
        ],
        missing: missing(unknown),
    })
}

/// What cannot be known, with so many threads whose stacks were not found.
fn missing(stacks: usize) -> Vec<Gap> {
    let mut missing = vec![
        Gap::nowhere("fragmentation within blocks: what was asked for is not noted there"),
        Gap::nowhere("what other allocators than the C library's hold free"),
    ];
    if stacks > 0 {
        missing.push(Gap::nowhere(&format!(
            "stacks of {stacks} threads, which run all the time: they are among the other mappings"
        )));
    }
    missing
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

/// Where the stacks of threads are, and of how many threads that is not known: a stack is seen
/// while its thread does not run.
fn stack_pointers(pid: u32) -> (Vec<u64>, usize) {
    let mut left = tree::threads(pid);
    let mut found = Vec::new();
    for _ in 0..STACK_LOOKS {
        left.retain(|&tid| {
            let pointer = stack_pointer(pid, tid);
            found.extend(pointer);
            pointer.is_none()
        });
        if left.is_empty() {
            break;
        }
        thread::sleep(STACK_PAUSE);
    }
    (found, left.len())
}

/// Where the stack is of a thread that does not run just now.
fn stack_pointer(pid: u32, tid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok()?;
    match syscall::parse(&text)? {
        Doing::Call(call) => Some(call.sp),
        Doing::Fault { sp, .. } => Some(sp),
        Doing::Running => None,
    }
}
