//! Hot objects: the medium objects of a class that a thread freed last, for it to take again first.
//!
//! A slab of medium objects is nobody's once a thread has taken its free bits, so each free of one
//! would go home to a word that others may be at. A program whose working set of a size comes and
//! goes finds them here instead, in its cache, at the price of a small object. When a class has as
//! many as the policy allows, further objects go home; and a thread that only frees objects of a
//! class, because others allocate them, keeps none.
//!
//! There may be a few of each class at first. Where a thread has to let objects go for want of
//! room, and to fetch some again later, or to take them again from the slab that it gave them back
//! to, there may be more from then on, as far as the policy allows that for all classes together.
//! What a class was allowed that it does not use goes to those that need it, and to nobody when the
//! thread rests and what it has at hand is taken from it.
//!
//! Invariants: hot objects are out as far as their slabs know, in use by nobody, and each is here
//! once: no two of a heap have the same place in its filter. Who is interrupted here by a fork
//! leaves the child with objects that were put here and not taken out, as far as they count.

use crate::arena::Arena;
use crate::class::{Class, MEDIUM_CAPACITY, MEDIUM_CLASSES, MEDIUM_PLACES};
use crate::layout::at;
use crate::magazine::{Magazine, SLOT};
use crate::policy::retain;
use crate::swing::{Swing, Used};
use freehold_sync::atomic::{Ordering, compiler_fence};
use freehold_sync::exchange::LOT;
use freehold_sys::System;

/// The most hot objects of a class that there may be at first.
pub(crate) const NEAR: usize = 11;

/// Slots for the objects of each class that there may be at first, or for those of a lot that comes
/// from another thread.
pub(crate) type NearSlots = [[usize; LOT]; MEDIUM_CLASSES];
const _: () = assert!(NEAR <= LOT);

/// The hot objects of a class, the one freed last at the end.
pub(crate) struct Hot {
    /// Where the first one is; 0 before the heap has wanted one.
    slots: usize,
    count: u32,
    /// How many there may be: none before the heap has wanted one.
    most: u32,
    /// Whether one was taken.
    used: Used,
    /// How many objects went back to the slab that the thread is taking from, for want of room,
    /// since some were fetched last, or since there may be more.
    taken_back: u8,
}

/// More objects than go back to a slab if none of them is taken again meanwhile.
const TAKEN_BACK: u8 = 64;
const _: () = assert!(MEDIUM_CAPACITY < TAKEN_BACK as usize);

impl Hot {
    /// None yet.
    pub(crate) const NONE: Self =
        Self { slots: 0, count: 0, most: 0, used: Used::NEVER, taken_back: 0 };

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.count as usize
    }

    /// Whether there are as many as there may be.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.count >= self.most
    }

    /// Lets so many be kept from now on in the slots at `near`, unless there may be more already.
    pub(crate) fn allow(&mut self, near: usize, most: usize) {
        if self.slots == 0 {
            self.slots = near;
        }
        if self.slots == near {
            self.most = most.min(NEAR) as u32;
        }
    }

    fn slot(&self, n: u32) -> *mut usize {
        at(self.slots + n as usize * SLOT)
    }

    /// Keeps an object, for which there is room.
    #[inline]
    fn push(&mut self, object: usize) {
        debug_assert!(!self.is_full());
        // SAFETY: `keep`, which alone comes here, has looked that there are fewer than there may
        // be, for which there are slots, of this heap's alone.
        unsafe { self.slot(self.count).write(object) };
        // Second: in the child of a fork what counts is there.
        compiler_fence(Ordering::SeqCst);
        self.count += 1;
    }

    /// The object freed last.
    #[inline]
    pub(crate) fn last(&self) -> Option<usize> {
        let n = self.count.checked_sub(1)?;
        // SAFETY: one that counts was put there.
        Some(unsafe { self.slot(n).read() })
    }

    /// Notes that its objects lie idle, whoever has just taken some.
    pub(crate) fn note_idle(&mut self) {
        self.used = Used::NEVER;
    }

    /// Begins the next epoch of swings.
    pub(crate) fn end_epoch(&mut self) {
        self.used.end_epoch();
    }

    /// Where its objects are, and whether one was taken since this was asked last.
    pub(crate) fn look(&mut self) -> Looked {
        Looked { slots: self.slots, was_used: self.used.take() }
    }

    /// Whether an object is here.
    #[cold]
    fn has(&self, object: usize) -> bool {
        // SAFETY: in so many slots an object was put.
        (0..self.count).any(|n| unsafe { self.slot(n).read() } == object)
    }
}

