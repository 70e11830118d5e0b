//! Hot runs: the runs that a thread freed last, for it to take again first.
//!
//! A run belongs to no heap: claiming one means finding granules in a block that others take from
//! as well, and freeing it means giving them back there. A program that needs a buffer of some
//! size again and again finds here the one it has just freed, for a fifth of the price. How many
//! granules are kept, `policy/retain.rs` says; where there are too many, runs of one length after
//! the other make room, as some do when a run has to be claimed because none of them would serve.
//! A thread that only frees runs, because others allocate them, keeps none: see
//! [`exchange`](crate::exchange).
//!
//! Invariants: a hot run is claimed, in use by nobody, and marked as free, so that a second free of
//! it is found out. It counts as in use when it is decided how much may be free and dirty, but less
//! may stay beyond the recent peak beside it. Its
//! `next` and its length stand in its first granule's local part, which is the leaseholder's.

use crate::arena::Arena;
use crate::blocks::ones;
use crate::cache::ThreadCache;
use crate::heap::Heap;
use crate::layout::{GRANULE, Granule};
use crate::policy::retain;
use crate::run_batches::Gone;
use crate::tables::{RunBin, SlabLocal};
use crate::tally::{Account, LUMP};
use freehold_sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use freehold_sys::System;

/// The runs of one length, and those that were resized and are less than an eighth longer: the
/// granule of the one freed last plus one, or 0.
type Bin = AtomicU32;

/// How long a run may be to be kept, in granules.
const LONGEST: u32 = retain::HOT_RUN_LONGEST;
const BINS: usize = bin_of(LONGEST) + 1;

/// After how many granules that a thread claims it is looked up how many may be hot, or after an
/// eighth of that: what is in use is known in lumps that are not much smaller.
const LOOK_UP_AFTER: u32 = 2 * LUMP as u32;
const _: () = assert!(LOOK_UP_AFTER <= 1 << u8::BITS);

/// How many times as many granules as may be hot a thread has use for at most, by what it claimed:
/// who begins to free what others claim is to find out some time.
const USED_MOST: u32 = 16;

/// After how many runs that went back for want of room a thread asks for help.
const CROWDED: u32 = 64;

const _: () = assert!(GRANULE <= retain::HOT_RUN_BYTES_LEAST);
const _: () = assert!(BINS <= u64::BITS as usize && BINS < RunBin::FREE as usize);

/// The number of the bin for runs of so many granules, which are not 0: one for each length to 15,
/// then eight to a doubling.
pub(crate) const fn bin_of(count: u32) -> usize {
    let beyond = (count | 8).ilog2() - 3;
    (8 * beyond + (count >> beyond)) as usize - 1
}

/// The number of the bin whose runs are the shortest that have so many granules and one more.
#[inline(always)]
const fn bin_for_more_than(count: u32) -> usize {
    let beyond = (count | 8).ilog2() - 3;
    (8 * beyond + (count >> beyond)) as usize
}

/// How long a run is that is to have so many granules, which are not 0: as long as the shortest of
/// a bin, if it may be hot.
pub(crate) const fn length_of(least: u32) -> u32 {
    if least > LONGEST { least } else { shortest_of(bin_for_more_than(least - 1)) }
}

/// The granules of the shortest runs of a bin.
const fn shortest_of(bin: usize) -> u32 {
    let n = bin as u32 + 1;
    let beyond = (n / 8).saturating_sub(1);
    (n - 8 * beyond) << beyond
}

