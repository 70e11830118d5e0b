//! What a thread keeps to itself: magazines of free small objects, and what it needs to find them.
//!
//! malloc takes from a magazine and free puts into one; both are a handful of instructions that
//! touch nothing shared and nothing of the slab, and wait for no object. What happens when a
//! magazine is empty stands in `take`; what happens when a freed object is not one that this thread
//! keeps, or when a magazine is full, in `free`.
//!
//! All zero is a valid cache: it has no objects, keeps none, and takes the slow path every time. So
//! it works before anything has been set up, and after the thread-local storage it lives in has
//! been wiped again, as happens while a program is being loaded.
//!
//! Invariant: the objects in a magazine are of its class, are out as far as their slabs know, and
//! are in use by nobody.

use crate::arena::Arena;
use crate::class::{Class, starts_by_granule_magic};
use crate::drain::Drain;
use crate::exchange::Surplus;
use crate::heap::Heap;
use crate::invalid::{FoundLate, Invalid};
use crate::layout::{GRANULE_SHIFT, Granule, at};
use crate::magazine::{EMPTY, FULL, Kept, MAGAZINES, Magazine, Rounds, SLOT};
use crate::medium::MediumBins;
use crate::outbox::Outbox;
use crate::watch::Watch;
use core::mem::offset_of;
use core::num::NonZeroUsize;
use core::ptr;
use freehold_sync::atomic::{AtomicU8, Ordering, compiler_fence};
use freehold_sync::turn::Turn;
use freehold_sys::System;
use freehold_sys::signal::replace;

/// What kind of heap a thread has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Holding {
    /// None yet: it has not allocated.
    #[default]
    None = 0,
    /// One of its own.
    Exclusive,
    /// It shares heaps with others.
    Shared,
    /// None any more: the thread is exiting, and keeps nothing.
    Ended,
}

/// The next free slot of a magazine once its top object has been taken out.
#[derive(Clone, Copy)]
pub(crate) struct Rest(usize);

impl Rest {
    /// The object that comes some calls later, or anything if there is none.
    #[inline(always)]
    pub(crate) fn word_ahead(self) -> usize {
        // By the low byte only, so that it is in the magazine.
        let place = self.0 & !0xff | usize::from((self.0 as u8).wrapping_sub(AHEAD * SLOT as u8));
        // SAFETY: a word of the magazine: that of an object, one that was there before, or the
        // first one, which is not for objects.
        unsafe { at::<usize>(place).read() }
    }
}

/// How many objects ahead.
const AHEAD: u8 = 3;

/// A thread's cache. Lives in thread-local storage; the first fields are those of the fast path.
#[repr(C, align(64))]
pub struct ThreadCache {
    /// For each class the next free slot of the magazine; 0 if there is no magazine.
    pub tops: [usize; MAGAZINES],
    /// For each class `Class::granule_magic`; 0 if there is no magazine.
    pub magic: [u64; MAGAZINES],
    /// Granules that the map can be asked for.
    pub limit: usize,
    /// The map of the heap: a class for every granule whose objects the thread keeps.
    pub map: usize,
    heap: *const Heap,
    /// The medium objects that the heap has at hand; null where there is no heap.
    bins: *mut MediumBins,
    pub(crate) outbox: *mut Outbox,
    /// For each class whether its magazine was last empty rather than full.
    pub(crate) emptied: u64,
    /// Which frees are looked at more closely.
    pub(crate) watch: Watch,
    /// Granules released since the thread last looked.
    pub(crate) released: u32,
    /// Where the thread begins to look for a shared heap that is free.
    hint: u16,
    holding: Holding,
    /// Objects that could be put back into magazines so far, of which those go home that bring it
    /// to 0.
    put_back: u16,
    /// Whether what is in the magazines is to go home.
    pub(crate) drain: Drain,
    /// Whether it frees far more runs than it claims.
    pub(crate) surplus: Surplus,
    /// Whether the thread has seen that a background thread should be started.
    pub(crate) wants_help: bool,
    /// What the thread found to have been freed twice as it allocated, or ended.
    pub(crate) found_late: FoundLate,
    /// Whether the thread is inside a slow path: a signal handler that finds it so must not wait
    /// for a lock that its own thread may hold, and nobody else may take what the thread has at
    /// hand.
    pub(crate) turn: Turn,
}

