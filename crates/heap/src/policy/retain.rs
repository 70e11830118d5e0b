//! How much a thread keeps to itself, and when a slab's free objects are worth taking up again.

use crate::layout::{BLOCK_GRANULES, GRANULE};
use freehold_sync::{exchange, inbox};

/// How many objects a thread that has no heap of its own takes at once: about 512 bytes, so that
/// memory grows with the number of processors and not with the number of threads.
pub const fn shared_batch(size: usize) -> usize {
    let n = 512 / size;
    if n < 1 {
        1
    } else if n > 8 {
        8
    } else {
        n
    }
}

/// How many it takes, of at most `most`, if it has freed nothing since the last time: about 4 KiB.
pub fn shared_batch_again(size: usize, most: usize) -> usize {
    (4096 / size).clamp(1, most)
}

/// How many objects of a detached slab must be free before the slab is worth taking from again: of
/// small objects a smaller part, since a heap keeps such a slab for its thread.
pub const fn wake(capacity: usize, small: bool) -> usize {
    let n = capacity / if small { 16 } else { 8 };
    if n < 1 { 1 } else { n }
}

/// How many slabs with free objects of a class a heap is attached to; more go to the pool, where
/// every heap finds them, or are kept.
pub const SLABS_ATTACHED: usize = 2;

/// Bytes of freed objects that a thread may hold back on their way home, when `used` bytes are in
/// use and so many threads have outboxes: more in a large heap, where batches need it, but in all
/// outboxes together never more than a small share of what is in use.
pub fn outbox_bytes(used: usize, outboxes: usize) -> usize {
    (used / 16 / outboxes.max(1)).clamp(32 * 1024, 1 << 20)
}

/// How often a slab goes into the pool when it wakes, once others have freed of it while a heap
/// kept it, before it is kept again: where that is as a rule, letting go of it costs little then.
pub const WAKES_UNKEPT: u8 = 15;

/// Slabs of which a heap may make new ones although others have some with free objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slabs {
    /// Those of small objects, which heaps keep.
    Small,
    /// Those of medium objects, in pools of the heaps' own.
    Medium,
}

/// How many granules of new slabs a heap may make before it looks again, when there are so many
/// heaps, when of so many bytes in use so many are free in slabs of heaps' own, and when so many
/// were in use and not free at most lately. Of what is in use a quarter may be free when a slab of
/// small objects is made, or all of it to 8 MiB, within a bound; and a sixty-fourth of that when it
/// is one of medium objects, which is up to eight times as long, and is woken by few. Besides that
/// may be as much as takes a sixty-fourth more than the peak. Half of what is left until then is
/// for all heaps. None if it is to take a slab that another heap has.
pub fn granules_beside_spare(
    slabs: Slabs,
    (used, free, live_peak): (usize, usize, usize),
    heaps: usize,
) -> u32 {
    let part = if slabs == Slabs::Small { 1 } else { 64 };
    let most = (used / 4).max(used.min(8 << 20)).min(64 << 20) / part;
    let again = (live_peak + live_peak / 64).saturating_sub(used);
    let granules = most.saturating_sub(free).max(again) / GRANULE;
    if granules == 0 { 0 } else { (granules / 2 / heaps.max(1)).max(1) as u32 }
}

/// What is left of the most bytes that were live lately, when so many are, after a tick of the
/// background thread: it is forgotten by halves in two seconds.
pub fn live_peak_after_tick(peak: usize, live: usize) -> usize {
    peak - peak.saturating_sub(live) / 32
}

/// Bytes of medium objects that may wait for other threads, when `used` bytes are in use.
pub fn handed_over(used: usize) -> usize {
    (used / 16).clamp(2 << 20, 4 << 20)
}

/// How many medium objects of a size change threads together: a lot, or 256 KiB.
pub fn lot_of(size: usize) -> usize {
    (256 * 1024 / size).clamp(1, exchange::LOT)
}

/// Bytes of slabs of medium objects that may stay in pools with all their objects free, when `used`
/// bytes are in use.
pub fn whole_slabs(used: usize) -> usize {
    (used / 16).clamp(4 << 20, 16 << 20)
}

/// Batches of medium objects that a thread sends home before it judges whether they are worth
/// waiting for.
pub const BATCHES_TO_JUDGE: u16 = 64;

/// Objects that a batch must have, in the mean, to be worth waiting for.
pub const WORTH_WAITING: u16 = 4;

