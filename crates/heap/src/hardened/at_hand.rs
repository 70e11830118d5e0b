//! The way of most objects: small ones that a thread has at hand, or takes back of its own heap.
//! What is done for each is what hardened mode costs, so nothing else is done here: whatever is
//! unusual, these functions leave everything as it was; those in `thread` do it or tell why not.

use super::clear;
use super::seal::{BYTES, Slot};
use super::thread::Thread;
use super::waiting::Shape;
use crate::arena::Arena;
use crate::class::Class;
use crate::layout::{GRANULE, UNIT, at};
use core::num::NonZeroUsize;
use freehold_sync::atomic::{AtomicU8, Ordering, compiler_fence};
use freehold_sys::System;

/// The object that a thread has freed last: where it starts, and where its seal is.
#[derive(Clone, Copy)]
pub(super) struct Newest {
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Newest {
    pub(super) fn none() -> Self {
        static CLEAR: [u64; 1] = [0];
        let clear = CLEAR.as_ptr().expose_provenance();
        Self { start: clear, end: clear + size_of_val(&CLEAR) }
    }

    /// Whether its first and its last word are.
    #[inline(always)]
    pub(super) fn is_clear(self) -> bool {
        clear::are_clear(self.start, self.end - size_of::<u64>())
    }
}

/// Why a thread cannot go the fast way. Signal handlers look at it, and change it.
///
/// Each byte is read by itself: to read several at once that were written one by one, a processor
/// has to wait until all it has written before, to whatever object, is in its cache.
#[derive(Clone, Copy)]
pub(super) struct Attention {
    /// An object is to be looked at before the next one is given out.
    look: u8,
    /// The thread is inside hardened mode.
    busy: u8,
    /// A signal handler has left something to be freed.
    deferred: u8,
}

impl Attention {
    pub(super) const NONE: Self = Self { look: 0, busy: 0, deferred: 0 };

    #[inline(always)]
    fn is_none(self) -> bool {
        self.look | self.busy | self.deferred == 0
    }

    #[inline(always)]
    fn is_none_but_look(self) -> bool {
        self.busy | self.deferred == 0
    }
}

/// What became of an object that might have been small and of the thread's own heap.
pub enum TakenBack {
    /// It waits.
    Done,
    /// It waits, and an object has left for it that the thread has no room for.
    For(NonZeroUsize),
    /// Nothing has changed: it is another one, or something is wrong.
    Not,
}

impl Thread {
    /// Whether the thread may give out an object the fast way.
    #[inline(always)]
    pub fn may_give(&self) -> bool {
        self.attention.is_none()
    }

    /// Whether it may take one back.
    #[inline(always)]
    pub fn may_take_back(&self) -> bool {
        self.attention.is_none_but_look()
    }

    /// Marks the thread as inside hardened mode or not. The fences keep the compiler from moving
    /// work out of the marked part; a signal handler runs on the same thread and needs no more.
    #[inline(always)]
    pub fn set_busy(&mut self, busy: bool) {
        compiler_fence(Ordering::SeqCst);
        self.attention.busy = busy.into();
        compiler_fence(Ordering::SeqCst);
    }

    /// Whether it is.
    #[inline(always)]
    pub fn is_busy(&self) -> bool {
        self.attention.busy != 0
    }

    /// Notes whether a signal handler has left something to be freed.
    pub fn note_deferred(&mut self, deferred: bool) {
        self.attention.deferred = deferred.into();
    }

    /// Gives out `size` bytes, all zero, if there is a tiny object for them at hand and nothing is
    /// wrong. Otherwise nothing has changed, and [`Thread::give_small`] or [`Thread::allocate`]
    /// does it or tells why not. The thread [may give](Thread::may_give) but for being busy.
    #[inline(always)]
    pub fn give_tiny(&mut self, size: usize) -> Option<NonZeroUsize> {
        if size.wrapping_sub(1) >= Self::TINY_MAX {
            return None;
        }
        let units = (size + BYTES).div_ceil(UNIT);
        let (class, size_of_slot) = (Class::of_units(units), units * UNIT);
        self.give::<true>(class, size_of_slot, size)
    }

    /// The same for any small object.
    #[inline(always)]
    pub fn give_small(&mut self, size: usize) -> Option<NonZeroUsize> {
        if size.wrapping_sub(1) >= Self::SMALL_MAX {
            return None;
        }
        let class = Class::of_small(size + BYTES);
        self.give::<false>(class, Shape::of(class).size as usize, size)
    }

