//! What the memory is used for, counted on demand.

use crate::arena::Arena;
use crate::class::Class;
use crate::layout::{BLOCK, BLOCK_GRANULES, GRANULE, Granule};
use crate::tables::RUN;
use freehold_sync::word::{Ledger, State};
use freehold_sys::System;

/// Bytes, by what they are used for. While other threads allocate, the parts are of slightly
/// different moments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Address space made usable so far.
    pub committed: usize,
    /// In slabs and runs.
    pub claimed: usize,
    /// Of `claimed`: free objects in slabs. Those in threads' magazines count as in use.
    pub free_in_slabs: usize,
    /// How many objects that is.
    pub free_objects: usize,
    /// Free, and resident as far as the allocator knows.
    pub dirty: usize,
    /// In direct mappings, outside the region.
    pub direct: usize,
    /// The number of direct mappings.
    pub direct_mappings: usize,
    /// Returned to the system since the start.
    pub purged: usize,
    /// Heaps made so far.
    pub heaps: usize,
    /// How often a thread had to wait for a lock.
    pub lock_waits: u64,
}

impl Usage {
    /// Bytes in objects that are in use, or in a thread's magazines.
    pub fn in_use(&self) -> usize {
        self.claimed.saturating_sub(self.free_in_slabs) + self.direct
    }
}

impl<S: System> Arena<S> {
    /// Counts. Takes each heap's lock for a moment, one after the other.
    pub fn usage(&self) -> Usage {
        let (granules, hot) = (self.granules_in_use(), self.hot_granules());
        let (direct_mappings, direct) = self.direct.count();
        let (free_objects, free_in_slabs) = self.count_free_objects();
        Usage {
            committed: self.committed_blocks() as usize * BLOCK,
            // Freed runs that wait in hardened mode have no memory.
            claimed: (granules.used.saturating_sub(hot) * GRANULE)
                .saturating_sub(self.hardening.waiting()),
            free_in_slabs,
            free_objects,
            dirty: (granules.dirty + hot) * GRANULE,
            direct,
            direct_mappings,
            purged: self.purged_bytes(),
            heaps: self.all_heaps().count(),
            lock_waits: self.lock_waits(),
        }
    }

    /// Free objects, and their bytes: those of slabs that heaps take from, and of all others.
    fn count_free_objects(&self) -> (usize, usize) {
        let (mut objects, mut bytes) = (0, 0);
        let mut add = |class: Class, count: i32| {
            let count = count.max(0);
            objects += count as usize;
            bytes += count as usize * class.size();
        };
        for heap in self.all_heaps() {
            self.free_in_attached(heap, &mut add);
        }
        for n in 0..self.committed_blocks() * BLOCK_GRANULES {
            let g = Granule(n);
            let tag = self.tag(g);
            if matches!(tag.class(), 0 | RUN) || tag.delta() != 0 {
                continue;
            }
            let class = Class(tag.class());
            if class.is_small() {
                let (state, count) = self.word(g).count().look();
                if matches!(state, State::Detached | State::Pooled) {
                    add(class, count.0);
                }
            } else {
                add(class, self.word(g).mask().look().1.count());
            }
        }
        (objects, bytes)
    }
}
