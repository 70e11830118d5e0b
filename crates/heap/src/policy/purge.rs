//! How much free memory may stay dirty, and how much to return at once.
//!
//! Free memory that was touched still counts as resident. Keeping some makes the next allocation
//! cheap; the bound says how much: a share of what is in use, and more for a while after purged
//! memory had to be faulted in again at once ("boost"), because then the bound was too tight for
//! what the program does.
//!
//! Where a background thread looks after what stays, all that was in use until lately may stay, so
//! that a program whose use goes up and down many times a second keeps it, and for a moment a
//! little more. What is beyond that, threads that free leave to the background thread, unless it
//! becomes too much: a call to the system that purges can take milliseconds.

use crate::layout::BLOCK;
use crate::policy::retain::HOT_RUN_BYTES_MOST;

/// Dirty free bytes that may always stay.
const FLOOR: usize = 8 << 20;
/// Dirty free bytes that may stay, as a share of those in use: one part in this many.
const SHARE: usize = 8;
/// What may stay beyond the recent peak of use while a background thread purges, one part of it in
/// this many: what is free lies in pieces, not all of which are long enough for what is wanted.
const HELPED_SHARE: usize = 16;
/// What may in any case. How much is in use is known in lumps: a program that takes as much again
/// and again would have some of it purged each time.
const BEYOND_PEAK: usize = 2 << 20;
/// How often some of what stays beyond the recent peak of use goes.
pub const TRIM_MILLISECONDS: u64 = 20;
/// What threads that free leave to the background thread beyond that: so much that they seldom have
/// to purge, since it can purge a [`STEP`] in every [look](LOOK_MILLISECONDS).
const LEFT: usize = 16 << 20;
/// How often the background thread looks what was left to it, while there is something.
pub const LOOK_MILLISECONDS: u64 = 10;
/// How many looks of threads that free believe that it is the same time: half as many MiB. Where it
/// was the same time indeed, twice as many do next, up to the latter.
pub const LOOKS_AT_ONE_TIME: u32 = 4;
const LOOKS_AT_ONE_TIME_MOST: u32 = 16;

/// How many looks are to believe that it is the time that was told now, when so many believed that
/// it was the one told before.
pub fn looks_at_one_time(before: u32, is_same: bool) -> u32 {
    if is_same { (2 * before).min(LOOKS_AT_ONE_TIME_MOST) } else { LOOKS_AT_ONE_TIME }
}
/// Bytes to purge in one call, so that no free takes long. A call of this size costs about as much
/// as fifty page faults.
pub const STEP: usize = 2 * BLOCK;
/// Bytes claimed clean before it is looked whether they were purged too early.
pub const REGRET_STEP: usize = BLOCK;
/// Memory claimed again this soon after it was purged was purged too early.
pub const REGRET_MILLISECONDS: u64 = 100;
/// So many bytes released without regret take one byte of the boost away.
const RELEASES_TO_A_BYTE: usize = 64;
/// The boost, and what is left of a peak, halves in this time.
pub const HALF_LIFE_MILLISECONDS: u64 = 1000;

/// A program in which nothing was purged for so long is growing, if it changes at all.
pub const GROWING_AFTER_MILLISECONDS: u64 = 1000;
/// How often the background thread looks.
pub const TICK_MILLISECONDS: u64 = 100;
/// How many of the last ticks count when what will be claimed is foretold.
pub const TICKS_REMEMBERED: usize = 5;
/// How many ticks the background thread of a program stays that allocates, but has a single thread.
pub const TICKS_ALONE: u32 = 2;
/// Dirty free bytes for which a background thread is started: as many as may always stay, so that
/// small programs never have one.
pub const WORTH_A_THREAD: usize = FLOOR;

/// Bytes of slabs put into pools for which a background thread is started.
pub const SLABS_WORTH_A_THREAD: usize = 4 << 20;

/// How many slabs of so many bytes are put into a pool between two looks at all pools: a small part
/// of the above, since there may be as much in many of them.
pub const fn slabs_between_looks(slab: usize) -> usize {
    let n = (SLABS_WORTH_A_THREAD / 32) / slab;
    if n < 1 { 1 } else { n }
}

/// How many ticks a slab is in a pool, of a program that goes on allocating, before pages of it are
/// purged: those that are wanted again come out again sooner, and others cost little, since it is
/// seldom.
pub const TICKS_IN_POOL: u32 = 50;

/// In how many ticks of a program that goes on allocating it is looked which of its threads do not,
/// to take what they have at hand: that of a thread which has only just left the allocator is taken
/// as well, and seldom is cheap enough.
pub const TICKS_TO_RECLAIM: u32 = 20;

