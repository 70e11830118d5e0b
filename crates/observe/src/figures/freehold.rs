//! Freehold's figures: its signpost says where its tables are, which are counted.

use std::ops::Range;

use freehold_model::AllocatorFigures;
use freehold_stats::{Count, SIGNPOST_BYTES, SYMBOL, Signpost, count};

use super::locate;
use crate::reading::copy;

/// Freehold in a process.
pub(crate) struct Freehold {
    /// The addresses that objects can be at.
    pub(crate) region: Range<u64>,
    /// The addresses of its tables.
    pub(crate) metadata: Range<u64>,
    count: Count,
}

/// Finds and counts; nothing where there is no Freehold, or its tables may not be read.
pub(crate) fn find(pid: u32) -> Option<Freehold> {
    let at = locate::symbol(pid, &|name| name.starts_with(SYMBOL))?;
    let mut read = |from: u64, into: &mut [u8]| {
        let copied = copy(pid, from, into);
        (copied == into.len()).then_some(())
    };
    let mut bytes = [0; SIGNPOST_BYTES];
    read(at, &mut bytes)?;
    let signpost = Signpost::from_bytes(&bytes)?;
    let range = |start: u64, bytes: u64| start..start.saturating_add(bytes);
    Some(Freehold {
        region: range(signpost.region, signpost.region_bytes),
        metadata: range(signpost.metadata, signpost.metadata_bytes),
        count: count(&signpost, &mut read)?,
    })
}

impl Freehold {
    /// Its figures, of which the tables take so many bytes.
    pub(crate) fn figures(&self, metadata_bytes: Option<u64>) -> AllocatorFigures {
        let Count { claimed, free_in_slabs, dirty, .. } = self.count;
        AllocatorFigures {
            allocator: "Freehold".to_owned(),
            live_bytes: Some(claimed.saturating_sub(free_in_slabs)),
            kept_bytes: None,
            free_bytes: Some(free_in_slabs + dirty),
            metadata_bytes,
            held_bytes: Some(claimed + dirty),
            peak_bytes: None,
        }
    }
}
