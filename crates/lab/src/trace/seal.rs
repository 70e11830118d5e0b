//! Sealing a trace when recording is over: every block is cut to what is used of it and gets a sum,
//! by which damage is found later. The file is written anew and takes the place of the raw one;
//! programs that are still running go on writing into that, and nobody sees it.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use freehold_trace::file::{Block, CHUNK, Header, SEALED, UNIT, process, sum};
use freehold_trace::record::Decoder;

use super::error::TraceError;
use super::open::{Chunk, Tolerance, Trace};

/// Seals the trace at `path`. A chunk without records is left out.
pub fn seal(path: &Path) -> Result<(), TraceError> {
    // What a program has left half-written when it was killed is no reason to lose the rest.
    let trace = Trace::open(path, Tolerance::Salvage)?;
    let draft = draft_of(path);
    let written = write(&trace, &draft).and_then(|()| Ok(fs::rename(&draft, path)?));
    if written.is_err() {
        // Only the draft is lost, and the first error is the one that matters.
        let _ = fs::remove_file(&draft);
    }
    written
}

fn draft_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".sealing");
    path.with_file_name(name)
}

fn write(trace: &Trace, draft: &Path) -> Result<(), TraceError> {
    let file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(draft)?;
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
    finish(trace, &mut file, taken)
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
