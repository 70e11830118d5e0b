//! Words on standard error, when a program does what it must not.

use crate::maps::Mapping;
use crate::process as own;
use core::fmt::Write;
use freehold_heap::invalid::Invalid;
use freehold_sys::process;
use freehold_sys::stderr::Message;

/// Says what is wrong with the address that was passed to `function`, and ends the process.
#[cold]
pub(crate) fn invalid(function: &str, invalid: Invalid) -> ! {
    let mut message = Message::new();
    let (pid, tid) = (process::process_id(), process::thread_id());
    // Writing to a fixed buffer cannot fail.
    let _ = write!(message, "freehold: {function}: {invalid}");
    let address = invalid.address();
    if let Invalid::Foreign { .. } = invalid {
        let _ = match Mapping::containing(address) {
            Some(mapping) => write!(message, "; it lies in {mapping}"),
            None => write!(message, "; nothing is mapped there"),
        };
    }
    if let Some(place) = own::any_arena().and_then(|arena| arena.place_of(address)) {
        let _ = write!(message, "; it lies {place}");
    }
    let _ = writeln!(message, " (process {pid}, thread {tid}); aborting");
    drop(message);
    process::abort()
}
