//! How many magazines a heap may set aside of each class: as many as in any case, or more where it
//! turned out to need them, within the bounds of `policy/retain.rs` and those of
//! [swings](crate::swing).

use super::{Depots, NEAR, give_back, magazine_bytes};
use crate::arena::Arena;
use crate::class::{Class, SMALL_CLASSES};
use crate::depot::HALF;
use crate::magazine::{Magazine, Rounds};
use crate::policy::retain;
use core::ptr;
use freehold_sync::atomic::{Ordering, compiler_fence};
use freehold_sys::System;

/// How many classes are looked at for one that lies idle each time that some is fetched.
const LOOKED_AT: usize = 8;

impl Depots {
    /// Notes that nothing is set aside of a class, and that some objects have to be fetched. If
    /// some were given back since it was so last, more may be set aside from now on, unless all
    /// classes together may have more than `most` bytes then. A shared heap, whose lock is held,
    /// makes no magazines for that.
    pub(crate) fn note_missed<S: System>(
        &mut self,
        arena: &Arena<S>,
        class: Class,
        is_shared: bool,
        most: impl FnOnce() -> usize,
    ) {
        self.swing.note_missed();
        let depot = &mut self.classes[usize::from(class.0)];
        depot.used.note();
        if depot.overflowed > 0 && depot.halves == 0 {
            self.change_depth(arena, class, is_shared, most());
        }
    }

    /// Likewise, when some were given back since nothing was set aside last.
    #[cold]
    #[inline(never)]
    fn change_depth<S: System>(
        &mut self,
        arena: &Arena<S>,
        class: Class,
        is_shared: bool,
        most: usize,
    ) {
        let depot = &mut self.classes[usize::from(class.0)];
        let overflowed = usize::from(core::mem::take(&mut depot.overflowed)).div_ceil(2);
        let (places, bytes) = (depot.places(class), magazine_bytes(class));
        let usual = retain::deepest_depot(bytes);
        let left = (most + self.swing.granted()).saturating_sub(self.deepened);
        let has_phases = !is_shared && self.swing.has_phases(retain::MISSED_IN_A_ROW);
        let left_for_swings = if has_phases { arena.left_for_swings() } else { 0 };
        let added = |deeper: usize| deeper.saturating_sub(places) * bytes;
        let at_once = if has_phases { retain::places_at_once(bytes) } else { 1 };
        let mut deeper = retain::deeper_depot(places, overflowed, usual, at_once);
        if left_for_swings > 0 && !deeper.is_some_and(|it| it > places && added(it) <= left) {
            let deepest = retain::deepest_swing(places, bytes, left + left_for_swings);
            deeper = retain::deeper_depot(places, overflowed, deepest, 1).or(deeper);
        }
        let Some(deeper) = deeper else {
            // What a swing has made deep stays so, unless that can never be enough.
            let deepest = retain::deepest_swing(usual, bytes, arena.most_for_swings());
            let deeper = retain::deeper_depot(places, overflowed, deepest, 1);
            if places <= usual || deeper.is_none() {
                self.make_shallow(arena, class);
            }
            return;
        };
        let deeper = if is_shared { deeper.min(NEAR) } else { deeper };
        // What is more than usually of one class leaves what is usual to the others.
        let beyond = |places: usize| places.saturating_sub(usual) * bytes;
        let granted = added(deeper).saturating_sub(left).max(beyond(deeper) - beyond(places));
        if granted > left_for_swings {
            self.pressed = true;
        } else if deeper > places && self.has_places(arena, class, deeper) {
            arena.grant(&mut self.swing, granted);
            self.deepened += added(deeper);
            // Second: in the child of a fork what is a place is null or a magazine, and counted.
            compiler_fence(Ordering::SeqCst);
            self.classes[usize::from(class.0)].extra += (deeper - places) as u16;
            self.pressed = false;
        }
    }

    /// Checks that what classes may have set aside beyond what each may in any case is what they
    /// were allowed all together.
    ///
    /// # Panics
    /// When it is not.
    pub(crate) fn check(&self) {
        let beyond = (1..=SMALL_CLASSES as u8).map(Class).map(|class| {
            usize::from(self.classes[usize::from(class.0)].extra) * magazine_bytes(class)
        });
        assert_eq!(beyond.sum::<usize>(), self.deepened, "bytes that may be set aside");
    }

    /// Makes so many places for a class, as far as they are not there. Returns whether there is
    /// memory for them.
    fn has_places<S: System>(&mut self, arena: &Arena<S>, class: Class, places: usize) -> bool {
        let depot = &mut self.classes[usize::from(class.0)];
        while places > depot.places_there_are() {
            let Some(magazine) = self.fresh.take(arena) else { return false };
            depot.add(magazine);
        }
        true
    }

