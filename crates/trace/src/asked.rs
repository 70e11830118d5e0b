//! How a file of answers is laid out: what the allocators within each process say of themselves
//! when they are asked. It has its full size from the beginning, is mapped and shared, and never
//! grows.
//!
//! A word with the magic and one with the number of processes; then a record for each of them.
//! Whoever asks holds an exclusive lock of the file (`flock(2)`) until it has read the answer.

/// The first bytes of the file.
pub const MAGIC: [u8; 8] = *b"frhdask1";

/// The name of the environment by which the library within a process finds the file.
pub const VARIABLE: &str = "FREEHOLD_ANSWERS";

/// Where the number of processes is, 4 bytes.
pub const PROCESSES: usize = 8;

/// Where the first record is, and bytes of each: no two share a line of the processor's cache.
pub const FIRST: usize = 256;
/// See [`FIRST`].
pub const RECORD: usize = 256;

/// Processes that there is room for. Further ones are not asked.
pub const MOST: usize = 1023;

/// Bytes of the whole file.
pub const BYTES: usize = FIRST + MOST * RECORD;

/// Where the fields of a record are.
pub mod field {
    /// The process, 4 bytes; 0 until it can be asked.
    pub const PID: usize = 0;
    /// Two words, 4 bytes each: `freehold_sync::question::Question`.
    pub const QUESTION: usize = 8;
    /// One bit for each value that is known, 8 bytes.
    pub const KNOWN: usize = 16;
    /// The values, 8 bytes each.
    pub const VALUES: usize = 24;
}

/// What an allocator says of itself, by the name that it has there. Bytes, all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Value {
    /// `mallinfo2`: blocks in use, and kept by threads, in all arenas.
    LibraryUsed,
    /// `mallinfo2`: large blocks, each with a mapping of its own.
    LibraryMapped,
    /// `mallinfo2`: free blocks in fast bins, which are also counted as free.
    LibraryFast,
    /// `mallinfo2`: free blocks.
    LibraryFree,
    /// `mallinfo2`: what the arenas have from the system.
    LibraryArena,
    /// `stats.allocated` of jemalloc.
    JemallocAllocated,
    /// `stats.active`.
    JemallocActive,
    /// `stats.metadata`.
    JemallocMetadata,
    /// `stats.resident`.
    JemallocResident,
    /// `stats.arenas.4096.tcache_bytes`: of all arenas.
    JemallocCached,
    /// `stats.arenas.4096.internal`: its own, which it counts as allocated as well.
    JemallocInternal,
    /// `generic.current_allocated_bytes` of tcmalloc (gperftools).
    TcmallocAllocated,
    /// `tcmalloc.pageheap_free_bytes`.
    TcmallocPages,
    /// `tcmalloc.central_cache_free_bytes`.
    TcmallocCentral,
    /// `tcmalloc.transfer_cache_free_bytes`.
    TcmallocTransfer,
    /// `tcmalloc.current_total_thread_cache_bytes`.
    TcmallocCached,
    /// `generic.total_physical_bytes`.
    TcmallocPhysical,
}

impl Value {
    /// All of them, each at the place of its number.
    pub const ALL: [Self; 17] = [
        Self::LibraryUsed,
        Self::LibraryMapped,
        Self::LibraryFast,
        Self::LibraryFree,
        Self::LibraryArena,
        Self::JemallocAllocated,
        Self::JemallocActive,
        Self::JemallocMetadata,
        Self::JemallocResident,
        Self::JemallocCached,
        Self::JemallocInternal,
        Self::TcmallocAllocated,
        Self::TcmallocPages,
        Self::TcmallocCentral,
        Self::TcmallocTransfer,
        Self::TcmallocCached,
        Self::TcmallocPhysical,
    ];
}

const _: () = assert!(field::VALUES + Value::ALL.len() * 8 <= RECORD, "values fit the record");

/// What was answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Answer {
    known: u64,
    values: [u64; Value::ALL.len()],
}

impl Answer {
    /// Reads an answer, word by word from `field::KNOWN` on.
    pub fn read(mut word: impl FnMut(usize) -> u64) -> Self {
        let known = word(field::KNOWN);
        Self { known, values: core::array::from_fn(|n| word(field::VALUES + n * 8)) }
    }

    /// Writes it, word by word.
    pub fn write(&self, mut word: impl FnMut(usize, u64)) {
        word(field::KNOWN, self.known);
        for (n, value) in self.values.iter().enumerate() {
            word(field::VALUES + n * 8, *value);
        }
    }

    /// Adds what an allocator says.
    pub fn set(&mut self, value: Value, bytes: u64) {
        self.known |= 1 << value as usize;
        self.values[value as usize] = bytes;
    }

    /// What was said, if anything.
    pub fn get(&self, value: Value) -> Option<u64> {
        let at = value as usize;
        (self.known & 1 << at != 0).then(|| self.values[at])
    }
}

/// A file without any processes.
pub fn head() -> [u8; FIRST] {
    let mut head = [0; FIRST];
    head[..MAGIC.len()].copy_from_slice(&MAGIC);
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_as_it_was_written_and_what_was_not_said_is_not_known() {
        assert!(Value::ALL.iter().enumerate().all(|(n, value)| *value as usize == n));
        let mut answer = Answer::default();
        answer.set(Value::JemallocCached, 0);
        answer.set(Value::TcmallocPhysical, 7);
        let mut record = [0; RECORD / 8];
        answer.write(|at, word| record[at / 8] = word);
        let read = Answer::read(|at| record[at / 8]);
        assert_eq!(read, answer);
        assert_eq!(read.get(Value::JemallocCached), Some(0));
        assert_eq!(read.get(Value::TcmallocPhysical), Some(7));
        assert_eq!(read.get(Value::LibraryUsed), None);
    }
}