/// The hot runs of a heap. All accesses are Relaxed but one: the leaseholder alone writes, the
/// lease orders what one after the other writes, and who else looks wants about a number. (Others
/// may lower the limits. If the leaseholder writes an older one at the same moment, it may keep
/// more until it claims a run again.) All zero: there are none yet.
///
/// Who is interrupted by a fork leaves the child with no run twice, but maybe with one lost that
/// counts.
pub(crate) struct HotRuns {
    bins: [Bin; BINS],
    /// A bit for each bin that may have a run.
    filled: AtomicU64,
    /// Granules of all of them.
    granules: AtomicU32,
    /// How many of them there may be: [`HotRuns::most`], or as many as the thread has use for.
    limit: AtomicU32,
    /// How many there may be at most. Looked up again when the thread claims a run.
    most: AtomicU32,
    /// How many the thread has claimed and not given back since, up to [`USED_MOST`] times as many
    /// as may be.
    used: AtomicU32,
    /// Where to look first for a run that makes room.
    victim: AtomicU32,
    /// How many runs went back for want of room since that was last found to be a habit.
    crowded: AtomicU32,
    /// Granules that there may be beyond what usually may be, since it was: see
    /// [`retain::hot_run_granules_beyond`].
    beyond: AtomicU32,
    /// Whether this heap is one of those that share what there may be.
    shares: AtomicBool,
    /// Granules claimed since it was last looked up how many there may be.
    claimed: AtomicU8,
    /// What went back by the batch.
    pub(crate) gone: Gone,
}

impl HotRuns {
    /// None yet.
    #[cfg(test)]
    pub(crate) fn new() -> Self {
        // SAFETY: zeros are valid for each of its fields.
        unsafe { core::mem::zeroed() }
    }

    /// About how many granules are of hot runs.
    #[inline]
    pub(crate) fn granules(&self) -> u32 {
        self.granules.load(Ordering::Relaxed)
    }

    #[inline]
    fn limit(&self) -> u32 {
        self.limit.load(Ordering::Relaxed)
    }

    fn set_used(&self, used: u32) {
        self.used.store(used, Ordering::Relaxed);
        self.limit.store(used.min(self.most.load(Ordering::Relaxed)), Ordering::Relaxed);
    }

    /// Notes that a bin has a run, from now on.
    #[inline]
    fn note_filled(&self, bin: usize) {
        self.filled.store(self.filled.load(Ordering::Relaxed) | 1 << bin, Ordering::Relaxed);
    }

    /// Notes that the thread claims a run of so many granules, and how many may be kept.
    fn note_claimed(&self, count: u32, most: u32) {
        self.claimed.store(0, Ordering::Relaxed);
        self.most.store(most, Ordering::Relaxed);
        self.note_taken(count);
    }

    /// Notes that the thread claims a run of so many granules, where nothing has to be looked up
    /// for that: there is no hot run to go for it, and few were claimed since it was last.
    fn note_claimed_soon(&self, count: u32) -> bool {
        let claimed = u32::from(self.claimed.load(Ordering::Relaxed)).saturating_add(count);
        let soon = claimed < LOOK_UP_AFTER.min(self.most() / 8) && self.granules() == 0;
        if soon {
            self.claimed.store(claimed as u8, Ordering::Relaxed);
            self.note_taken(count);
        }
        soon
    }

    /// Whether the thread has claimed far more than it has given back.
    fn only_claims(&self) -> bool {
        self.used.load(Ordering::Relaxed) >= 2 * self.most.load(Ordering::Relaxed)
    }

    /// Whether runs that others have freed are welcome: not before the thread has claimed one.
    pub(crate) fn has_room_for_lot(&self) -> bool {
        2 * self.granules() < self.limit()
    }

    /// Notes that the thread takes runs of so many granules that others have freed.
    pub(crate) fn note_taken(&self, count: u32) {
        let used = self.used.load(Ordering::Relaxed).saturating_add(count);
        self.set_used(used.min(USED_MOST * self.most.load(Ordering::Relaxed)));
    }

    /// Lets no more than so many granules be kept, as another heap has come to share what there may
    /// be.
    fn lower(&self, most: u32) {
        for limit in [&self.most, &self.limit] {
            if limit.load(Ordering::Relaxed) > most {
                limit.store(most, Ordering::Relaxed);
            }
        }
    }

    /// Notes that a run of so many granules was given back.
    pub(crate) fn note_given_back(&self, count: u32) {
        self.set_used(self.used.load(Ordering::Relaxed).saturating_sub(count));
    }

    /// How many granules of hot runs there may be at most.
    pub(crate) fn most(&self) -> u32 {
        self.most.load(Ordering::Relaxed)
    }

