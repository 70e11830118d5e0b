//! How a trace file is laid out: a header, then blocks one behind the other.
//!
//! While a program runs the file is *raw*: it has its full size from the beginning, and whoever
//! needs a block takes the next bytes of it. When the command has ended the file is *sealed*: each
//! block is cut to what is used of it and carries a sum, so that damage is found.
//!
//! | block | what it holds |
//! |---|---|
//! | process | what is known of a process: its number, its program, the allocator it used |
//! | chunk | records of one thread, in the order in which it made the calls |

use crate::bytes::{u32_at, u64_at};

/// The first bytes of every trace.
pub const MAGIC: [u8; 8] = *b"frhdtrce";

/// The version of the format that this crate writes, and the only one it reads.
pub const VERSION: u32 = 2;

/// The size of the header, and the unit of blocks in a raw file.
pub const UNIT: usize = 4096;

/// The least size of a raw file: less holds nothing worth reading.
pub const LEAST_CAPACITY: u64 = 1 << 20;

/// Names of the environment by which the recorder finds the file.
pub const VARIABLE: &str = "FREEHOLD_TRACE";

/// The file is being written, or its writer did not live to seal it.
pub const RAW: u32 = 0;
/// The file is complete.
pub const SEALED: u32 = 1;

/// A flag of the header: there was no room for more.
pub const FLAG_FULL: u32 = 1;
/// A flag of the header: the file system had no room for more.
pub const FLAG_NO_SPACE: u32 = 2;

/// Where the fields of the header are. Those from `TAKEN` on change while programs run.
pub mod header {
    #![expect(missing_docs, reason = "the names are the fields' own; see `Header`")]
    pub const VERSION: usize = 8;
    pub const STATE: usize = 12;
    pub const CAPACITY: usize = 16;
    pub const START_MONOTONIC: usize = 24;
    pub const START_REAL: usize = 32;
    pub const TAKEN: usize = 40;
    pub const PROCESSES: usize = 48;
    pub const FLAGS: usize = 52;
    pub const BYTES: usize = 56;
}

/// The header of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// [`RAW`] or [`SEALED`].
    pub state: u32,
    /// The size of the raw file.
    pub capacity: u64,
    /// `CLOCK_MONOTONIC` when recording began, in nanoseconds: the zero of all clocks within.
    pub start_monotonic: u64,
    /// The same moment as nanoseconds since 1970.
    pub start_real: u64,
    /// Bytes that are taken, the header included.
    pub taken: u64,
    /// Processes that were to be recorded; of some there is no block, since there was no room.
    pub processes: u32,
    /// [`FLAG_FULL`], [`FLAG_NO_SPACE`].
    pub flags: u32,
}

/// Why a header could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderError {
    /// The file does not begin as a trace does.
    NotATrace,
    /// The file is shorter than a header.
    Short,
    /// The file is of another version of the format.
    Version(u32),
    /// A field has an impossible value.
    Damaged,
}

impl Header {
    /// The header of a new raw file.
    pub fn new(capacity: u64, start_monotonic: u64, start_real: u64) -> Self {
        let taken = UNIT as u64;
        Self { state: RAW, capacity, start_monotonic, start_real, taken, processes: 0, flags: 0 }
    }

    /// The header as bytes.
    pub fn to_bytes(&self) -> [u8; header::BYTES] {
        let mut bytes = [0; header::BYTES];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &MAGIC);
        put(header::VERSION, &VERSION.to_le_bytes());
        put(header::STATE, &self.state.to_le_bytes());
        put(header::CAPACITY, &self.capacity.to_le_bytes());
        put(header::START_MONOTONIC, &self.start_monotonic.to_le_bytes());
        put(header::START_REAL, &self.start_real.to_le_bytes());
        put(header::TAKEN, &self.taken.to_le_bytes());
        put(header::PROCESSES, &self.processes.to_le_bytes());
        put(header::FLAGS, &self.flags.to_le_bytes());
        bytes
    }

    /// Reads a header.
    pub fn read(bytes: &[u8]) -> Result<Self, HeaderError> {
        if !bytes.starts_with(&MAGIC) {
            return Err(HeaderError::NotATrace);
        }
        let version = u32_at(bytes, header::VERSION).ok_or(HeaderError::Short)?;
        if version != VERSION {
            return Err(HeaderError::Version(version));
        }
        let found = Self::fields(bytes).ok_or(HeaderError::Short)?;
        let is_sound = found.state <= SEALED && found.taken >= UNIT as u64;
        if is_sound { Ok(found) } else { Err(HeaderError::Damaged) }
    }

    fn fields(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            state: u32_at(bytes, header::STATE)?,
            capacity: u64_at(bytes, header::CAPACITY)?,
            start_monotonic: u64_at(bytes, header::START_MONOTONIC)?,
            start_real: u64_at(bytes, header::START_REAL)?,
            taken: u64_at(bytes, header::TAKEN)?,
            processes: u32_at(bytes, header::PROCESSES)?,
            flags: u32_at(bytes, header::FLAGS)?,
        })
    }
}