/// Medium objects that go home one by one, where batches were found not to be worth it, before it
/// is tried again: so many that those that wait then, as many as an outbox holds, which may be 400
/// of the smallest, are a fifth at most.
pub const ALONE_AT_ONCE: u16 = 2048;

/// How often objects of a thread's magazines go home, while it fetches nothing, until it is taken
/// for one that only frees: after a thousand frees or two, beyond what is set aside.
pub const GONE_HOME_UNTIL_DRAINED: u8 = 64;

/// Objects that a thread sends home when it drains for which a background thread is to look at the
/// slabs that they were in: what a dozen classes have.
pub const DRAINED_WORTH_A_THREAD: usize = 400;

/// How often it is called back for that, in a row: it asks anew as it comes to its end, and threads
/// that do the same all the time would call it each time.
pub const CALLS_BACK: u32 = 3;

/// How long after the last of these the next row may begin.
pub const CALL_BACK_AFTER_MILLISECONDS: u64 = 10_000;

/// How long it may take until it is there.
pub const ON_ITS_WAY_MILLISECONDS: u64 = 100;

/// The most full magazines of a class that a heap sets aside in any case.
pub const DEPOT_LEAST_MOST: usize = 8;

/// The bytes that it sets aside of a class of which it turned out to need more, at most.
const DEPOT_MOST_BYTES: usize = 1 << 20;

/// The bytes that all exclusive heaps together set aside of such classes, but for what each may in
/// any case; a shared one as much as one of them.
const DEPOT_BYTES_LEAST: usize = 4 << 20;
const DEPOT_BYTES_MOST: usize = 8 << 20;

/// The bytes that each may.
const DEPOT_BYTES_EACH: usize = 64 * 1024;

/// The largest objects of which full magazines are set aside.
const DEPOT_MAX: usize = 1024;

/// How many full magazines, of so many objects of a size, a heap sets aside: about 8 KiB, so that
/// loops over a hundred small objects do without slabs, and at least one; but none of objects that
/// are so large that a magazine is memory enough for a thread to have at hand.
pub const fn depot(size: usize, rounds: usize) -> usize {
    let n = 8 * 1024 / (size * rounds);
    if size > DEPOT_MAX {
        0
    } else if n < 1 {
        1
    } else if n > DEPOT_LEAST_MOST {
        DEPOT_LEAST_MOST
    } else {
        n
    }
}

/// How many full magazines of `bytes` with their objects a heap may set aside at most, usually.
pub const fn deepest_depot(bytes: usize) -> usize {
    DEPOT_MOST_BYTES / bytes
}

/// The most magazines that a heap may set aside of a class: for 100,000 objects, 30 each.
pub const DEPOT_PLACES_MOST: usize = 100_000usize.div_ceil(30);

/// How many a heap may set aside of a class of a program that has phases, when it may set `places`
/// aside, and so many bytes more.
pub fn deepest_swing(places: usize, bytes: usize, left: usize) -> usize {
    (places + left / bytes).min(DEPOT_PLACES_MOST)
}

/// How many full magazines a heap may set aside, of at `most` so many, once it was found that
/// `places` were too few, by so many: as many more, but at most twice as many, or `at_once` more.
/// `None` where half as many again as there may be are not enough: what comes and goes then is
/// mostly given back all the same, and more magazines than in any case would only take the place of
/// something else in the processor's cache.
pub fn deeper_depot(places: usize, too_few: usize, most: usize, at_once: usize) -> Option<usize> {
    let worth = places + too_few <= most + most / 2;
    let wanted = (2 * places).max(places + at_once).min(places + too_few);
    worth.then(|| wanted.min(most).max(places))
}

/// How many more magazines of `bytes` with their objects a heap may set aside at once where the
/// program has phases, so that it is known how many come and go: few enough to be made without
/// delay, page by page, and to be a wrong guess.
pub fn places_at_once(bytes: usize) -> usize {
    (BYTES_AT_ONCE / bytes).clamp(1, PLACES_AT_ONCE)
}

const BYTES_AT_ONCE: usize = 256 << 10;
const PLACES_AT_ONCE: usize = 512;

/// The bytes that a heap may set aside of classes of which it turned out to need more, when `used`
/// bytes are in use and there are so many heaps: a small share of what is in use, within bounds.
pub fn depot_bytes(used: usize, heaps: usize) -> usize {
    let all = (used / 16).clamp(DEPOT_BYTES_LEAST, DEPOT_BYTES_MOST);
    (all / heaps.max(1)).max(DEPOT_BYTES_EACH)
}

