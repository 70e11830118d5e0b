//! A heap's depot: objects that its thread has set aside out of full magazines, or those threads
//! that share it; for each class a few magazines of them.
//!
//! A thread that frees more than a magazine holds, and then allocates as much, sets objects aside
//! here instead of giving them back to their slabs and taking them out again.
//!
//! They come and go by the half magazine, the older half of a full one first, so that the thread
//! has room for as many frees as there are objects for its next calls of malloc, and a program that
//! goes up and down by a few does not come here each time.
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

use crate::arena::Arena;
use crate::class::{Class, SMALL_CLASSES};
use crate::layout::at;
use crate::magazine::{Fresh, Magazine, ROUNDS, Rounds};
use crate::policy::retain;
use freehold_sys::System;

/// Objects that are set aside together: half a magazine.
pub(crate) const HALF: usize = ROUNDS / 2;
const _: () = assert!(2 * HALF == ROUNDS);

/// The depots of a heap, one for each small class.
pub(crate) struct Depots {
    classes: [Depot; SMALL_CLASSES + 1],
    fresh: Fresh,
}

impl Depots {
    /// Without magazines.
    pub(crate) const fn new() -> Self {
        Self { classes: [const { Depot::new() }; SMALL_CLASSES + 1], fresh: Fresh::NONE }
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
        unsafe { depot.exchange_full(class, full, 1, || self.fresh.take(arena)) }
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

    /// Whether half a magazine of a class can be set aside, without another one for it.
    #[inline]
    pub(crate) fn has_room(&mut self, class: Class) -> bool {
        let depot = &mut self.classes[usize::from(class.0)];
        depot.free_halves(class) > 0 && !depot.place(class, depot.halves / 2).is_null()
    }

    /// Sets aside the older half of a full magazine, whose newer half takes its place in it.
    ///
    /// # Safety
    /// The caller has it, it is full, and there is room ([`Depots::has_room`]).
    #[inline]
    pub(crate) unsafe fn set_half_aside(&mut self, class: Class, full: *mut Magazine) {
        // SAFETY: the caller's promise.
        unsafe { self.classes[usize::from(class.0)].set_half_aside(class, full) };
    }

    /// Fills half of an empty magazine with what was set aside last, if anything was.
    ///
    /// # Safety
    /// The caller has it.
    #[inline]
    #[must_use]
    pub(crate) unsafe fn fill_half(&mut self, class: Class, empty: *mut Magazine) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.classes[usize::from(class.0)].take_half(class, empty, 0) }
    }

    /// Fills an empty magazine with what was set aside last, as far as anything was. Returns how
    /// many objects that are.
    ///
    /// # Safety
    /// The caller has it.
    pub(crate) unsafe fn fill(&mut self, class: Class, empty: *mut Magazine) -> usize {
        let depot = &mut self.classes[usize::from(class.0)];
        let last = depot.halves.saturating_sub(1).min(1);
        // SAFETY: the caller's promise.
        unsafe {
            // What was set aside last is to be used first, and so comes last.
            let newer = depot.take_half(class, empty, last);
            let older = last > 0 && depot.take_half(class, empty, 0);
            (usize::from(newer) + usize::from(older)) * HALF
        }
    }

    /// Takes out what was set aside last.
    pub(crate) fn empty_one(&mut self, class: Class) -> Option<Rounds> {
        self.classes[usize::from(class.0)].empty_one(class)
    }
}

/// What became of a full magazine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exchanged {
    /// So many objects that were in it are here, the older ones; the others are its first now.
    For(usize),
    /// It has what had been here longest, full as it was, since there may be no more.
    ForOldest,
}

/// The slots of the first or the second half of a magazine.
#[inline]
fn half(magazine: *mut Magazine, n: usize) -> *mut [usize; HALF] {
    at(Magazine::slot_after(magazine, n * HALF))
}

/// The magazines of one class: a ring of as many places as there may be full ones. From the oldest
/// on come the full ones, in the order in which they were set aside, and one that may be half full;
/// then empty ones; then places never used, which are null.
struct Depot {
    magazines: [*mut Magazine; retain::DEPOT_MOST],
    oldest: usize,
    /// Halves with objects.
    halves: usize,
}

impl Depot {
    /// Without magazines.
    const fn new() -> Self {
        Self { magazines: [core::ptr::null_mut(); retain::DEPOT_MOST], oldest: 0, halves: 0 }
    }

