//! The records of all threads of a process, in the order of their clocks. It must not know what
//! they are about.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use freehold_trace::record::{Decoder, Record};

use super::error::{Damage, TraceError};
use super::open::{Chunk, Trace};

/// A place within the records of one thread.
struct Cursor<'a> {
    thread: u32,
    chunks: &'a [Chunk],
    /// Chunks that are done with.
    done: usize,
    /// The bytes of the chunk that is being read; empty before the first.
    payload: Vec<u8>,
    decoder: Decoder,
    /// The record that comes next.
    next: Option<Record>,
    clock: u64,
}

impl<'a> Cursor<'a> {
    fn new(thread: u32, chunks: &'a [Chunk]) -> Self {
        let clock = chunks.first().map_or(0, |chunk| chunk.header.clock);
        let decoder = Decoder::new(clock);
        Self { thread, chunks, done: 0, payload: Vec::new(), decoder, next: None, clock }
    }

    /// Reads the next record, from the next chunk if this one is done with.
    fn advance(&mut self, trace: &Trace) -> Result<(), TraceError> {
        loop {
            if !self.payload.is_empty() {
                self.next = self.decode(trace)?;
                if self.next.is_some() {
                    return Ok(());
                }
                self.payload = Vec::new();
                self.done += 1;
            }
            let Some(chunk) = self.chunks.get(self.done) else {
                self.next = None;
                return Ok(());
            };
            if chunk.header.sequence as usize != self.done {
                let sequence = self.done as u32;
                trace.refuse(Damage::NoChunk { thread: self.thread, sequence })?;
            }
            self.payload = trace.payload(chunk)?;
            self.decoder = Decoder::new(chunk.header.clock);
            if self.payload.is_empty() {
                self.done += 1;
            }
        }
    }

    /// The next record of this chunk. What is damaged ends it.
    fn decode(&mut self, trace: &Trace) -> Result<Option<Record>, TraceError> {
        let at = self.chunks[self.done].payload_at() + self.decoder.position() as u64;
        let record = match self.decoder.next(&self.payload) {
            Ok(Some(record)) => record,
            Ok(None) => return Ok(None),
            Err(_) => {
                trace.refuse(Damage::NoRecord { at })?;
                return Ok(None);
            }
        };
        if record.clock < self.clock {
            trace.refuse(Damage::Backwards { at })?;
            return Ok(None);
        }
        self.clock = record.clock;
        Ok(Some(record))
    }
}

/// The merged records.
pub(super) struct Merge<'a> {
    trace: &'a Trace,
    cursors: Vec<Cursor<'a>>,
    /// Threads whose next record is known, or which have not been begun, by the clock of that.
    waiting: BinaryHeap<Reverse<(u64, usize)>>,
    /// The thread that the last record came from.
    current: Option<usize>,
}

impl<'a> Merge<'a> {
    /// The records of a process.
    pub(super) fn new(trace: &'a Trace, process: u32) -> Self {
        let threads = trace.threads(process);
        let cursors: Vec<_> = threads.map(|(thread, chunks)| Cursor::new(thread, chunks)).collect();
        let waiting =
            cursors.iter().enumerate().map(|(index, cursor)| Reverse((cursor.clock, index)));
        Self { trace, waiting: waiting.collect(), cursors, current: None }
    }

    /// How many threads there are.
    pub(super) fn threads(&self) -> usize {
        self.cursors.len()
    }

    /// The next record and the thread that made it.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Record)>, TraceError> {
        loop {
            let Some(index) = self.current.or_else(|| self.first_waiting()) else {
                return Ok(None);
            };
            self.current = None;
            let cursor = &mut self.cursors[index];
            if cursor.next.is_none() {
                cursor.advance(self.trace)?;
            }
            let Some(record) = cursor.next else { continue };
            // Most often the same thread goes on.
            match self.waiting.peek() {
                Some(Reverse(other)) if *other < (record.clock, index) => {
                    self.waiting.push(Reverse((record.clock, index)));
                }
                _ => {
                    self.current = Some(index);
                    cursor.next = None;
                    return Ok(Some((cursor.thread, record)));
                }
            }
        }
    }

    fn first_waiting(&mut self) -> Option<usize> {
        self.waiting.pop().map(|Reverse((_, index))| index)
    }
}