/// Pages of a heap's map of which it is looked whether they can be purged: of 4 KiB they tell of
/// 8 GiB. Of a larger program the others matter little, and there may be many.
pub const MAP_PAGES_LOOKED_AT: usize = 64;

/// The bytes that may be claimed in a [tick](TICK_MILLISECONDS), when these were in the last ones.
pub fn demand(claimed: [usize; TICKS_REMEMBERED]) -> usize {
    claimed.into_iter().fold(0, usize::max)
}

/// What the last second or so says of what may stay, in bytes.
#[derive(Clone, Copy, Default)]
pub struct Recent {
    /// The most that was in use.
    pub peak: usize,
    /// What may stay beyond the usual bound, since purging as much was regretted.
    pub boost: usize,
    /// The part of it that runs of several blocks regretted. They fit into few of the holes between
    /// others of their kind, so that what is free and dirty must be more than what they will want.
    pub gaps: usize,
    /// Of what is in use now the hot runs: as good as free for who wants such a run, so that so
    /// much less need stay beyond the peak. Left at 0 by who would have to look at every heap.
    pub hot: usize,
}

impl Recent {
    /// The dirty free bytes that may stay when `used` bytes are in use: the usual share, or what
    /// more hot runs than usual leave of it; beyond that the boost, as far as it was in use until
    /// lately, and little more; and gaps, as far as there are others around them.
    pub fn bound(self, used: usize) -> usize {
        let beyond = self.hot.saturating_sub(HOT_RUN_BYTES_MOST);
        let usual = FLOOR.max(used / SHARE).saturating_sub(beyond);
        let boosted = (usual + self.boost).min(self.given_up(used) + BEYOND_PEAK);
        usual.max(boosted).max(self.gaps.min(used / 4 * 3))
    }

    /// The dirty free bytes that may stay while a background thread purges what is not claimed
    /// again: with what is in use they are as much as was in use at the recent peak, or little
    /// more.
    pub fn helped_bound(self, used: usize) -> usize {
        self.given_up_and(self.beyond(used), used)
    }

    /// The dirty free bytes that threads which free leave, while a background thread purges what is
    /// more than it lets [stay](Self::helped_bound).
    pub fn left_bound(self, used: usize) -> usize {
        self.helped_bound(used) + LEFT
    }

    /// Bytes to purge now although they may stay, if [so long](TRIM_MILLISECONDS) nothing was, when
    /// `dirty` ones are free and dirty: some of what is more than was in use at the recent peak.
    pub fn trim(self, used: usize, dirty: usize) -> usize {
        dirty.saturating_sub(self.given_up_and(self.beyond(used) / 2, used)) / 2
    }

    /// What was given up since the recent peak, and so much beyond; or gaps, if that is more.
    fn given_up_and(self, beyond: usize, used: usize) -> usize {
        (self.given_up(used) + beyond).max(self.gaps.min(used / 4 * 3))
    }

    /// What may stay for a moment beyond what was in use at the recent peak.
    fn beyond(self, used: usize) -> usize {
        BEYOND_PEAK.max((self.peak.max(used) / HELPED_SHARE).saturating_sub(self.hot))
    }

    /// The dirty free bytes that the background thread leaves: of those that may stay what two
    /// ticks of such [demand] will want.
    pub fn idle_bound(self, used: usize, demand: usize) -> usize {
        self.helped_bound(used).min(2 * demand)
    }

    fn given_up(self, used: usize) -> usize {
        self.peak.saturating_sub(used)
    }
}

/// What counts as the recent peak `milliseconds` after it was `peak`, when `used` bytes are in use.
pub fn recent_peak(peak: usize, used: usize, milliseconds: u64) -> usize {
    used + halved(peak.saturating_sub(used), milliseconds)
}

fn halved(bytes: usize, milliseconds: u64) -> usize {
    let halvings = milliseconds / HALF_LIFE_MILLISECONDS;
    if halvings >= u64::from(usize::BITS) { 0 } else { bytes >> halvings }
}

/// Bytes to purge now: none within the bound; beyond it, to a sixteenth or two [`STEP`]s below the
/// bound, so that purging comes in few calls of useful size, but at most a [`STEP`], or twice what
/// was `released` since the last time, so that purging keeps up.
pub fn excess(dirty: usize, bound: usize, released: usize) -> usize {
    if dirty <= bound {
        return 0;
    }
    let goal = bound - (bound / 16).min(2 * STEP);
    (dirty - goal).min(STEP.max(2 * released))
}

