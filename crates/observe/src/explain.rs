//! `freehold explain`: where the resident memory of a process is, and what its allocators know of
//! it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;
use std::{fs, io, thread};

use freehold_model::{
    AllocatorFigures, Gap, HeapContents, MemoryReport, MemoryRow, MemoryUse, Source,
};

use crate::chunks::{Contents, arena_heap, main_heap, mapped_blocks};
use crate::figures::{self, Freehold, Silence};
use crate::huge;
use crate::memory::resident_bytes;
use crate::proc::pagemap;
use crate::proc::smaps::{self, Area};
use crate::proc::syscall::{self, Doing};
use crate::proc::tree;
use crate::reading::Window;
use crate::split::split as parts;
use crate::target::{self, TargetError};

/// How the kernel names the C library's first heap.
const HEAP: &str = "[heap]";

/// How it begins the names that programs give their memory.
const NAMED: &str = "[anon:";

/// Where it is known from what calls come to.
const COUNTED: &str = "counted in each call";

/// How often threads are looked at until all of them were seen at rest, and how long in between.
const STACK_LOOKS: u32 = 40;
const STACK_PAUSE: Duration = Duration::from_millis(1);

/// What the calls to the allocator of a process came to, where they are counted.
#[derive(Debug, Clone, Copy)]
pub struct Counted {
    /// Bytes in use.
    pub live_bytes: u64,
    /// The part of all bytes ever given that was not asked for.
    pub rounding_share: Option<f64>,
}

/// Of a process and those that descend from it, the one that has most in memory.
pub fn largest(pid: u32) -> u32 {
    tree::family(pid).into_iter().max_by_key(|&pid| resident_bytes(&[pid])).unwrap_or(pid)
}

/// Explains the memory of a process, which goes on meanwhile. `allocator` is what serves it.
pub fn explain(
    pid: u32,
    allocator: Option<String>,
    counted: Option<Counted>,
) -> Result<MemoryReport, TargetError> {
    target::check(pid)?;
    let answer = figures::ask(pid);
    let mut areas = smaps::parse(&lossy(&fs::read(format!("/proc/{pid}/smaps"))?));
    let (stacks, unknown) = stack_pointers(pid);
    let mut heaps = Heaps::of(pid);
    let freehold = figures::freehold(pid);
    if let Some(freehold) = &freehold {
        // The kernel makes one area of two that lie side by side.
        split(pid, &mut areas, freehold.metadata.end);
        split(pid, &mut areas, freehold.region.end);
    }
    let mut rows: BTreeMap<(MemoryUse, String), MemoryRow> = BTreeMap::new();
    for area in &areas {
        let usage = usage(area, &stacks, &mut heaps, freehold.as_ref());
        let name = name(area, usage);
        add(rows.entry((usage, name)).or_insert_with_key(row), area);
    }
    let mut rows: Vec<_> = rows.into_values().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.resident_bytes));
    heaps.read_arenas(&areas);
    let heap = heaps.contents();
    let own = freehold.as_ref().map(|it| it.figures(Some(tables(&rows))));
    let mut figures = figures::of_all(own, heap.as_ref(), answer.as_ref().ok());
    if let Some(counted) = &counted {
        add_counted(&mut figures, counted, allocator.as_deref());
    }
    Ok(MemoryReport {
        pid,
        resident_bytes: areas.iter().map(|area| area.resident).sum(),
        parts: parts(&rows, &figures),
        rows,
        sources: sources(heap.as_ref(), &figures, counted.is_some()),
        missing: missing(unknown, heap.as_ref(), &figures, answer.err()),
        allocator,
        heap,
        figures,
        huge_slack: huge::slack(pid, &areas),
    })
}

/// Adds what was counted: what is in use, where nobody else says so, and how much of that was not
/// asked for.
fn add_counted(figures: &mut Vec<AllocatorFigures>, counted: &Counted, allocator: Option<&str>) {
    if figures.is_empty() {
        figures.push(AllocatorFigures {
            allocator: allocator.unwrap_or("the allocator").to_owned(),
            live_bytes: Some(counted.live_bytes),
            source: COUNTED.to_owned(),
            ..AllocatorFigures::default()
        });
    }
    // It is the allocator's that gives most.
    let most = figures.iter_mut().max_by_key(|own| own.live_bytes);
    if let (Some(own), Some(share)) = (most, counted.rounding_share) {
        own.rounding_bytes = own.live_bytes.map(|live| (live as f64 * share) as u64);
    }
}

