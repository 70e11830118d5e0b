//! A heap's depot: objects that its thread has set aside out of full magazines, or those threads
//! that share it; for each class a few magazines of them, or many where many come and go.
//!
//! A thread that frees more than a magazine holds, and then allocates as much, sets objects aside
//! here instead of giving them back to their slabs and taking them out again.
//!
//! They come and go by the half magazine, the older half of a full one first, so that the thread
//! has room for as many frees as there are objects for its next calls of malloc, and a program that
//! goes up and down by a few does not come here each time. Where one half is followed by another,
//! with none going the other way in between, it comes and goes by the whole magazine from then on.
//!
//! How many magazines of a class there may be depends on its size at first. Where a thread has to
//! give objects back for want of room, and to fetch some again later, there may be twice as many
//! from then on, as far as the policy allows that for all classes together. What a class was
//! allowed that has lain here unused goes to those that need it, and to nobody when the thread
//! rests and what it has at hand is taken from it.
//!
//! What changes hands is what is in magazines, which costs an instruction an object or less; the
//! thread's own magazine stays its own. A signal handler may come here while the fast path of its
//! own thread, which it interrupts, is about to write to that magazine: if another had taken its
//! place, and it were in the depot, its objects would be given out twice. So some are lost at
//! worst.
//!
//! Invariant: no object is in two magazines that count, not even between two steps. Whoever is
//! interrupted here by a fork leaves the child with a depot in which every magazine is one that
//! nobody else there has, and the halves that count have objects.

mod depth;

use crate::arena::Arena;
use crate::class::{Class, SMALL_CLASSES};
use crate::layout::{UNIT, at};
use crate::magazine::{Fresh, Magazine, ROUNDS, Rounds};
use crate::policy::retain;
use crate::swing::{Swing, Used};
use core::ptr;
use freehold_sync::atomic::{Ordering, compiler_fence};
use freehold_sys::System;

/// Objects that are set aside together: half a magazine.
pub(crate) const HALF: usize = ROUNDS / 2;
const _: () = assert!(2 * HALF == ROUNDS);

/// The depots of a heap, one for each small class. All zero: without magazines.
pub(crate) struct Depots {
    classes: [Depot; SMALL_CLASSES + 1],
    fresh: Fresh,
    /// Bytes that classes may have set aside beyond what each may in any case.
    deepened: usize,
    /// Whether a class could not be allowed more, because others were.
    pressed: bool,
    /// The class to look at next when one is to be allowed less.
    victim: u8,
    pub(crate) swing: Swing,
    /// Where to look next for one that is idle.
    idle: u8,
}

impl Depots {
    /// Without magazines.
    #[cfg(test)]
    fn new() -> Self {
        // SAFETY: zeros are valid for each of its fields.
        unsafe { core::mem::zeroed() }
    }

    /// Gives back all magazines, those never used as well, so that whoever sets something aside
    /// next has to look for one first, and forgets what was noted. Nothing is set aside, nor was
    /// since it was found that nothing is.
    pub(crate) fn close<S: System>(&mut self, arena: &Arena<S>) {
        for depot in &mut self.classes {
            debug_assert_eq!((depot.halves, depot.extra), (0, 0));
            for place in &mut depot.magazines {
                give_back(arena, core::mem::replace(place, ptr::null_mut()));
            }
            // Some may have been added that were too few for a place to count.
            depot.drain().for_each(|magazine| give_back(arena, magazine));
        }
        self.fresh.give_back(arena);
        // In place: the background thread has little stack.
        // SAFETY: zeros are valid for each of its fields.
        unsafe { ptr::from_mut(self).write_bytes(0, 1) };
    }