/// What became of an object that another thread has freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Received {
    /// It is kept.
    Done,
    /// It is here already.
    Twice,
    /// There is no room for it.
    NoRoom,
}

/// Objects that a thread frees and has no use for, less those that it fetched, until others are to
/// have what it frees: more than it could have set aside of most classes, had it needed some.
const SURPLUS: i16 = 64;
/// How many of those that it fetched count at most: what it did long ago says little.
const FETCHED: i16 = 16_384;

/// What was seen of the hot objects of a class.
pub(crate) struct Looked {
    slots: usize,
    was_used: bool,
}

/// Places of the filter: one for each 2 KiB of 32 MiB, so that it is exact where what a heap keeps
/// lies no further apart. Of bytes, which take fewer instructions than bits; only those are touched
/// that stand for memory which was kept.
const FILTER_PLACES: usize = 1 << 14;
/// Medium objects start further apart than this.
const UNIT_SHIFT: u32 = 11;

/// What the hot objects of all classes of a heap have in common. All zero: there are none yet.
#[repr(C)]
pub(crate) struct AllHot {
    /// Where there are slots for more objects of a class than at first; 0 if there are none.
    far: [usize; MEDIUM_PLACES],
    /// Bytes of objects that there may be of those classes that may have more than at first.
    allowed: usize,
    /// How many objects of each class went for want of room since some were fetched last, about:
    /// one for which a slot of the outbox has to be found counts more than once.
    overflowed: [u16; MEDIUM_PLACES],
    /// How many did, less those that were fetched: what the thread has no use for.
    surplus: [i16; MEDIUM_PLACES],
    /// The class to look at next when one is to be allowed less, by its number among the medium
    /// ones.
    victim: u8,
    pub(crate) swing: Swing,
    /// Where objects are here. No two have the same place, so that what has none is not here; and
    /// what stands there says which of those has it. Last, so that what is before it is not on
    /// pages far apart.
    filter: [u8; FILTER_PLACES],
}

/// What stands where no object has its place.
const NOBODY: u8 = 0;

/// The place of an object in the filter.
#[inline]
fn place_in_filter(object: usize) -> usize {
    (object >> UNIT_SHIFT) % FILTER_PLACES
}

/// What stands in the place of an object that is here: which of those it is that have the same,
/// but that one in 128 is taken for another.
#[inline]
fn sign_of(object: usize) -> u8 {
    const _: () = assert!(NOBODY & 1 << 7 == 0);
    (object >> (UNIT_SHIFT + FILTER_PLACES.ilog2())) as u8 | 1 << 7
}

impl AllHot {
    /// Keeps an object, if there is room, and none with the same place is here already.
    #[inline]
    pub(crate) fn keep(&mut self, hot: &mut Hot, object: usize) -> bool {
        let place = &mut self.filter[place_in_filter(object)];
        if hot.is_full() || *place != NOBODY {
            return false;
        }
        *place = sign_of(object);
        hot.push(object);
        true
    }

    /// Keeps an object that another thread has freed, of a lot that is taken when there are none.
    pub(crate) fn receive(&mut self, hot: &mut Hot, object: usize) -> Received {
        let place = &mut self.filter[place_in_filter(object)];
        if *place != NOBODY {
            let is_here = *place == sign_of(object) && hot.has(object);
            return if is_here { Received::Twice } else { Received::NoRoom };
        }
        if hot.slots == 0 || hot.count() >= LOT {
            return Received::NoRoom;
        }
        *place = sign_of(object);
        // SAFETY: there are slots for as many as a lot has, of this heap's alone.
        unsafe { hot.slot(hot.count).write(object) };
        // Second: in the child of a fork what counts is there.
        compiler_fence(Ordering::SeqCst);
        hot.count += 1;
        Received::Done
    }