    #[inline(always)]
    fn give<const IS_TINY: bool>(
        &mut self,
        class: Class,
        size_of_slot: usize,
        size: usize,
    ) -> Option<NonZeroUsize> {
        if !self.newest.is_clear() {
            return None;
        }
        let (object, rest) = self.cache.top(class)?;
        let start = object.get();
        // What is before it was sealed before anybody had this one.
        let slot = Slot::new(start, size_of_slot, false);
        slot.open_ready::<IS_TINY>(&self.secret, size, |end| self.random.below(end)).ok()?;
        self.cache.pop_to(class, rest);
        // The objects at hand are in no order, so that each is a miss of the cache otherwise.
        let soon = rest.word_ahead();
        clear::fetch(soon.wrapping_add(size_of_slot - BYTES));
        if !IS_TINY {
            clear::fetch_looked_at(soon, size_of_slot - BYTES);
        }
        if self.first {
            self.note_given(Slot { has_predecessor: !start.is_multiple_of(GRANULE), ..slot });
        }
        Some(object)
    }

    /// Looks at the object given out last. Fails if it was damaged.
    #[inline]
    pub fn look<S: System>(&mut self, arena: &Arena<S>) -> bool {
        self.first = arena.hardening.is_alone();
        let is_whole = self.glance_at_given(arena).is_ok();
        if is_whole {
            self.forget_given();
        }
        is_whole
    }

    /// Takes back an object, if it is a small one of the thread's heap: of those, only tiny ones if
    /// `IS_TINY`.
    ///
    /// # Safety
    /// Nobody uses the object any longer, if it is one. The thread is leased, of the arena whose
    /// region starts at `region`, and which is [alone](Arena::is_alone) as `alone` says.
    #[inline(always)]
    pub unsafe fn take_back<const IS_TINY: bool>(
        &mut self,
        region: usize,
        alone: impl FnOnce() -> bool,
        address: usize,
    ) -> TakenBack {
        let Some((mut class, mut shape)) = self.kept_at::<IS_TINY>(region, address) else {
            return TakenBack::Not;
        };
        let size = shape.size as usize;
        if IS_TINY {
            // The same from here on, without a register for each.
            (class, shape) = (Class::of_units(size / UNIT), Shape::of_tiny());
        }
        let slot = Slot::new(address, size, !address.is_multiple_of(GRANULE));
        // Whatever is wrong, nothing has changed then that matters, and it is found once more.
        if slot.retire::<IS_TINY>(&self.secret, || self.first && alone()).is_err() {
            return TakenBack::Not;
        }
        self.note_newest(slot);
        let random = self.random.next();
        // SAFETY: leased, so that there is one.
        let former = unsafe { &mut *self.waiting }.exchange((class, shape), address, random);
        // SAFETY: only small classes have a shape with objects.
        unsafe { core::hint::assert_unchecked(class.is_small()) };
        match NonZeroUsize::new(former) {
            Some(former) if !self.cache.push(class, former.get()) => TakenBack::For(former),
            _ => TakenBack::Done,
        }
    }

    /// The class of the small object, or tiny one, that starts at an address, if there is one and
    /// the thread keeps it: as [`ThreadCache::keep`] finds out, but that the class may be watched.
    #[inline(always)]
    fn kept_at<const IS_TINY: bool>(
        &self,
        region: usize,
        address: usize,
    ) -> Option<(Class, &'static Shape)> {
        let offset = address.wrapping_sub(region);
        let granule = offset / GRANULE;
        if granule >= self.cache.limit {
            return None;
        }
        // SAFETY: the map can be asked for all granules below the limit.
        let class = unsafe { (*at::<AtomicU8>(self.cache.map + granule)).load(Ordering::Relaxed) };
        let class = Class(class);
        let shape = if IS_TINY { Shape::of_tiny_class(class) } else { Shape::of(class) };
        let in_granule = offset as u32 % GRANULE as u32;
        shape.starts_at(in_granule).then_some((class, shape))
    }

    #[inline(always)]
    pub(super) fn note_newest(&mut self, slot: Slot) {
        if self.given.start == slot.start {
            self.forget_given();
        }
        self.newest = Newest { start: slot.start, end: slot.end };
    }

    #[inline(always)]
    pub(super) fn note_given(&mut self, slot: Slot) {
        self.given = slot;
        self.attention.look = 1;
    }

    #[inline(always)]
    pub(super) fn forget_given(&mut self) {
        self.given.start = Slot::NONE.start;
        self.attention.look = 0;
    }
}
