//! Scripts: recorded calls as they are to be made again, thread by thread.
//!
//! A script is made from a trace by whoever plans to make its calls again, and read by the process
//! that makes them. It is a file of three parts behind a header, all in little-endian words: the
//! threads, the slices, and the steps of each thread.
//!
//! **Objects** are named by slots: a table of pointers, from which a step takes the object that an
//! earlier step has put there, whichever thread made it.
//!
//! **Slices** keep threads together. They cut the time of the trace into pieces; a thread may be as
//! many slices ahead of the last that is not complete as [`LEAD`] says, and no more. Within that, a
//! step waits for another thread only if the object that it needs is not there yet. A slot that is
//! emptied in one slice is filled again only in one that cannot begin before the first is complete.

use crate::bytes::{u32_at, u64_at};

/// The first bytes of every script.
pub const MAGIC: [u8; 8] = *b"frhdscrp";

/// The size of the header.
pub const HEADER: usize = 48;
/// The size of the description of a thread.
pub const THREAD: usize = 24;
/// The size of a slice's count.
pub const SLICE: usize = 4;
/// The size of a step.
pub const STEP: usize = 16;

/// How many slices a thread may be ahead of the last that is not complete.
pub const LEAD: u32 = 1;

/// How much a script holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Header {
    /// Threads.
    pub threads: u32,
    /// Slices.
    pub slices: u32,
    /// Slots.
    pub slots: u32,
    /// Steps of all threads together.
    pub steps: u64,
    /// The most bytes alive at once, in the order of the trace.
    pub peak_bytes: u64,
}

impl Header {
    /// The header as bytes.
    pub fn to_bytes(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &MAGIC);
        put(8, &self.threads.to_le_bytes());
        put(12, &self.slices.to_le_bytes());
        put(16, &self.slots.to_le_bytes());
        put(24, &self.steps.to_le_bytes());
        put(32, &self.peak_bytes.to_le_bytes());
        bytes
    }

    /// Reads the header of a script whose length fits it.
    pub fn read(script: &[u8]) -> Option<Self> {
        if !script.starts_with(&MAGIC) {
            return None;
        }
        let header = Self {
            threads: u32_at(script, 8)?,
            slices: u32_at(script, 12)?,
            slots: u32_at(script, 16)?,
            steps: u64_at(script, 24)?,
            peak_bytes: u64_at(script, 32)?,
        };
        let steps = header.steps.checked_mul(STEP as u64)?;
        let end = header.steps_at().checked_add(steps)?;
        (script.len() as u64 == end).then_some(header)
    }

    /// Where the threads are.
    pub fn threads_at(&self) -> u64 {
        HEADER as u64
    }

    /// Where the slices are.
    pub fn slices_at(&self) -> u64 {
        self.threads_at() + THREAD as u64 * u64::from(self.threads)
    }

    /// Where the steps are: at a multiple of their size.
    pub fn steps_at(&self) -> u64 {
        let end = self.slices_at() + SLICE as u64 * u64::from(self.slices);
        end.next_multiple_of(STEP as u64)
    }
}

/// A thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Thread {
    /// The first of its steps, counted over all threads.
    pub first: u64,
    /// How many they are.
    pub steps: u64,
    /// The slice in which it begins.
    pub slice: u32,
}

impl Thread {
    /// The description as bytes.
    pub fn to_bytes(&self) -> [u8; THREAD] {
        let mut bytes = [0; THREAD];
        bytes[..8].copy_from_slice(&self.first.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.steps.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.slice.to_le_bytes());
        bytes
    }

    /// Reads a description.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self { first: u64_at(bytes, 0)?, steps: u64_at(bytes, 8)?, slice: u32_at(bytes, 16)? })
    }
}

/// What a thread does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Goes on to another slice, having changed the bytes alive by so many in the last.
    Enter {
        /// The slice.
        slice: u32,
        /// The change.
        change: i64,
    },
    /// Ends, having changed the bytes alive by so many in its last slice.
    End {
        /// The change.
        change: i64,
    },
    /// `malloc` into a slot.
    Malloc {
        /// The slot.
        slot: u32,
        /// The size.
        size: u64,
    },
    /// `calloc` of one element into a slot.
    Calloc {
        /// The slot.
        slot: u32,
        /// The size.
        size: u64,
    },
    /// An allocation with an alignment, into a slot.
    Aligned {
        /// The slot.
        slot: u32,
        /// The size.
        size: u64,
        /// The alignment, as a power of two.
        power: u32,
    },
    /// `realloc` of null into a slot.
    ReallocNull {
        /// The slot.
        slot: u32,
        /// The size.
        size: u64,
    },
    /// `realloc` of the object in a slot, into another. A [`Step::Was`] follows.
    Realloc {
        /// The slot that it is taken from.
        from: u32,
        /// The slot that it is put into.
        to: u32,
        /// The new size.
        size: u64,
    },
    /// How large the object was before.
    Was {
        /// The old size.
        size: u64,
    },
    /// `realloc` of the object in a slot to a size of 0, which frees it.
    ReallocZero {
        /// The slot.
        slot: u32,
    },
    /// `free` of the object in a slot.
    Free {
        /// The slot.
        slot: u32,
    },
    /// `free` of null.
    FreeNull,
}