    /// Whether so many more objects of a class went for want of room than were fetched that others
    /// are to have the next ones.
    #[inline(always)]
    pub(crate) fn has_surplus(&self, class: Class) -> bool {
        self.surplus[class.medium_index()] >= SURPLUS
    }

    /// Whether an object is one of these.
    #[inline]
    pub(crate) fn has(&self, hot: &Hot, object: usize) -> bool {
        self.may_have(object) && hot.has(object)
    }

    /// Whether an object may be here; if not it certainly is not.
    #[inline]
    pub(crate) fn may_have(&self, object: usize) -> bool {
        self.filter[place_in_filter(object)] == sign_of(object)
    }

    /// Whether an object certainly is not here and cannot be kept.
    #[inline]
    pub(crate) fn has_no_room(&self, hot: &Hot, object: usize) -> bool {
        let place = self.filter[place_in_filter(object)];
        place != sign_of(object) && (hot.is_full() || place != NOBODY)
    }

    /// Whether there are as many objects of a class as there may be, and that is more than at
    /// first.
    #[inline(always)]
    pub(crate) fn is_crowded(&self, class: Class, hot: &Hot) -> bool {
        hot.is_full() && hot.slots != 0 && hot.slots == self.far[class.medium_index()]
    }

    /// Whether an object is not here, and none is that has the same place in the filter.
    #[inline(always)]
    pub(crate) fn has_place(&self, object: usize) -> bool {
        self.filter[place_in_filter(object)] == NOBODY
    }

    /// Takes out the object freed last.
    #[inline]
    pub(crate) fn pop(&mut self, hot: &mut Hot) -> Option<usize> {
        let object = hot.last()?;
        hot.count -= 1;
        hot.used.note();
        self.filter[place_in_filter(object)] = NOBODY;
        Some(object)
    }

    /// Notes that an object of a class goes for want of room.
    #[inline]
    pub(crate) fn note_overflow(&mut self, class: Class) {
        let overflowed = &mut self.overflowed[class.medium_index()];
        *overflowed = overflowed.saturating_add(1);
        self.swing.note_gone();
        let surplus = &mut self.surplus[class.medium_index()];
        *surplus = (*surplus + 1).min(2 * SURPLUS);
    }

    /// Notes that so many objects of a class were fetched.
    pub(crate) fn note_fetched(&mut self, class: Class, objects: usize) {
        let surplus = &mut self.surplus[class.medium_index()];
        *surplus = (*surplus - objects as i16).max(-FETCHED);
    }

    /// Notes that an object of a class goes back to the slab that the thread is taking from, for
    /// want of room. As it is taken from there again, nothing is ever missed: so when that was
    /// often there may be more from now on, as in [`AllHot::note_missed`].
    pub(crate) fn note_taken_back<S: System>(
        &mut self,
        arena: &Arena<S>,
        class: Class,
        hot: &mut Hot,
        most: impl FnOnce() -> usize,
    ) {
        hot.taken_back += 1;
        if hot.taken_back == TAKEN_BACK {
            hot.taken_back = 0;
            self.deepen(arena, class, (hot, TAKEN_BACK.into()), most);
        }
    }

    /// Notes that nothing is at hand of a class, and that some has to be fetched. If any went for
    /// want of room since it was so last, there may be more from now on, unless all classes
    /// together may have more than `most` bytes then. Returns whether there may be as many as it
    /// takes.
    #[inline]
    pub(crate) fn note_missed<S: System>(
        &mut self,
        arena: &Arena<S>,
        class: Class,
        hot: &mut Hot,
        most: impl FnOnce() -> usize,
    ) -> bool {
        self.swing.note_missed();
        hot.used.note();
        hot.taken_back = 0;
        let overflowed = &mut self.overflowed[class.medium_index()];
        if *overflowed == 0 || hot.count > 0 {
            return true;
        }
        let too_few = core::mem::take(overflowed).into();
        self.deepen(arena, class, (hot, too_few), most)
    }