/// Bytes of the allocator's own tables that are in memory.
fn tables(rows: &[MemoryRow]) -> u64 {
    let tables = rows.iter().filter(|row| row.usage == MemoryUse::AllocatorTables);
    tables.map(|row| row.resident_bytes).sum()
}

fn sources(
    heap: Option<&HeapContents>,
    figures: &[AllocatorFigures],
    is_counted: bool,
) -> Vec<Source> {
    let has = |name: &str| figures.iter().any(|own| own.allocator == name);
    let mut sources = vec![
        Source::new("resident, huge, swapped", "smaps", "exact, an area at a time"),
        Source::new(
            "unused in huge pages",
            "pages of 4 KiB in them that hold nothing but zeros",
            "an estimate, of 64 MiB at most",
        ),
    ];
    if has(figures::FREEHOLD) {
        sources.push(Source::new(
            "Freehold's figures",
            "its tables, which the symbol freehold_figures tells",
            "a moment's; what threads have at hand counts as in use",
        ));
    }
    for own in figures.iter().filter(|own| own.allocator != figures::FREEHOLD) {
        sources.push(Source::new(
            &format!("in use and free, of {}", own.allocator),
            &own.source,
            "a moment's",
        ));
    }
    if is_counted {
        sources.push(Source::new(
            "what was not asked for",
            COUNTED,
            "as of all objects ever given out; the calls exact, but for a thread's last 64",
        ));
    }
    if heap.is_some() {
        sources.push(Source::new(
            "kept by threads",
            "the lists of its threads (tcache) and, where arenas were found, its fast bins",
            "a moment's; blocks of up to 1032 bytes",
        ));
    }
    if heap.is_some_and(|heap| heap.arenas.is_some()) {
        sources.push(Source::new(
            "from the system, and the most ever",
            "the arenas, which malloc_info shows as well",
            "exact, an arena at a time",
        ));
    }
    sources
}

/// What cannot be known, with so many threads whose stacks were not found.
fn missing(
    stacks: usize,
    heap: Option<&HeapContents>,
    figures: &[AllocatorFigures],
    silence: Option<Silence>,
) -> Vec<Gap> {
    let mut missing = Vec::new();
    if figures.iter().all(|own| own.rounding_bytes.is_none()) {
        missing.push(Gap::allowed_by(
            "fragmentation within blocks: what was asked for is not noted there",
            "freehold explain --count -- CMD",
        ));
    }
    let is_unknown = figures.iter().all(|own| own.free_bytes.is_none());
    if figures.is_empty() {
        missing.push(Gap::allowed_by(
            "what the program has in use",
            "freehold explain --count -- CMD; or freehold explain, while freehold timeline --count \
             -- CMD runs",
        ));
    }
    match silence {
        Some(Silence::NoAnswer) => missing.push(Gap::nowhere(
            "what allocators say within the process: it has not answered within 5 s",
        )),
        Some(Silence::NobodyThere) if is_unknown => missing.push(Gap::allowed_by(
            "what the allocator holds free: it says so only when it is called within the process",
            "freehold explain -- CMD, for jemalloc and tcmalloc",
        )),
        None if is_unknown => missing.push(Gap::nowhere(
            "what the allocator holds free: none of those that tell (jemalloc, tcmalloc) has \
             answered",
        )),
        _ => {}
    }
    if heap.is_some_and(|heap| heap.arenas.is_none()) {
        missing.push(Gap::nowhere(
            "what the C library has from the system: its arenas were not found",
        ));
    }
    if stacks > 0 {
        missing.push(Gap::nowhere(&format!(
            "stacks of {stacks} threads, which run all the time: they are among the other mappings"
        )));
    }
    missing
}

/// What the heaps of Freehold hold, or else those of the allocator that has most in use, which is
/// asked where it can be; nothing where nobody tells.
pub(crate) fn heap_contents(pid: u32) -> io::Result<Option<HeapContents>> {
    if let Some(freehold) = figures::freehold(pid) {
        return Ok(Some(freehold.figures(None).contents()));
    }
    let maps = lossy(&fs::read(format!("/proc/{pid}/maps"))?);
    let mut heaps = Heaps::of(pid);
    // The first lines of areas, without the rest: that is what maps are.
    for area in &smaps::parse(&maps) {
        heaps.is_heap(area);
    }
    let read = heaps.contents();
    let told = figures::of_all(None, read.as_ref(), figures::ask(pid).ok().as_ref());
    let most = told.into_iter().max_by_key(|own| own.live_bytes);
    Ok(most.filter(|own| own.allocator != figures::C_LIBRARY).map(|own| own.contents()).or(read))
}

