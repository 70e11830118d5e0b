//! Magazines: arrays of free objects of one small class.
//!
//! An array rather than a list through the objects, so that the allocator never touches memory that
//! is not in use: not when it is carved, not when it is freed, not when it changes hands.
//!
//! A thread has one for each class it uses, which serves its malloc and free, and one for each
//! class of which it frees objects of others, which goes to their owner when it is full. A magazine
//! is 32 words at a multiple of 256 bytes, the first of which is not for objects; who uses it keeps
//! a pointer to its next free slot. So the low byte of that pointer says everything: 8 when the
//! magazine is empty, and 0 after a push into the last slot, which is how a full magazine is
//! noticed. Taking and putting are one addition to that byte each, and the flags it sets are the
//! check.

use crate::arena::Arena;
use crate::class::{Class, SMALL_CLASSES};
use crate::layout::at;
use crate::stock::Stocked;
use core::ptr;
use freehold_sync::atomic::{AtomicUsize, Ordering, compiler_fence};
use freehold_sys::System;

/// Numbers of small classes, and one for "none".
pub const MAGAZINES: usize = SMALL_CLASSES + 1;

const SLOTS: usize = 32;
const BYTES: usize = SLOTS * SLOT;
/// Objects that a magazine holds: not in slot 0, and a push into the last slot finds it full.
pub const ROUNDS: usize = SLOTS - 2;
/// Bytes in a slot.
pub const SLOT: usize = size_of::<usize>();
/// The low byte of the pointer to the next free slot when the magazine is empty.
pub const EMPTY: u8 = SLOT as u8;
/// The low byte of that pointer when the magazine is full.
pub(crate) const FULL: u8 = (BYTES - SLOT) as u8;

/// What became of a freed object that the fast path was to keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// It is in its magazine.
    Done,
    /// It is one of this class that the thread keeps, but its magazine is full.
    Full(Class),
    /// It is not one that the thread keeps, as far as the fast path can tell.
    No,
}

/// A magazine. Its slots belong to who has it, and so does the count.
#[repr(C, align(256))]
pub(crate) struct Magazine {
    /// How many objects are in it, while it is in an inbox.
    count: AtomicUsize,
    slots: [AtomicUsize; SLOTS - 1],
}

const _: () = assert!(size_of::<Magazine>() == BYTES && BYTES == 256);

impl Magazine {
    /// The first slot that is used.
    pub(crate) fn first_slot(this: *mut Self) -> usize {
        this.addr() + SLOT
    }

    /// The magazine in which a next free slot is.
    pub(crate) fn of_slot(slot: usize) -> *mut Self {
        at(slot & !(BYTES - 1))
    }

    /// The next free slot after `rounds` objects were put in.
    pub(crate) fn slot_after(this: *mut Self, rounds: usize) -> usize {
        Self::first_slot(this) + rounds * SLOT
    }

    /// How many objects are in the magazine whose next free slot is `slot`.
    pub(crate) fn rounds_below(slot: usize) -> usize {
        slot % BYTES / SLOT - 1
    }

    /// Notes for the next user how many objects are in it.
    pub(crate) fn note_rounds(&self, rounds: usize) {
        // Relaxed: read by who takes the magazine out of an inbox.
        self.count.store(rounds, Ordering::Relaxed);
    }

    /// How many objects the last user left in it.
    pub(crate) fn noted_rounds(&self) -> usize {
        self.count.load(Ordering::Relaxed).min(ROUNDS)
    }

    /// Puts objects into an empty magazine whose next free slot is `first`, as many as there is
    /// room for, and returns its next free slot then.
    ///
    /// # Safety
    /// The caller has the magazine.
    pub(crate) unsafe fn fill(first: usize, objects: impl Iterator<Item = usize>) -> usize {
        let mut next = first;
        for object in objects.take(ROUNDS) {
            // SAFETY: the magazine has so many slots from the first on.
            unsafe { at::<usize>(next).write(object) };
            next += SLOT;
        }
        next
    }

    /// The first `count` objects of a magazine.
    ///
    /// # Safety
    /// The caller has the magazine, with at least so many objects, which are at most [`ROUNDS`],
    /// and changes nothing in it as long as it uses them.
    pub(crate) unsafe fn objects<'a>(this: *mut Self, count: usize) -> &'a [usize] {
        debug_assert!(count <= ROUNDS);
        // SAFETY: the caller's promise.
        unsafe { core::slice::from_raw_parts(at(Self::first_slot(this)), count) }
    }