/// How often in a row small objects were missed when a program has phases: they come by the half
/// magazine.
pub const MISSED_IN_A_ROW: u8 = 32;

/// Likewise medium ones, which come by the slab.
pub const MEDIUM_MISSED_IN_A_ROW: u8 = 16;

/// How often in a row some went home for want of room: small ones by the magazine, medium ones one
/// by one.
pub const GONE_IN_A_ROW: u8 = 32;

/// Bytes of swings of all heaps together, beyond what usually may stay at hand, when `used` bytes
/// are in use: a share of that besides what may be in any case.
pub fn swing_bytes(used: usize) -> usize {
    SWING_BYTES + (used / 4).min(SWING_BYTES_MORE)
}

/// Bytes that are fetched in an epoch of swings that were granted so many: in two of them a fourth
/// of that, but so much at least that what comes and goes with others is used meanwhile.
pub fn swing_epoch(granted: usize) -> usize {
    (granted / 8).max(SWING_EPOCH_LEAST)
}

const SWING_EPOCH_LEAST: usize = 1 << 20;

const SWING_BYTES: usize = 8 << 20;
const SWING_BYTES_MORE: usize = 56 << 20;

/// Bytes of hot medium objects of each class in all heaps together, but for what each may keep in
/// any case.
const HOT_BYTES: usize = 512 * 1024;

/// Bytes of hot medium objects of a class that a heap may keep in any case, and at most.
const HOT_BYTES_LEAST: usize = 32 * 1024;
const HOT_BYTES_MOST: usize = 128 * 1024;

/// Bytes of hot medium objects that a heap may keep where it turned out to need more, if it may set
/// so many aside of small ones: where there is one thread twice as much, since of classes that may
/// have more than at first none wait in the outbox besides.
pub fn hot_bytes(set_aside: usize, has_several_threads: bool) -> usize {
    if has_several_threads { set_aside } else { 2 * set_aside }
}

/// How many medium objects of a size a thread keeps hot, of at most `most`, when there are so many
/// heaps.
pub fn hot(size: usize, most: usize, heaps: usize) -> usize {
    let bytes = (HOT_BYTES / heaps.max(1)).clamp(HOT_BYTES_LEAST, HOT_BYTES_MOST);
    (bytes / size).min(most)
}

/// Bytes of hot medium objects of a class that a heap may keep where it turned out to need more,
/// where the program has phases, and the first time that it needs more.
const MORE_HOT_BYTES: usize = 8 << 20;
const MORE_HOT_BYTES_OF_SWING: usize = 16 << 20;
const MORE_HOT_BYTES_FIRST: usize = 64 * 1024;

/// The most medium objects of a size that a heap usually keeps hot.
pub fn hot_most(size: usize) -> usize {
    MORE_HOT_BYTES / size
}

/// The most that it keeps hot of a class where the program has phases.
pub fn hot_most_of_swing(size: usize) -> usize {
    MORE_HOT_BYTES_OF_SWING / size
}

/// How many a heap may keep, of at `most` so many, once it was found that so many objects of a size
/// are too few, and how many had to go: as many more, but at most twice as many, within bounds.
pub fn more_hot(objects: usize, too_few: usize, size: usize, most: usize) -> usize {
    let more = (2 * objects).max(MORE_HOT_BYTES_FIRST / size).min(objects + too_few);
    more.min(most).max(objects)
}

/// Bytes of hot runs that all heaps together keep, but for what each may keep in any case, and
/// usually at most.
const HOT_RUN_BYTES: usize = 2 << 20;
/// The upper bound.
pub const HOT_RUN_BYTES_MOST: usize = 8 << 20;

/// Granules that a heap may keep beyond that where it turned out to need more, the first time that
/// it did, and at most.
const HOT_RUN_GRANULES_BEYOND: u32 = ((2 << 20) / GRANULE) as u32;
const HOT_RUN_GRANULES_BEYOND_MOST: u32 = ((56 << 20) / GRANULE) as u32;

/// Likewise at most where there is one thread: as much less stays free and dirty then.
pub const HOT_RUN_GRANULES_BEYOND_ALONE: u32 = ((8 << 20) / GRANULE) as u32;

/// Bytes of hot runs that a heap may keep in any case.
pub const HOT_RUN_BYTES_LEAST: usize = 64 * 1024;

/// Granules of the longest run that stays hot.
pub const HOT_RUN_LONGEST: u32 = (HOT_RUN_BYTES_MOST / GRANULE) as u32;

