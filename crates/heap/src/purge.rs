//! Giving dirty free memory back to the system.
//!
//! Whoever releases granules looks, now and then, whether too many are free and dirty (the policy
//! says how many may be), and purges some: wholly free blocks first, then long free runs in open
//! blocks; of each the highest, since claims prefer the lowest. The purger owns what it purges for
//! that time, like any other claimer. One thread purges at a time, the others go on.
//!
//! Where huge pages are everywhere, what nobody has claimed is resident as well if it shares a huge
//! page with what somebody has. It counts as clean all the same, since whether the system had a
//! huge page to give is not known; it is purged with the block that it lies in.
//!
//! Who only releases cannot know whether what is dirty will be claimed again, and should not wait
//! for the system. So where there is a background thread, it purges: what is not claimed, and many
//! times a second some of what is more than was in use at the recent peak. Threads that free purge
//! only what becomes too much meanwhile.

use crate::arena::Arena;
use crate::drain::Asks;
use crate::invalid::Invalid;
use crate::layout::{BLOCK, GRANULE};
use crate::order;
use crate::policy::purge;
use crate::slab_purge::Slabs;
use crate::tally::{Account, Tally};
use freehold_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use freehold_sync::lock::Lock;
use freehold_sys::System;

/// Runs shorter than this stay when only some is to be purged: a call for each would cost more than
/// it gives, and what surrounds them is in use.
const WORTH_PURGING: u32 = 8;

/// Who helps threads: read by all that claim and release, and hardly ever written.
#[derive(Default)]
pub(crate) struct Help {
    /// Whether a background thread purges what nobody claims.
    is_there: AtomicBool,
    /// Whether somebody would keep more at hand if it could be taken from threads that rest.
    would_keep_more: AtomicBool,
    /// Whether it can.
    pub(crate) reclaims: AtomicBool,
    /// How often threads were asked to send home what is in their magazines.
    pub(crate) asks: Asks,
}

/// The state of purging. It is written often: apart from what is read all the time.
#[repr(align(128))]
pub(crate) struct Purger {
    /// Held while purging; threads that free do not wait for it.
    pub(crate) lock: Lock,
    /// Bytes purged lately and not claimed again since.
    recent: AtomicUsize,
    /// Bytes claimed clean since it was last looked whether they were purged too early.
    clean: AtomicUsize,
    /// When memory was purged last, in milliseconds.
    at: AtomicU64,
    /// Dirty free bytes that may stay beyond the usual bound.
    boost: AtomicUsize,
    /// What of that is for runs of several blocks.
    gaps: AtomicUsize,
    /// The most that was in use until lately.
    peak: AtomicUsize,
    /// When peak and boost were last counted down, in milliseconds.
    counted: AtomicU64,
    /// Bytes purged since the start.
    pub(crate) total: AtomicUsize,
    /// Bytes that threads have released, and looked, since the last occasion: some of them found
    /// somebody else purging, and whoever purges next must make up for them.
    released: AtomicUsize,
    /// Whether the last look of a thread that released found too little.
    futile: AtomicBool,
    /// How many ticks of the background thread there have been.
    ticks: AtomicU32,
    /// When what was beyond the recent peak was last trimmed, in milliseconds.
    trimmed: AtomicU64,
    /// How many looks of threads that release are left until one asks what time it is, and how many
    /// there were to be.
    looks_left: AtomicU32,
    looks: AtomicU32,
    /// What time it was then, in milliseconds.
    looked: AtomicU64,
}

impl Purger {
    /// Nothing purged yet.
    pub(crate) const fn new() -> Self {
        Self {
            lock: Lock::new(order::PURGE),
            recent: AtomicUsize::new(0),
            clean: AtomicUsize::new(0),
            at: AtomicU64::new(0),
            boost: AtomicUsize::new(0),
            gaps: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            counted: AtomicU64::new(0),
            total: AtomicUsize::new(0),
            released: AtomicUsize::new(0),
            futile: AtomicBool::new(false),
            ticks: AtomicU32::new(0),
            trimmed: AtomicU64::new(0),
            looks_left: AtomicU32::new(0),
            looks: AtomicU32::new(purge::LOOKS_AT_ONE_TIME),
            looked: AtomicU64::new(0),
        }
    }

    /// The number of the next tick.
    pub(crate) fn next_tick(&self) -> u32 {
        self.ticks.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }
}