const _: () = assert!(MAGAZINES <= u64::BITS as usize);
// No thread may have the name of nobody among those who are summoned.
const _: () = assert!(offset_of!(ThreadCache, turn) % align_of::<ThreadCache>() != 0);

impl Default for ThreadCache {
    fn default() -> Self {
        Self::new()
    }
}

impl ThreadCache {
    /// An empty cache.
    pub const fn new() -> Self {
        Self {
            tops: [0; MAGAZINES],
            magic: [0; MAGAZINES],
            limit: 0,
            map: 0,
            heap: ptr::null(),
            bins: ptr::null_mut(),
            outbox: ptr::null_mut(),
            emptied: 0,
            watch: Watch::new(),
            released: 0,
            hint: 0,
            holding: Holding::None,
            put_back: 0,
            drain: Drain::NONE,
            surplus: Surplus::NONE,
            wants_help: false,
            found_late: FoundLate::NOTHING,
            turn: Turn::new(),
        }
    }

    /// Takes an object of a small class out of its magazine; null when it is empty. This, and
    /// [`ThreadCache::keep`], is the fast path; where thread-local storage allows better, the
    /// runtime has the same in fewer instructions.
    #[inline]
    pub fn pop(&mut self, class: Class) -> *mut u8 {
        let top = &mut self.tops[usize::from(class.0)];
        if *top as u8 <= EMPTY {
            return ptr::null_mut();
        }
        let slot = *top - SLOT;
        // SAFETY: below the next free slot there is one with an object.
        let object = unsafe { at::<usize>(slot).read() };
        // First: a signal handler that finds the magazine empty fills it, and writes to the slot.
        compiler_fence(Ordering::SeqCst);
        *top = slot;
        at(object)
    }

    /// The object of a small class that [`ThreadCache::pop`] would take, and the place that would
    /// be the next free slot then.
    #[inline(always)]
    pub(crate) fn top(&self, class: Class) -> Option<(NonZeroUsize, Rest)> {
        let top = self.tops[usize::from(class.0)];
        if top as u8 <= EMPTY {
            return None;
        }
        // SAFETY: below the next free slot there is one with an object, which is not null.
        let object = unsafe { NonZeroUsize::new_unchecked(at::<usize>(top - SLOT).read()) };
        Some((object, Rest(top - SLOT)))
    }

    /// Takes the object out that [`ThreadCache::top`] has shown.
    #[inline(always)]
    pub(crate) fn pop_to(&mut self, class: Class, rest: Rest) {
        self.tops[usize::from(class.0)] = rest.0;
    }

    /// Brings the magazine of a class and one more object into another order, and takes one out:
    /// `choose` gives a number below each that it is asked for.
    pub(crate) fn shuffle(
        &mut self,
        class: Class,
        object: usize,
        mut choose: impl FnMut(usize) -> usize,
    ) -> usize {
        let top = self.tops[usize::from(class.0)];
        let rounds = if top == 0 { 0 } else { Magazine::rounds_below(top) };
        let slot = |n: usize| at::<usize>(top - (rounds - n) * SLOT);
        for n in 1..rounds {
            // SAFETY: slots with an object of a magazine of this thread's.
            unsafe { slot(n).swap(slot(choose(n + 1))) };
        }
        let n = choose(rounds + 1);
        if n == rounds {
            return object;
        }
        // SAFETY: as above.
        unsafe { slot(n).replace(object) }
    }

    /// As [`ThreadCache::push`], at a place in the magazine that `choose` says, of so many.
    #[inline]
    pub(crate) fn push_any(
        &mut self,
        class: Class,
        object: usize,
        choose: impl FnOnce(usize) -> usize,
    ) -> bool {
        let top = &mut self.tops[usize::from(class.0)];
        let next = *top + SLOT;
        if next as u8 == 0 || *top == 0 {
            return false;
        }
        let n = choose(Magazine::rounds_below(*top) + 1);
        // SAFETY: the next free slot of a magazine of this thread's and one below it, or the same.
        unsafe {
            let place = at::<usize>(*top - n * SLOT);
            at::<usize>(*top).write(place.read());
            place.write(object);
        }
        *top = next;
        true
    }