    #[cold]
    fn deepen<S: System>(
        &mut self,
        arena: &Arena<S>,
        class: Class,
        (hot, too_few): (&mut Hot, usize),
        most: impl FnOnce() -> usize,
    ) -> bool {
        let far = &mut self.far[class.medium_index()];
        let is_far = *far != 0 && hot.slots == *far;
        let (before, size) = (hot.most as usize, class.size());
        if hot.slots == 0 {
            return true;
        }
        let counted = if is_far { before } else { 0 };
        let more = |most: usize, left: usize| {
            let wanted = retain::more_hot(before, too_few, size, most);
            (wanted, wanted.min(counted + left / size))
        };
        let left = (most() + self.swing.granted()).saturating_sub(self.allowed);
        let usual = retain::hot_most(size);
        let (mut wanted, mut deeper) = more(usual, left);
        if deeper <= before && self.swing.has_phases(retain::MEDIUM_MISSED_IN_A_ROW) {
            (wanted, deeper) =
                more(retain::hot_most_of_swing(size), left + arena.left_for_swings());
        }
        if deeper <= before {
            return wanted == before;
        }
        if *far == 0 {
            let bytes = retain::hot_most_of_swing(class.size()) * SLOT;
            let magazines = bytes.div_ceil(size_of::<Magazine>());
            // They stay this heap's, one after the other, for their memory.
            let Some(first) = arena.magazines.make(&arena.system, magazines) else {
                return true;
            };
            *far = first.expose_provenance();
        }
        if !is_far {
            let (near, far) = (at::<usize>(hot.slots), at::<usize>(*far));
            // SAFETY: so many are in the former, of which there may be fewer than in the latter.
            // They are different memory, and both this heap's.
            unsafe { far.copy_from_nonoverlapping(near, hot.count()) };
            // Second, as above.
            compiler_fence(Ordering::SeqCst);
            hot.slots = far.expose_provenance();
        }
        // Second: in the child of a fork there are slots for as many as there may be.
        compiler_fence(Ordering::SeqCst);
        let added = (deeper - counted) * size;
        // What is more than usually of one class leaves what is usual to the others.
        let beyond = |objects: usize| objects.saturating_sub(usual) * size;
        let granted = added.saturating_sub(left).max(beyond(deeper) - beyond(before));
        arena.grant(&mut self.swing, granted);
        self.allowed += added;
        hot.most = deeper as u32;
        deeper == wanted
    }

    /// Whether objects of a class that may have more than at first lie idle.
    pub(crate) fn is_idle(&self, class: Class, hot: &Hot) -> bool {
        let far = self.far[class.medium_index()];
        far != 0 && hot.slots == far && hot.count > 0 && hot.used.is_idle()
    }

    /// Allows a class, of which there are no objects, none, until the heap wants one again, and
    /// then as many as at first.
    pub(crate) fn make_shallow<S: System>(
        &mut self,
        arena: &Arena<S>,
        class: Class,
        hot: &mut Hot,
    ) {
        debug_assert!(hot.count == 0);
        let far = self.far[class.medium_index()];
        if far != 0 && hot.slots == far {
            let bytes = hot.most as usize * class.size();
            arena.take_back_grant(&mut self.swing, bytes);
            // More than was counted in the child of a fork that came between.
            self.allowed = self.allowed.saturating_sub(bytes);
        }
        hot.most = 0;
        compiler_fence(Ordering::SeqCst);
        hot.slots = 0;
    }

