//! What an allocator itself knows of its memory: read in the memory of the process, where it says
//! where that stands, or is known to keep it.

mod arenas;
mod freehold;
mod locate;

use freehold_model::{AllocatorFigures, HeapContents};

pub(crate) use arenas::find as arenas;
pub(crate) use freehold::{
    Freehold, find as freehold, locate as locate_freehold, read as read_freehold,
};

/// The figures of the C library's allocator, of which this was read.
pub(crate) fn of_c_library(heap: &HeapContents) -> AllocatorFigures {
    AllocatorFigures {
        allocator: "the C library".to_owned(),
        live_bytes: Some((heap.used_bytes + heap.mapped_bytes).saturating_sub(heap.kept_bytes)),
        kept_bytes: Some(heap.kept_bytes),
        free_bytes: Some(heap.free_bytes + heap.top_bytes),
        metadata_bytes: None,
        held_bytes: heap.system_bytes.map(|system| system + heap.mapped_bytes),
        peak_bytes: heap.peak_bytes,
    }
}