/// Bytes of hot runs that all heaps together keep at most where little of that is resident, and the
/// part that is.
const HOT_RUN_BYTES_SPARSE: usize = 128 << 20;
const HOT_RUN_BYTES_RESIDENT: usize = 4 << 20;

/// How much of the hot runs is resident: the part that the program has written to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resident {
    /// In parts of [`Resident::ALL`], rounded up: at least one.
    pub parts: u32,
}

impl Resident {
    /// All of it: so it is until it was looked.
    pub const ALL: Self = Self { parts: 256 };

    /// What is believed when of so many bytes that were looked at some are resident: what was
    /// seen, if that is more than before, or else what lies in the middle.
    #[must_use]
    pub fn and(self, resident: usize, looked_at: usize) -> Self {
        let parts = resident * Self::ALL.parts as usize / looked_at.max(1) + 1;
        let parts = parts.min(Self::ALL.parts as usize) as u32;
        Self { parts: parts.max(self.parts.midpoint(parts)) }
    }

    /// Whether it is so much more that at most half as many runs may stay.
    pub fn is_much_more_than(self, before: Self) -> bool {
        self.parts >= 2 * before.parts
    }

    /// Bytes of hot runs that all heaps together usually keep at most.
    fn usual_most(self) -> usize {
        let sparse = HOT_RUN_BYTES_RESIDENT * Self::ALL.parts as usize / self.parts.max(1) as usize;
        sparse.clamp(HOT_RUN_BYTES_MOST, HOT_RUN_BYTES_SPARSE)
    }
}

/// How many granules of runs a heap keeps hot, when `used` bytes are in use and there are so many
/// heaps: as many as are in use, so that half of them may come and go, within bounds, the upper of
/// which follows from what is `resident` of them; and so many more `beyond` that.
pub fn hot_run_granules(used: usize, heaps: usize, beyond: u32, resident: Resident) -> u32 {
    let each = |bytes: usize| bytes / heaps.max(1) / GRANULE;
    let usual = each(used.clamp(HOT_RUN_BYTES, resident.usual_most())) as u32;
    let in_use = u32::try_from(each(used)).unwrap_or(u32::MAX);
    let least = (HOT_RUN_BYTES_LEAST / GRANULE) as u32;
    (usual + beyond).min(in_use).max(usual).max(least)
}

/// How many granules a heap may keep beyond that, when so many were too few.
pub fn hot_run_granules_beyond(before: u32) -> u32 {
    (2 * before).clamp(HOT_RUN_GRANULES_BEYOND, HOT_RUN_GRANULES_BEYOND_MOST)
}

/// The longest hot run, in granules, that serves where one of so many is wanted and there is none:
/// a quarter longer, so that what is given out is at most that much more than what was asked for.
pub fn hot_run_instead_of(count: u32) -> u32 {
    count.saturating_add(count / 4)
}

/// How many of so many granules of `hot` runs a heap keeps, of the `most` that there may be, when a
/// run of `count` granules is wanted and none of them would do: what is more than half of the most
/// makes room for it. So a program with buffers of one length, or a few, keeps them all, and one of
/// random lengths takes less beyond what it has in use.
pub fn hot_runs_left(hot: u32, count: u32, most: u32, resident: Resident) -> u32 {
    let half = most.min((resident.usual_most() / GRANULE) as u32) / 2;
    let least = half.max((HOT_RUN_BYTES_LEAST / GRANULE) as u32);
    hot.saturating_sub(count).max(least).min(hot).min(most)
}

/// The most runs that go back together for want of room.
pub const RUN_BATCH: usize = 8;

/// How many runs of so many granules come together, when so many granules may be of hot runs: no
/// more than fit into a block, and a quarter of those. It is not worth it for fewer than four.
pub fn runs_at_once(hot: u32, count: u32) -> u32 {
    let runs = BLOCK_GRANULES.min(hot / 4) / count;
    if runs < 4 { 0 } else { runs }
}

/// How many go together, when so many are of hot runs.
pub fn run_batch(hot: u32, count: u32) -> usize {
    RUN_BATCH.min(runs_at_once(hot, count) as usize)
}

/// Bytes of runs that may wait for threads that only claim such, when `used` bytes are in use and
/// so much of hot runs is resident.
pub fn exchanged_runs(used: usize, resident: Resident) -> usize {
    (used / 4).clamp(1 << 20, resident.usual_most() / 4)
}

