//! Counting granules: how many are in use, and how many are free but dirty.
//!
//! Both counts of one claim or release go into one word, so that the sum over all tallies is exact
//! whenever nobody is in the middle of a claim. A thread counts on the tally of its heap, so that
//! threads do not fight over a line, and moves what has come together there to the arena's in
//! lumps. So the arena's alone says about how much there is, and nobody has to look at all the
//! others; a single tally may well be negative, the sum is not. The arena's also remembers the
//! most that was in use: who only releases sees what is left.

use core::cell::Cell;
use freehold_sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Granules in use, and granules free but dirty.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Granules {
    /// Claimed by slabs and runs.
    pub used: usize,
    /// Free, and resident as far as the allocator knows.
    pub dirty: usize,
}

/// Granules that a tally may differ from what the arena's knows of it.
pub(crate) const LUMP: i64 = 16;

/// One counter of many. Two lines, since processors fetch them in pairs.
#[derive(Default)]
#[repr(align(128))]
pub struct Tally {
    counts: AtomicU64,
    /// Granules ever claimed. A figure for policies: where threads share a tally, some may be lost.
    claims: AtomicU64,
    /// Of the arena's tally: the most granules that were in use since that was asked for last. A
    /// figure for policies, too.
    most_used: AtomicU32,
    /// Bytes of free objects in slabs of medium objects. A figure for policies, of which a single
    /// tally's may be negative.
    free_medium: AtomicUsize,
}

/// The two numbers in a packed one.
const fn unpacked(packed: u64) -> (i64, i64) {
    let dirty = packed as u32 as i32 as i64;
    ((packed as i64 - dirty) >> 32, dirty)
}

/// Both changes as one number: `used` in the upper half, so that a borrow from `dirty` in one tally
/// is made good by the carry in another.
const fn packed(used: i64, dirty: i64) -> u64 {
    ((used << 32) + dirty) as u64
}

impl Tally {
    /// `count` granules were claimed.
    fn note_claims(&self, count: u32) {
        // Relaxed here and below: a count of its own, that publishes nothing.
        let claims = self.claims.load(Ordering::Relaxed);
        self.claims.store(claims + u64::from(count), Ordering::Relaxed);
    }

    /// About how many granules were ever claimed.
    pub fn claims(&self) -> u64 {
        self.claims.load(Ordering::Relaxed)
    }

    /// `count` free granules were purged.
    pub fn purged(&self, count: u32) {
        self.counts.fetch_add(packed(0, -i64::from(count)), Ordering::Relaxed);
    }

    /// `count` free granules that were clean are resident now.
    pub fn populated(&self, count: u32) {
        self.counts.fetch_add(packed(0, i64::from(count)), Ordering::Relaxed);
    }

    /// Counts a change, here or, with what has come together here if that is a lump, in `total`.
    /// This is the total, to which many write, or that of a heap, to which only who has the heap
    /// does: that takes no atomic operation but for lumps.
    fn count(&self, change: u64, total: &Self) {
        if core::ptr::eq(self, total) {
            self.counts.fetch_add(change, Ordering::Relaxed);
            return;
        }
        let counted = self.counts.load(Ordering::Relaxed).wrapping_add(change);
        let (used, dirty) = unpacked(counted);
        if used.abs() < LUMP && dirty.abs() < LUMP {
            self.counts.store(counted, Ordering::Relaxed);
            return;
        }
        self.counts.store(0, Ordering::Relaxed);
        let before = total.counts.fetch_add(counted, Ordering::Relaxed);
        total.note_used(unpacked(before.wrapping_add(counted)).0);
    }

    /// Counts bytes of medium objects that have come home to their slabs, or, if they are negative,
    /// that are no longer there. Where many write, as `total` is written to.
    pub(crate) fn medium_came_home(&self, bytes: isize, total: &Self) {
        if core::ptr::eq(self, total) {
            self.free_medium.fetch_add(bytes as usize, Ordering::Relaxed);
            return;
        }
        let free = self.free_medium.load(Ordering::Relaxed).wrapping_add_signed(bytes);
        self.free_medium.store(free, Ordering::Relaxed);
    }