/// What the background thread has seen.
#[derive(Default)]
pub struct Watch {
    /// Granules claimed until the last tick.
    claims: u64,
    /// Bytes claimed in each of the last ticks, the last one first.
    claimed: [usize; purge::TICKS_REMEMBERED],
    /// Slabs that were put into pools or kept by heaps, and lots that changed threads, likewise.
    pooled: [u32; purge::TICKS_REMEMBERED],
    /// Slabs that heaps have kept until the last tick.
    kept: u32,
    /// Whether what threads have at hand is taken from them.
    reclaims: bool,
    /// Whether it was found out whether that can be done.
    has_tried: bool,
}

impl Watch {
    /// One that also [reclaims](Arena::reclaim) what threads have at hand.
    ///
    /// # Safety
    /// As for [`Arena::reclaim`], for every arena that this is used with.
    pub unsafe fn reclaiming() -> Self {
        Self { reclaims: true, ..Self::default() }
    }

    /// Whether the program took memory, or gave some back, in the last tick.
    pub fn has_seen_somebody(&self) -> bool {
        self.claimed[0] > 0 || self.pooled[0] > 0
    }

    /// Whether it did nothing like that in all of the last ticks.
    fn is_at_rest(&self) -> bool {
        purge::demand(self.claimed) == 0 && self.pooled == [0; purge::TICKS_REMEMBERED]
    }
}

// Relaxed throughout: the numbers steer how much is kept, and order nothing.
impl<S: System> Arena<S> {
    /// Purges some, if more is free and dirty than a thread that frees may leave. `released` bytes
    /// were released since this thread last looked. Returns whether it is time for a background
    /// thread.
    #[cold]
    pub(crate) fn purge_excess(&self, released: usize) -> bool {
        let now = self.about_in_use();
        let (dirty, used) = (now.dirty * GRANULE, now.used * GRANULE);
        let helped = self.is_helped();
        let time = self.about_time();
        let kept = self.count_down(time, used, released);
        // Where there are several threads none keeps more than it usually may without help.
        let alone = !helped && !self.has_several_threads();
        let hot = if alone { self.hot_granules() * GRANULE } else { 0 };
        let kept = purge::Recent { hot, ..kept };
        let bound = if helped { kept.left_bound(used) } else { kept.bound(used) };
        let wants_help = !helped && dirty >= purge::WORTH_A_THREAD && self.has_several_threads();
        let all_released = &self.purger.released;
        if purge::excess(dirty, bound, released) == 0 {
            all_released.store(0, Ordering::Relaxed);
            return wants_help;
        }
        let all = all_released.fetch_add(released, Ordering::Relaxed) + released;
        let futile = self.purger.futile.load(Ordering::Relaxed);
        let is_time = !futile || all >= purge::released_after_futile_look(dirty);
        if !is_time || !self.purger.lock.try_acquire() {
            return wants_help;
        }
        let released = all_released.swap(0, Ordering::Relaxed);
        let excess = purge::excess(dirty, bound, released);
        let purged = self.purge_and_note(excess);
        self.purger.futile.store(purge::is_futile(purged, excess), Ordering::Relaxed);
        self.purger.lock.release();
        wants_help
    }

    /// Purges some of what threads that free have left to the background thread. Returns whether
    /// there was something, or hot runs are to be looked at again soon: not if all of it lies in
    /// runs that are too short to be worth it.
    pub fn purge_left(&self) -> bool {
        self.look_at_filled();
        let look_again = self.look_at_hot_runs();
        let now = self.about_in_use();
        let (dirty, used) = (now.dirty * GRANULE, now.used * GRANULE);
        let time = self.system.milliseconds();
        let hot = self.hot_granules() * GRANULE;
        let kept = purge::Recent { hot, ..self.count_down(time, used, 0) };
        let trim = if self.is_time_to_trim(time) { kept.trim(used, dirty) } else { 0 };
        let excess = purge::excess(dirty, kept.helped_bound(used), 0).max(trim).min(purge::STEP);
        if excess == 0 || !self.purger.lock.try_acquire() {
            return excess > 0 || look_again;
        }
        let purged = self.purge_and_note(excess);
        self.purger.lock.release();
        purged > 0 || look_again
    }