    /// Whether there may be so many more, once the thread has claimed them.
    pub(crate) fn has_room_for(&self, granules: u32) -> bool {
        self.granules() + granules <= self.most()
    }

    /// Notes that so many runs went back for want of room. Returns whether that has become a habit:
    /// then there may be more when the thread next claims a run, if they are taken from it when it
    /// rests.
    fn note_crowded(&self, runs: u32) -> bool {
        let crowded = self.crowded.load(Ordering::Relaxed) + runs;
        let is_habit = crowded >= CROWDED;
        self.crowded.store(if is_habit { 0 } else { crowded }, Ordering::Relaxed);
        if is_habit {
            let beyond = self.beyond.load(Ordering::Relaxed);
            self.beyond.store(retain::hot_run_granules_beyond(beyond), Ordering::Relaxed);
        }
        is_habit
    }

    /// How many granules there may be beyond what usually may be: none if there are runs that would
    /// not do, as one is claimed.
    fn beyond(&self) -> u32 {
        if self.granules() > 0 {
            self.beyond.store(0, Ordering::Relaxed);
            self.crowded.store(0, Ordering::Relaxed);
        }
        self.beyond.load(Ordering::Relaxed)
    }

    /// Some of the runs that are here, as long as any that came into the same bin: of so many bins
    /// from one on, about. Others may have taken them meanwhile, who is not the leaseholder.
    pub(crate) fn some(&self, first: u32, most: usize) -> impl Iterator<Item = (Granule, u32)> {
        let filled = self.filled.load(Ordering::Relaxed).rotate_right(first);
        let bins = ones(filled).map(move |n| ((n + first) % u64::BITS) as usize);
        let run = |n: usize| {
            let g = self.bins.get(n)?.load(Ordering::Relaxed).checked_sub(1)?;
            Some((Granule(g), shortest_of(n)))
        };
        bins.filter_map(run).take(most)
    }

    /// The run that makes room next: the one freed last of the next bin after that of the last one.
    fn next_to_go(&self) -> Option<Granule> {
        let mut filled = self.filled.load(Ordering::Relaxed);
        while filled != 0 {
            let first = self.victim.load(Ordering::Relaxed);
            let n = (first + filled.rotate_right(first).trailing_zeros()) % u64::BITS;
            if let Some(g) = self.bins[n as usize].load(Ordering::Relaxed).checked_sub(1) {
                self.victim.store(n + 1, Ordering::Relaxed);
                return Some(Granule(g));
            }
            filled &= !(1 << n);
            self.filled.store(filled, Ordering::Relaxed);
        }
        None
    }

    /// Whether the run that makes room next is of the bin for so many granules; if it is, it is
    /// another bin's turn after that.
    fn goes_next(&self, count: u32) -> bool {
        let n = bin_of(count) as u32;
        let next = self.victim.load(Ordering::Relaxed);
        let first = (next
            + self.filled.load(Ordering::Relaxed).rotate_right(next).trailing_zeros())
            % u64::BITS;
        let own = first == n && self.filled.load(Ordering::Relaxed) != 0;
        if own {
            self.victim.store(n + 1, Ordering::Relaxed);
        }
        own
    }

    /// Whether a run of so many granules may be kept, after making room.
    fn wants(&self, count: u32) -> bool {
        let unused = self.used.load(Ordering::Relaxed).saturating_sub(self.granules());
        count <= unused.min(self.most()).min(LONGEST)
    }
}

impl<S: System> Arena<S> {
    /// About how many granules are of hot runs of all heaps.
    pub(crate) fn hot_granules(&self) -> usize {
        let hot = self.all_heaps().map(|heap| heap.hot_runs.granules() as usize);
        hot.sum::<usize>() + self.exchanged_granules()
    }