/// The first bytes of every block.
pub const BLOCK_MAGIC: u32 = 0x6b63_6c62;

/// A block that describes a process.
pub const PROCESS: u32 = 1;
/// A block of records.
pub const CHUNK: u32 = 2;

/// Where the fields of a block are.
pub mod block {
    #![expect(missing_docs, reason = "the names are the fields' own; see `Block`")]
    pub const KIND: usize = 4;
    pub const BYTES: usize = 8;
    pub const PROCESS: usize = 16;
    pub const THREAD: usize = 20;
    pub const SEQUENCE: usize = 24;
    pub const KERNEL_THREAD: usize = 28;
    pub const CLOCK: usize = 32;
    pub const CHECK: usize = 40;
    pub const PAYLOAD: usize = 48;
    pub const SUM: usize = 56;
    /// The size of a block's header.
    pub const HEADER: usize = 64;
}

/// The header of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// [`PROCESS`] or [`CHUNK`].
    pub kind: u32,
    /// The size of the block, this header included.
    pub bytes: u64,
    /// The process that it belongs to.
    pub process: u32,
    /// The thread within the process.
    pub thread: u32,
    /// Which of the thread's chunks it is.
    pub sequence: u32,
    /// The kernel's number of the thread.
    pub kernel_thread: u32,
    /// The thread's clock at the beginning of the chunk.
    pub clock: u64,
    /// Bytes that count behind this header; 0 in a raw file, where a zero byte ends the records.
    pub payload: u64,
    /// [`sum`] of those; 0 in a raw file.
    pub sum: u64,
}

impl Block {
    /// The header as bytes, with its check.
    pub fn to_bytes(&self) -> [u8; block::HEADER] {
        let mut bytes = [0; block::HEADER];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &BLOCK_MAGIC.to_le_bytes());
        put(block::KIND, &self.kind.to_le_bytes());
        put(block::BYTES, &self.bytes.to_le_bytes());
        put(block::PROCESS, &self.process.to_le_bytes());
        put(block::THREAD, &self.thread.to_le_bytes());
        put(block::SEQUENCE, &self.sequence.to_le_bytes());
        put(block::KERNEL_THREAD, &self.kernel_thread.to_le_bytes());
        put(block::CLOCK, &self.clock.to_le_bytes());
        put(block::PAYLOAD, &self.payload.to_le_bytes());
        put(block::SUM, &self.sum.to_le_bytes());
        let check = check(&bytes);
        bytes[block::CHECK..block::CHECK + 8].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// Reads the header of a block; `None` if there is none here, or a damaged one.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; block::HEADER] = bytes.first_chunk()?;
        let is_block = u32_at(bytes, 0) == Some(BLOCK_MAGIC)
            && u64_at(bytes, block::CHECK) == Some(check(bytes));
        if !is_block {
            return None;
        }
        Some(Self {
            kind: u32_at(bytes, block::KIND)?,
            bytes: u64_at(bytes, block::BYTES)?,
            process: u32_at(bytes, block::PROCESS)?,
            thread: u32_at(bytes, block::THREAD)?,
            sequence: u32_at(bytes, block::SEQUENCE)?,
            kernel_thread: u32_at(bytes, block::KERNEL_THREAD)?,
            clock: u64_at(bytes, block::CLOCK)?,
            payload: u64_at(bytes, block::PAYLOAD)?,
            sum: u64_at(bytes, block::SUM)?,
        })
    }
}

