//! Sealing a trace when recording is over: every block is cut to what is used of it and gets a sum,
//! by which damage is found later. The file is written anew and takes the place of the raw one;
//! programs that are still running go on writing into that, and nobody sees it.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use freehold_trace::file::{Block, CHUNK, Header, SEALED, UNIT, process, sum};
use freehold_trace::record::Decoder;

use super::create::{Draft, beside, lock};
use super::error::TraceError;
use super::open::{Chunk, Tolerance, Trace};

impl Draft {
    /// Seals the trace. A chunk without records is left out. The result is locked, as the draft
    /// is, so that it can be read before somebody replaces it.
    pub fn seal(&mut self) -> Result<File, TraceError> {
        self.ahead = None;
        if !self.has_its_name()? {
            return Err(TraceError::Replaced);
        }
        // What a program has left half-written when it was killed is no reason to lose the rest.
        let trace = Trace::open(&self.path, Tolerance::Salvage)?;
        let draft = beside(&self.path, ".sealing");
        let written = write(&trace, &draft)
            .and_then(|file| Ok(fs::rename(&draft, &self.path).map(|()| file)?));
        if written.is_err() {
            // Only the draft is lost, and the first error is the one that matters.
            let _ = fs::remove_file(&draft);
        }
        written
    }
}

fn write(trace: &Trace, draft: &Path) -> Result<File, TraceError> {
    let file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(draft)?;
    // Nobody else has it: who else would seal does not get this far.
    lock(&file);
    let mut out = BufWriter::new(file);
    let mut taken = UNIT as u64;
    out.write_all(&[0; UNIT])?;
    for block in trace.blocks() {
        let payload = used(trace, block)?;
        if payload.is_empty() {
            continue;
        }
        let header = sealed(&block.header, &payload);
        out.write_all(&header.to_bytes())?;
        out.write_all(&payload)?;
        // Blocks begin at multiples of eight.
        let padding = header.bytes - (block_header() + payload.len() as u64);
        out.write_all(&[0; 8][..padding as usize])?;
        taken += header.bytes;
    }
    let mut file = out.into_inner().map_err(std::io::IntoInnerError::into_error)?;
    finish(trace, &mut file, taken)?;
    Ok(file)
}

/// Writes the header, which belongs in front.
fn finish(trace: &Trace, file: &mut File, taken: u64) -> Result<(), TraceError> {
    use std::os::unix::fs::FileExt;

    let capacity = trace.header.capacity.max(taken);
    let header = Header { state: SEALED, taken, capacity, ..trace.header };
    file.write_all_at(&header.to_bytes(), 0)?;
    Ok(file.sync_all()?)
}

fn block_header() -> u64 {
    freehold_trace::file::block::HEADER as u64
}

fn sealed(header: &Block, payload: &[u8]) -> Block {
    let bytes = (block_header() + payload.len() as u64).next_multiple_of(8);
    Block { bytes, payload: payload.len() as u64, sum: sum(payload), ..*header }
}

/// What is used of a block.
fn used(trace: &Trace, block: &Chunk) -> Result<Vec<u8>, TraceError> {
    let mut payload = trace.payload(block)?;
    let used = if block.header.kind == CHUNK {
        let mut decoder = Decoder::new(block.header.clock);
        // The last record may be damaged: it ends what is used.
        while let Ok(Some(_)) = decoder.next(&payload) {}
        decoder.position()
    } else {
        process::BYTES
    };
    payload.truncate(used);
    Ok(payload)
}