    /// What time it was at one of the last looks: to ask for it is a system call, as dear as all
    /// else of a look.
    fn about_time(&self) -> u64 {
        let purger = &self.purger;
        let before = purger.looked.load(Ordering::Relaxed);
        let left = purger.looks_left.load(Ordering::Relaxed);
        if left > 1 {
            purger.looks_left.store(left - 1, Ordering::Relaxed);
            return before;
        }
        let time = self.system.milliseconds();
        let looks = purger.looks.load(Ordering::Relaxed);
        let looks = purge::looks_at_one_time(looks, time == before);
        purger.looks.store(looks, Ordering::Relaxed);
        purger.looks_left.store(looks, Ordering::Relaxed);
        purger.looked.store(time, Ordering::Relaxed);
        time
    }

    /// Whether it is some time since this was true last.
    fn is_time_to_trim(&self, time: u64) -> bool {
        let since = time.saturating_sub(self.purger.trimmed.load(Ordering::Relaxed));
        let is_time = since >= purge::TRIM_MILLISECONDS;
        if is_time {
            self.purger.trimmed.store(time, Ordering::Relaxed);
        }
        is_time
    }

    /// Whether so much is free and dirty that it is time for a background thread, whoever is left
    /// to use it: asked by a thread that ends.
    pub fn has_work_for_a_thread(&self) -> bool {
        !self.is_helped() && self.about_in_use().dirty * GRANULE >= purge::WORTH_A_THREAD
    }

    /// Notes that there is something for a background thread to look at.
    pub(crate) fn want_help(&self) {
        self.help_wanted.store(true, Ordering::Relaxed);
    }

    /// Whether it is time for a background thread, since something was noted that it should look
    /// at. Says so once for each time.
    #[inline]
    pub(crate) fn is_help_wanted(&self) -> bool {
        self.help_wanted.load(Ordering::Relaxed) && self.take_help_wanted()
    }

    #[cold]
    fn take_help_wanted(&self) -> bool {
        self.help_wanted.store(false, Ordering::Relaxed);
        if self.is_helped() {
            return false;
        }
        self.forget_pooled();
        self.has_several_threads()
    }

    /// Whether a background thread purges what nobody claims.
    pub(crate) fn is_helped(&self) -> bool {
        self.help.is_there.load(Ordering::Relaxed)
    }

    /// Whether the background thread also takes what threads that rest have at hand.
    pub(crate) fn is_reclaimed(&self) -> bool {
        self.is_helped() && self.help.reclaims.load(Ordering::Relaxed)
    }

    /// Notes that somebody would keep more at hand if that were so.
    pub(crate) fn would_keep_more(&self) {
        self.help.would_keep_more.store(true, Ordering::Relaxed);
    }

    /// Says whether a background thread calls [`Arena::purge_idle`] from now on.
    pub fn set_helped(&self, helped: bool) {
        self.help.is_there.store(helped, Ordering::Relaxed);
    }

    /// Finds out whether the background thread can take what threads that rest have at hand, once
    /// somebody would keep more if it could: not before, since it takes long the first time.
    pub fn find_out_whether_reclaimed(&self, watch: &mut Watch) {
        if watch.reclaims && !watch.has_tried && self.help.would_keep_more.load(Ordering::Relaxed) {
            watch.has_tried = true;
            self.help.reclaims.store(self.can_reclaim(), Ordering::Relaxed);
        }
    }