/// The check of a block's header: the sum of all of it but the check itself.
fn check(header: &[u8; block::HEADER]) -> u64 {
    let front = sum(&header[..block::CHECK]);
    front ^ sum(&header[block::CHECK + 8..]).rotate_left(1)
}

/// Where the fields behind the header of a process's block are.
pub mod process {
    #![expect(missing_docs, reason = "the names are the fields' own; see `Process`")]
    pub const PID: usize = 0;
    pub const PARENT_PID: usize = 4;
    pub const FORKED_FROM: usize = 8;
    pub const FORK_CLOCK: usize = 16;
    pub const NESTED: usize = 24;
    pub const LOST: usize = 32;
    pub const ALLOCATOR: usize = 40;
    pub const PROGRAM: usize = ALLOCATOR + TEXT;
    pub const COMMAND: usize = PROGRAM + TEXT;
    /// The room for each text, which a zero byte ends if it is shorter.
    pub const TEXT: usize = 1024;
    /// All of them.
    pub const BYTES: usize = COMMAND + TEXT;
}

/// What is known of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process<'a> {
    /// The kernel's number of it.
    pub pid: u32,
    /// The kernel's number of its parent.
    pub parent_pid: u32,
    /// The process that it is a copy of, if it was forked and has not executed another program.
    pub forked_from: Option<u32>,
    /// The clock of the forking thread at the fork.
    pub fork_clock: u64,
    /// Calls that were made within another, by a signal handler or by the allocator, and are not
    /// recorded.
    pub nested: u64,
    /// Calls that are not recorded because there was no room.
    pub lost: u64,
    /// The file of the allocator that served the calls.
    pub allocator: &'a [u8],
    /// The file of the program.
    pub program: &'a [u8],
    /// Its arguments, each ended by a zero byte.
    pub command: &'a [u8],
}

impl<'a> Process<'a> {
    /// Reads what stands behind the header of a process's block.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let text = |at: usize| bytes.get(at..at + process::TEXT);
        let ended = |text: &'a [u8]| text.split(|&byte| byte == 0).next().unwrap_or_default();
        let command = text(process::COMMAND)?;
        let end = command.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        Some(Self {
            pid: u32_at(bytes, process::PID)?,
            parent_pid: u32_at(bytes, process::PARENT_PID)?,
            forked_from: u32_at(bytes, process::FORKED_FROM)?.checked_sub(1),
            fork_clock: u64_at(bytes, process::FORK_CLOCK)?,
            nested: u64_at(bytes, process::NESTED)?,
            lost: u64_at(bytes, process::LOST)?,
            allocator: ended(text(process::ALLOCATOR)?),
            program: ended(text(process::PROGRAM)?),
            command: &command[..end],
        })
    }
}

const _: () = assert!(block::HEADER + process::BYTES <= UNIT, "a process takes one unit");

/// A sum over bytes by which damage is found. It is no protection against intent.
pub fn sum(bytes: &[u8]) -> u64 {
    const SEED: u64 = 0xcbf2_9ce4_8422_2325;
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut words = bytes.chunks_exact(8);
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(FACTOR).rotate_left(29);
    let mut total = mix(SEED, bytes.len() as u64);
    for word in &mut words {
        total = mix(total, u64_at(word, 0).unwrap_or_default());
    }
    let mut last = [0; 8];
    let rest = words.remainder();
    last[..rest.len()].copy_from_slice(rest);
    mix(total, u64::from_le_bytes(last))
}

/// The share of objects that is recorded, as a power of two: 0 is all, 1 every second. It falls
/// as the file fills, so that the file lasts: all until a quarter of it is left, then half of them
/// until an eighth is left, and so on.
pub fn level(taken: u64, capacity: u64) -> u32 {
    // The last unit is as good as taken: no share is so small that it would not fill.
    let left = capacity.saturating_sub(taken).max(UNIT as u64);
    (capacity / left).max(1).ilog2().saturating_sub(1).min(LAST_LEVEL)
}

/// The least share: one object of this power of two.
pub const LAST_LEVEL: u32 = 20;