/// Whether a look was futile that `purged` so much of an excess: what is dirty lies in pieces that
/// are too short to be worth it, and to find that out takes a walk through all of memory.
pub fn is_futile(purged: usize, excess: usize) -> bool {
    purged < excess / 2
}

/// Bytes that are released until threads look again after such a look, when so much is free and
/// dirty by then.
pub fn released_after_futile_look(dirty: usize) -> usize {
    dirty / 16
}

/// The boost after `bytes` had to be claimed again too early: at most what is in use or dirty.
pub fn raised(boost: usize, bytes: usize, ceiling: usize) -> usize {
    (boost + 2 * bytes).min(ceiling)
}

/// The gaps after `bytes` had to be claimed again too early for runs of several blocks: more than
/// the boost, since what is regretted is what no gap was long enough for, a small part of them.
pub fn raised_gaps(gaps: usize, bytes: usize, ceiling: usize) -> usize {
    (gaps + 8 * bytes).min(ceiling)
}

/// The boost after `milliseconds` in which `released` bytes were released without regret. Both
/// count: a program that frees everything may take no time to do so, and free nothing afterwards.
pub fn decayed(boost: usize, milliseconds: u64, released: usize) -> usize {
    halved(boost, milliseconds).saturating_sub(released / RELEASES_TO_A_BYTE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::GRANULE;

    #[test]
    fn a_look_is_futile_that_finds_less_than_half() {
        assert_eq!(
            [0, 1, 2, 4, 5].map(|purged| is_futile(purged, 4)),
            [true, true, false, false, false]
        );
        assert_eq!(released_after_futile_look(64 << 20), 4 << 20);
    }

    #[test]
    fn the_bound_follows_what_is_in_use_and_was_until_now() {
        let recent = |peak: usize, boost: usize| Recent {
            peak: peak << 20,
            boost: boost << 20,
            gaps: 0,
            hot: 0,
        };
        assert_eq!(recent(0, 0).bound(0), FLOOR);
        assert_eq!(recent(800, 0).bound(800 << 20), 100 << 20);
        // The boost alone keeps nothing that was not in use a moment ago.
        assert_eq!(recent(0, 1000).bound(0), FLOOR);
        assert_eq!(recent(100, 1000).bound(20 << 20), (80 << 20) + BEYOND_PEAK);
        assert_eq!(recent(100, 30).bound(20 << 20), FLOOR + (30 << 20));
    }

    #[test]
    fn the_time_is_asked_for_less_often_while_it_stays_the_same() {
        let looks =
            [true, true, true, false, true].into_iter().scan(LOOKS_AT_ONE_TIME, |looks, same| {
                *looks = looks_at_one_time(*looks, same);
                Some(*looks)
            });
        assert!(looks.eq([8, 16, 16, 4, 8]));
    }

    #[test]
    fn where_more_runs_are_hot_than_usual_less_is_free_and_dirty() {
        let bound = |hot: usize| Recent { hot: hot << 20, ..Recent::default() }.bound(20 << 20);
        assert_eq!([0, 8, 10, 16, 64].map(|hot| bound(hot) >> 20), [8, 8, 6, 0, 0]);
    }

    #[test]
    fn pools_are_looked_at_before_much_more_than_a_threads_worth_of_slabs_is_in_them() {
        for slab in [GRANULE, 2 * GRANULE, 8 * GRANULE] {
            let between = slabs_between_looks(slab);
            assert!(between >= 1 && between * slab <= (SLABS_WORTH_A_THREAD / 16).max(slab));
        }
    }

    #[test]
    fn with_help_what_was_in_use_until_now_may_stay_and_little_more() {
        let recent = |peak: usize| Recent { peak: peak << 20, boost: 1 << 30, gaps: 0, hot: 0 };
        assert_eq!(recent(320).helped_bound(20 << 20), (300 + 20) << 20);
        assert_eq!(recent(320).helped_bound(320 << 20), 20 << 20);
        assert_eq!(recent(20).helped_bound(20 << 20), BEYOND_PEAK);
        assert_eq!(recent(0).helped_bound(0), BEYOND_PEAK);
        // The peak that is known may be older than what is in use now.
        assert_eq!(recent(0).helped_bound(320 << 20), 20 << 20);
        // Hot runs do as well as what is free and dirty.
        let with_hot = |hot: usize| Recent { hot: hot << 20, ..recent(320) };
        assert_eq!(with_hot(8).helped_bound(320 << 20), 12 << 20);
        assert_eq!(with_hot(19).helped_bound(320 << 20), BEYOND_PEAK);
        assert_eq!(with_hot(30).helped_bound(320 << 20), BEYOND_PEAK);
        assert_eq!(recent(320).left_bound(320 << 20), (20 << 20) + LEFT);
    }

    #[test]
    fn the_background_thread_looks_a_whole_number_of_times_in_a_tick() {
        assert_eq!(TICK_MILLISECONDS % LOOK_MILLISECONDS, 0);
        // What was left to it is gone within a tick.
        assert!(TICK_MILLISECONDS / LOOK_MILLISECONDS * STEP as u64 >= LEFT as u64);
    }

    #[test]
    fn of_what_is_beyond_the_recent_peak_half_of_what_may_stay_for_a_moment_stays() {
        let recent = Recent { peak: 320 << 20, boost: 0, gaps: 0, hot: 0 };
        assert_eq!(recent.trim(120 << 20, 220 << 20), 5 << 20);
        assert_eq!(recent.trim(320 << 20, 20 << 20), 5 << 20);
        assert_eq!(recent.trim(320 << 20, 14 << 20), 2 << 20);
        assert_eq!(recent.trim(120 << 20, 210 << 20), 0);
        // What may stay between runs of several blocks is not trimmed away either.
        let recent = Recent { gaps: 100 << 20, ..recent };
        assert_eq!(recent.trim(320 << 20, 100 << 20), 0);
        assert_eq!(recent.trim(320 << 20, 104 << 20), 2 << 20);
    }

    #[test]
    fn gaps_may_stay_between_what_is_in_use_and_go_with_it() {
        let recent = Recent { peak: 300 << 20, boost: 0, gaps: 100 << 20, hot: 0 };
        assert_eq!(recent.bound(300 << 20), 100 << 20);
        assert_eq!(recent.helped_bound(300 << 20), 100 << 20);
        assert_eq!(recent.bound(100 << 20), 75 << 20);
        assert_eq!(Recent { peak: 0, ..recent }.helped_bound(100 << 20), 75 << 20);
        assert_eq!(recent.bound(0), FLOOR);
    }

    #[test]
    fn after_half_a_second_without_claims_nothing_may_stay() {
        let (busy, idle) = ([0, 0, 0, 0, 1 << 30], [0; TICKS_REMEMBERED]);
        assert_eq!(TICKS_REMEMBERED as u64 * TICK_MILLISECONDS, 500);
        let recent = Recent { peak: 1 << 30, boost: 0, gaps: 0, hot: 0 };
        assert_eq!(recent.idle_bound(0, demand(busy)), (1 << 30) + (64 << 20));
        assert_eq!(recent.idle_bound(0, demand(idle)), 0);
        assert_eq!(Recent::default().idle_bound(0, demand([FLOOR, 0, 0, 0, 0])), BEYOND_PEAK);
    }

    #[test]
    fn a_peak_is_forgotten_by_halves() {
        assert_eq!(recent_peak(100, 20, 0), 100);
        assert_eq!(recent_peak(100, 20, HALF_LIFE_MILLISECONDS), 60);
        assert_eq!(recent_peak(100, 20, u64::MAX), 20);
        assert_eq!(recent_peak(10, 20, 0), 20);
    }

    #[test]
    fn beyond_the_bound_purging_goes_well_below_it_in_bounded_steps() {
        assert_eq!(excess(FLOOR, FLOOR, 0), 0);
        assert_eq!(excess(FLOOR + 1, FLOOR, 0), FLOOR / 16 + 1);
        assert_eq!(excess(1 << 30, FLOOR, 0), STEP);
        assert_eq!(excess(1 << 30, FLOOR, 100 << 20), 200 << 20);
        assert_eq!(excess((1 << 30) + 1, 1 << 30, 100 << 20), 2 * STEP + 1);
    }

    #[test]
    fn the_boost_rises_with_regret_and_falls_with_time_and_releases() {
        assert_eq!(raised(0, 10, 1000), 20);
        assert_eq!(raised(990, 10, 1000), 1000);
        assert_eq!(raised_gaps(0, 10, 1000), 80);
        assert_eq!(raised_gaps(990, 10, 1000), 1000);
        assert_eq!(decayed(1024, HALF_LIFE_MILLISECONDS, 0), 512);
        assert_eq!(decayed(1024, 20 * HALF_LIFE_MILLISECONDS, 0), 0);
        assert_eq!(decayed(1024, 0, 32 << 10), 512);
        assert_eq!(decayed(1024, HALF_LIFE_MILLISECONDS, 32 << 10), 0);
    }
}
