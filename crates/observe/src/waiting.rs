//! From the places where threads waited to a table of locks: names, kinds, callers.

use std::collections::BTreeMap;

use freehold_model::{Frame, WaitKind, WaitRow, WaitSite};

use crate::clock::seconds;
use crate::stack::image::{Files, Place};
use crate::stack::symbol::{Symbols, demangled};
use crate::stack::wait::{self, Judged};
use crate::tally::Waited;

/// Where a lock is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Lock {
    /// In the data of a file.
    Data(Place),
    /// In memory that is no file's.
    Memory {
        /// The process.
        pid: u32,
        /// The address.
        address: u64,
    },
    /// One of those that were too many to tell apart.
    Any,
}

/// A lock, and a stack that waited for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Site {
    pub(crate) lock: Lock,
    /// The innermost frame first; empty where it could not be had.
    pub(crate) stack: Vec<Place>,
}

impl Site {
    /// What stands for all that are too many.
    pub(crate) fn of_the_rest() -> Self {
        Self { lock: Lock::Any, stack: Vec::new() }
    }
}

/// What waits at a site come to.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cell {
    ns: f64,
    waits: f64,
    looks: u64,
    /// The longest wait that was seen.
    pub(crate) longest_ns: u64,
}

impl Cell {
    /// So many looks, each of which stands for so much time.
    pub(crate) fn of(look_ns: f64, looks: u64) -> Self {
        Self { ns: look_ns * looks as f64, looks, ..Self::default() }
    }

    pub(crate) fn add<What>(&mut self, waited: &Waited<What>) {
        self.ns += waited.ns;
        self.waits += waited.waits;
        self.looks += waited.looks;
    }
}

/// The size that the memory of a thread's arena is aligned to, in the C library of GNU.
const ARENA_ALIGNMENT: u64 = 64 << 20;

/// How far from its beginning the arena's lock can be.
const ARENA_HEAD: u64 = 128;

/// Whose lock it is, if it is an allocator's.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Owner {
    /// The C library's.
    CLibrary,
    /// Another's, of this file.
    Other(String),
    /// No allocator's.
    None,
}

impl Owner {
    fn of(stack: &[Judged<'_>]) -> Self {
        match stack.iter().find(|judged| judged.is_allocator()) {
            Some(judged) if judged.in_c_library => Self::CLibrary,
            Some(judged) => Self::Other(judged.frame.module.clone()),
            None => Self::None,
        }
    }
}

type Table = BTreeMap<(WaitKind, Lock), (WaitRow, Owner)>;

/// A table of all that was waited for, most time first.
pub(crate) fn rows(sites: &[Site], cells: &[Cell], files: &Files) -> Vec<WaitRow> {
    let mut symbols = Symbols::new();
    let mut table = Table::new();
    for (site, cell) in sites.iter().zip(cells).filter(|(_, cell)| cell.looks > 0) {
        let described = Described::new(site, files, &mut symbols);
        let entry = table.entry((described.kind, site.lock));
        let (row, _) = entry.or_insert_with(|| (described.row(), described.owner.clone()));
        row.waits += cell.waits;
        row.seconds += cell.ns / 1e9;
        row.looks += cell.looks;
        row.longest_seconds = row.longest_seconds.max(seconds(cell.longest_ns));
        row.sites.push(described.site(cell));
    }
    name_all(&mut table, files);
    let mut rows: Vec<_> = table.into_values().map(|(row, _)| row).collect();
    for row in &mut rows {
        merge(&mut row.sites);
    }
    rows.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    rows
}

/// A site with names.
struct Described {
    kind: WaitKind,
    caller: Frame,
    stack: Vec<Frame>,
    owner: Owner,
}

impl Described {
    fn new(site: &Site, files: &Files, symbols: &mut Symbols) -> Self {
        let mut stack = Vec::new();
        let mut owners = Vec::new();
        for &place in &site.stack {
            let frames = symbols.frames(place, files);
            owners.extend(std::iter::repeat_n(place.file, frames.len()));
            stack.extend_from_slice(frames);
        }
        let judged: Vec<_> = stack
            .iter()
            .zip(&owners)
            .map(|(frame, &owner)| {
                let file = files.get(owner);
                Judged { frame, in_allocator: file.is_allocator, in_c_library: file.is_c_library }
            })
            .collect();
        let datum = match site.lock {
            Lock::Data(place) => files.get(place.file).datum(place.address).map(|(name, _)| name),
            _ => None,
        };
        Self {
            kind: wait::kind(&judged, datum),
            caller: wait::caller(&judged),
            owner: Owner::of(&judged),
            stack,
        }
    }

    fn row(&self) -> WaitRow {
        WaitRow {
            kind: self.kind,
            name: String::new(),
            file: None,
            line: None,
            waits: 0.0,
            seconds: 0.0,
            longest_seconds: 0.0,
            looks: 0,
            sites: Vec::new(),
        }
    }

    fn site(self, cell: &Cell) -> WaitSite {
        WaitSite { caller: self.caller, seconds: cell.ns / 1e9, stack: self.stack }
    }
}

/// Gives every lock its name. Arenas are numbered in the order of their addresses.
fn name_all(table: &mut Table, files: &Files) {
    let mut arenas = 1;
    for ((kind, lock), (row, owner)) in table {
        let owner = if *kind == WaitKind::AllocatorLock { &*owner } else { &Owner::None };
        if let Lock::Data(place) = *lock
            && let Some(declared) = files.get(place.file).declared(place.address)
        {
            row.file = Some(declared.file.clone());
            row.line = Some(declared.line);
        }
        row.name = match (*lock, owner) {
            (Lock::Memory { address, .. }, Owner::CLibrary) if is_arena(address) => {
                arenas += 1;
                format!("glibc arena #{arenas}")
            }
            (Lock::Memory { address, .. }, Owner::Other(module)) => {
                format!("{module} lock {address:#x}")
            }
            (Lock::Memory { address, .. }, _) => format!("{address:#x} in memory"),
            (Lock::Data(place), owner) => data_name(owner, place, files),
            (Lock::Any, _) => "others".to_owned(),
        };
    }
}

/// Whether this is where the lock of an arena is that the C library made for threads.
fn is_arena(address: u64) -> bool {
    address % ARENA_ALIGNMENT < ARENA_HEAD
}

/// The name of a lock in the data of a file.
fn data_name(owner: &Owner, place: Place, files: &Files) -> String {
    let file = files.get(place.file);
    let module = file.path.file_name().unwrap_or_default().to_string_lossy();
    let symbol = file.datum(place.address).map(|(name, offset)| match offset {
        0 => demangled(name),
        _ => format!("{}+{offset:#x}", demangled(name)),
    });
    match symbol {
        // Without symbols: the only lock of malloc there that is waited for.
        _ if *owner == Owner::CLibrary && file.is_c_library => {
            format!("glibc {}", symbol.as_deref().unwrap_or("main_arena"))
        }
        Some(symbol) => format!("{module}`{symbol}"),
        None => format!("{module}+{:#x}", place.address),
    }
}

/// Puts sites with the same stack together, and those with most time first.
fn merge(sites: &mut Vec<WaitSite>) {
    let mut merged: Vec<WaitSite> = Vec::new();
    for site in sites.drain(..) {
        match merged.iter_mut().find(|known| known.stack == site.stack) {
            Some(known) => known.seconds += site.seconds,
            None => merged.push(site),
        }
    }
    merged.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    *sites = merged;
}