    /// Checks that what classes may have that may have more than at first is what they were allowed
    /// all together.
    ///
    /// # Panics
    /// When it is not.
    pub(crate) fn check<'a>(&self, all: impl Iterator<Item = (Class, &'a Hot)>) {
        let bytes = all.map(|(class, hot)| {
            let far = self.far[class.medium_index()];
            if far != 0 && hot.slots == far { hot.most as usize * class.size() } else { 0 }
        });
        assert_eq!(bytes.sum::<usize>(), self.allowed, "bytes that may be hot");
    }

    /// Looks at the next class that may have more than at first, when another could not be allowed
    /// as many as it takes. If none was taken of it since it was looked at last, returns its number
    /// among the medium ones. `look` says of each what [`Hot::look`] does.
    pub(crate) fn unused(&mut self, mut look: impl FnMut(usize) -> Looked) -> Option<usize> {
        for _ in 0..MEDIUM_CLASSES {
            let n = usize::from(self.victim) % MEDIUM_CLASSES;
            self.victim = n as u8 + 1;
            let Looked { slots, was_used } = look(n);
            if self.far[n] != 0 && slots == self.far[n] {
                return (!was_used).then_some(n);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;
    use std::vec::Vec;

    /// The hot objects of a class that is the only one.
    struct Only {
        all: Box<AllHot>,
        hot: Hot,
        // Where they are.
        _slots: Box<[usize; LOT]>,
    }

    impl Only {
        fn up_to(most: usize) -> Self {
            // SAFETY: zeros are valid for each of its fields.
            let all = unsafe { Box::<AllHot>::new_zeroed().assume_init() };
            let mut slots = Box::new([0; LOT]);
            let mut hot = Hot::NONE;
            hot.allow(slots.as_mut_ptr().expose_provenance(), most);
            Self { all, hot, _slots: slots }
        }

        fn keep(&mut self, object: usize) -> bool {
            self.all.keep(&mut self.hot, object)
        }

        fn pop(&mut self) -> Option<usize> {
            self.all.pop(&mut self.hot)
        }

        fn has(&self, object: usize) -> bool {
            self.all.has(&self.hot, object)
        }
    }

    #[test]
    fn a_lot_is_received_whatever_may_be_kept_and_each_of_it_once() {
        let mut only = Only::up_to(3);
        let mut receive = |object| only.all.receive(&mut only.hot, object);
        for object in 1..=LOT {
            assert_eq!(receive(object << 12), Received::Done);
        }
        assert_eq!(receive(1 << 12), Received::Twice);
        assert_eq!(receive((1 << 12) + (FILTER_PLACES << UNIT_SHIFT)), Received::NoRoom);
        assert_eq!(receive((LOT + 1) << 12), Received::NoRoom);
        assert!(!only.keep((LOT + 2) << 12));
        let taken: Vec<_> = core::iter::from_fn(|| only.pop()).collect();
        assert_eq!(taken, (1..=LOT).rev().map(|n| n << 12).collect::<Vec<_>>());
    }

    #[test]
    fn what_was_fetched_counts_against_what_goes_within_bounds() {
        let mut only = Only::up_to(3);
        let class = Class::of_medium(3000);
        let until_surplus = |only: &mut Only| {
            let goes = (0..).take_while(|_| {
                let has_none = !only.all.has_surplus(class);
                only.all.note_overflow(class);
                has_none
            });
            goes.count()
        };
        assert_eq!(until_surplus(&mut only), SURPLUS as usize);
        (0..10_000).for_each(|_| only.all.note_overflow(class));
        only.all.note_fetched(class, SURPLUS as usize + 1);
        assert!(!only.all.has_surplus(class), "what went long ago counts");
        (0..10_000).for_each(|_| only.all.note_fetched(class, 56));
        assert_eq!(until_surplus(&mut only), (FETCHED + SURPLUS) as usize);
    }

    #[test]
    fn the_object_freed_last_is_taken_first() {
        let mut only = Only::up_to(8);
        for object in [0x1000, 0x2000, 0x3000] {
            assert!(only.keep(object));
            assert_eq!(only.hot.last(), Some(object));
        }
        let taken = core::array::from_fn(|_| only.pop());
        assert_eq!(taken, [Some(0x3000), Some(0x2000), Some(0x1000), None]);
    }

    #[test]
    fn an_object_that_is_kept_is_not_kept_twice() {
        let mut only = Only::up_to(NEAR);
        for object in 1..NEAR {
            assert!(only.keep(object << 12));
        }
        for object in 1..NEAR {
            assert!(!only.keep(object << 12));
            assert!(only.has(object << 12));
        }
        // What was taken is not known any more.
        assert_eq!(only.pop(), Some((NEAR - 1) << 12));
        assert!(!only.has((NEAR - 1) << 12) && only.keep((NEAR - 1) << 12));
    }

    #[test]
    fn no_more_are_kept_than_may_be() {
        for most in 0..=NEAR {
            let mut only = Only::up_to(most);
            let kept = (1..40).filter(|n| only.keep(n << 12));
            assert_eq!(kept.count(), most);
            assert!(only.hot.is_full());
        }
    }

    #[test]
    fn whatever_comes_and_goes_each_object_that_is_kept_is_known() {
        // 32 MiB apart two have the same place.
        let far = 32 << 20;
        let (mut only, mut seed) = (Only::up_to(NEAR), 1_usize);
        let mut kept = Vec::new();
        let mut refused = 0;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let object = (1 + (seed >> 33) % 200) * 2304 + (seed >> 50) % 3 * far;
            if seed >> 60 < 9 && !kept.contains(&object) {
                if only.keep(object) {
                    kept.push(object);
                } else {
                    refused += usize::from(!only.hot.is_full());
                }
            } else {
                assert_eq!(only.pop(), kept.pop());
            }
            assert!(kept.iter().all(|&object| only.all.may_have(object) && only.has(object)));
            assert!(
                kept.iter()
                    .all(|&object| !only.has(object + far) || kept.contains(&(object + far)))
            );
            assert_eq!(only.hot.count(), kept.len());
            let places = only.all.filter.iter().filter(|&&place| place != NOBODY);
            assert_eq!(places.count(), kept.len());
        }
        assert!(refused > 10, "{refused} were refused");
    }

    #[test]
    fn an_object_with_the_same_place_as_a_hot_one_is_told_from_it_and_has_no_room() {
        let mut only = Only::up_to(NEAR);
        let hot = 0x1234 << 11;
        assert!(only.all.has_place(hot) && only.keep(hot));
        for far in 1..128 {
            let other = hot + far * (FILTER_PLACES << UNIT_SHIFT);
            assert!(!only.all.may_have(other) && !only.all.has_place(other));
            assert!(only.all.has_no_room(&only.hot, other) && !only.keep(other));
        }
        assert!(only.all.may_have(hot) && !only.all.has_no_room(&only.hot, hot));
        // So far away it is taken for that one, until it is looked for.
        let other = hot + 128 * (FILTER_PLACES << UNIT_SHIFT);
        assert!(only.all.may_have(other) && !only.has(other) && !only.keep(other));
    }

    #[test]
    fn a_class_that_was_not_used_since_it_was_looked_at_is_found_in_turn() {
        let mut only = Only::up_to(NEAR);
        let mut hots: Vec<_> = (0..MEDIUM_CLASSES).map(|_| Hot::NONE).collect();
        for n in [3, 7, 8] {
            (hots[n].slots, only.all.far[n]) = (0x1000 * n, 0x1000 * n);
            hots[n].used.note();
        }
        let mut unused = || only.all.unused(|n| hots[n].look());
        let first: Vec<_> = (0..3).map(|_| unused()).collect();
        assert_eq!(first, [None; 3], "each was used before it was looked at");
        assert_eq!([unused(), unused()], [Some(3), Some(7)]);
        hots[8].used.note();
        let mut unused = || only.all.unused(|n| hots[n].look());
        assert_eq!([unused(), unused(), unused(), unused()], [None, Some(3), Some(7), Some(8)]);
    }
}