/// Granules of the longest run that may, when so many granules may.
pub const fn longest_exchanged(most: u32) -> u32 {
    most / 4
}

/// How many granules a thread gathers before they go together, when so many may wait and there are
/// so many outboxes to gather in: what is in all of them is half as much at most.
pub fn exchanged_at_once(most: u32, outboxes: usize) -> u32 {
    most / 2 / outboxes.max(2) as u32
}

/// How many small objects of a size a thread gathers before they go to another heap's inbox.
pub const fn parcel(size: usize) -> usize {
    16 * 1024 / size
}

/// How many parcels may wait in one inbox, when `used` bytes are in use, so many heaps are sent
/// something, and they are sent objects of classes whose parcels have `parcels` bytes together: as
/// many for each class, since a program that hands objects over does so whatever their sizes. All
/// inboxes together may hold 8 MiB, or a quarter of what is in use, or, with more than 32 heaps,
/// 256 KiB each. What waits is used first by the heap that it waits for.
pub fn inbox_parcels(used: usize, heaps: usize, parcels: usize) -> usize {
    let heaps = heaps.max(1);
    let all = (used / 4).max(8 << 20).max(heaps * (256 << 10));
    (all / heaps / parcels.max(1)).clamp(1, inbox::SLOTS)
}

/// How many parcels may wait in an inbox whose owner has not taken any, of whatever class: it may
/// never do so.
pub const PARCELS_UNTIL_ANSWERED: usize = 1;

/// Parcels after which a thread relies on what it sees of who receives any.
const PARCELS_UNTIL_KNOWN: u32 = 2048;

/// How many heaps share what may wait in inboxes, in the eyes of a thread that has sent so many
/// parcels: those that have `received` something; but at first all others that are `leased`, since
/// of threads that take turns each would otherwise fill the inbox of the one before as if there
/// were few.
pub fn receivers(received: usize, leased: usize, sent: u32) -> usize {
    let others = if sent < PARCELS_UNTIL_KNOWN { leased.saturating_sub(1) } else { 0 };
    received.max(others)
}

/// The most heaps that one thread each may have to itself, and the most that threads share.
const EXCLUSIVE_HEAPS_MOST: usize = 1024;
const SHARED_HEAPS_MOST: usize = 256;

/// The most heaps that there may be.
pub const HEAPS_MOST: usize = EXCLUSIVE_HEAPS_MOST + SHARED_HEAPS_MOST;

/// The number of heaps that one thread each may have to itself.
pub fn exclusive_heaps(processors: usize) -> usize {
    (4 * processors).clamp(32, EXCLUSIVE_HEAPS_MOST)
}