    /// Puts an object into the magazine of its class. Fails when that is full, or there is none.
    #[inline]
    pub(crate) fn push(&mut self, class: Class, object: usize) -> bool {
        let top = &mut self.tops[usize::from(class.0)];
        let slot = *top;
        // One comparison for both: the low byte is 0 only where there is no magazine.
        if (slot as u8).wrapping_sub(EMPTY) >= FULL - EMPTY {
            return false;
        }
        // SAFETY: the next free slot of a magazine of this thread's.
        unsafe { at::<usize>(slot).write(object) };
        // Second, for a signal handler that takes what counts; not read again, as it may free.
        compiler_fence(Ordering::SeqCst);
        *top = slot + SLOT;
        true
    }

    /// As [`ThreadCache::pop`], for a thread that is busy. A signal handler must find no magazine
    /// then: it could take out an object at the same time, and not put it back, since what it frees
    /// is deferred.
    pub(crate) fn pop_when_busy(&mut self, class: Class) -> *mut u8 {
        let top = self.unload_magazine(class);
        if top as u8 <= EMPTY {
            self.load_again(class, top);
            return ptr::null_mut();
        }
        // SAFETY: below the next free slot there is one with an object.
        let object = unsafe { at::<usize>(top - SLOT).read() };
        self.load(class, top - SLOT);
        at(object)
    }

    /// As [`ThreadCache::push`], for a thread that is busy, as with
    /// [`ThreadCache::pop_when_busy`].
    pub(crate) fn push_when_busy(&mut self, class: Class, object: usize) -> bool {
        let top = self.unload_magazine(class);
        let next = top + SLOT;
        if next as u8 == 0 || top == 0 {
            self.load_again(class, top);
            return false;
        }
        // SAFETY: the next free slot of a magazine of this thread's.
        unsafe { at::<usize>(top).write(object) };
        self.load(class, next);
        true
    }

    /// Whether an object is what was taken out of the magazine of its class last, or was in its
    /// place.
    ///
    /// # Safety
    /// The class is a small one.
    #[inline(always)]
    #[must_use]
    pub unsafe fn took_last(&self, class: Class, address: usize) -> bool {
        // SAFETY: there is a place for each small class.
        let top = unsafe { *self.tops.get_unchecked(usize::from(class.0)) };
        // SAFETY: the next free slot of a magazine of this thread's: where that is full, the last
        // slot, in which none counts. It is zero, or has what was put there last.
        top != 0 && unsafe { at::<usize>(top).read() } == address
    }

    /// Puts an object of granule `g` back into the magazine that it was taken out of last
    /// ([`ThreadCache::took_last`]), although it is not one that the thread keeps.
    ///
    /// The thread may be in a signal handler that interrupted the fast path where that had read the
    /// object and not said so yet. It goes on as if there had been no handler, so that an object
    /// which went home meanwhile would be given out all the same. But who takes and frees one
    /// object all the time would find the same again, and be slow each time, for ever. So one in
    /// 65,536 does not go back.
    #[cold]
    #[must_use]
    pub fn put_back(&mut self, g: Granule, class: Class, address: usize) -> bool {
        if self.keeps(g, class) {
            return false;
        }
        self.put_back = self.put_back.wrapping_add(1);
        self.put_back != 0 && self.push_when_busy(class, address)
    }

    /// Free objects of a class that the thread has at hand.
    pub fn at_hand(&mut self, class: Class) -> usize {
        if !class.is_small() {
            return self.medium_bins().map_or(0, |bins| bins.count(class));
        }
        match self.tops[usize::from(class.0)] {
            0 => 0,
            top => Magazine::rounds_below(top),
        }
    }

    /// Keeps a freed object, if it is the start of a small object of a granule that the thread
    /// keeps objects of, and its magazine is not full.
    ///
    /// # Safety
    /// `address` is not in use by anybody else, if it is an object at all; `region` is the start of
    /// the region of the arena that this cache is used with.
    #[inline]
    #[must_use]
    pub unsafe fn keep(&mut self, region: usize, address: usize) -> Kept {
        match self.kept_class(region, address) {
            Some(class) if self.push(class, address) => Kept::Done,
            Some(class) => Kept::Full(class),
            None => Kept::No,
        }
    }

    /// The class of the small object that starts at an address, if the thread keeps it when it is
    /// freed and there is room; `region` as for [`ThreadCache::keep`].
    #[inline]
    pub(crate) fn kept_class(&self, region: usize, address: usize) -> Option<Class> {
        let offset = address.wrapping_sub(region);
        let granule = offset >> GRANULE_SHIFT;
        if granule >= self.limit {
            return None;
        }
        // SAFETY: the map can be asked for all granules below the limit.
        let class = unsafe { (*at::<AtomicU8>(self.map + granule)).load(Ordering::Relaxed) };
        let magic = self.magic[usize::from(class)];
        // For class 0, "not kept", the magic is 0, and nothing is below that.
        starts_by_granule_magic(offset, magic).then_some(Class(class))
    }