    /// Sets aside what is in a full magazine, or half of it.
    ///
    /// # Safety
    /// The caller has it, and it is full.
    pub(crate) unsafe fn exchange_full<S: System>(
        &mut self,
        arena: &Arena<S>,
        class: Class,
        full: *mut Magazine,
    ) -> Option<Exchanged> {
        let depot = &mut self.classes[usize::from(class.0)];
        // SAFETY: the caller's promise.
        let exchanged = unsafe { depot.exchange_full(class, full, 1, || self.fresh.take(arena)) };
        if !matches!(exchanged, Some(Exchanged::For(_))) {
            self.swing.note_gone();
        }
        exchanged
    }

    /// Sets aside all that is in a full magazine, if there is room for it, so that who has to wait
    /// for a lock need not come as often. Locks are held that come after those of whoever has
    /// magazines: a place without one gets `spare`, if that is there.
    ///
    /// # Safety
    /// The caller has it, and it is full.
    pub(crate) unsafe fn exchange_full_for(
        &mut self,
        class: Class,
        full: *mut Magazine,
        spare: &mut Option<*mut Magazine>,
    ) -> Option<Exchanged> {
        let depot = &mut self.classes[usize::from(class.0)];
        // SAFETY: the caller's promise.
        unsafe { depot.exchange_full(class, full, 2, || spare.take()) }
    }

    /// Whether there are objects of a class.
    #[inline]
    pub(crate) fn has(&self, class: Class) -> bool {
        self.classes[usize::from(class.0)].halves > 0
    }

    /// Where some of a magazine of a class can be set aside, if it can be without another one for
    /// it.
    #[inline]
    pub(crate) fn room(&mut self, class: Class) -> Option<Room> {
        self.classes[usize::from(class.0)].room(class)
    }

    /// Sets aside what is in a full magazine, or its older half, whose newer half takes its place
    /// in it. Returns how many objects are left in it.
    ///
    /// # Safety
    /// The caller has it, it is full, and this is where there is [room](Depots::room) now.
    #[inline]
    pub(crate) unsafe fn set_aside(
        &mut self,
        class: Class,
        full: *mut Magazine,
        room: Room,
    ) -> usize {
        // SAFETY: the caller's promise.
        unsafe { self.classes[usize::from(class.0)].set_aside(full, room) }
    }

    /// Fills an empty magazine, or half of it, with what was set aside last, if anything was.
    /// Returns how many objects that are.
    ///
    /// # Safety
    /// The caller has it.
    #[inline]
    #[must_use]
    pub(crate) unsafe fn take_back(&mut self, class: Class, empty: *mut Magazine) -> usize {
        // SAFETY: the caller's promise.
        unsafe { self.classes[usize::from(class.0)].take_back(class, empty) }
    }

    /// Fills an empty magazine with what was set aside last, as far as anything was. Returns how
    /// many objects that are.
    ///
    /// # Safety
    /// The caller has it.
    pub(crate) unsafe fn fill(&mut self, class: Class, empty: *mut Magazine) -> usize {
        let depot = &mut self.classes[usize::from(class.0)];
        let last = usize::from(depot.halves).saturating_sub(1).min(1);
        // SAFETY: the caller's promise.
        unsafe {
            // What was set aside last is to be used first, and so comes last.
            let newer = depot.take_half(class, empty, last);
            let older = last > 0 && depot.take_half(class, empty, 0);
            (usize::from(newer) + usize::from(older)) * HALF
        }
    }

    /// Takes out what was set aside last. If that is nothing, no more than in any case may be from
    /// now on.
    pub(crate) fn empty_one<S: System>(
        &mut self,
        arena: &Arena<S>,
        class: Class,
    ) -> Option<Rounds> {
        let rounds = self.classes[usize::from(class.0)].empty_one(class);
        if rounds.is_none() {
            self.make_shallow(arena, class);
        }
        rounds
    }
}

/// Gives back a magazine that was in a depot, if it is one. Nothing in it counts.
fn give_back<S: System>(arena: &Arena<S>, magazine: *mut Magazine) {
    if !magazine.is_null() {
        // SAFETY: it was the depot's, which has forgotten it.
        unsafe { arena.magazines.give_back(magazine) };
    }
}

