//! Traces of a few records, made by hand.

use std::io::Write;

use freehold_trace::file::{Block, CHUNK, Header, PROCESS, UNIT, block, process};
use freehold_trace::packed::{Before, Packed};
use freehold_trace::record::{Note, code};
use tempfile::NamedTempFile;

use super::{Tolerance, Trace};

/// The records of a thread.
#[derive(Default)]
pub(super) struct Chunk {
    bytes: Vec<u8>,
    before: Before,
}

impl Chunk {
    pub(super) fn note(&mut self, note: Note) -> &mut Self {
        self.bytes.extend_from_slice(&note.to_bytes()[..note.len()]);
        self
    }

    pub(super) fn malloc(&mut self, address: u64, size: u64) -> &mut Self {
        self.sized(code::MALLOC, address, size)
    }

    pub(super) fn realloc_to(&mut self, address: u64, size: u64) -> &mut Self {
        self.sized(code::REALLOC_TO, address, size)
    }

    pub(super) fn free(&mut self, address: u64) -> &mut Self {
        self.without_size(code::FREE, address)
    }

    pub(super) fn realloc_from(&mut self, address: u64) -> &mut Self {
        self.without_size(code::REALLOC_FROM, address)
    }

    fn sized(&mut self, code: u8, address: u64, size: u64) -> &mut Self {
        let packed = Packed::sized(code, size, &mut self.before, address);
        self.put(packed)
    }

    fn without_size(&mut self, code: u8, address: u64) -> &mut Self {
        let packed = Packed::unsized_record(code, 0, &mut self.before, address);
        self.put(packed)
    }

    fn put(&mut self, packed: Packed) -> &mut Self {
        self.bytes.extend_from_slice(&packed.to_bytes()[..packed.len()]);
        self
    }

    /// A raw trace of one process whose only thread has made these records.
    pub(super) fn trace(&self) -> (NamedTempFile, Trace) {
        let room = (block::HEADER + self.bytes.len()).next_multiple_of(UNIT);
        let capacity = (2 * UNIT + room) as u64;
        let header = Header { taken: capacity, processes: 1, ..Header::new(capacity, 0, 0) };
        let of = |kind, bytes: usize| Block {
            kind,
            bytes: bytes as u64,
            process: 0,
            thread: 0,
            sequence: 0,
            kernel_thread: 1,
            clock: 0,
            payload: 0,
            sum: 0,
        };
        let mut file = vec![0; 2 * UNIT + room];
        let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &header.to_bytes());
        put(UNIT, &of(PROCESS, UNIT).to_bytes());
        put(UNIT + block::HEADER + process::PID, &[1]);
        put(2 * UNIT, &of(CHUNK, room).to_bytes());
        put(2 * UNIT + block::HEADER, &self.bytes);
        let mut out = NamedTempFile::new().expect("a file");
        out.write_all(&file).expect("written");
        let trace = Trace::open(out.path(), Tolerance::None).expect("sound");
        (out, trace)
    }
}