    /// Whether the fast path would keep another object of a class if the magazine were not full.
    #[inline]
    pub(crate) fn is_full(&self, class: Class) -> bool {
        let n = usize::from(class.0);
        self.tops[n] as u8 == FULL && self.magic[n] != 0
    }

    /// Makes sure that there is a magazine for `class`, if the thread may have any. Only then does
    /// the fast path keep objects of the class.
    #[inline]
    pub(crate) fn provide_magazine<S: System>(&mut self, arena: &Arena<S>, class: Class) {
        let has_one = self.tops[usize::from(class.0)] != 0;
        if !has_one && matches!(self.holding, Holding::Exclusive | Holding::Shared) {
            self.lease_magazine(arena, class);
        }
    }

    #[cold]
    fn lease_magazine<S: System>(&mut self, arena: &Arena<S>, class: Class) {
        let magazine = match self.heap() {
            Some(heap) => heap.take_magazine(arena, class),
            None => arena.magazines.lease(&arena.system),
        };
        if let Some(magazine) = magazine {
            // Who shares heaps comes after all those that have one to themselves.
            let used_before = self.heap().is_none_or(|heap| heap.note_used(class));
            self.watch.begin(class, used_before);
            self.load(class, Magazine::first_slot(magazine));
        }
    }

    /// Leaves the empty magazine of a class to the heap's next leaseholder, or gives it back.
    fn leave_magazine<S: System>(&mut self, arena: &Arena<S>, class: Class) {
        let top = self.unload_magazine(class);
        if top == 0 {
            return;
        }
        let magazine = Magazine::of_slot(top);
        match self.heap() {
            Some(heap) => {
                if let Some(spare) = heap.leave_magazine(class, magazine) {
                    // SAFETY: this thread's, empty, and forgotten.
                    unsafe { arena.magazines.give_back(spare) };
                }
            }
            // SAFETY: as above.
            None => unsafe { arena.magazines.give_back(magazine) },
        }
    }

    /// Uses a magazine of the thread's for `class`: the one whose next free slot is `top`.
    #[inline]
    pub(crate) fn load(&mut self, class: Class, top: usize) {
        self.tops[usize::from(class.0)] = top;
        // Second: a signal handler that finds the number finds the magazine, too.
        compiler_fence(Ordering::SeqCst);
        self.set_magic(class);
    }

    /// Lets the fast path keep objects of a class for which there is a magazine, unless it is
    /// watched.
    #[inline]
    pub(crate) fn set_magic(&mut self, class: Class) {
        let n = usize::from(class.0);
        let fast = self.tops[n] != 0 && !self.watch.is_on(class);
        self.magic[n] = if fast { class.granule_magic() } else { 0 };
    }

    /// Stops using the magazine for `class`, and returns its next free slot; 0 if there is none.
    #[inline]
    pub(crate) fn unload_magazine(&mut self, class: Class) -> usize {
        self.magic[usize::from(class.0)] = 0;
        compiler_fence(Ordering::SeqCst);
        self.replace_top(class, 0)
    }

    /// Sets the next free slot for `class`, and returns what it was. By one instruction: a signal
    /// handler that took out an object between a load and a store would not be noticed, and could
    /// not always put it back, since what it frees is deferred while the thread is busy.
    fn replace_top(&mut self, class: Class, top: usize) -> usize {
        let place = &raw mut self.tops[usize::from(class.0)];
        // SAFETY: the thread's own number: only it, and handlers that interrupt it, come here.
        unsafe { replace(place, top) }
    }

    /// Uses the magazine again that [`ThreadCache::unload_magazine`] has given, if it gave one.
    pub(crate) fn load_again(&mut self, class: Class, top: usize) {
        if top != 0 {
            self.load(class, top);
        }
    }