    /// Purges what nobody is likely to claim, by what `watch` has seen in the last ticks. Returns
    /// whether there is more to come: if not, it need not be called again until
    /// [`ThreadCache::take_wish_for_help`](crate::cache::ThreadCache::take_wish_for_help) says so.
    /// An error is a second free that was found out; nothing else has come of it.
    pub fn purge_idle(&self, watch: &mut Watch) -> Result<bool, Invalid> {
        self.find_out_whether_reclaimed(watch);
        self.give_back_shut();
        self.look_at_filled();
        self.look_at_hot_runs();
        let handed_over = self.release_exchanged_if_unused() + self.send_lots_home_if_unused();
        let claims: u64 = self.every_tally().map(Tally::claims).sum();
        watch.claimed.rotate_right(1);
        watch.claimed[0] = claims.saturating_sub(watch.claims) as usize * GRANULE;
        watch.claims = claims;
        let tick = self.purger.next_tick();
        self.forget_live_peak();
        watch.pooled.rotate_right(1);
        let kept = self.slabs_kept();
        let kept_since = kept.wrapping_sub(core::mem::replace(&mut watch.kept, kept));
        watch.pooled[0] = self.begin_tick(tick) + handed_over + kept_since;
        let at_rest = watch.is_at_rest();
        if at_rest {
            self.release_ready();
        }
        let is_time = at_rest || tick.is_multiple_of(purge::TICKS_TO_RECLAIM);
        if watch.reclaims && is_time {
            // SAFETY: whoever made this watch has promised what that needs.
            unsafe { self.reclaim()? };
            // The slabs that came into pools by that are no sign of somebody at work.
            self.begin_tick(tick);
            watch.kept = self.slabs_kept();
        }
        let demand = purge::demand(watch.claimed);
        let now = self.granules_in_use();
        let (mut dirty, used) = (now.dirty * GRANULE, now.used * GRANULE);
        let time = self.system.milliseconds();
        let hot = self.hot_granules() * GRANULE;
        let keep = purge::Recent { hot, ..self.count_down(time, used, 0) };
        let keep = keep.idle_bound(used, demand);
        let worth = if keep < GRANULE { 1 } else { WORTH_PURGING };
        // A step at a time, so that a fork need not wait long for the lock.
        while dirty > keep && self.purger.lock.try_acquire() {
            let purged = self.purge_some((dirty - keep).min(purge::STEP), worth);
            self.purger.at.store(self.system.milliseconds(), Ordering::Relaxed);
            self.purger.lock.release();
            if purged == 0 {
                break;
            }
            dirty = dirty.saturating_sub(purged);
        }
        self.purge_within(if at_rest { Slabs::All } else { Slabs::LongPooled }, tick);
        if at_rest {
            self.purge_tables();
        }
        if is_time {
            self.purge_heaps();
        }
        Ok(!at_rest)
    }

    /// Whether memory was purged a moment ago, by whomever.
    pub(crate) fn has_purged_lately(&self) -> bool {
        let at = self.purger.at.load(Ordering::Relaxed);
        at != 0 && self.system.milliseconds().saturating_sub(at) < purge::GROWING_AFTER_MILLISECONDS
    }

    /// Purges what may not stay without a background thread, which has just ended.
    pub fn purge_without_help(&self) {
        let now = self.granules_in_use();
        let (dirty, used) = (now.dirty * GRANULE, now.used * GRANULE);
        let excess = dirty.saturating_sub(purge::Recent::default().bound(used));
        if excess > 0 && self.purger.lock.try_acquire() {
            self.purge_some(excess, WORTH_PURGING);
            self.purger.lock.release();
        }
    }

    /// Whether several threads take from here.
    pub fn has_several_threads(&self) -> bool {
        self.leases.are_several()
    }

    /// Purges about so many bytes of what is worth it, and remembers how many, with what was purged
    /// just before and not claimed again. Returns how many. Only for the holder of the lock.
    fn purge_and_note(&self, target: usize) -> usize {
        let bytes = self.purge_some(target, WORTH_PURGING);
        let time = self.system.milliseconds();
        let since = time.saturating_sub(self.purger.at.load(Ordering::Relaxed));
        let before = self.purger.recent.load(Ordering::Relaxed);
        let before = if since > purge::REGRET_MILLISECONDS { 0 } else { before };
        self.purger.at.store(time, Ordering::Relaxed);
        self.purger.recent.store(before + bytes, Ordering::Relaxed);
        bytes
    }

    /// What is left of the recent peak and of the boost after `released` bytes were released.
    /// Threads that count at the same time may count a release once instead of twice.
    fn count_down(&self, time: u64, used: usize, released: usize) -> purge::Recent {
        let purger = &self.purger;
        let since = time.saturating_sub(purger.counted.load(Ordering::Relaxed));
        let most = self.tally.take_most_used() * GRANULE;
        let peak = purger.peak.load(Ordering::Relaxed).max(most);
        let peak = purge::recent_peak(peak, used, since);
        let boost = purge::decayed(purger.boost.load(Ordering::Relaxed), since, released);
        let gaps = purge::decayed(purger.gaps.load(Ordering::Relaxed), since, released);
        purger.peak.store(peak, Ordering::Relaxed);
        purger.boost.store(boost, Ordering::Relaxed);
        purger.gaps.store(gaps, Ordering::Relaxed);
        if since >= purge::HALF_LIFE_MILLISECONDS {
            purger.counted.store(time, Ordering::Relaxed);
        }
        purge::Recent { peak, boost, gaps, hot: 0 }
    }