    /// Bytes of free objects in slabs of medium objects, by all tallies.
    pub(crate) fn free_medium<'a>(all: impl Iterator<Item = &'a Self>) -> usize {
        let free = all.fold(0, |sum: usize, tally| {
            sum.wrapping_add(tally.free_medium.load(Ordering::Relaxed))
        });
        (free as isize).max(0) as usize
    }

    fn note_used(&self, granules: i64) {
        let granules = granules.max(0) as u32;
        // A store only if it is news, so that threads do not fight over it.
        if granules > self.most_used.load(Ordering::Relaxed) {
            self.most_used.store(granules, Ordering::Relaxed);
        }
    }

    /// About the most granules that were in use since this was asked last. Of the arena's tally.
    pub fn take_most_used(&self) -> usize {
        let most = self.most_used.load(Ordering::Relaxed);
        if most > 0 {
            self.most_used.store(0, Ordering::Relaxed);
        }
        most as usize
    }

    /// The sum of several tallies.
    pub fn sum<'a>(all: impl Iterator<Item = &'a Self>) -> Granules {
        let total = all.fold(0_u64, |sum, t| sum.wrapping_add(t.counts.load(Ordering::Relaxed)));
        let (used, dirty) = unpacked(total);
        Granules { used: used.max(0) as usize, dirty: dirty.max(0) as usize }
    }
}

/// A tally as one operation uses it: what it releases is also summed up here, so that the thread
/// knows when to look whether too much is free and dirty.
pub struct Account<'a> {
    tally: &'a Tally,
    released: Cell<u32>,
}

impl<'a> Account<'a> {
    /// An account on `tally`.
    pub fn new(tally: &'a Tally) -> Self {
        Self { tally, released: Cell::new(0) }
    }

    /// `count` granules were claimed, of which `dirty` had been free and dirty. The arena's tally
    /// is `total`.
    pub fn claimed(&self, count: u32, dirty: u32, total: &Tally) {
        self.tally.note_claims(count);
        self.tally.count(packed(i64::from(count), -i64::from(dirty)), total);
    }

    /// `count` granules were released; they are dirty. The arena's tally is `total`.
    pub fn released(&self, count: u32, total: &Tally) {
        self.released.set(self.released.get() + count);
        self.tally.count(packed(-i64::from(count), i64::from(count)), total);
    }

    /// Counts bytes of medium objects as [`Tally::medium_came_home`] does.
    pub(crate) fn medium_came_home(&self, bytes: isize, total: &Tally) {
        self.tally.medium_came_home(bytes, total);
    }

    /// Granules released on this account.
    pub fn total_released(&self) -> u32 {
        self.released.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_exact_though_single_tallies_are_negative() {
        let (total, a, b) = (Tally::default(), Tally::default(), Tally::default());
        Account::new(&a).claimed(10, 0, &total);
        Account::new(&b).released(7, &total);
        Account::new(&a).claimed(2, 2, &total);
        total.purged(1);
        let sum = Tally::sum([&total, &a, &b].into_iter());
        assert_eq!(sum, Granules { used: 5, dirty: 4 });
        assert_eq!(Tally::sum([&b].into_iter()).used, 0);
    }

    #[test]
    fn the_most_that_was_in_use_is_known_though_it_was_released_since() {
        let (total, heap) = (Tally::default(), Tally::default());
        let account = Account::new(&heap);
        account.claimed(100, 0, &total);
        account.released(70, &total);
        account.claimed(30, 30, &total);
        assert_eq!((total.take_most_used(), total.take_most_used()), (100, 0));
        account.released(20, &total);
        assert_eq!(total.take_most_used(), 40);
    }

    #[test]
    fn the_total_alone_is_never_further_off_than_a_lump_for_each_tally() {
        let (total, a, b) = (Tally::default(), Tally::default(), Tally::default());
        let mut used = 0;
        for step in 1..200 {
            let account = Account::new(if step % 3 == 0 { &a } else { &b });
            if step % 2 == 0 {
                account.claimed(step, step / 2, &total);
                used += i64::from(step);
            } else {
                account.released(step / 2, &total);
                used -= i64::from(step / 2);
            }
            let about = Tally::sum([&total].into_iter()).used as i64;
            assert!((about - used).abs() < 2 * LUMP, "{about}, exactly {used}");
            assert_eq!(Tally::sum([&total, &a, &b].into_iter()).used as i64, used);
        }
    }
}
