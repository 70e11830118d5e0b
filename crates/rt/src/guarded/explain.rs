//! What is wrong with an address in the pool, in words.
//!
//! A report is a line that says what happened, and then the calls that led there, that allocated
//! the object, and that freed it. Each line is written on its own, without allocating.

use super::pool::{FREED, LEAVING, Misuse, Note, Pool, Slot};
use crate::stack::{Place, Registers, Stack};
use core::fmt::{self, Write};
use freehold_sync::atomic::Ordering;
use freehold_sys::process;
use freehold_sys::stderr::Message;

/// Writes a line.
fn line(what: fmt::Arguments<'_>) {
    let mut message = Message::new();
    // Writing to a fixed buffer cannot fail.
    let _ = writeln!(message, "{what}");
}

/// A number of bytes.
struct Bytes(usize);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} byte{}", self.0, if self.0 == 1 { "" } else { "s" })
    }
}

/// Where an address is with respect to an object.
struct Relation {
    address: usize,
    object: usize,
    size: usize,
}

impl Relation {
    fn of(slot: &Slot, address: usize) -> Self {
        let (object, size) = slot.extent();
        Self { address, object, size }
    }

    /// Bytes from the object's end, if the address lies there or beyond.
    fn beyond(&self) -> Option<usize> {
        self.address.checked_sub(self.object + self.size)
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, object, size } = *self;
        write!(f, "{address:#x} is ")?;
        match (address.checked_sub(object), self.beyond()) {
            (None, _) => write!(f, "{} before", Bytes(object - address))?,
            (Some(0), _) => write!(f, "the start of")?,
            (_, Some(0)) => write!(f, "just behind")?,
            (_, Some(bytes)) => write!(f, "{} behind", Bytes(bytes))?,
            (Some(offset), None) => write!(f, "{} into", Bytes(offset))?,
        }
        write!(f, " the object of {} at {object:#x}", Bytes(size))
    }
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
            let relation = Relation::of(slot, address);
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
            let relation = Relation::of(slot, address);
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

/// Writes the calls of a stack, each as an address and, where that is known, a file and the place
/// in it.
fn calls(whose: fmt::Arguments<'_>, stack: &Stack) {
    if stack.frames().next().is_none() {
        return line(format_args!("  {whose}: calls unknown"));
    }
    line(format_args!("  {whose}:"));
    for address in stack.frames() {
        match Place::of(address) {
            Some(place) => line(format_args!("    {address:#x} {place}")),
            None => line(format_args!("    {address:#x}")),
        }
    }
}