    /// Forgets that more was in use lately than now, since what was is not worth keeping.
    pub(crate) fn forget_peak(&self) {
        self.tally.take_most_used();
        let used = self.about_in_use().used * GRANULE;
        let peak = self.purger.peak.load(Ordering::Relaxed);
        self.purger.peak.store(peak.min(used), Ordering::Relaxed);
    }

    /// Purges everything that is free and dirty, and the tables of what is wholly free. Returns the
    /// bytes purged but for those.
    pub fn purge_all(&self) -> usize {
        let account = Account::new(&self.tally);
        self.release_whole_slabs(&account);
        self.release_exchanged(&account);
        self.send_all_lots_home();
        self.give_back_shut();
        self.release_ready();
        let purged = self.purger.lock.hold(|| {
            let purged = self.purge_some(usize::MAX, 1);
            let page = self.system.page_size();
            // A huge page is as many pages as entries fit into a page.
            if self.may_be_huge_anywhere() && page / 8 * page > BLOCK {
                self.purge_around();
            }
            purged
        });
        self.purge_tables();
        purged
    }

    /// Counts bytes that were purged within slabs. Nothing is regretted of them: claims of granules
    /// tell nothing of when they are touched again.
    pub(crate) fn note_purged_within(&self, bytes: usize) {
        self.purger.total.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes purged since the start.
    pub fn purged_bytes(&self) -> usize {
        self.purger.total.load(Ordering::Relaxed)
    }

    /// Clean granules were claimed, maybe for a run of several blocks: if they were purged only
    /// just now, keep more in future.
    pub(crate) fn regret_purge(&self, bytes: usize, several_blocks: bool) {
        let recent = self.purger.recent.load(Ordering::Relaxed);
        if recent == 0 {
            return;
        }
        // The time, which is a system call, is not asked for each granule.
        let bytes = self.purger.clean.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if bytes < purge::REGRET_STEP.min(recent) {
            return;
        }
        self.purger.clean.store(0, Ordering::Relaxed);
        let time = self.system.milliseconds();
        let since = time.saturating_sub(self.purger.at.load(Ordering::Relaxed));
        if since > purge::REGRET_MILLISECONDS {
            self.purger.recent.store(0, Ordering::Relaxed);
            return;
        }
        let bytes = bytes.min(recent);
        self.purger.recent.store(recent - bytes, Ordering::Relaxed);
        let now = self.about_in_use();
        let ceiling = (now.used + now.dirty) * GRANULE;
        let recent = self.count_down(time, now.used * GRANULE, 0);
        self.purger.boost.store(purge::raised(recent.boost, bytes, ceiling), Ordering::Relaxed);
        if several_blocks {
            let gaps = purge::raised_gaps(recent.gaps, bytes, ceiling);
            self.purger.gaps.store(gaps, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::{Home, Prefer, Want};
    use freehold_sys::fake::Fake;
    use std::vec::Vec;

    #[test]
    fn where_nothing_is_worth_purging_threads_look_again_after_more_was_released() {
        let place = Arena::create(Fake::new()).unwrap();
        // SAFETY: it lives until the end of the test.
        let arena = unsafe { place.as_ref() };
        let (home, account) = (Home::default(), Account::new(&arena.tally));
        let two = Want { count: 2, align: 1, prefer: Prefer::Dirty, dense: true };
        let pieces: Vec<_> = (0..1024)
            .map(|_| arena.claim_granules(two, &home, &account).unwrap().granule)
            .collect();
        let go = pieces.iter().step_by(2);
        go.for_each(|&g| arena.release_granules(g, 2, &account));
        let looks = || arena.purger.released.load(Ordering::Relaxed) == 0;
        arena.purge_excess(GRANULE);
        assert!(looks() && arena.purged_bytes() == 0);
        let dirty = arena.about_in_use().dirty * GRANULE;
        assert!(arena.purger.futile.load(Ordering::Relaxed));
        let again: Vec<_> = (0..=dirty / 16)
            .step_by(GRANULE)
            .skip(1)
            .map(|_| {
                arena.purge_excess(GRANULE);
                looks()
            })
            .collect();
        assert_eq!(again.iter().position(|&looked| looked), Some(again.len() - 1), "{again:?}");
        // Where less is left, it is after less.
        for _ in 0..360 {
            arena.claim_granules(two, &home, &account).unwrap();
        }
        assert!(arena.about_in_use().dirty * GRANULE < dirty / 3);
        arena.purge_excess(dirty / 32);
        assert!(looks());
        // SAFETY: nobody uses it any more.
        unsafe { Arena::destroy(place) };
    }
}