/// Bytes of a full magazine of a class, with its objects.
fn magazine_bytes(class: Class) -> usize {
    ROUNDS * class.size() + size_of::<Magazine>()
}

/// Slot `n` of a magazine as a place for another.
#[inline]
fn place_in(magazine: *mut Magazine, n: usize) -> *mut *mut Magazine {
    at(Magazine::slot_after(magazine, n))
}

/// Where half a magazine can be set aside, or both halves.
#[derive(Clone, Copy)]
pub(crate) enum Room {
    Half(*mut Half),
    Both(*mut Half),
}

/// What became of a full magazine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exchanged {
    /// So many objects that were in it are here, the older ones; the others are its first now.
    For(usize),
    /// It has what had been here longest, full as it was, since there may be no more.
    ForOldest,
}

/// The slots of half a magazine. The second half comes right after the first.
type Half = [usize; HALF];

/// The slots of the first or the second half of a magazine.
#[inline]
fn half(magazine: *mut Magazine, n: usize) -> *mut Half {
    at(Magazine::slot_after(magazine, n * HALF))
}

/// Places of a depot that stand in itself.
const NEAR: usize = retain::DEPOT_LEAST_MOST;
/// Magazines whose slots may be places for those whose slots are places.
const SHELVES: usize = 4;
const _: () = {
    let usual = retain::deepest_depot(ROUNDS * UNIT + size_of::<Magazine>());
    let most = retain::DEPOT_PLACES_MOST;
    assert!(
        usual <= most && most <= NEAR + SHELVES * ROUNDS * ROUNDS && 2 * most <= u16::MAX as usize
    );
};

/// The magazines of one class: a ring of as many places as there may be full ones. From the oldest
/// on come the full ones, in the order in which they were set aside, and one that may be half full;
/// then empty ones; then places never used, which are null. How many places there are changes only
/// while none has anything. What every step looks at comes first, side by side.
#[repr(C)]
struct Depot {
    /// Where the half was that was set aside last when there were so many of them: where it is if
    /// there are as many now.
    last: *mut Half,
    last_of: u16,
    /// Halves with objects.
    halves: u16,
    oldest: u16,
    /// Places beyond those that the class has in any case.
    extra: u16,
    /// How many halves were given back for want of room since some were missed last.
    overflowed: u16,
    /// How many magazines' slots are places.
    racks: u16,
    /// Whether anything was set aside or taken since it was looked whether that is so.
    used: Used,
    /// Whether it was set aside, the last time.
    grows: bool,
    /// The places beyond those below are slots of magazines, and those stand in the slots of these.
    shelves: [*mut Magazine; SHELVES],
    magazines: [*mut Magazine; NEAR],
}

impl Depot {
    /// Without magazines.
    #[cfg(test)]
    fn new() -> Self {
        // SAFETY: zeros are valid for each of its fields.
        unsafe { core::mem::zeroed() }
    }

    /// How many places there are.
    #[inline]
    fn places(&self, class: Class) -> usize {
        usize::from(class.info().depot) + usize::from(self.extra)
    }

    /// How many places could be used.
    fn places_there_are(&self) -> usize {
        NEAR + usize::from(self.racks) * ROUNDS
    }

    /// Adds a magazine that was just leased: its slots are places from now on, or for those whose
    /// slots are.
    fn add(&mut self, magazine: *mut Magazine) {
        // SAFETY: just leased. What its last user left there is no magazine.
        unsafe { Magazine::slots(magazine, ROUNDS).fill(0) };
        let racks = usize::from(self.racks);
        let shelf = &mut self.shelves[racks / ROUNDS];
        if shelf.is_null() {
            *shelf = magazine;
            return;
        }
        // SAFETY: a magazine of this depot, with as many slots, this one unused.
        unsafe { place_in(*shelf, racks % ROUNDS).write(magazine) };
        // Second: in the child of a fork what counts is there.
        compiler_fence(Ordering::SeqCst);
        self.racks += 1;
    }

