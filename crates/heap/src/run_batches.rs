//! Batches of runs: where a program has more runs of one length come and go than may stay
//! [hot](crate::hot_runs), they go back to where runs are claimed by the batch, and come from there
//! by the batch, for little more than what one of them takes.
//!
//! As many come so as have gone so: whoever claims runs and frees none claims no more than it asks
//! for, and who has freed some has no more at hand afterwards than before. Only what was touched
//! before comes by the batch. Those of other lengths than the one that went last come one by one,
//! as do the longest, for which it hardly matters.
//!
//! What is in a batch on its way is claimed, and in use by nobody. The child of a fork that comes
//! in between loses it.

use crate::arena::Arena;
use crate::heap::Heap;
use crate::hot_runs::{HotRuns, bin_of};
use crate::layout::Granule;
use crate::policy::retain;
use crate::tables::RUN;
use crate::tally::Account;
use core::array;
use freehold_sync::atomic::{AtomicU8, AtomicU16, Ordering};
use freehold_sys::System;

/// The most runs that go together.
const BATCH: usize = retain::RUN_BATCH;

/// A run, and its granules.
type Run = (Granule, u32);

/// The bin of hot runs that a batch went of last, and how many of its runs have gone so and not
/// come back. The leaseholder's alone; all accesses are Relaxed, since the lease orders them. All
/// zero: none.
pub(crate) struct Gone {
    bin: AtomicU8,
    runs: AtomicU16,
}

impl Gone {
    /// How many of a bin have gone and not come back.
    fn of(&self, bin: usize) -> u32 {
        let is_last = usize::from(self.bin.load(Ordering::Relaxed)) == bin;
        if is_last { self.runs.load(Ordering::Relaxed).into() } else { 0 }
    }

    /// Notes that so many of a bin go.
    fn note_gone(&self, bin: usize, runs: usize) {
        let runs = (self.of(bin) + runs as u32).min(u16::MAX.into());
        self.bin.store(bin as u8, Ordering::Relaxed);
        self.runs.store(runs as u16, Ordering::Relaxed);
    }

    /// Notes that so many of those come back.
    fn note_back(&self, runs: u32) {
        self.runs.store(self.runs.load(Ordering::Relaxed) - runs as u16, Ordering::Relaxed);
    }
}

impl<S: System> Arena<S> {
    /// Gives back some hot runs that would serve whoever wants one of so many granules, if there
    /// are enough of them. For the leaseholder. Returns how many.
    pub(crate) fn give_back_batch(&self, hot: &HotRuns, count: u32, account: &Account) -> u32 {
        let most = retain::run_batch(hot.granules(), count);
        let mut runs: [Run; BATCH] = array::from_fn(|_| (Granule(0), 0));
        let mut found = 0;
        while found < most
            && let Some(run) = self.pop_hot_of(hot, bin_of(count))
        {
            runs[found] = run;
            found += 1;
        }
        let runs = &mut runs[..found];
        if found > 0 {
            hot.gone.note_gone(bin_of(count), found);
            hot.note_given_back(runs.iter().map(|&(_, count)| count).sum());
        }
        // What the program has allocated and freed one after the other lies so, the last one first.
        runs.reverse();
        runs.sort_unstable_by_key(|&(g, _)| g);
        let mut rest = &*runs;
        while let Some((&(first, mut granules), mut others)) = rest.split_first() {
            self.tag(first).clear();
            while let Some((&(next, count), after)) = others.split_first()
                && next == first.plus(granules)
                && next.block() == first.block()
            {
                self.tag(next).clear();
                (granules, others) = (granules + count, after);
            }
            self.release_granules(first, granules, account);
            rest = others;
        }
        found as u32
    }

    /// Claims a run of so many granules, and with it as many as went by the batch, or some of them,
    /// which become hot, if they can be had at the heap's home. For the leaseholder. Returns the
    /// address of the first.
    pub(crate) fn take_batch(&self, heap: &Heap, count: u32, account: &Account) -> Option<usize> {
        let hot = &heap.hot_runs;
        let gone = hot.gone.of(bin_of(count));
        if gone == 0 {
            return None;
        }
        let runs = gone.min(retain::runs_at_once(hot.most(), count));
        if runs == 0 || !hot.has_room_for(runs * count) {
            return None;
        }
        let claimed = self.claim_dirty_row(runs, count, &heap.run_home, account);
        // What is claimed elsewhere, alone, is one that comes back as well.
        hot.gone.note_back(claimed.map_or(1, |(_, runs)| runs));
        let (first, runs) = claimed?;
        hot.note_taken((runs - 1) * count);
        // The lowest is the first to be taken.
        for n in (0..runs).rev() {
            let g = first.plus(n * count);
            self.make_run(g, count);
            if n > 0 && !self.push_hot(hot, g) {
                self.give_run(g, account);
            }
        }
        Some(self.tables.address(first))
    }

    /// Makes granules that the caller has claimed a run.
    pub(crate) fn make_run(&self, g: Granule, count: u32) {
        // SAFETY: the granules are the caller's, and so is their local part.
        let local = unsafe { &mut *self.local(g) };
        local.set_run(count);
        local.zeroed = false;
        self.tag(g).set(RUN, 0);
    }
}