    /// Takes something out of the depot of a class that was allowed more than others can be now,
    /// and has not been used since it was looked at last. When nothing is left in it, it is allowed
    /// as much as in any case.
    pub(crate) fn take_unused<S: System>(&mut self, arena: &Arena<S>) -> Option<(Class, Rounds)> {
        if !self.pressed {
            return None;
        }
        let unused = self.look();
        let taken = unused.and_then(|class| Some((class, self.empty_one(arena, class)?)));
        if unused.is_some() {
            self.pressed = taken.is_some();
        }
        taken
    }

    /// Notes that so many bytes are fetched, where there are swings.
    pub(crate) fn note_fetched(&mut self, bytes: usize) {
        if self.swing.ends_epoch(bytes) {
            for depot in &mut self.classes {
                depot.used.end_epoch();
            }
        }
    }

    /// Takes half a magazine out of the depot of a class that lies idle, if that is owed with what
    /// is `fetched`, in bytes. When nothing is left in it, it is allowed as much as in any case.
    pub(crate) fn take_owed<S: System>(
        &mut self,
        arena: &Arena<S>,
        fetched: usize,
    ) -> Option<(Class, Rounds)> {
        let idle = self.idle_class()?;
        if !self.swing.owes(fetched, HALF * idle.size()) {
            return None;
        }
        let rounds = self.empty_one(arena, idle)?;
        if !self.has(idle) {
            self.make_shallow(arena, idle);
        }
        Some((idle, rounds))
    }

    /// A class that was allowed more than in any case and lies idle, if there is one among the
    /// next.
    fn idle_class(&mut self) -> Option<Class> {
        for _ in 0..LOOKED_AT {
            let class = Class(self.idle % SMALL_CLASSES as u8 + 1);
            let depot = &self.classes[usize::from(class.0)];
            if depot.extra > 0 && depot.halves > 0 && depot.used.is_idle() {
                return Some(class);
            }
            self.idle = class.0;
        }
        None
    }

    /// Looks at the next class that was allowed more than in any case. Returns it if it has not
    /// been used since it was looked at last.
    fn look(&mut self) -> Option<Class> {
        for _ in 0..SMALL_CLASSES {
            let class = Class(self.victim % SMALL_CLASSES as u8 + 1);
            let depot = &mut self.classes[usize::from(class.0)];
            if depot.extra > 0 {
                // One at a time, so that it may be used until it is looked at again.
                let is_used = depot.used.take();
                if is_used {
                    self.victim = class.0;
                }
                return (!is_used).then_some(class);
            }
            self.victim = class.0;
        }
        // Nobody has more than in any case: what is in use has become less.
        self.pressed = false;
        None
    }

    /// Allows a class, of which nothing is set aside, as much as in any case.
    pub(super) fn make_shallow<S: System>(&mut self, arena: &Arena<S>, class: Class) {
        let depot = &mut self.classes[usize::from(class.0)];
        if depot.extra == 0 {
            return;
        }
        let bytes = usize::from(depot.extra) * magazine_bytes(class);
        arena.take_back_grant(&mut self.swing, bytes);
        // In the child of a fork they may have been subtracted already.
        self.deepened = self.deepened.saturating_sub(bytes);
        let own = usize::from(class.info().depot);
        depot.oldest = 0;
        // Second: in the child of a fork the oldest has a place, whatever comes of the others.
        compiler_fence(Ordering::SeqCst);
        depot.extra = 0;
        let give_back = |magazine: *mut Magazine| give_back(arena, magazine);
        let near = depot.magazines[own..].iter_mut();
        near.for_each(|place| give_back(core::mem::replace(place, ptr::null_mut())));
        depot.drain().for_each(give_back);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freehold_sys::fake::Fake;

    #[test]
    fn what_a_thread_that_is_gone_had_begun_to_take_back_is_taken_back_once() {
        let place = Arena::create(Fake::new()).unwrap();
        // SAFETY: it lives until the end of the test.
        let arena = unsafe { place.as_ref() };
        let (class, mut depots) = (Class::of_small(64), Depots::new());
        // As the child of a fork may find it: the bytes do not count any more, the places do.
        depots.classes[usize::from(class.0)].extra = 3;
        depots.make_shallow(arena, class);
        assert_eq!((depots.deepened, depots.classes[usize::from(class.0)].extra), (0, 0));
        // SAFETY: nobody uses it any more.
        unsafe { Arena::destroy(place) };
    }
}
