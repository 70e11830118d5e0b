//! What was found, in words.

use super::heap::Misuse;
use super::table::{Note, Record, Table};
use super::zones::Damage;
use crate::stack::Stack;
use crate::words::{Bytes, Objects, Relation, calls, line};
use core::cmp::Reverse;
use freehold_heap::layout::at;
use freehold_sys::{Linux, System, process};

/// Groups of objects that are listed.
const LISTED: usize = 50;

impl Table {
    /// Copies what is known of the object that something was done to, if it was wrong: for a report
    /// without the table's lock.
    pub(super) fn recall<T>(
        &self,
        result: Result<T, Misuse>,
        record: &mut Option<Record>,
    ) -> Result<T, Misuse> {
        result.inspect_err(|misuse| {
            let address = misuse.address();
            *record = self.all().find(|record| record.contains(address)).copied();
        })
    }
}

impl Misuse {
    fn address(self) -> usize {
        match self {
            Self::Damaged { object, .. } | Self::Freed { object } => object,
            Self::NoObject(address) => address,
            Self::Cell(invalid) => invalid.address(),
        }
    }
}

/// Reports what `function` found, and ends the process.
#[cold]
pub(super) fn end(function: &str, misuse: Misuse, record: Option<&Record>, stack: &Stack) -> ! {
    let (pid, tid) = (process::process_id(), process::thread_id());
    let end = format_args!("(process {pid}, thread {tid}); aborting");
    let relation = |record: &Record, address: usize| Relation {
        address,
        object: record.object,
        size: record.size,
    };
    let address = misuse.address();
    match (misuse, record) {
        (Misuse::Damaged { damage, .. }, Some(record)) => damaged(function, record, damage, end),
        (Misuse::Freed { .. }, Some(record)) => {
            let what = if function == "free" { "double free" } else { "use after free" };
            let relation = relation(record, address);
            line(format_args!("freehold: {function}: {what}: {relation}, which was freed {end}"));
        }
        (Misuse::Cell(invalid), _) => line(format_args!("freehold: {function}: {invalid} {end}")),
        (_, Some(record)) => {
            let relation = relation(record, address);
            let remark = if record.is_freed { ", which was freed" } else { "" };
            line(format_args!("freehold: {function}: {relation}{remark} {end}"));
        }
        (_, None) => {
            line(format_args!("freehold: {function}: {address:#x} is no object {end}"));
        }
    }
    calls(format_args!("this {function}"), stack);
    if let Some(record) = record {
        history(record);
    }
    process::abort()
}

/// Says what is wrong with an object.
fn damaged(function: &str, record: &Record, damage: Damage, end: core::fmt::Arguments<'_>) {
    let Record { object, size, .. } = *record;
    let whole = format_args!("the object of {} at {object:#x}", Bytes(size));
    match damage {
        Damage::Overflow(bytes) => line(format_args!(
            "freehold: {function}: overflow: up to {} behind {whole} written to {end}",
            Bytes(bytes)
        )),
        Damage::Underflow(bytes) => line(format_args!(
            "freehold: {function}: underflow: up to {} before {whole} written to {end}",
            Bytes(bytes)
        )),
        Damage::WriteAfterFree(address) => line(format_args!(
            "freehold: {function}: write after free: {} into {whole}, which was freed {end}",
            Bytes(address - object)
        )),
    }
}

/// Reports what a check has found of an object.
pub(super) fn found(record: &Record, damage: Damage) {
    let pid = process::process_id();
    damaged("check", record, damage, format_args!("(process {pid})"));
    history(record);
}

fn history(record: &Record) {
    by("allocated", &record.allocated);
    if record.is_freed {
        by("freed", &record.freed);
    }
}

fn by(what: &str, note: &Note) {
    if note.thread != 0 {
        calls(format_args!("{what} by thread {}", note.thread), &note.stack);
    }
}

/// Objects that the same calls have allocated.
#[derive(Clone, Copy)]
struct Group {
    stack: Stack,
    objects: usize,
    bytes: usize,
}

/// Lists what is allocated, by the calls that allocated it, the most bytes first.
pub(super) fn leaks(table: &Table) {
    let system = Linux::new();
    let live = || table.all().filter(|record| !record.is_freed);
    let (objects, bytes) = live().fold((0, 0), |(n, sum), record| (n + 1, sum + record.size));
    let pid = process::process_id();
    line(format_args!(
        "freehold: {} in {} still allocated, reachable or not (process {pid})",
        Bytes(bytes),
        Objects(objects)
    ));
    let room = (objects.max(1) * size_of::<Group>()).next_multiple_of(system.page_size());
    let Some(groups) = system.map(room) else { return };
    // SAFETY: zeroed memory of that size, which nobody else knows of; all zero is a group.
    let groups = unsafe { core::slice::from_raw_parts_mut(at::<Group>(groups), objects) };
    for (group, record) in groups.iter_mut().zip(live()) {
        *group = Group { stack: record.allocated.stack, objects: 1, bytes: record.size };
    }
    groups.sort_unstable_by_key(|group| group.stack.0);
    let mut count = 0;
    for n in 0..groups.len() {
        let group = groups[n];
        if count > 0 && groups[count - 1].stack == group.stack {
            groups[count - 1].objects += 1;
            groups[count - 1].bytes += group.bytes;
        } else {
            groups[count] = group;
            count += 1;
        }
    }
    let groups = &mut groups[..count];
    groups.sort_unstable_by_key(|group| Reverse(group.bytes));
    for group in groups.iter().take(LISTED) {
        let (bytes, objects) = (Bytes(group.bytes), Objects(group.objects));
        calls(format_args!("{bytes} in {objects} allocated"), &group.stack);
    }
    if count > LISTED {
        line(format_args!("  and {} places more", count - LISTED));
    }
}