    /// Notes that the leaseholder of a heap claims a run of so many granules, since none of those
    /// that are hot would do, and gives hot ones back if there are more than may be by now.
    pub(crate) fn note_run_claimed(&self, heap: &Heap, count: u32, account: &Account) {
        let hot = &heap.hot_runs;
        if hot.note_claimed_soon(count) {
            return;
        }
        if self.is_helped() {
            self.share_hot_runs(heap);
        }
        let sharers = self.hot_run_sharers(heap);
        let beyond = hot.beyond().min(self.most_beyond());
        let used = self.used_beside_hot_runs(count);
        let resident = self.resident_of_hot_runs();
        let most = retain::hot_run_granules(used, sharers, beyond, resident);
        hot.note_claimed(count, most);
        if hot.only_claims() {
            self.want_runs();
        }
        let left = retain::hot_runs_left(hot.granules(), count, most, resident);
        while hot.granules() > left && self.give_back_hot(hot, account) {}
    }

    /// How many granules of hot runs a heap may keep beyond what usually may be.
    fn most_beyond(&self) -> u32 {
        if self.is_reclaimed() {
            u32::MAX
        } else if self.is_helped() || self.has_several_threads() {
            0
        } else {
            retain::HOT_RUN_GRANULES_BEYOND_ALONE
        }
    }

    /// How many bytes are in use when a run of so many granules is claimed, as far as that is a
    /// reason to keep more hot runs: where somebody takes them from threads that rest, or where
    /// there is one thread, to which all that is free belongs as well.
    fn used_beside_hot_runs(&self, count: u32) -> usize {
        if self.is_helped() || !self.has_several_threads() {
            // It may be a lump more than is known.
            let used = self.about_in_use().used + LUMP as usize + count as usize;
            used.saturating_mul(GRANULE)
        } else {
            0
        }
    }

    /// By how many heaps what there may be of hot runs is divided for this one: by those that share
    /// it, if it is one of them, or else by all.
    fn hot_run_sharers(&self, heap: &Heap) -> usize {
        // Relaxed here and below: how many they are says how much to keep, and nothing else.
        if heap.hot_runs.shares.load(Ordering::Relaxed) {
            self.run_sharers.load(Ordering::Relaxed) as usize
        } else {
            self.leases.exclusive_made().into()
        }
    }

    /// Notes that a heap has use for hot runs: it claims one while there is a background thread, or
    /// had more than there was room for. From now on it is one of those that share what there may
    /// be, and the others of them may keep less.
    fn share_hot_runs(&self, heap: &Heap) {
        if heap.hot_runs.shares.load(Ordering::Relaxed) {
            return;
        }
        heap.hot_runs.shares.store(true, Ordering::Relaxed);
        let sharers = self.run_sharers.fetch_add(1, Ordering::Relaxed) as usize + 1;
        self.lower_hot_runs(sharers);
    }

    /// Lets heaps keep no more than there may be, now that so many share it.
    fn lower_hot_runs(&self, sharers: usize) {
        let resident = self.resident_of_hot_runs();
        let most = retain::hot_run_granules(self.used_beside_hot_runs(0), sharers, 0, resident);
        let others = self.all_heaps().map(|other| &other.hot_runs);
        others.filter(|hot| hot.shares.load(Ordering::Relaxed)).for_each(|hot| hot.lower(most));
    }

    /// Lets heaps keep no more than there may be, now that more of it was found to be resident.
    pub(crate) fn lower_hot_runs_of_all(&self) {
        self.lower_hot_runs(self.run_sharers.load(Ordering::Relaxed) as usize);
    }

