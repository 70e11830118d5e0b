//! Magazines: for each small class an array of free objects that a thread has at hand.
//!
//! An array rather than a list through the objects, so that the allocator never touches memory that
//! is not in use: not when it is carved, not when it is freed, not when it changes hands.
//!
//! A magazine is 32 words at a multiple of 256 bytes, and the thread keeps a pointer to its next
//! free slot. So the low byte of that pointer says everything: 8 when the magazine is empty (slot 0
//! is never used), and 0 after a push into the last slot, which is how a full magazine is noticed.
//! Taking and putting are one addition to that byte each, and the flags it sets are the check.

use crate::class::SMALL_CLASSES;
use crate::stock::Stocked;
use freehold_sync::atomic::AtomicU32;

/// One magazine a small class, and one for "none" that is not used.
pub const MAGAZINES: usize = SMALL_CLASSES + 1;

const SLOTS: usize = 32;
/// Objects that a magazine holds: not in slot 0, and a push into the last slot finds it full.
pub const ROUNDS: usize = SLOTS - 2;
/// Bytes in a slot.
pub const SLOT: usize = size_of::<usize>();
/// The low byte of the pointer to the next free slot when the magazine is empty.
pub const EMPTY: u8 = SLOT as u8;

#[repr(C, align(256))]
struct Magazine([usize; SLOTS]);

const _: () =
    assert!(size_of::<Magazine>() == 256, "the low byte of a slot's address is its place");

/// The magazines of one thread.
#[repr(C)]
pub(crate) struct Magazines {
    rounds: [Magazine; MAGAZINES],
    link: AtomicU32,
}

impl Magazines {
    /// The address of the first slot that the magazine of class number `n` uses.
    pub(crate) fn first_slot(&self, n: usize) -> usize {
        (&raw const self.rounds[n].0[1]).addr()
    }
}

impl Stocked for Magazines {
    fn new() -> Self {
        Self { rounds: [const { Magazine([0; SLOTS]) }; MAGAZINES], link: AtomicU32::new(0) }
    }

    fn link(&self) -> &AtomicU32 {
        &self.link
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

    /// Adds an object, if there is room.
    pub(crate) fn push(&mut self, object: usize) {
        if self.count < ROUNDS {
            self.objects[self.count] = object;
            self.count += 1;
        }
    }

    /// The objects, oldest first.
    pub(crate) fn as_slice(&self) -> &[usize] {
        &self.objects[..self.count]
    }
}