    /// The first `count` slots of a magazine.
    ///
    /// # Safety
    /// The caller has the magazine, and uses nothing else of it at the same time; `count` is at
    /// most [`ROUNDS`].
    pub(crate) unsafe fn slots<'a>(this: *mut Self, count: usize) -> &'a mut [usize] {
        debug_assert!(count <= ROUNDS);
        // SAFETY: the caller's promise. Slots have been written to before they are read, or are
        // zero as they were made.
        unsafe { core::slice::from_raw_parts_mut(at(Self::first_slot(this)), count) }
    }

    /// Copies the first `count` objects of a magazine to the first slots of another.
    ///
    /// # Safety
    /// The caller has both, which differ; `count` is at most [`ROUNDS`].
    pub(crate) unsafe fn copy(from: *mut Self, to: *mut Self, count: usize) {
        debug_assert!(from != to);
        // SAFETY: the caller's promise.
        unsafe { Self::slots(to, count).copy_from_slice(Self::objects(from, count)) };
    }

    /// Copies out the objects that the last user left in it.
    ///
    /// # Safety
    /// The caller has the magazine.
    pub(crate) unsafe fn copy_noted(this: *mut Self) -> Rounds {
        // SAFETY: the caller's promise.
        unsafe { Self::copy_below(Self::slot_after(this, (*this).noted_rounds())) }
    }

    /// Copies out the objects of the magazine whose next free slot is `slot`.
    ///
    /// # Safety
    /// The caller has the magazine.
    pub(crate) unsafe fn copy_below(slot: usize) -> Rounds {
        let mut rounds = Rounds { count: Self::rounds_below(slot).min(ROUNDS), ..Rounds::NONE };
        let first = at::<usize>(Self::first_slot(Self::of_slot(slot)));
        // SAFETY: slots of the caller's magazine below the next free one, and places for as many.
        unsafe { first.copy_to_nonoverlapping(rounds.objects.as_mut_ptr(), rounds.count) };
        rounds
    }
}

impl Stocked for Magazine {
    /// 64 MiB of address space: two for each class in some thousands of threads.
    const MOST: usize = 1 << 18;

    unsafe fn make_at(_place: *mut Self) {
        // Zeros will do, and what is not used is not touched.
    }
}

/// Magazines that are made at once, so that threads that start together do not wait for each other.
const AT_ONCE: usize = 32;

/// Magazines that were made for one thread, and not used yet.
pub(crate) struct Fresh {
    first: *mut Magazine,
    left: usize,
}

impl Fresh {
    /// None.
    pub(crate) const NONE: Self = Self { first: ptr::null_mut(), left: 0 };

    /// Takes one; when there is none, one that nobody has any more, or else more are made.
    pub(crate) fn take<S: System>(&mut self, arena: &Arena<S>) -> Option<*mut Magazine> {
        if self.left == 0 {
            let idle = arena.magazines.lease_idle();
            if idle.is_some() {
                return idle;
            }
            self.first = arena.magazines.make(&arena.system, AT_ONCE)?;
            // Second: in the child of a fork those that are left are of these.
            compiler_fence(Ordering::SeqCst);
            self.left = AT_ONCE;
        }
        self.take_one()
    }

    /// Takes one of those that are left.
    fn take_one(&mut self) -> Option<*mut Magazine> {
        self.left = self.left.checked_sub(1)?;
        Some(self.first.wrapping_add(self.left))
    }

    /// Gives back all that are left.
    pub(crate) fn give_back<S: System>(&mut self, arena: &Arena<S>) {
        while let Some(magazine) = self.take_one() {
            // SAFETY: it was made for who has these, and nobody has used it.
            unsafe { arena.magazines.give_back(magazine) };
        }
    }
}

/// What was in a magazine: the object put in last comes last.
pub(crate) struct Rounds {
    objects: [usize; ROUNDS],
    count: usize,
}

impl Rounds {
    /// None.
    pub(crate) const NONE: Self = Self { objects: [0; ROUNDS], count: 0 };

    /// A copy of these, of which there are at most [`ROUNDS`].
    pub(crate) fn of(objects: &[usize]) -> Self {
        let mut rounds = Self { count: objects.len(), ..Self::NONE };
        rounds.objects[..objects.len()].copy_from_slice(objects);
        rounds
    }

    /// The objects, oldest first.
    pub(crate) fn as_slice(&self) -> &[usize] {
        &self.objects[..self.count]
    }
}
