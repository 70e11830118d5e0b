//! Opening a trace: its header, and where its blocks are. It must not know what records mean.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use freehold_trace::file::{
    self, Block, CHUNK, Header, HeaderError, PROCESS, RAW, SEALED, UNIT, block, process, sum,
};

use super::error::{Damage, TraceError};

/// What is done about damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tolerance {
    /// A damaged trace is refused.
    None,
    /// What can be read is read, and the damage is counted.
    Salvage,
}

/// A process that was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// The kernel's number of it.
    pub pid: u32,
    /// The process of the trace that it is a copy of.
    pub forked_from: Option<u32>,
    /// The file of its program.
    pub program: PathBuf,
    /// Its arguments.
    pub command: Vec<String>,
    /// The file of the allocator that served its calls.
    pub allocator: PathBuf,
    /// Calls made within another, which are not recorded.
    pub nested: u64,
    /// Calls that there was no room for.
    pub lost: u64,
    /// When it was first recorded, in nanoseconds since recording began.
    pub began: u64,
}

/// Where the records of a chunk are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) header: Block,
    /// Where in the file the block is.
    pub(super) at: u64,
}

impl Chunk {
    /// Where its records begin.
    pub(super) fn payload_at(&self) -> u64 {
        self.at + block::HEADER as u64
    }

    /// How many bytes may hold records.
    pub(super) fn room(&self) -> u64 {
        match self.header.payload {
            0 => self.header.bytes - block::HEADER as u64,
            sealed => sealed,
        }
    }
}

/// A trace that can be read.
#[derive(Debug)]
pub struct Trace {
    pub(super) file: File,
    pub(super) header: Header,
    pub(super) tolerance: Tolerance,
    /// The blocks that describe processes, by number.
    processes: BTreeMap<u32, (Process, Chunk)>,
    /// The chunks of each thread of each process, in their order.
    chunks: BTreeMap<(u32, u32), Vec<Chunk>>,
    damage: Vec<Damage>,
    bytes: u64,
}

impl Trace {
    /// Opens a trace.
    pub fn open(path: &Path, tolerance: Tolerance) -> Result<Self, TraceError> {
        let file = File::open(path)?;
        let header = read_header(&file)?;
        let bytes = file.metadata()?.len();
        let mut trace = Self {
            file,
            header,
            tolerance,
            processes: BTreeMap::new(),
            chunks: BTreeMap::new(),
            damage: Vec::new(),
            bytes,
        };
        trace.index()?;
        Ok(trace)
    }

    /// Whether it was sealed: recording went to its end.
    pub fn is_sealed(&self) -> bool {
        self.header.state == SEALED
    }

    /// Whether there was not room for everything.
    pub fn was_full(&self) -> bool {
        self.header.flags & file::FLAG_FULL != 0
    }

    /// Whether the file system had no room for it.
    pub fn had_no_space(&self) -> bool {
        self.header.flags & file::FLAG_NO_SPACE != 0
    }

    /// How large it may have grown.
    pub fn limit(&self) -> u64 {
        self.header.capacity
    }

    /// How much of it is used.
    pub fn bytes(&self) -> u64 {
        self.end()
    }

    /// What is damaged, as far as it has been looked for: blocks, but not what is in them.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// The processes, by number.
    pub fn processes(&self) -> impl Iterator<Item = (u32, &Process)> {
        self.processes.iter().map(|(number, (process, _))| (*number, process))
    }

    /// Processes of which there is nothing, since there was no room for it.
    pub fn absent_processes(&self) -> u64 {
        u64::from(self.header.processes).saturating_sub(self.processes.len() as u64)
    }

    /// The process of this number.
    pub fn process(&self, number: u32) -> Result<&Process, TraceError> {
        let found = self.processes.get(&number).map(|(process, _)| process);
        found.ok_or(TraceError::NoProcess { wanted: number, of: self.processes.len() })
    }

    /// The threads of a process with their chunks.
    pub(super) fn threads(&self, process: u32) -> impl Iterator<Item = (u32, &[Chunk])> {
        let range = (process, 0)..=(process, u32::MAX);
        self.chunks.range(range).map(|((_, thread), chunks)| (*thread, chunks.as_slice()))
    }

