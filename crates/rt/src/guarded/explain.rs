//! What is wrong with an address in the pool, in words.
//!
//! A report is a line that says what happened, and then the calls that led there, that allocated
//! the object, and that freed it. Each line is written on its own, without allocating.

use super::pool::{FREED, LEAVING, Misuse, Note, Pool, Slot};
use crate::stack::{Registers, Stack};
use crate::words::{Bytes, Relation, calls, line};
use freehold_sync::atomic::Ordering;
use freehold_sys::process;

fn relation(slot: &Slot, address: usize) -> Relation {
    let (object, size) = slot.extent();
    Relation { address, object, size }
}

/// Whether the object of a slot was freed.
fn is_freed(slot: &Slot) -> bool {
    // Acquire: the notes are complete.
    matches!(slot.state.load(Ordering::Acquire), LEAVING | FREED)
}

/// Reports an access to inaccessible memory of the pool, by a thread with these registers.
pub(super) fn access(pool: &Pool, address: usize, write: Option<bool>, registers: Registers) {
    let verb = match write {
        Some(true) => "write",
        Some(false) => "read",
        None => "access",
    };
    let slot = pool.nearest(address);
    let (pid, tid) = (process::process_id(), process::thread_id());
    let end = format_args!("(process {pid}, thread {tid})");
    match slot {
        None => line(format_args!(
            "freehold: {verb} at {address:#x}, among guarded objects, where none was yet {end}"
        )),
        Some(slot) => {
            let relation = relation(slot, address);
            let what = match (is_freed(slot), address < relation.object, relation.beyond()) {
                (true, ..) => "use after free",
                (false, true, _) => "underflow",
                (false, _, Some(_)) => "overflow",
                // It was allocated while this was found out.
                (false, ..) => "use after free, of what has been allocated again since",
            };
            line(format_args!("freehold: {what}: {verb}: {relation} {end}"));
        }
    }
    calls(format_args!("this {verb}"), &Stack::of(registers));
    if let Some(slot) = slot {
        history(slot);
    }
}

/// Reports that `function` was passed what it must not be, and ends the process.
#[cold]
pub(super) fn end(function: &str, pool: &Pool, misuse: Misuse) -> ! {
    let stack = Stack::here();
    let (pid, tid) = (process::process_id(), process::thread_id());
    let end = format_args!("(process {pid}, thread {tid}); aborting");
    let address = match misuse {
        Misuse::NoObject { address } => address,
        Misuse::Spoiled { object, .. } => object,
    };
    let slot = pool.nearest(address);
    match (misuse, slot) {
        (Misuse::Spoiled { before, after, .. }, Some(slot)) => {
            let (object, size) = slot.extent();
            let (what, bytes, side) = if after > 0 {
                ("overflow", after, "behind")
            } else {
                ("underflow", before, "before")
            };
            line(format_args!(
                "freehold: {function}: {what}: up to {} {side} the object of {} at \
                 {object:#x} written to {end}",
                Bytes(bytes),
                Bytes(size)
            ));
        }
        (_, Some(slot)) => {
            let relation = relation(slot, address);
            let twice = function == "free" && address == relation.object;
            let what = match (is_freed(slot), twice) {
                (true, true) => "double free: ",
                (true, false) => "use after free: ",
                (false, _) => "",
            };
            let remark = if is_freed(slot) { ", which was freed" } else { "" };
            line(format_args!("freehold: {function}: {what}{relation}{remark} {end}"));
        }
        (_, None) => line(format_args!(
            "freehold: {function}: {address:#x} lies among guarded objects, where none was yet \
             {end}"
        )),
    }
    calls(format_args!("this {function}"), &stack);
    if let Some(slot) = slot {
        history(slot);
    }
    process::abort()
}

/// Who allocated the object of a slot, and who freed it.
fn history(slot: &Slot) {
    by("allocated", &slot.allocated);
    if is_freed(slot) {
        by("freed", &slot.freed);
    }
}

fn by(what: &str, note: &Note) {
    let (thread, stack) = note.read();
    calls(format_args!("{what} by thread {thread}"), &stack);
}