    /// Fills the empty magazine of a class. Fails if there is none, or if a signal handler has put
    /// something into it meanwhile.
    #[must_use]
    pub(crate) fn fill(&mut self, class: Class, objects: impl Iterator<Item = usize>) -> bool {
        let top = &mut self.tops[usize::from(class.0)];
        let first = *top;
        if first as u8 != EMPTY {
            return false;
        }
        // SAFETY: the magazine is this thread's.
        let next = unsafe { Magazine::fill(first, objects) };
        // Last: what is below belongs to whoever takes it.
        compiler_fence(Ordering::SeqCst);
        *top = next;
        true
    }

    /// Whether there is a magazine for a class, and something in it.
    #[inline]
    pub(crate) fn has_any(&self, class: Class) -> bool {
        self.tops[usize::from(class.0)] as u8 > EMPTY
    }

    /// Whether there is something in any magazine but that of a class. (Without a branch for each,
    /// for who asks often.)
    #[inline]
    pub(crate) fn has_any_but_for(&self, class: Class) -> bool {
        let filled: usize = self.tops.iter().map(|&top| usize::from(top as u8 > EMPTY)).sum();
        filled > usize::from(self.has_any(class))
    }

    /// Empties a magazine, and returns what was in it.
    pub(crate) fn empty(&mut self, class: Class) -> Rounds {
        let top = self.tops[usize::from(class.0)];
        if top == 0 {
            return Rounds::NONE;
        }
        // First, so that a signal handler finds it in order.
        let end = self.replace_top(class, Magazine::first_slot(Magazine::of_slot(top)));
        // SAFETY: the magazine is this thread's.
        unsafe { Magazine::copy_below(end) }
    }

    /// What kind of heap the thread has.
    pub fn holding(&self) -> Holding {
        self.holding
    }

