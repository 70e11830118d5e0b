//! What an allocator itself knows of its memory: read in the memory of the process, where it says
//! where that stands, or is known to keep it.

mod arenas;
mod asked;
mod freehold;
mod locate;

use freehold_model::{AllocatorFigures, HeapContents};
use freehold_trace::asked::Answer;

pub(crate) use arenas::find as arenas;
pub(crate) use asked::{Silence, ask};
pub(crate) use freehold::{
    Freehold, find as freehold, locate as locate_freehold, read as read_freehold,
};

/// How the allocators are called whose areas are known.
pub(crate) const FREEHOLD: &str = "Freehold";
pub(crate) const C_LIBRARY: &str = "the C library";

/// All that is known of the allocators of a process: by reading, and by asking where somebody has
/// answered. Of the C library's heaps, what was answered is the better: nothing changes meanwhile.
pub(crate) fn of_all(
    freehold: Option<AllocatorFigures>,
    heap: Option<&HeapContents>,
    answer: Option<&Answer>,
) -> Vec<AllocatorFigures> {
    let asked = answer.map(|answer| asked::figures(answer, heap)).unwrap_or_default();
    let has_answered = asked.iter().any(|own| own.allocator == C_LIBRARY);
    let read = heap.filter(|_| !has_answered).map(of_c_library);
    freehold.into_iter().chain(read).chain(asked).collect()
}

/// The figures of the C library's allocator, of which this was read.
fn of_c_library(heap: &HeapContents) -> AllocatorFigures {
    AllocatorFigures {
        allocator: C_LIBRARY.to_owned(),
        live_bytes: Some((heap.used_bytes + heap.mapped_bytes).saturating_sub(heap.kept_bytes)),
        kept_bytes: Some(heap.kept_bytes),
        free_bytes: Some(heap.free_bytes + heap.top_bytes),
        scattered_bytes: Some(heap.free_bytes),
        held_bytes: heap.system_bytes.map(|system| system + heap.mapped_bytes),
        peak_bytes: heap.peak_bytes,
        source: "its notes before each block, read".to_owned(),
        ..AllocatorFigures::default()
    }
}
