//! Where the tables are, for those who look at the process from outside: `freehold-stats` counts
//! them, and here is asserted that it knows them.

use crate::arena::Arena;
use crate::class::{CLASSES, Class};
use crate::layout::{BLOCK_GRANULES, GRANULE};
use crate::tables::{BlockEntry, RUN, Remote, RunBin, SlabLocal, Tag};
use core::mem::offset_of;
use freehold_stats::{Signpost, block, local, tag, word};
use freehold_sync::word::State;
use freehold_sys::System;

const _: () = {
    assert!(size_of::<Tag>() == tag::BYTES && RUN == tag::RUN);
    assert!(offset_of!(Tag, part) == tag::CLASS && tag::DELTA == tag::CLASS + 1);
    assert!(size_of::<SlabLocal>() == local::BYTES);
    assert!(offset_of!(SlabLocal, carved) == local::CARVED);
    assert!(offset_of!(SlabLocal, balance) == local::BALANCE);
    assert!(offset_of!(SlabLocal, run) == local::RUN);
    assert!(offset_of!(SlabLocal, bin) == local::RUN_BIN && RunBin::FREE == local::RUN_IS_FREE);
    assert!(State::Attached as u64 == word::ATTACHED);
    assert!(State::Kept as u64 == word::KEPT && State::Disturbed as u64 == word::DISTURBED);
    assert!(size_of::<Remote>() == word::BYTES && offset_of!(Remote, word) == 0);
    assert!(size_of::<BlockEntry>() == block::BYTES);
    assert!(offset_of!(BlockEntry, dirty) == block::DIRTY);
    assert!(BLOCK_GRANULES as usize == block::GRANULES && GRANULE as u64 == block::GRANULE);
    assert!(CLASSES <= freehold_stats::CLASSES);
};

impl<S: System> Arena<S> {
    /// Where the tables are.
    pub fn signpost(&self) -> Signpost {
        let tables = &self.tables;
        let (metadata, metadata_bytes) = self.metadata;
        Signpost {
            region: tables.region as u64,
            region_bytes: self.region_bytes() as u64,
            committed: self.frontier.place().expose_provenance() as u64,
            tags: tables.tags as u64,
            locals: tables.locals as u64,
            words: tables.remotes as u64,
            blocks: tables.blocks as u64,
            metadata: metadata as u64,
            metadata_bytes: metadata_bytes as u64,
            // What is described of a class that there is not is zero.
            classes: core::array::from_fn(|n| described(Class(n as u8))),
        }
    }
}

fn described(class: Class) -> freehold_stats::Class {
    let info = class.info();
    freehold_stats::Class {
        size: info.size,
        capacity: info.capacity,
        granules: info.granules,
        has_mask: class.is_medium(),
    }
}