    /// Takes out all places that were added, and what is in them: magazines, of which none has
    /// anything, and nulls.
    fn drain(&mut self) -> impl Iterator<Item = *mut Magazine> {
        let racks = usize::from(core::mem::take(&mut self.racks));
        // Second: in the child of a fork there are shelves for the racks that count.
        compiler_fence(Ordering::SeqCst);
        let shelves = core::mem::replace(&mut self.shelves, [ptr::null_mut(); SHELVES]);
        // SAFETY: each was put there.
        let racks = (0..racks).map(move |n| unsafe { *place_in(shelves[n / ROUNDS], n % ROUNDS) });
        let places = racks.flat_map(|rack| {
            // SAFETY: a magazine whose slots are places. It comes last, since who is given it may
            // write to it.
            let places = (0..ROUNDS).map(move |n| unsafe { *place_in(rack, n) });
            places.chain([rack])
        });
        places.chain(shelves)
    }

    /// The place `n` after that of the oldest magazine.
    #[inline]
    fn place(&mut self, class: Class, n: usize) -> &mut *mut Magazine {
        let (places, n) = (self.places(class), usize::from(self.oldest) + n);
        let n = if n < places { n } else { n - places };
        match n.checked_sub(NEAR) {
            None => &mut self.magazines[n],
            Some(far) => {
                let rack = far / ROUNDS;
                debug_assert!(rack < usize::from(self.racks));
                // SAFETY: where there are more places than here, there is a magazine for them that
                // is this depot's, as is the one it stands in, with as many slots; each place is
                // null or a magazine.
                unsafe {
                    let rack = *place_in(self.shelves[rack / ROUNDS], rack % ROUNDS);
                    &mut *place_in(rack, far % ROUNDS)
                }
            }
        }
    }

    /// The halves that there is room for.
    #[inline]
    fn free_halves(&self, class: Class) -> usize {
        2 * self.places(class) - usize::from(self.halves)
    }

    /// The slots of half `n` from the oldest on, if its place has a magazine.
    #[inline]
    fn half(&mut self, class: Class, n: usize) -> *mut Half {
        half(*self.place(class, n / 2), n % 2)
    }

    /// The half that was set aside last, if it is known where that is.
    #[inline]
    fn last(&self) -> Option<*mut Half> {
        (self.halves > 0 && self.last_of == self.halves).then_some(self.last)
    }

    /// Notes where the half is that is the last one when there are so many.
    #[inline]
    fn note_last(&mut self, last: *mut Half, halves: u16) {
        self.last_of = 0;
        // Each after the one before: in the child of a fork the place is that of so many.
        compiler_fence(Ordering::SeqCst);
        self.last = last;
        compiler_fence(Ordering::SeqCst);
        self.last_of = halves;
        compiler_fence(Ordering::SeqCst);
    }

    /// Where something can be set aside, if there is room in a magazine that is there: a whole
    /// magazine if what happened last is that something was set aside.
    #[inline]
    fn room(&mut self, class: Class) -> Option<Room> {
        if !self.halves.is_multiple_of(2)
            && let Some(last) = self.last()
        {
            // It is a first half, and the second one comes right after it.
            return Some(Room::Half(last.wrapping_add(1)));
        }
        if self.free_halves(class) == 0 {
            return None;
        }
        let n = usize::from(self.halves);
        let magazine = *self.place(class, n / 2);
        if magazine.is_null() {
            return None;
        }
        // If the place is not half full, there is room for both.
        let is_whole = self.grows && n.is_multiple_of(2);
        Some(if is_whole {
            Room::Both(half(magazine, 0))
        } else {
            Room::Half(half(magazine, n % 2))
        })
    }