/// The most bytes of a size: sizes have 48 bits.
pub const LARGEST: u64 = (1 << SIZE_BITS) - 1;
const SIZE_BITS: u32 = 48;

impl Step {
    /// The step as bytes. A size above [`LARGEST`] is cut to it.
    pub fn to_bytes(&self) -> [u8; STEP] {
        let (kind, power, wide, slot, other) = match *self {
            Self::Enter { slice, change } => (1, 0, change as u64, slice, 0),
            Self::End { change } => (2, 0, change as u64, 0, 0),
            Self::Malloc { slot, size } => (3, 0, size, slot, 0),
            Self::Calloc { slot, size } => (4, 0, size, slot, 0),
            Self::Aligned { slot, size, power } => (5, power, size, slot, 0),
            Self::ReallocNull { slot, size } => (6, 0, size, slot, 0),
            Self::Realloc { from, to, size } => (7, 0, size, to, from),
            Self::Was { size } => (8, 0, size, 0, 0),
            Self::ReallocZero { slot } => (9, 0, 0, slot, 0),
            Self::Free { slot } => (10, 0, 0, slot, 0),
            Self::FreeNull => (11, 0, 0, 0, 0),
        };
        let wide = match *self {
            Self::Enter { .. } | Self::End { .. } => wide & LARGEST,
            _ => wide.min(LARGEST),
        };
        let first = kind | u64::from(power & 0xff) << 8 | wide << 16;
        let second = u64::from(slot) | u64::from(other) << 32;
        let mut bytes = [0; STEP];
        bytes[..8].copy_from_slice(&first.to_le_bytes());
        bytes[8..].copy_from_slice(&second.to_le_bytes());
        bytes
    }

    /// Reads a step.
    #[inline]
    pub fn read(bytes: &[u8; STEP]) -> Option<Self> {
        let (first, second) = (u64_at(bytes, 0)?, u64_at(bytes, 8)?);
        let (size, change) = (first >> 16, first as i64 >> 16);
        let (slot, other) = (second as u32, (second >> 32) as u32);
        Some(match first & 0xff {
            1 => Self::Enter { slice: slot, change },
            2 => Self::End { change },
            3 => Self::Malloc { slot, size },
            4 => Self::Calloc { slot, size },
            5 => Self::Aligned { slot, size, power: (first >> 8) as u32 & 0xff },
            6 => Self::ReallocNull { slot, size },
            7 => Self::Realloc { from: other, to: slot, size },
            8 => Self::Was { size },
            9 => Self::ReallocZero { slot },
            10 => Self::Free { slot },
            11 => Self::FreeNull,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    #[test]
    fn steps_come_back() {
        let steps = [
            Step::Enter { slice: 7, change: -5 },
            Step::End { change: 1 << 40 },
            Step::Malloc { slot: u32::MAX, size: LARGEST },
            Step::Calloc { slot: 1, size: 0 },
            Step::Aligned { slot: 2, size: 3, power: 47 },
            Step::ReallocNull { slot: 9, size: 5 },
            Step::Realloc { from: 1, to: 2, size: 3 },
            Step::Was { size: 77 },
            Step::ReallocZero { slot: 4 },
            Step::Free { slot: 5 },
            Step::FreeNull,
        ];
        for step in steps {
            assert_eq!(Step::read(&step.to_bytes()), Some(step));
        }
        assert_eq!(Step::read(&[0; STEP]), None);
        assert_eq!(Step::read(&[0xff; STEP]), None);
    }

    #[test]
    fn a_header_is_read_from_a_script_of_its_length_only() {
        let header = Header { threads: 3, slices: 5, slots: 7, steps: 2, peak_bytes: 11 };
        let mut script: Vec<u8> = header.to_bytes().into();
        script.resize(header.steps_at() as usize + 2 * STEP, 0);
        assert_eq!(Header::read(&script), Some(header));
        assert_eq!(header.steps_at() % STEP as u64, 0);
        script.push(0);
        assert_eq!(Header::read(&script), None);
        assert_eq!(Header::read(b"frhdscrp"), None);
    }

    #[test]
    fn a_thread_comes_back() {
        let thread = Thread { first: 1 << 40, steps: 5, slice: 9 };
        assert_eq!(Thread::read(&thread.to_bytes()), Some(thread));
    }
}