/// The text of a file in which names stand that need not be text: they are only shown.
fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
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

    /// What was read; nothing where there are no heaps.
    fn contents(&self) -> Option<HeapContents> {
        (self.contents.heaps > 0).then_some(self.contents)
    }

    /// Reads what the arenas say, which are found by way of the C library's data.
    fn read_arenas(&mut self, areas: &[Area]) {
        let Some(arenas) = figures::arenas(&mut self.memory, &data_of_c_library(areas)) else {
            return;
        };
        self.contents.arenas = Some(arenas.count);
        self.contents.system_bytes = Some(arenas.system);
        self.contents.peak_bytes = Some(arenas.peak);
        self.contents.kept_bytes += arenas.fast;
    }

    /// Whether an area begins with large blocks of the C library's; if so, they are added.
    fn has_blocks(&mut self, area: &Area) -> bool {
        if !area.name.is_empty() || area.is_shared || area.is_executable {
            return false;
        }
        let (bytes, count) = mapped_blocks(&mut self.memory, &area.addresses);
        self.contents.mapped_bytes += bytes;
        count > 0
    }

    /// Whether an area is a heap of the C library's; if so, its contents are added.
    fn is_heap(&mut self, area: &Area) -> bool {
        let contents = if area.name == HEAP {
            main_heap(&mut self.memory, &area.addresses)
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
        all.kept_bytes += contents.kept;
    }
}

/// Makes two areas of one that goes across this address, with what is resident of each.
fn split(pid: u32, areas: &mut Vec<Area>, address: u64) {
    let is_inside = |area: &Area| area.addresses.start < address && address < area.addresses.end;
    let Some(at) = areas.iter().position(is_inside) else { return };
    let Some(below) = pagemap::resident_bytes(pid, &(areas[at].addresses.start..address)) else {
        return;
    };
    let whole = &mut areas[at];
    let below = below.min(whole.resident);
    let first = Area {
        addresses: whole.addresses.start..address,
        is_executable: whole.is_executable,
        is_shared: whole.is_shared,
        name: whole.name.clone(),
        resident: below,
        anonymous: below.min(whole.anonymous),
        ..Area::default()
    };
    whole.addresses.start = address;
    whole.resident -= first.resident;
    whole.anonymous -= first.anonymous;
    areas.insert(at, first);
}

/// Where the C library has its data: its file, and what follows it in memory.
fn data_of_c_library(areas: &[Area]) -> Vec<Range<u64>> {
    let mut data: Vec<Range<u64>> = Vec::new();
    for area in areas.iter().filter(|area| !area.is_executable && !area.is_shared) {
        let file = area.name.rsplit('/').next().unwrap_or_default();
        if file.starts_with("libc.so") {
            data.push(area.addresses.clone());
        } else if let Some(last) = data.last_mut().filter(|last| last.end == area.addresses.start)
            && area.name.is_empty()
        {
            last.end = area.addresses.end;
        }
    }
    data
}

/// What an area is for.
fn usage(area: &Area, stacks: &[u64], heaps: &mut Heaps, freehold: Option<&Freehold>) -> MemoryUse {
    let name = area.name.as_str();
    let holds_stack = stacks.iter().any(|pointer| area.addresses.contains(pointer));
    let lies_in = |range: &Range<u64>| range.contains(&area.addresses.start);
    match name {
        "" if freehold.is_some_and(|it| lies_in(&it.region)) => MemoryUse::AllocatorHeap,
        "" if freehold.is_some_and(|it| lies_in(&it.metadata)) => MemoryUse::AllocatorTables,
        _ if heaps.is_heap(area) => MemoryUse::CLibraryHeap,
        _ if name == "[stack]" || (name.is_empty() && holds_stack) => MemoryUse::Stack,
        _ if name.starts_with(NAMED) => MemoryUse::NamedHeap,
        HEAP => MemoryUse::OtherAnonymous,
        _ if name.starts_with('[') => MemoryUse::Kernel,
        _ if area.is_shared => MemoryUse::Shared,
        "" if area.resident > 0 && heaps.has_blocks(area) => MemoryUse::CLibraryBlocks,
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