    /// Takes what is in a full magazine for what is in the oldest, if there is no room; else
    /// `most` halves of it, or as many as there is room for, where a place without a magazine gets
    /// one that `lease` gives. `None` if the class has no places, or if `lease` gives none.
    ///
    /// # Safety
    /// The caller has it, and it is full.
    unsafe fn exchange_full(
        &mut self,
        class: Class,
        full: *mut Magazine,
        most: usize,
        lease: impl FnOnce() -> Option<*mut Magazine>,
    ) -> Option<Exchanged> {
        self.used.note();
        let places = self.places(class);
        if places == 0 {
            // The caller gives half of it back.
            self.overflowed = self.overflowed.saturating_add(1);
            return None;
        }
        let halves = most.min(self.free_halves(class));
        if halves == 0 {
            self.overflowed = self.overflowed.saturating_add(2);
            let oldest = *self.place(class, 0);
            // SAFETY: the caller's magazine, and one of this depot.
            unsafe {
                Magazine::slots(oldest, ROUNDS).swap_with_slice(Magazine::slots(full, ROUNDS));
            };
            // The one that comes last from now on is another one.
            self.last_of = 0;
            compiler_fence(Ordering::SeqCst);
            let next = usize::from(self.oldest) + 1;
            self.oldest = if next < places { next as u16 } else { 0 };
            return Some(Exchanged::ForOldest);
        }
        // At most one of them: the first is null only if it is not half full.
        let before = usize::from(self.halves);
        for n in [before / 2, (before + halves - 1) / 2] {
            let place = self.place(class, n);
            if place.is_null() {
                *place = lease()?;
                break;
            }
        }
        for n in before..before + halves {
            let room = self.half(class, n);
            // SAFETY: the caller's promise for the first, after which what is left is in the first
            // half; there is room, and a magazine in its place now.
            unsafe { self.set_half_aside(full, room) };
        }
        Some(Exchanged::For(halves * HALF))
    }

    /// Takes the first half of a magazine, and moves what is in the other one there.
    ///
    /// # Safety
    /// The caller has it, it has objects there, and there is room in the half after those with
    /// objects.
    #[inline]
    unsafe fn set_half_aside(&mut self, full: *mut Magazine, room: *mut Half) {
        // SAFETY: the caller's magazine, and one of this depot.
        unsafe {
            room.write(half(full, 0).read());
            half(full, 0).write(half(full, 1).read());
        }
        self.note_set_aside(room, self.halves + 1);
    }

    /// Sets aside what is in a full magazine, or half of it. Returns how many objects are left.
    ///
    /// # Safety
    /// The caller has it, and this is where there is [room](Depot::room) now.
    #[inline]
    unsafe fn set_aside(&mut self, full: *mut Magazine, room: Room) -> usize {
        match room {
            Room::Half(room) => {
                // SAFETY: the caller's promise.
                unsafe { self.set_half_aside(full, room) };
                HALF
            }
            Room::Both(room) => {
                // SAFETY: the caller's magazine, and one of this depot.
                unsafe {
                    room.write(half(full, 0).read());
                    room.wrapping_add(1).write(half(full, 1).read());
                }
                self.note_set_aside(room.wrapping_add(1), self.halves + 2);
                0
            }
        }
    }

    /// Lets so many halves count, the last of which is here.
    #[inline]
    fn note_set_aside(&mut self, last: *mut Half, halves: u16) {
        self.note_last(last, halves);
        self.halves = halves;
        self.used.note();
        self.grows = true;
    }