    /// All blocks: those of processes, then chunks by process and thread.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &Chunk> {
        let processes = self.processes.values().map(|(_, block)| block);
        processes.chain(self.chunks.values().flatten())
    }

    /// The bytes behind a block's header, which may be used or not.
    pub(super) fn payload(&self, chunk: &Chunk) -> Result<Vec<u8>, TraceError> {
        let end = chunk.payload_at() + chunk.room();
        let room = end.min(self.bytes).saturating_sub(chunk.payload_at());
        let mut payload = vec![0; usize::try_from(room).unwrap_or(0)];
        self.file.read_exact_at(&mut payload, chunk.payload_at())?;
        let is_intact = chunk.header.payload == 0 || sum(&payload) == chunk.header.sum;
        if !is_intact {
            self.refuse(Damage::WrongSum { at: chunk.at })?;
        }
        Ok(payload)
    }

    /// An error, unless damage is tolerated.
    pub(super) fn refuse(&self, damage: Damage) -> Result<(), TraceError> {
        match self.tolerance {
            Tolerance::None => Err(damage.into()),
            Tolerance::Salvage => Ok(()),
        }
    }

    fn note(&mut self, damage: Damage) -> Result<(), TraceError> {
        self.damage.push(damage);
        self.refuse(damage)
    }

    /// Where the blocks end.
    fn end(&self) -> u64 {
        self.header.taken.min(self.header.capacity)
    }

    /// Finds all blocks.
    fn index(&mut self) -> Result<(), TraceError> {
        let end = self.end();
        if self.bytes < end {
            self.note(Damage::Truncated { bytes: self.bytes, of: end })?;
        }
        let mut at = UNIT as u64;
        let mut is_lost = false;
        while at + (block::HEADER as u64) <= end.min(self.bytes) {
            match self.block_at(at)? {
                Some(found) => {
                    self.keep(found)?;
                    at += found.header.bytes;
                    is_lost = false;
                }
                // A program that was killed may have taken a block and not begun it.
                None if self.header.state == RAW && self.is_empty(at)? => at += UNIT as u64,
                None => {
                    if !is_lost {
                        self.note(Damage::NoBlock { at })?;
                    }
                    is_lost = true;
                    at += if self.header.state == RAW { UNIT as u64 } else { 8 };
                }
            }
        }
        for chunks in self.chunks.values_mut() {
            chunks.sort_by_key(|chunk| chunk.header.sequence);
        }
        Ok(())
    }

    fn block_at(&self, at: u64) -> Result<Option<Chunk>, TraceError> {
        let mut bytes = [0; block::HEADER];
        self.file.read_exact_at(&mut bytes, at)?;
        let least = block::HEADER as u64;
        let is_sound = |header: &Block| {
            header.bytes >= least
                && header.payload <= header.bytes - least
                && at.checked_add(header.bytes).is_some_and(|end| end <= self.header.capacity)
        };
        let found = Block::read(&bytes).filter(is_sound);
        Ok(found.map(|header| Chunk { header, at }))
    }

    fn is_empty(&self, at: u64) -> Result<bool, TraceError> {
        let mut unit = [0; UNIT];
        let room = (self.bytes - at).min(UNIT as u64) as usize;
        self.file.read_exact_at(&mut unit[..room], at)?;
        Ok(unit.iter().all(|&byte| byte == 0))
    }

    fn keep(&mut self, block: Chunk) -> Result<(), TraceError> {
        let Block { kind, process: number, thread, .. } = block.header;
        match kind {
            CHUNK => self.chunks.entry((number, thread)).or_default().push(block),
            PROCESS => {
                let bytes = self.payload(&block)?;
                match described(&bytes, block.header.clock) {
                    Some(process) => {
                        self.processes.insert(number, (process, block));
                    }
                    None => self.note(Damage::NoBlock { at: block.at })?,
                }
            }
            // Kinds that this version does not know can be left out.
            _ => {}
        }
        Ok(())
    }
}

fn read_header(file: &File) -> Result<Header, TraceError> {
    let mut bytes = [0; file::header::BYTES];
    let mut read = 0;
    while read < bytes.len() {
        match file.read_at(&mut bytes[read..], read as u64)? {
            0 => break,
            more => read += more,
        }
    }
    Header::read(&bytes[..read]).map_err(|error| match error {
        HeaderError::NotATrace => TraceError::NotATrace,
        HeaderError::Version(version) => TraceError::Version(version),
        HeaderError::Short | HeaderError::Damaged => TraceError::Header,
    })
}

fn described(bytes: &[u8], began: u64) -> Option<Process> {
    let found = process_fields(bytes)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let path = |bytes: &[u8]| PathBuf::from(std::ffi::OsString::from_vec(bytes.to_vec()));
    Some(Process {
        pid: found.pid,
        forked_from: found.forked_from,
        program: path(found.program),
        command: found.command.split(|&byte| byte == 0).map(text).collect(),
        allocator: path(found.allocator),
        nested: found.nested,
        lost: found.lost,
        began,
    })
}

fn process_fields(bytes: &[u8]) -> Option<file::Process<'_>> {
    file::Process::read(bytes.get(..process::BYTES)?)
}