    /// The thread's own heap.
    pub fn heap(&self) -> Option<&'static Heap> {
        // SAFETY: heaps are never unmade while their arena is in use.
        unsafe { self.heap.as_ref() }
    }

    /// The medium objects that this thread has; none if it has no heap of its own.
    #[inline(always)]
    pub(crate) fn medium_bins(&mut self) -> Option<&mut MediumBins> {
        // SAFETY: heaps are never unmade while their arena is in use. This thread is the heap's
        // leaseholder, and is not at the bins already: a signal handler that interrupts it there
        // finds it busy.
        unsafe { self.bins.as_mut() }
    }

    /// Where the thread begins to look for a shared heap that is free.
    pub(crate) fn hint(&self) -> u16 {
        self.hint
    }

    /// Whether it is time to start a background thread. Says so once.
    #[inline]
    pub fn take_wish_for_help(&mut self) -> bool {
        core::mem::take(&mut self.wants_help)
    }

    /// Gets the thread a heap of its own or the right to share, if it has neither; and one of its
    /// own in place of that right, if one has become free.
    #[inline]
    pub(crate) fn settle_in<S: System>(&mut self, arena: &Arena<S>) {
        match self.holding {
            Holding::Exclusive | Holding::Ended => {}
            Holding::None => self.find_heap(arena),
            Holding::Shared => self.stop_sharing(arena),
        }
    }

    #[cold]
    fn find_heap<S: System>(&mut self, arena: &Arena<S>) {
        self.hint = arena.next_hint();
        self.drain = Drain::begin(&arena.help.asks);
        self.holding = Holding::Shared;
        if let Some(heap) = arena.lease() {
            self.move_into(heap);
        }
    }

    /// Gets the thread a heap of its own, if one was given back. What it has in magazines stays
    /// there, of whatever heap it is; what it frees of the shared heaps' is another's from now on.
    fn stop_sharing<S: System>(&mut self, arena: &Arena<S>) {
        if let Some(heap) = arena.lease_idle() {
            self.move_into(heap);
        }
    }

    fn move_into(&mut self, heap: &Heap) {
        self.holding = Holding::Exclusive;
        (self.heap, self.bins) = (ptr::from_ref(heap), heap.medium.get());
        heap.holder.begin(&self.turn);
        self.use_map_of(heap);
    }

    /// Lets the fast path keep what stands in the heap's map, as far as there are magazines.
    pub(crate) fn use_map_of(&mut self, heap: &Heap) {
        self.map = heap.map();
        self.limit = heap.mapped();
    }

    /// Gives back everything that is free: what the thread keeps, and what its heap does.
    pub fn trim<S: System>(&mut self, arena: &Arena<S>) -> Result<(), Invalid> {
        self.flush(arena)?;
        let mut found = Ok(());
        if let Some(bins) = self.medium_bins() {
            arena.let_go_of_medium(bins, usize::MAX, |twice| found = Err(twice));
        }
        if let Some(heap) = self.heap() {
            arena.let_go_of_runs(heap);
            arena.let_go_of_slabs(&mut heap.hold());
        }
        found
    }

    /// Gives back everything, the heap and the outbox included. What the thread still allocates and
    /// frees afterwards passes through without being kept.
    pub fn end<S: System>(&mut self, arena: &Arena<S>) -> Result<(), Invalid> {
        (self.limit, self.map) = (0, 0);
        let flushed = self.flush(arena);
        self.holding = Holding::Ended;
        for n in 1..MAGAZINES {
            self.leave_magazine(arena, Class(n as u8));
        }
        let outbox = core::mem::replace(&mut self.outbox, ptr::null_mut());
        if !outbox.is_null() {
            // SAFETY: leased to this thread, just emptied, and forgotten.
            unsafe {
                (*outbox).holder.end();
                arena.outboxes.give_back(outbox);
            }
        }
        let heap = self.heap();
        (self.heap, self.bins) = (ptr::null(), ptr::null_mut());
        if let Some(heap) = heap {
            // SAFETY: leased to this thread, which has just forgotten it.
            let released = unsafe { arena.end_lease(heap, |it| self.found_late.note(it)) };
            self.note_released(arena, released);
        }
        flushed.and_then(|()| self.found_late.take().map_or(Ok(()), Err))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::magazine::ROUNDS;
    use std::alloc::{Layout, alloc_zeroed};
    use std::collections::BTreeSet;
    use std::vec::Vec;

    const CLASS: Class = Class(5);

    /// A cache with an empty magazine.
    fn cache() -> ThreadCache {
        // SAFETY: a magazine has a size. Tests do not give it back.
        let magazine = unsafe { alloc_zeroed(Layout::new::<Magazine>()) };
        let mut cache = ThreadCache::new();
        cache.tops[usize::from(CLASS.0)] = Magazine::first_slot(magazine.cast());
        magazine.expose_provenance();
        cache
    }

    fn take_all(cache: &mut ThreadCache) -> Vec<usize> {
        let pop = || Some(cache.pop(CLASS).addr()).filter(|&object| object != 0);
        core::iter::from_fn(pop).collect()
    }

    #[test]
    fn an_object_is_put_where_the_choice_falls() {
        for choice in 0..=ROUNDS {
            let mut cache = cache();
            for object in 1..=ROUNDS {
                assert!(cache.push_any(CLASS, object, |end| choice.min(end - 1)));
            }
            assert!(!cache.push_any(CLASS, 99, |_| 0), "a full magazine took one more");
            let (top, rest) = cache.top(CLASS).unwrap();
            assert_eq!(top.get(), cache.pop(CLASS).addr());
            let ahead = rest.word_ahead();
            let later: Vec<_> = (0..AHEAD).map(|_| cache.pop(CLASS).addr()).collect();
            assert_eq!(later.last(), Some(&ahead));
            assert_eq!(take_all(&mut cache).len(), ROUNDS - 1 - usize::from(AHEAD));
            assert!(cache.top(CLASS).is_none());
        }
        let mut last_first = cache();
        (1..=3).for_each(|object| assert!(last_first.push_any(CLASS, object, |_| 0)));
        assert_eq!(take_all(&mut last_first), [3, 2, 1]);
        let mut deepest = cache();
        (1..=3).for_each(|object| assert!(deepest.push_any(CLASS, object, |end| end - 1)));
        assert_eq!(take_all(&mut deepest), [2, 1, 3]);
    }

    #[test]
    fn after_a_shuffle_any_object_may_come_first_or_last_and_none_is_lost() {
        let (mut firsts, mut lasts, mut seed) = (BTreeSet::new(), BTreeSet::new(), 1_usize);
        for _ in 0..1000 {
            let mut cache = cache();
            assert!((1..=20).all(|object| cache.push(CLASS, object)));
            let first = cache.shuffle(CLASS, 21, |end| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (seed >> 33) % end
            });
            let rest = take_all(&mut cache);
            firsts.insert(first);
            lasts.insert(rest[rest.len() - 1]);
            let all: BTreeSet<_> = rest.into_iter().chain([first]).collect();
            assert!(all.into_iter().eq(1..=21));
        }
        assert_eq!((firsts.len(), lasts.len()), (21, 21));
    }
}