    /// Notes that a heap, which has no hot runs any longer, leaves its share to others.
    fn leave_share_of_hot_runs(&self, heap: &Heap) {
        if heap.hot_runs.shares.load(Ordering::Relaxed) {
            heap.hot_runs.shares.store(false, Ordering::Relaxed);
            // Relaxed: as in `hot_run_sharers`.
            self.run_sharers.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Counts those who share hot runs anew: in the child of a fork, which may have come when one
    /// had said so, and had not been counted.
    pub(crate) fn count_run_sharers(&self) {
        let sharers = self.all_heaps().filter(|heap| heap.hot_runs.shares.load(Ordering::Relaxed));
        self.run_sharers.store(sharers.count() as u32, Ordering::Relaxed);
    }

    /// Gives as many granules of hot runs back as the leaseholder has just claimed of memory that
    /// was not used before, so that a program that grows takes what is there first the next time.
    pub(crate) fn note_grown(&self, heap: &Heap, count: u32, account: &Account) {
        let before = heap.hot_runs.granules();
        let left = before.saturating_sub(count);
        while heap.hot_runs.granules() > left && self.give_back_hot(&heap.hot_runs, account) {}
    }

    /// Whether a heap would keep more runs hot if there were a background thread.
    fn wants_help_with_runs(&self, hot: &HotRuns) -> bool {
        if self.is_helped() || !self.has_several_threads() {
            return false;
        }
        let sharers = self.run_sharers.load(Ordering::Relaxed) as usize;
        let used = self.about_in_use().used * GRANULE;
        let resident = self.resident_of_hot_runs();
        retain::hot_run_granules(used, sharers, 0, resident) > hot.most.load(Ordering::Relaxed)
    }

    /// Takes the run out that came last into a bin, if it is no longer than this, with its local
    /// part, which says still that it is free. For the leaseholder, or when that is gone.
    #[inline(always)]
    fn pop_hot(&self, hot: &HotRuns, bin: &Bin, longest: u32) -> Option<(Granule, &SlabLocal)> {
        let g = Granule(bin.load(Ordering::Relaxed).checked_sub(1)?);
        // SAFETY: of a hot run, which is the leaseholder's.
        let local = unsafe { &*self.local(g) };
        if local.run > longest {
            return None;
        }
        bin.store(local.next, Ordering::Relaxed);
        hot.granules.store(hot.granules() - local.run, Ordering::Relaxed);
        Some((g, local))
    }

    /// Takes out the run that came last into the bin of this number. Returns its granules, too.
    pub(crate) fn pop_hot_of(&self, hot: &HotRuns, n: usize) -> Option<(Granule, u32)> {
        let (g, local) = self.pop_hot(hot, hot.bins.get(n)?, u32::MAX)?;
        Some((g, local.run))
    }

    /// Gives out a hot run that is longer than so many granules, as many as a run
    /// [has](length_of), but not by much, if there is one, for a heap's leaseholder.
    pub(crate) fn pop_longer_run(&self, heap: &Heap, count: u32) -> Option<usize> {
        self.pop_at_least(heap, count, bin_of(count) + 1)
    }

    /// The same, of runs that were taken from others just now, among which there may be one of the
    /// very length.
    pub(crate) fn pop_taken_run(&self, heap: &Heap, count: u32) -> Option<usize> {
        self.pop_at_least(heap, count, bin_of(count))
    }

    fn pop_at_least(&self, heap: &Heap, count: u32, first: usize) -> Option<usize> {
        let longest = retain::hot_run_instead_of(count);
        let last = bin_of(longest).min(BINS - 1);
        let hot = &heap.hot_runs;
        let mut bins = (first..).zip(hot.bins.get(first..=last)?);
        bins.find_map(|(n, bin)| self.give_out_hot(hot, (n, bin), longest))
    }

    /// Gives out the run that came last into a bin, which has this number, if it is no longer than
    /// this.
    #[inline(always)]
    fn give_out_hot(&self, hot: &HotRuns, (n, bin): (usize, &Bin), longest: u32) -> Option<usize> {
        let (g, local) = self.pop_hot(hot, bin, longest)?;
        local.bin.set_in_use(n);
        Some(self.tables.address(g))
    }

    /// Keeps a run that nobody uses any longer, unless it is free already, if there may be so many
    /// granules. For the leaseholder.
    #[inline(always)]
    pub(crate) fn push_hot(&self, hot: &HotRuns, g: Granule) -> bool {
        // SAFETY: whoever has the run alone writes to its local part.
        let n = unsafe { &(*self.local(g)).bin }.number();
        self.push_into(hot, n, g)
    }

    /// Keeps a run that was free before, and is this thread's now, likewise.
    pub(crate) fn push_hot_again(&self, hot: &HotRuns, g: Granule) -> bool {
        self.push_into(hot, bin_of(self.run_granules(g)), g)
    }

    /// Keeps a run whose bin has this number, if there is such a bin.
    #[inline(always)]
    fn push_into(&self, hot: &HotRuns, n: usize, g: Granule) -> bool {
        // SAFETY: the run is the caller's.
        let local = unsafe { &mut *self.local(g) };
        let granules = hot.granules() + local.run;
        if granules > hot.limit() {
            return false;
        }
        let Some(bin) = hot.bins.get(n) else { return false };
        local.next = bin.load(Ordering::Relaxed);
        if local.next == 0 {
            hot.note_filled(n);
        }
        hot.granules.store(granules, Ordering::Relaxed);
        // Release: a child of a fork that finds the run finds it counted, and the ones after it,
        // and looks for it. What the thread has written in that order is what the child has a copy
        // of.
        bin.store(g.0 + 1, Ordering::Release);
        local.bin.set_free(n);
        true
    }

    /// Gives back one hot run, of lengths in turn. For the leaseholder, or when that is gone.
    fn give_back_hot(&self, hot: &HotRuns, account: &Account) -> bool {
        let Some(g) = hot.next_to_go() else { return false };
        let count = self.run_granules(g);
        let popped = self.pop_hot(hot, &hot.bins[bin_of(count)], u32::MAX);
        debug_assert!(popped.is_some_and(|(popped, _)| popped == g));
        hot.note_given_back(count);
        self.give_run(g, account);
        true
    }

    /// Releases a heap's hot runs, for its leaseholder, or when that is gone. Returns the granules
    /// released.
    pub(crate) fn let_go_of_runs(&self, heap: &Heap) -> u32 {
        let account = Account::new(&heap.tally);
        while self.give_back_hot(&heap.hot_runs, &account) {}
        self.leave_share_of_hot_runs(heap);
        account.total_released()
    }
}

impl ThreadCache {
    /// Gives out a hot run for `size` bytes, which are not 0, if there is one at hand.
    #[inline(always)]
    pub fn pop_run<S: System>(&mut self, arena: &Arena<S>, size: usize) -> Option<usize> {
        if size > LONGEST as usize * GRANULE {
            return None;
        }
        let hot = &self.heap()?.hot_runs;
        let n = bin_for_more_than(((size - 1) / GRANULE) as u32);
        debug_assert!(n < BINS);
        // SAFETY: of no more granules than the longest has, whose bin is the last.
        let bin = unsafe { hot.bins.get_unchecked(n) };
        arena.give_out_hot(hot, (n, bin), u32::MAX)
    }

    /// Keeps a run that is freed, of which `g` is the first granule, if it begins at `address` and
    /// the thread has use and room for it.
    ///
    /// # Safety
    /// The run was in use, and is not any longer, if it starts at `address`, which is in `g`.
    #[inline(always)]
    pub unsafe fn keep_run<S: System>(
        &mut self,
        arena: &Arena<S>,
        g: Granule,
        address: usize,
    ) -> bool {
        let Some(heap) = self.heap() else { return false };
        address.is_multiple_of(GRANULE) && !arena.is_zeroed(g) && arena.push_hot(&heap.hot_runs, g)
    }

    /// Frees a run, if it is one: keeps it, if the thread has use for it, after making room.
    ///
    /// # Safety
    /// As for [`ThreadCache::keep_run`].
    pub unsafe fn put_run<S: System>(&mut self, arena: &Arena<S>, address: usize) -> bool {
        let Some(g) = arena.run_at(address) else { return false };
        let Some(heap) = self.heap() else {
            self.put_run_without_heap(arena, g);
            return true;
        };
        let hot = &heap.hot_runs;
        let account = Account::new(&heap.tally);
        let count = arena.run_granules(g);
        // What is zero for the most part is better given back than cleared the next time.
        let is_zeroed = arena.is_zeroed(g);
        arena.look_if_zeroed(g);
        let wanted = hot.wants(count) && !(is_zeroed && arena.is_little_written());
        let mut kept = wanted && arena.push_hot(hot, g);
        let (mut is_turn, mut went) = (false, 0);
        while wanted && !kept && !is_turn {
            is_turn = hot.goes_next(count);
            if !is_turn && !arena.give_back_hot(hot, &account) {
                break;
            }
            went += u32::from(!is_turn);
            kept = !is_turn && arena.push_hot(hot, g);
        }
        if is_turn {
            went = arena.give_back_batch(hot, count, &account);
            kept = went > 0 && arena.push_hot(hot, g);
        }
        if !kept {
            if wanted {
                hot.note_given_back(count);
            }
            if wanted || is_zeroed || !self.offer_run(arena, g, &account) {
                arena.give_run(g, &account);
            }
        }
        let released = account.total_released();
        if released > 0 {
            if wanted {
                arena.share_hot_runs(heap);
                arena.note_runs_go();
                if hot.note_crowded(went.max(1)) {
                    arena.would_keep_more();
                    self.wants_help |= arena.wants_help_with_runs(hot);
                }
            }
            self.note_released(arena, released);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freehold_sys::fake::Fake;

    #[test]
    fn runs_of_one_bin_differ_by_less_than_an_eighth() {
        assert_eq!((bin_of(1), bin_of(15), bin_of(16), bin_of(17)), (0, 14, 15, 15));
        let mut shortest = 1;
        for count in 2..=LONGEST {
            let bin = bin_of(count);
            assert!(bin - bin_of(count - 1) <= 1);
            if bin != bin_of(shortest) {
                shortest = count;
            }
            assert_eq!(shortest_of(bin), shortest);
            assert!(8 * (count - shortest) < shortest);
        }
        assert_eq!(bin_of(LONGEST), BINS - 1);
    }

    #[test]
    fn a_run_is_as_long_as_the_shortest_of_its_bin_and_hardly_longer_than_it_has_to_be() {
        for least in 1..=LONGEST {
            let length = length_of(least);
            assert!(length >= least && 8 * (length - least) < least, "{length} for {least}");
            assert_eq!(bin_for_more_than(least - 1), bin_of(length));
            assert_eq!(length, shortest_of(bin_of(length)));
        }
        assert_eq!(
            [1, 15, 16, 17, 33, 64, 65, 255].map(length_of),
            [1, 15, 16, 18, 36, 64, 72, 256]
        );
        assert_eq!(
            [LONGEST, LONGEST + 1, u32::MAX].map(length_of),
            [LONGEST, LONGEST + 1, u32::MAX]
        );
    }

    #[test]
    fn what_only_frees_keeps_none() {
        let hot = HotRuns::new();
        assert!(!hot.wants(1));
        hot.note_claimed(4, 100);
        assert!(hot.wants(4) && !hot.wants(5));
        hot.note_given_back(4);
        assert!(!hot.wants(1));
    }

    #[test]
    fn no_longer_runs_are_wanted_than_may_be_kept() {
        let hot = HotRuns::new();
        hot.note_claimed(100, 10);
        assert!(hot.wants(10) && !hot.wants(11));
        assert_eq!(hot.limit(), 10);
    }

    #[test]
    fn it_is_a_habit_when_many_go_in_a_row_and_none_is_claimed_that_others_would_not_do_for() {
        let hot = HotRuns::new();
        let crowd = |times| (0..times).filter(|_| hot.note_crowded(1)).count();
        assert_eq!((crowd(CROWDED - 1), hot.beyond()), (0, 0));
        assert_eq!(crowd(1), 1);
        assert!(hot.beyond() > 0);
        assert_eq!(crowd(CROWDED - 1), 0);
        hot.granules.store(1, Ordering::Relaxed);
        assert_eq!((hot.beyond(), crowd(CROWDED - 1)), (0, 0));
        assert_eq!(crowd(1), 1);
    }

    #[test]
    fn in_the_child_of_a_fork_those_who_share_are_counted_anew() {
        let place = Arena::create(Fake::new()).unwrap();
        // SAFETY: it lives until the end of the test.
        let arena = unsafe { place.as_ref() };
        // One left that had not been counted yet.
        arena.run_sharers.store(u32::MAX, Ordering::Relaxed);
        arena.lock_all();
        arena.after_fork_in_child(None);
        assert_eq!(arena.run_sharers.load(Ordering::Relaxed), 0);
        // SAFETY: nobody uses it any more.
        unsafe { Arena::destroy(place) };
    }
}