    /// Moves what was set aside last into an empty magazine, or into half of it: a whole magazine
    /// if what happened last is that something was taken. Returns how many objects that are.
    ///
    /// # Safety
    /// The caller has it.
    #[inline]
    unsafe fn take_back(&mut self, class: Class, empty: *mut Magazine) -> usize {
        if self.grows || self.halves == 0 || !self.halves.is_multiple_of(2) {
            // SAFETY: the caller's promise.
            let taken = unsafe { self.take_half(class, empty, 0) };
            return usize::from(taken) * HALF;
        }
        let last = self.last().unwrap_or_else(|| self.half(class, usize::from(self.halves) - 1));
        self.halves -= 2;
        self.used.note();
        // SAFETY: the caller's magazine, and one of this depot, whose second half is the last one.
        unsafe {
            half(empty, 0).write(last.wrapping_sub(1).read());
            half(empty, 1).write(last.read());
        }
        2 * HALF
    }

    /// Moves what was set aside last into the first or second half of a magazine.
    ///
    /// # Safety
    /// The caller has it, and nothing in that half.
    #[inline]
    unsafe fn take_half(&mut self, class: Class, empty: *mut Magazine, n: usize) -> bool {
        let Some(left) = self.halves.checked_sub(1) else { return false };
        let last = self.last().unwrap_or_else(|| self.half(class, left.into()));
        self.halves = left;
        self.used.note();
        self.grows = false;
        // SAFETY: the caller's magazine, and one of this depot, which has objects there.
        unsafe { half(empty, n).write(last.read()) };
        if !left.is_multiple_of(2) {
            // It was a second half.
            self.note_last(last.wrapping_sub(1), left);
        }
        true
    }

