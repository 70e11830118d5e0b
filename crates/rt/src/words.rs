//! What all reports of misuse are made of: lines, numbers of bytes, where an address is with
//! respect to an object, and calls.

use crate::stack::{Place, Stack};
use core::fmt::{self, Write};
use freehold_sys::stderr::Message;

/// Writes a line to standard error.
pub(crate) fn line(what: fmt::Arguments<'_>) {
    let mut message = Message::new();
    // Writing to a fixed buffer cannot fail.
    let _ = writeln!(message, "{what}");
}

/// A number of bytes.
pub(crate) struct Bytes(pub(crate) usize);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} byte{}", self.0, if self.0 == 1 { "" } else { "s" })
    }
}

/// A number of objects.
pub(crate) struct Objects(pub(crate) usize);

impl fmt::Display for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} object{}", self.0, if self.0 == 1 { "" } else { "s" })
    }
}

/// Where an address is with respect to an object.
pub(crate) struct Relation {
    pub(crate) address: usize,
    pub(crate) object: usize,
    pub(crate) size: usize,
}

impl Relation {
    /// Bytes from the object's end, if the address lies there or beyond.
    pub(crate) fn beyond(&self) -> Option<usize> {
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

/// Writes the calls of a stack, each as an address and, where that is known, a file and the place
/// in it.
pub(crate) fn calls(whose: fmt::Arguments<'_>, stack: &Stack) {
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
