//! Freehold's figures: its signpost says where its tables are, which are counted.

use std::ops::Range;

use freehold_model::AllocatorFigures;
use freehold_stats::{Count, SIGNPOST_BYTES, SYMBOL, Signpost, count};

use super::{FREEHOLD, locate};
use crate::reading::copy;

/// Freehold in a process.
pub(crate) struct Freehold {
    /// The addresses that objects can be at.
    pub(crate) region: Range<u64>,
    /// The addresses of its tables.
    pub(crate) metadata: Range<u64>,
    count: Count,
}

/// Where its signpost is; nothing where there is no Freehold.
pub(crate) fn locate(pid: u32) -> Option<u64> {
    locate::symbol(pid, &|name| name.starts_with(SYMBOL))
}

/// Finds and counts; nothing where there is no Freehold, or its tables may not be read.
pub(crate) fn find(pid: u32) -> Option<Freehold> {
    read(pid, locate(pid)?)
}

/// Counts, by way of the signpost at an address.
pub(crate) fn read(pid: u32, at: u64) -> Option<Freehold> {
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
    /// Bytes that the program has in use, or at its threads' hands.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.count.claimed.saturating_sub(self.count.free_in_slabs)
    }

    /// Its figures, of which the tables take so many bytes.
    pub(crate) fn figures(&self, metadata_bytes: Option<u64>) -> AllocatorFigures {
        let Count { claimed, free_in_slabs, dirty, .. } = self.count;
        AllocatorFigures {
            allocator: FREEHOLD.to_owned(),
            live_bytes: Some(self.live_bytes()),
            free_bytes: Some(free_in_slabs + dirty),
            scattered_bytes: Some(free_in_slabs),
            metadata_bytes,
            held_bytes: Some(claimed + dirty),
            source: "its tables, read".to_owned(),
            ..AllocatorFigures::default()
        }
    }
}