    fn empty_one(&mut self, class: Class) -> Option<Rounds> {
        self.halves = self.halves.checked_sub(1)?;
        // SAFETY: this half has objects.
        Some(Rounds::of(unsafe { &*self.half(class, self.halves.into()) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::collections::{BTreeSet, VecDeque};
    use std::vec::Vec;

    /// A magazine of the test's own.
    struct Own(*mut Magazine);

    impl Own {
        fn new() -> Self {
            // SAFETY: not of size zero; zeros are a magazine.
            Self(unsafe { alloc_zeroed(Layout::new::<Magazine>()) }.cast())
        }

        /// What is in the first slots.
        fn objects(&self, count: usize) -> Vec<usize> {
            // SAFETY: this test's magazine.
            unsafe { Magazine::objects(self.0, count) }.to_vec()
        }

        fn put(&self, first: usize, objects: impl Iterator<Item = usize>) {
            // SAFETY: this test's magazine.
            let slots = unsafe { Magazine::slots(self.0, ROUNDS) };
            slots[first..].iter_mut().zip(objects).for_each(|(slot, object)| *slot = object);
        }
    }

    impl Drop for Own {
        fn drop(&mut self) {
            // SAFETY: allocated so.
            unsafe { dealloc(self.0.cast(), Layout::new::<Magazine>()) };
        }
    }

    /// Takes what was put in last.
    fn newest(model: &mut VecDeque<usize>, count: usize) -> Vec<usize> {
        model.split_off(model.len() - count).into()
    }

    #[test]
    fn the_last_set_aside_comes_back_first_and_the_oldest_goes_when_there_is_no_room() {
        let depots =
            [(16, 0), (64, 0), (1024, 0), (2048, 1), (16, 60), (64, 9), (1024, 40), (16, 1416)];
        for (class, extra) in depots.map(|(size, extra)| (Class::of_small(size), extra)) {
            let (mut depot, mut model, mut next) = (Depot::new(), VecDeque::new(), 1);
            depot.extra = extra;
            let places = depot.places(class);
            let mut more = Vec::new();
            while places > depot.places_there_are() {
                more.push(Own::new());
                depot.add(more.last().unwrap().0);
            }
            let (own, mut leased) = (Own::new(), Vec::new());
            let (mut seed, mut overflowed, mut grows) = (1_usize, 0, false);
            for _ in 0..10_000 {
                assert_eq!(depot.overflowed, overflowed);
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                if seed >> 40 & 1 == 0 {
                    let most = 1 + (seed >> 41 & 1);
                    own.put(0, next..);
                    if let Some(room) = depot.room(class).filter(|_| seed >> 42 & 1 == 0) {
                        let is_whole = grows && model.len().is_multiple_of(ROUNDS);
                        // SAFETY: the test's magazine, and full.
                        let left = unsafe { depot.set_aside(own.0, room) };
                        assert_eq!(left, if is_whole { 0 } else { HALF });
                        model.extend(next..next + ROUNDS - left);
                        let kept: Vec<_> = (next + ROUNDS - left..next + ROUNDS).collect();
                        assert_eq!(own.objects(left), kept);
                        (next, grows) = (next + ROUNDS, true);
                        continue;
                    }
                    let lease = || {
                        leased.push(Own::new());
                        leased.last().map(|magazine| magazine.0)
                    };
                    // SAFETY: the test's magazine, and full.
                    match unsafe { depot.exchange_full(class, own.0, most, lease) } {
                        Some(Exchanged::ForOldest) => {
                            assert_eq!(model.len(), places * ROUNDS);
                            let oldest: Vec<_> = model.drain(..ROUNDS).collect();
                            assert_eq!(own.objects(ROUNDS), oldest);
                            // Two halves go back.
                            overflowed += 2;
                            model.extend(next..next + ROUNDS);
                        }
                        Some(Exchanged::For(count)) => {
                            let room = places * ROUNDS - model.len();
                            assert_eq!(count, room.min(most * HALF));
                            model.extend(next..next + count);
                            let kept: Vec<_> = (next + count..next + ROUNDS).collect();
                            assert_eq!(own.objects(ROUNDS - count), kept);
                            grows = true;
                        }
                        None => panic!("a magazine could be leased"),
                    }
                    next += ROUNDS;
                } else if seed >> 41 & 1 == 0 {
                    let is_whole = !grows && model.len().is_multiple_of(ROUNDS);
                    let most = if is_whole { ROUNDS } else { HALF };
                    // SAFETY: the test's magazine.
                    let count = unsafe { depot.take_back(class, own.0) };
                    assert_eq!(count, most.min(model.len()));
                    assert_eq!(own.objects(count), newest(&mut model, count));
                    grows &= count == 0;
                } else if let Some(rounds) = depot.empty_one(class) {
                    assert_eq!(rounds.as_slice(), newest(&mut model, HALF));
                }
            }
            // Most of so many are never needed at once.
            assert!(leased.len() == places || places > 1000);
            let mut all: Vec<_> = depot.drain().filter(|magazine| !magazine.is_null()).collect();
            all.extend(depot.magazines.iter().filter(|magazine| !magazine.is_null()));
            let (lent, all) = (leased.len() + more.len(), BTreeSet::from_iter(all));
            assert_eq!((all.len(), depot.places_there_are()), (lent, NEAR));
        }
    }

    #[test]
    fn a_magazine_is_filled_with_as_much_as_there_is() {
        let class = Class::of_small(16);
        for halves in 0..4 {
            let (mut depots, own) = (Depots::new(), Own::new());
            let spare = [Own::new(), Own::new()];
            let mut spares = spare.iter().map(|magazine| magazine.0);
            own.put(0, 1..);
            for n in 0..halves {
                let depot = &mut depots.classes[usize::from(class.0)];
                // SAFETY: the test's magazine, and full.
                let exchanged = unsafe { depot.exchange_full(class, own.0, 1, || spares.next()) };
                assert_eq!(exchanged, Some(Exchanged::For(HALF)));
                own.put(HALF, 1 + (n + 2) * HALF..);
            }
            let end = 1 + halves * HALF;
            let expected: Vec<_> = (end - halves.min(2) * HALF..end).collect();
            // SAFETY: the test's magazine.
            let count = unsafe { depots.fill(class, own.0) };
            assert_eq!(own.objects(count), expected);
            assert_eq!(depots.has(class), halves > 2);
        }
    }
}