    /// The place `n` after that of the oldest magazine.
    #[inline]
    fn place(&mut self, class: Class, n: usize) -> &mut *mut Magazine {
        let (places, n) = (usize::from(class.info().depot), self.oldest + n);
        &mut self.magazines[if n < places { n } else { n - places }]
    }

    /// The halves that there is room for.
    #[inline]
    fn free_halves(&self, class: Class) -> usize {
        2 * usize::from(class.info().depot) - self.halves
    }

    /// The slots of half `n` from the oldest on, if its place has a magazine.
    #[inline]
    fn half(&mut self, class: Class, n: usize) -> *mut [usize; HALF] {
        half(*self.place(class, n / 2), n % 2)
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
        let places = usize::from(class.info().depot);
        if places == 0 {
            return None;
        }
        let halves = most.min(self.free_halves(class));
        if halves == 0 {
            let oldest = *self.place(class, 0);
            // SAFETY: the caller's magazine, and one of this depot.
            unsafe {
                Magazine::slots(oldest, ROUNDS).swap_with_slice(Magazine::slots(full, ROUNDS));
            };
            self.oldest = if self.oldest + 1 < places { self.oldest + 1 } else { 0 };
            return Some(Exchanged::ForOldest);
        }
        // At most one of them: the first is null only if it is not half full.
        for n in [self.halves / 2, (self.halves + halves - 1) / 2] {
            let place = self.place(class, n);
            if place.is_null() {
                *place = lease()?;
                break;
            }
        }
        for _ in 0..halves {
            // SAFETY: the caller's promise for the first, after which what is left is in the first
            // half; there is room, and a magazine in its place now.
            unsafe { self.set_half_aside(class, full) };
        }
        Some(Exchanged::For(halves * HALF))
    }

    /// Takes the first half of a magazine, and moves what is in the other one there.
    ///
    /// # Safety
    /// The caller has it, it has objects there, and the half after those with objects has a
    /// magazine.
    #[inline]
    unsafe fn set_half_aside(&mut self, class: Class, full: *mut Magazine) {
        // SAFETY: the caller's magazine, and one of this depot.
        unsafe {
            self.half(class, self.halves).write(half(full, 0).read());
            half(full, 0).write(half(full, 1).read());
        }
        self.halves += 1;
    }

    /// Moves what was set aside last into the first or second half of a magazine.
    ///
    /// # Safety
    /// The caller has it, and nothing in that half.
    #[inline]
    unsafe fn take_half(&mut self, class: Class, empty: *mut Magazine, n: usize) -> bool {
        let Some(last) = self.halves.checked_sub(1) else { return false };
        self.halves = last;
        // SAFETY: the caller's magazine, and one of this depot, which has objects there.
        unsafe { half(empty, n).write(self.half(class, last).read()) };
        true
    }

    fn empty_one(&mut self, class: Class) -> Option<Rounds> {
        self.halves = self.halves.checked_sub(1)?;
        // SAFETY: this half has objects.
        Some(Rounds::of(unsafe { &*self.half(class, self.halves) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::collections::VecDeque;
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
        for class in [16, 64, 1024].map(Class::of_small) {
            let places = usize::from(class.info().depot);
            let (mut depot, mut model, mut next) = (Depot::new(), VecDeque::new(), 1);
            let (own, mut leased) = (Own::new(), Vec::new());
            let mut seed = 1_usize;
            for _ in 0..10_000 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                if seed >> 40 & 1 == 0 {
                    let most = 1 + (seed >> 41 & 1);
                    own.put(0, next..);
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
                            model.extend(next..next + ROUNDS);
                        }
                        Some(Exchanged::For(count)) => {
                            let room = places * ROUNDS - model.len();
                            assert_eq!(count, room.min(most * HALF));
                            model.extend(next..next + count);
                            let kept: Vec<_> = (next + count..next + ROUNDS).collect();
                            assert_eq!(own.objects(ROUNDS - count), kept);
                        }
                        None => panic!("a magazine could be leased"),
                    }
                    next += ROUNDS;
                } else if seed >> 41 & 1 == 0 {
                    // SAFETY: the test's magazine.
                    let filled = unsafe { depot.take_half(class, own.0, 0) };
                    assert_eq!(filled, !model.is_empty());
                    if filled {
                        assert_eq!(own.objects(HALF), newest(&mut model, HALF));
                    }
                } else if let Some(rounds) = depot.empty_one(class) {
                    assert_eq!(rounds.as_slice(), newest(&mut model, HALF));
                }
            }
            assert_eq!(leased.len(), places);
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
