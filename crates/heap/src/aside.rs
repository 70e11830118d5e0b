//! Setting full magazines aside, and using again what is in them.
//!
//! A thread that has a heap to itself has its heap's depot. Threads that share heaps have that of
//! the processor's, under the heap's lock: what one of them frees the next one there allocates, so
//! that what they have at hand grows with the number of processors.

use crate::arena::Arena;
use crate::cache::{Holding, ThreadCache};
use crate::class::Class;
use crate::depot::Exchanged;
use crate::heap::Heap;
use crate::invalid::Invalid;
use crate::layout::{GRANULE, at};
use crate::magazine::{EMPTY, FULL, Magazine, ROUNDS, SLOT};
use crate::policy::retain;
use core::hint::assert_unchecked;
use core::ptr::NonNull;
use freehold_sys::System;

/// What became of a full magazine that was to be set aside.
pub(crate) enum SetAside {
    /// It was, or half of it, so that there is room in it.
    Done,
    /// It was, and the thread's has now what was set aside first, and is to be emptied.
    Instead(*mut Magazine),
    /// It was not: there is no depot, no magazine to be had, or room in this one.
    Not,
}

impl<S: System> Arena<S> {
    /// The bytes that a heap may set aside of classes of which it turned out to need more.
    pub(crate) fn most_set_aside(&self) -> usize {
        let heaps = usize::from(self.leases.exclusive_made());
        retain::depot_bytes(self.about_in_use().used * GRANULE, heaps)
    }

    /// Likewise of hot medium objects.
    pub(crate) fn most_hot(&self) -> usize {
        retain::hot_bytes(self.most_set_aside(), self.has_several_threads())
    }
}

impl ThreadCache {
    /// Sets the full magazine of `class` aside, in the heap's depot.
    pub(crate) fn set_aside<S: System>(&mut self, arena: &Arena<S>, class: Class) -> SetAside {
        if !matches!(self.holding(), Holding::Exclusive | Holding::Shared) {
            return SetAside::Not;
        }
        let top = self.unload_magazine(class);
        let full = Magazine::of_slot(top);
        if top == 0 || Magazine::rounds_below(top) < ROUNDS {
            self.load_again(class, top);
            return SetAside::Not;
        }
        // SAFETY: the thread has the magazine, which is full, and the heap's lease if it has one.
        let exchanged = unsafe {
            match self.heap() {
                Some(heap) => heap.with_depots(|it| it.exchange_full(arena, class, full)),
                None => self.set_aside_shared(arena, class, full),
            }
        };
        match exchanged {
            Some(Exchanged::For(objects)) => {
                self.load(class, Magazine::slot_after(full, ROUNDS - objects));
                SetAside::Done
            }
            Some(Exchanged::ForOldest) => SetAside::Instead(full),
            None => {
                self.load(class, top);
                SetAside::Not
            }
        }
    }

    /// Sets what is in a full magazine aside, in the depot of a shared heap.
    ///
    /// # Safety
    /// The thread has it, and it is full.
    unsafe fn set_aside_shared<S: System>(
        &self,
        arena: &Arena<S>,
        class: Class,
        full: *mut Magazine,
    ) -> Option<Exchanged> {
        if class.info().depot == 0 {
            return None;
        }
        let exchange = |spare: &mut Option<*mut Magazine>| {
            let mut held = arena.hold_shared_heap(self.hint())?;
            // SAFETY: the caller's promise.
            unsafe { held.shared_depots()?.exchange_full_for(class, full, spare) }
        };
        let mut spare = None;
        if let Some(exchanged) = exchange(&mut spare) {
            return Some(exchanged);
        }
        // Not with a heap held: the lock of the magazines comes before it.
        spare = arena.magazines.lease(&arena.system);
        let exchanged = exchange(&mut spare);
        if let Some(unused) = spare {
            // SAFETY: just leased, and empty.
            unsafe { arena.magazines.give_back(unused) };
        }
        exchanged
    }

    /// Notes that nothing is set aside of a class of which objects are to be fetched now: if it was
    /// too little that could be, it may be more from now on.
    #[inline]
    pub(crate) fn note_missed<S: System>(&mut self, arena: &Arena<S>, class: Class) {
        let Some(heap) = self.heap() else { return };
        let most = || arena.most_set_aside();
        // SAFETY: the thread has the lease, and nothing that is done there is done to depots.
        let has_swing = unsafe {
            heap.with_depots(|it| {
                it.note_missed(arena, class, false, most);
                it.swing.is_any()
            })
        };
        self.note_swing(has_swing);
        self.make_room(arena, ROUNDS * class.size());
    }

    /// Gives some objects back that have long been set aside, if others could be in their place.
    pub(crate) fn give_back_unused<S: System>(&mut self, arena: &Arena<S>) -> Result<(), Invalid> {
        // SAFETY: the thread has the lease, and magazines that go back are none of a depot's then.
        let unused = |heap: &Heap| unsafe { heap.with_depots(|it| it.take_unused(arena)) };
        match self.heap().and_then(unused) {
            Some((class, rounds)) => self.give_back(arena, class, rounds.as_slice()),
            None => Ok(()),
        }
    }

    /// Takes an object out of what was set aside of `class` last, if anything was and the magazine
    /// is empty, which gets the rest. Does nothing else, for who is in a hurry.
    #[inline]
    pub fn pop_set_aside(&mut self, class: Class) -> Option<NonNull<u8>> {
        let heap = self.heap()?;
        // SAFETY: the thread has the lease, and what is done to its magazine is nothing to depots.
        unsafe {
            heap.with_depots(|depots| {
                if !depots.has(class) {
                    return None;
                }
                let top = self.unload_magazine(class);
                if top as u8 != EMPTY {
                    self.load_again(class, top);
                    return None;
                }
                let own = Magazine::of_slot(top);
                // SAFETY: the thread has the magazine, which is in no other hands until it is
                // loaded; so many objects are in it after this, none of which is null.
                let count = depots.take_back(class, own);
                debug_assert!(count > 0, "there was something a moment ago");
                let last = Magazine::slot_after(own, count - 1);
                let object = NonNull::new_unchecked(at::<u8>(at::<usize>(last).read()));
                self.load(class, last);
                Some(object)
            })
        }
    }

    /// Keeps a freed object of a class whose magazine is full, by setting that aside, or half of
    /// it, if there is room in a magazine of the depot. Does nothing else, for who is in a hurry.
    ///
    /// # Safety
    /// [`ThreadCache::keep`] has said so of the object, with this class, which is a small one.
    #[inline]
    #[must_use]
    pub unsafe fn push_after_setting_aside(&mut self, class: Class, address: usize) -> bool {
        let Some(heap) = self.heap() else { return false };
        // SAFETY: the caller's promise.
        unsafe { assert_unchecked(class.is_small()) };
        // SAFETY: as in `pop_set_aside`.
        unsafe {
            heap.with_depots(|depots| {
                let Some(room) = depots.room(class) else { return false };
                let top = self.unload_magazine(class);
                if top as u8 != FULL {
                    self.load_again(class, top);
                    return false;
                }
                let own = Magazine::of_slot(top);
                // SAFETY: the thread has the magazine, which is full, and in no other hands until
                // it is loaded; there is room for what is set aside of it, and then in it.
                let left = depots.set_aside(class, own, room);
                let next = Magazine::slot_after(own, left);
                at::<usize>(next).write(address);
                self.load(class, next + SLOT);
                true
            })
        }
    }
}