/// The number of heaps that all other threads share.
pub fn shared_heaps(processors: usize) -> usize {
    processors.clamp(1, SHARED_HEAPS_MOST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn what_waits_in_all_inboxes_is_bounded_by_what_is_in_use() {
        let parcels = 300 << 10;
        for (used, bound) in [(0, 8 << 20), (20 << 20, 8 << 20), (400 << 20, 100 << 20)] {
            for heaps in 1..=20 {
                let waiting = inbox_parcels(used, heaps, parcels) * parcels * heaps;
                assert!(waiting <= bound, "{heaps} heaps, {used} bytes in use: {waiting} may wait");
            }
        }
    }

    #[test]
    fn medium_objects_that_wait_for_others_are_few_mebibytes_and_lots_of_them_a_small_part() {
        let mib = |used: usize| handed_over(used << 20) >> 20;
        assert_eq!([0, 32, 48, 64, 100_000].map(mib), [2, 2, 3, 4, 4]);
        assert_eq!([2304, 16 << 10, 20 << 10, 32 << 10].map(lot_of), [16, 16, 12, 8]);
        assert!((2048..=32 << 10).all(|size| 8 * lot_of(size) * size <= handed_over(0)));
    }

    #[test]
    fn whole_slabs_that_stay_are_few_mebibytes_or_a_small_share() {
        let mib = |used: usize| whole_slabs(used << 20) >> 20;
        assert_eq!([0, 64, 160, 256, 100_000].map(mib), [4, 4, 10, 16, 16]);
    }

    #[test]
    fn what_is_kept_hot_of_a_class_is_bounded_in_all_heaps_together() {
        for heaps in 0..=100 {
            for size in [2560, 5000, 16 << 10, 32 << 10] {
                let bytes = hot(size, usize::MAX, heaps) * size;
                assert!(bytes <= HOT_BYTES_MOST && bytes > HOT_BYTES_LEAST - size);
                assert!(bytes * heaps <= HOT_BYTES.max(heaps * HOT_BYTES_LEAST));
            }
        }
        assert_eq!(hot(2560, 11, 1), 11);
    }

    #[test]
    fn how_many_slabs_are_made_beside_others_follows_from_what_is_in_use_and_was_live() {
        let mib = |n: usize| n << 20;
        let small = |used, free, heaps| {
            granules_beside_spare(Slabs::Small, (used, free, 0), heaps) as usize * GRANULE
        };
        assert_eq!((small(mib(10), mib(8), 2), small(mib(40), mib(8), 2)), (0, mib(2) / 4));
        assert_eq!((small(mib(40), mib(10), 2), small(mib(10_000), 0, 1)), (0, mib(64) / 2));
        assert_eq!(small(mib(1), mib(1), 2), 0);
        // As long as there is room each heap may make one.
        assert_eq!(small(mib(10), mib(8) - GRANULE, 1000), GRANULE);
        let medium = |used, free| {
            granules_beside_spare(Slabs::Medium, (used, free, 0), 1) as usize * GRANULE
        };
        assert_eq!((medium(mib(512), mib(0)), medium(mib(512), mib(1))), (mib(1) / 2, 0));
    }

    #[test]
    fn up_to_what_was_live_lately_slabs_are_made_whatever_is_free() {
        let mib = |n: usize| n << 20;
        let made = |used, peak| {
            let seen = (used, used / 2, peak);
            granules_beside_spare(Slabs::Medium, seen, 1) as usize * GRANULE
        };
        assert_eq!((made(mib(64), mib(64)), made(mib(64), mib(128))), (mib(1) / 2, mib(33)));
        assert_eq!(made(mib(64), mib(62)), 0);
        let forget = |&peak: &usize| Some(live_peak_after_tick(peak, mib(10)));
        let peaks: Vec<_> = core::iter::successors(Some(mib(30)), forget).take(200).collect();
        assert!(peaks.is_sorted_by(|one, next| one >= next));
        assert!(peaks[21] > mib(20) && peaks[23] < mib(20), "{peaks:?}");
        assert_eq!(peaks[199] >> 20, 10);
        assert_eq!(live_peak_after_tick(mib(5), mib(10)), mib(5));
    }

    #[test]
    fn more_hot_objects_are_twice_as_many_until_they_are_a_mebibyte() {
        for size in [2304, 5000, 16 << 10, 32 << 10] {
            let most = hot_most(size);
            let more = |&objects: &usize| Some(more_hot(objects, 10_000, size, most));
            let all: Vec<_> = core::iter::successors(Some(0), more).take(12).collect();
            assert!(all[1] > 0 && all[1] * size <= MORE_HOT_BYTES_FIRST);
            assert!(all.windows(2).all(|two| two[1] <= (2 * two[0]).max(all[1])));
            assert_eq!(all[11], hot_most(size));
            assert!(hot_most(size) * size <= MORE_HOT_BYTES);
        }
        // What there may be already is not taken back.
        assert_eq!(more_hot(2000, 10, 32 << 10, 256), 2000);
        assert_eq!(more_hot(40, 3, 4000, 2000), 43);
    }

    #[test]
    fn what_is_set_aside_beyond_the_least_is_bounded_in_all_heaps_together_and_in_each_class() {
        for heaps in 0..=100 {
            for used in [0, 10 << 20, 100 << 20, usize::MAX] {
                let each = depot_bytes(used, heaps);
                assert!((DEPOT_BYTES_EACH..=DEPOT_BYTES_MOST).contains(&each));
                let all = (used / 16).max(DEPOT_BYTES_LEAST).max(heaps * DEPOT_BYTES_EACH);
                assert!(each * heaps <= all);
            }
        }
        for bytes in [500, 2000, 30_000, 60_000] {
            let most = deepest_depot(bytes);
            let deeper = |places: &usize| deeper_depot(*places, (*places / 4).max(1), most, 1);
            let all: Vec<_> = core::iter::successors(Some(0), deeper).take(40).collect();
            assert_eq!(all[..3], [0, 1, 2]);
            assert_eq!(deeper_depot(3, 9, most, 1), Some(6));
            assert!(all.windows(2).all(|two| two[0] <= two[1]));
            assert_eq!(all[39], most);
            let at_once = |too_few| deeper_depot(3, too_few, most, 7).unwrap();
            assert_eq!([5, 9].map(at_once), [8, 10].map(|all: usize| all.min(most)));
        }
        assert_eq!(deeper_depot(1000, 1000, 3000, 7), Some(2000));
        assert_eq!([8, 1024, 1 << 20].map(places_at_once), [512, 256, 1]);
    }

    #[test]
    fn where_far_more_comes_and_goes_than_can_be_set_aside_no_more_is_than_in_any_case() {
        for bytes in [500, 2000, 30_000, 60_000] {
            let most = deepest_depot(bytes);
            assert_eq!(deeper_depot(most, most / 2, most, 1), Some(most));
            assert_eq!(deeper_depot(most, most / 2 + 1, most, 1), None);
            assert_eq!(deeper_depot(1, usize::from(u16::MAX), most, 1), None);
        }
    }

    #[test]
    fn what_swings_may_have_is_a_share_of_what_is_in_use_within_bounds() {
        let mib = |used: usize| swing_bytes(used << 20) >> 20;
        assert_eq!([0, 8, 80, 224, 100_000].map(mib), [8, 10, 28, 64, 64]);
        assert_eq!(swing_bytes(usize::MAX), 64 << 20);
        // Two epochs are a fourth of what was granted, or 2 MiB.
        assert_eq!([0, 8, 64].map(|mib| (2 * swing_epoch(mib << 20)) >> 20), [2, 2, 16]);
        for (places, bytes) in [(1, 736), (300, 2000), (3000, 60_000)] {
            let deepest = deepest_swing(places, bytes, 10 << 20);
            assert!(deepest <= DEPOT_PLACES_MOST && (deepest - places) * bytes <= 10 << 20);
            assert!((deepest + 1 - places) * bytes > 10 << 20 || deepest == DEPOT_PLACES_MOST);
        }
        assert!([2304, 32 << 10].iter().all(|&n| hot_most_of_swing(n) * n <= 2 * MORE_HOT_BYTES));
    }

    #[test]
    fn a_batch_of_runs_fits_into_a_block_and_leaves_most_of_the_hot_ones() {
        assert_eq!(
            [1, 4, 8, 10, 16, 17, 256].map(|count| run_batch(256, count)),
            [8, 8, 8, 6, 4, 0, 0]
        );
        assert_eq!([0, 15, 16, 32, 1000].map(|hot| run_batch(hot, 1)), [0, 0, 4, 8, 8]);
        assert_eq!(run_batch(100, 5), 5);
        assert_eq!([0, 15, 16, 32, 1000].map(|hot| runs_at_once(hot, 1)), [0, 0, 4, 8, 64]);
    }

    #[test]
    fn a_run_that_serves_instead_is_at_most_a_quarter_longer() {
        let longest = [1, 3, 4, 9, 100, u32::MAX].map(hot_run_instead_of);
        assert_eq!(longest, [1, 3, 5, 11, 125, u32::MAX]);
    }

    #[test]
    fn what_is_more_than_half_of_the_hot_runs_makes_room_for_others() {
        let left = |hot| hot_runs_left(hot, 10, 100, Resident::ALL);
        assert_eq!([0, 7, 50, 55, 60, 99, 130, 300].map(left), [0, 7, 50, 50, 50, 89, 100, 100]);
        assert_eq!(
            [(2, 2), (3, 3), (9, 3)].map(|(hot, most)| hot_runs_left(hot, 10, most, Resident::ALL)),
            [2; 3]
        );
    }

    #[test]
    fn as_many_runs_stay_hot_as_are_in_use_within_bounds() {
        let bytes =
            |used, heaps| hot_run_granules(used, heaps, 0, Resident::ALL) as usize * GRANULE;
        assert_eq!((bytes(0, 1), bytes(2 << 20, 1)), (HOT_RUN_BYTES, HOT_RUN_BYTES));
        assert_eq!((bytes(5 << 20, 1), bytes(5 << 20, 5)), (5 << 20, 1 << 20));
        assert_eq!(bytes(usize::MAX, 0), HOT_RUN_BYTES_MOST);
        assert_eq!(bytes(usize::MAX, 1000), HOT_RUN_BYTES_LEAST);
    }

    #[test]
    fn more_runs_stay_hot_where_that_is_too_few_but_not_more_than_are_in_use() {
        let granules = |mib: usize| (mib << 20 >> GRANULE.ilog2()) as u32;
        let most = |mib: usize, heaps, beyond| {
            hot_run_granules(mib << 20, heaps, granules(beyond), Resident::ALL)
        };
        assert_eq!((most(40, 1, 16), most(40, 1, 56), most(400, 1, 56)), {
            (granules(24), granules(40), granules(64))
        });
        assert_eq!((most(40, 4, 16), most(4, 1, 16), most(0, 1, 16)), {
            (granules(10), granules(4), granules(2))
        });
        let more = |&before: &u32| Some(hot_run_granules_beyond(before));
        let all: Vec<_> = core::iter::successors(Some(0), more).take(8).collect();
        assert!(all.windows(2).all(|two| two[1] <= (2 * two[0]).max(granules(2))), "{all:?}");
        assert_eq!(all[7], granules(56));
    }

    #[test]
    fn more_is_seen_to_be_resident_at_once_and_less_by_and_by() {
        let mib = 1 << 20;
        let seen = |before: Resident, parts: usize| before.and(parts * mib / 256, mib).parts;
        assert_eq!((seen(Resident::ALL, 256), seen(Resident::ALL, 255)), (256, 256));
        assert_eq!(
            (seen(Resident { parts: 10 }, 200), seen(Resident { parts: 10 }, 10)),
            (201, 11)
        );
        let less = |&before: &Resident| Some(before.and(0, mib));
        let all: Vec<_> = core::iter::successors(Some(Resident::ALL), less).take(20).collect();
        assert_eq!((all[1].parts, all[2].parts, all[19].parts), (128, 64, 1));
        assert_eq!(Resident::ALL.and(0, 0), Resident { parts: 128 });
    }

    #[test]
    fn more_runs_stay_hot_the_less_of_them_is_resident() {
        let mib = |parts, used: usize, heaps| {
            let granules = hot_run_granules(used << 20, heaps, 0, Resident { parts });
            (granules as usize * GRANULE) >> 20
        };
        assert_eq!([256, 128, 64, 32, 1].map(|parts| mib(parts, 1000, 1)), [8, 8, 16, 32, 128]);
        assert_eq!([256, 128, 64, 32, 1].map(|parts| mib(parts, 20, 2)), [4, 4, 8, 10, 10]);
        let left = |parts| hot_runs_left(2000, 2000, 2000, Resident { parts }) as usize * GRANULE;
        assert_eq!([256, 64, 32, 1].map(|parts| left(parts) >> 20), [4, 8, 16, 31]);
    }

    #[test]
    fn what_waits_for_other_threads_is_bounded_and_more_where_little_of_it_is_resident() {
        let mib = |parts, used: usize| exchanged_runs(used << 20, Resident { parts }) >> 20;
        assert_eq!([0, 4, 6, 8, 1000].map(|used| mib(256, used)), [1, 1, 1, 2, 2]);
        assert_eq!([256, 64, 1].map(|parts| mib(parts, 1000)), [2, 4, 32]);
        for outboxes in 0..100 {
            assert!(outboxes as u32 * exchanged_at_once(64, outboxes) <= 64 / 2);
        }
        assert_eq!(longest_exchanged(0), 0);
    }

    #[test]
    fn as_long_as_a_thread_has_sent_little_every_other_heap_may_receive_something() {
        assert_eq!((receivers(1, 9, 0), receivers(1, 9, PARCELS_UNTIL_KNOWN - 1)), (8, 8));
        assert_eq!(receivers(1, 9, PARCELS_UNTIL_KNOWN), 1);
        // Heaps that have received something stay receivers when nobody leases them any more.
        assert_eq!((receivers(5, 2, 0), receivers(0, 0, 0)), (5, 0));
    }

    #[test]
    fn a_thread_that_shares_heaps_takes_more_when_it_has_only_taken() {
        for size in [1, 16, 64, 300, 1024, 2048, 10_000] {
            let again = shared_batch_again(size, 30);
            assert!(again >= shared_batch(size) && again <= 30);
            assert!(again == 1 || again * size <= 4096);
        }
    }

    #[test]
    fn many_receivers_are_sent_a_little_each() {
        assert_eq!(inbox_parcels(0, 64, 64 << 10), 4);
        assert_eq!(inbox_parcels(0, 1024, 64 << 10), 4);
    }

    #[test]
    fn an_inbox_takes_from_one_parcel_to_as_many_as_it_has_slots() {
        assert_eq!(inbox_parcels(0, 1000, 1 << 20), 1);
        assert_eq!(inbox_parcels(usize::MAX, 1, 1), inbox::SLOTS);
        assert_eq!(inbox_parcels(0, 0, 0), inbox::SLOTS);
    }
}
