//! How a file of counts is laid out: what the calls of each process come to, for those who need
//! neither the calls nor their order. It has its full size from the beginning, is mapped and shared
//! as a trace is, and never grows.
//!
//! A word with the magic and one with the number of processes; then a record for each of them.

use crate::bytes::{u32_at, u64_at};

/// The first bytes of the file.
pub const MAGIC: [u8; 8] = *b"frhdcnt1";

/// The name of the environment by which the recorder finds the file.
pub const VARIABLE: &str = "FREEHOLD_COUNTS";

/// Where the number of processes is, 4 bytes.
pub const PROCESSES: usize = 8;

/// Where the first record is, and bytes of each: no two share a line of the processor's cache.
pub const FIRST: usize = 128;
/// See [`FIRST`].
pub const RECORD: usize = 128;

/// Processes that there is room for. Further ones are not counted.
pub const MOST: usize = 1023;

/// Bytes of the whole file.
pub const BYTES: usize = FIRST + MOST * RECORD;

/// One address in so many is followed, to tell who frees what others asked for.
pub const FOLLOWED: u64 = 16;

/// Where the fields of a record are. All but the first are of 8 bytes.
pub mod field {
    #![expect(missing_docs, reason = "the names are the fields' own; see `Counts`")]
    pub const PID: usize = 0;
    pub const ALLOCATIONS: usize = 8;
    pub const FREES: usize = 16;
    pub const REQUESTED: usize = 24;
    pub const ALLOCATED: usize = 32;
    pub const FREED: usize = 40;
    pub const FOLLOWED: usize = 48;
    pub const ELSEWHERE: usize = 56;
}

/// What the calls of a process come to. Each thread adds what it has counted now and then.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// The process.
    pub pid: u32,
    /// Objects given out.
    pub allocations: u64,
    /// Objects freed.
    pub frees: u64,
    /// Bytes that were asked for.
    pub requested: u64,
    /// Bytes that were given: usable sizes. 0 where the allocator does not tell them.
    pub allocated: u64,
    /// Bytes that were freed, likewise.
    pub freed: u64,
    /// Objects freed of those that were followed.
    pub followed: u64,
    /// Those of them that another thread had asked for.
    pub elsewhere: u64,
}

impl Counts {
    /// Reads a record.
    fn read(record: &[u8]) -> Option<Self> {
        let word = |at| u64_at(record, at);
        Some(Self {
            pid: u32_at(record, field::PID)?,
            allocations: word(field::ALLOCATIONS)?,
            frees: word(field::FREES)?,
            requested: word(field::REQUESTED)?,
            allocated: word(field::ALLOCATED)?,
            freed: word(field::FREED)?,
            followed: word(field::FOLLOWED)?,
            elsewhere: word(field::ELSEWHERE)?,
        })
    }

    /// Bytes that are in use; `None` where sizes are not told.
    pub fn live(&self) -> Option<u64> {
        // Threads add at different moments.
        (self.allocated > 0).then(|| self.allocated.saturating_sub(self.freed))
    }
}

/// A file without any processes.
pub fn head() -> [u8; FIRST] {
    let mut head = [0; FIRST];
    head[..MAGIC.len()].copy_from_slice(&MAGIC);
    head
}

/// The records of a file; `None` if it is none.
pub fn records(file: &[u8]) -> Option<impl Iterator<Item = Counts>> {
    let count = u32_at(file, PROCESSES).filter(|_| file.starts_with(&MAGIC))?;
    let records = file.get(FIRST..)?.chunks_exact(RECORD).take(count as usize);
    // One that was only just taken has no process yet.
    Some(records.filter_map(Counts::read).filter(|counts| counts.pid != 0))
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    #[test]
    fn a_file_has_a_record_for_each_process() {
        let mut file = head().to_vec();
        file.resize(BYTES, 0);
        assert_eq!(records(&file).expect("a file of counts").count(), 0);
        file[PROCESSES] = 2;
        file[FIRST + field::PID] = 7;
        file[FIRST + field::ALLOCATED + 1] = 2;
        file[FIRST + field::FREED] = 12;
        let found: Vec<_> = records(&file).expect("a file of counts").collect();
        assert_eq!(found.len(), 1, "the second process has not said who it is");
        assert_eq!((found[0].pid, found[0].live()), (7, Some(500)));
        assert_eq!(Counts::default().live(), None);
        assert!(records(b"a letter").is_none());
    }
}