/// Whether an object at this address is recorded at a level. One that is recorded at a level is so
/// at all lower ones.
pub fn is_sampled(address: u64, level: u32) -> bool {
    const SCATTER: u64 = 0x9e37_79b9_7f4a_7c15;
    let scattered = (address >> 3).wrapping_mul(SCATTER);
    level == 0 || scattered >> (64 - level) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_and_what_is_none_is_refused() {
        let header = Header::new(1 << 30, 5, 7);
        assert_eq!(Header::read(&header.to_bytes()), Ok(header));
        assert_eq!(Header::read(b"#!/bin/sh"), Err(HeaderError::NotATrace));
        assert_eq!(Header::read(&header.to_bytes()[..50]), Err(HeaderError::Short));
        let mut newer = header.to_bytes();
        newer[header::VERSION] = 9;
        assert_eq!(Header::read(&newer), Err(HeaderError::Version(9)));
        let mut odd = header.to_bytes();
        odd[header::STATE] = 77;
        assert_eq!(Header::read(&odd), Err(HeaderError::Damaged));
    }

    #[test]
    fn a_block_comes_back_and_any_changed_byte_is_noticed() {
        let block = Block {
            kind: CHUNK,
            bytes: 65_536,
            process: 1,
            thread: 2,
            sequence: 3,
            kernel_thread: 4,
            clock: 5,
            payload: 6,
            sum: 7,
        };
        let bytes = block.to_bytes();
        assert_eq!(Block::read(&bytes), Some(block));
        for at in 0..bytes.len() {
            let mut damaged = bytes;
            damaged[at] ^= 0x10;
            assert_eq!(Block::read(&damaged), None, "byte {at}");
        }
        assert_eq!(Block::read(&bytes[..63]), None);
    }

    #[test]
    fn texts_of_a_process_end_where_they_end() {
        let mut bytes = [0; process::BYTES];
        bytes[process::PID] = 42;
        bytes[process::FORKED_FROM] = 1;
        bytes[process::ALLOCATOR..process::ALLOCATOR + 5].copy_from_slice(b"/a.so");
        bytes[process::COMMAND..process::COMMAND + 7].copy_from_slice(b"ls\0-l\0\0");
        let process = Process::read(&bytes).expect("whole");
        assert_eq!((process.pid, process.forked_from), (42, Some(0)));
        assert_eq!(process.allocator, b"/a.so");
        assert_eq!(process.command, b"ls\0-l");
        assert_eq!(Process::read(&bytes[..process::BYTES - 1]), None);
    }

    #[test]
    fn the_level_rises_as_the_file_fills_and_never_falls() {
        let capacity = 1 << 20;
        assert_eq!(level(4096, capacity), 0);
        assert_eq!(level(capacity * 3 / 4 - 4096, capacity), 0);
        assert_eq!(level(capacity * 3 / 4, capacity), 1);
        assert_eq!(level(capacity * 7 / 8, capacity), 2);
        assert_eq!(level(capacity - 4096, capacity), 7);
        assert_eq!(
            level(capacity + 4096, capacity),
            7,
            "what is full leaves out no more than before"
        );
        let levels: std::vec::Vec<_> = (0..=256).map(|k| level(k * 4096, capacity)).collect();
        assert!(levels.is_sorted());
    }

    #[test]
    fn a_level_records_its_share_and_only_what_lower_levels_do() {
        for stride in [16, 48, 4096] {
            let addresses = || (1..100_000).map(|k| 0x7f00_0000_0000 + k * stride);
            for level in [1, 3, 6] {
                let share = addresses().filter(|&at| is_sampled(at, level)).count();
                let wanted = 100_000 >> level;
                assert!(share.abs_diff(wanted) < wanted / 10 + 10, "{stride} {level}: {share}");
                assert!(addresses().all(|at| !is_sampled(at, level) || is_sampled(at, level - 1)));
            }
        }
    }

    #[test]
    fn a_sum_notices_a_changed_bit_a_swap_and_a_cut() {
        let bytes: std::vec::Vec<u8> = (0..100).collect();
        let whole = sum(&bytes);
        assert_eq!(sum(&bytes.clone()), whole);
        assert_ne!(sum(&bytes[..99]), whole);
        let mut swapped = bytes.clone();
        swapped.swap(3, 11);
        assert_ne!(sum(&swapped), whole);
        for bit in 0..8 {
            let mut changed = bytes.clone();
            changed[50] ^= 1 << bit;
            assert_ne!(sum(&changed), whole);
        }
    }
}
