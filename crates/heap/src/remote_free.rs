//! Objects that come home: how frees are recorded in the slabs they are of, and what becomes of a
//! slab then.
//!
//! A slab that the heap at hand is attached to takes its objects back itself. To any other they
//! come as frees from elsewhere, whoever frees: bits, then their number in the slab's word. Whoever
//! thereby completes the slab releases it; whoever wakes it has it adopted or put into the pool.

use crate::arena::Arena;
use crate::class::Class;
use crate::heap::Held;
use crate::layout::Granule;
use crate::outbox::Row;
use crate::policy::retain;
use crate::tables::SlabLocal;
use crate::tally::Account;
use freehold_sync::freed;
use freehold_sync::word::{Pushed, State};
use freehold_sys::System;

impl<S: System> Arena<S> {
    /// Takes back objects of a slab that is attached to the heap held. Fails if one of them is free
    /// already.
    pub(crate) fn take_back(&self, held: &mut Held, class: Class, row: Row) -> Result<(), ()> {
        let (g, info) = (row.slab, class.info());
        // SAFETY: the slab is attached to the heap whose lock is held.
        let local = unsafe { &mut *self.local(g) };
        if !local.take_back(info, self.bits(g), row.word, (row.mask, row.count)) {
            return Err(());
        }
        let (free, capacity) = (local.free_count(info), info.capacity.into());
        // One empty slab stays, so that a heap at the edge of a slab does not make and release it
        // in turn.
        if self.word(g).count().makes_whole(free, capacity) && held.attached(class).count > 1 {
            held.attached(class).remove(g);
            self.release_own_slab(held.heap(), class, g, &held.account);
        }
        Ok(())
    }

    /// Sends `count` free objects of one slab home: those whose bits are in `masks`, given with the
    /// number of their word. Fails if one of them is free already.
    pub(crate) fn send_home(
        &self,
        class: Class,
        g: Granule,
        masks: impl Iterator<Item = (usize, u64)>,
        count: i32,
        adopter: Option<&mut Held>,
    ) -> Result<u32, ()> {
        if !class.is_small() {
            let tally = adopter.as_ref().map_or(&self.tally, |held| &held.heap().tally);
            // SAFETY: an adopter is the heap that the calling thread has leased, or a shared one,
            // whose bins its lock protects, which is held.
            let mine = adopter.map(|held| (held.heap(), unsafe { &mut *held.heap().medium.get() }));
            let bits = masks.fold(0, |all, (_, mask)| all | mask);
            return self.send_medium_home(class, g, bits, mine, tally);
        }
        self.record(class, g, masks, count, adopter)
    }

    /// Sends small objects home that stand in one row. Fails if one of them is free already.
    pub(crate) fn send_row_home(
        &self,
        class: Class,
        row: Row,
        adopter: Option<&mut Held>,
    ) -> Result<u32, ()> {
        let masks = core::iter::once((row.word, row.mask));
        self.record(class, row.slab, masks, row.count.into(), adopter)
    }

    /// Records `count` free small objects in their slab, and does what has to follow.
    #[inline(always)]
    fn record(
        &self,
        class: Class,
        g: Granule,
        masks: impl Iterator<Item = (usize, u64)>,
        count: i32,
        adopter: Option<&mut Held>,
    ) -> Result<u32, ()> {
        let (info, bits) = (class.info(), self.bits(g));
        let (capacity, wake) = (info.capacity.into(), info.wake.into());
        let word = self.word(g).count();
        // Only where a heap has the slab at hand there are bits of its own.
        let has_own = matches!(word.look().0, State::Attached | State::Kept | State::Disturbed);
        // SAFETY: the granule is committed.
        let look = |n| unsafe { SlabLocal::look_at_own_word(self.local(g), info, bits, n) };
        let own = |n| if has_own { look(n) } else { 0 };
        let pushed = freed::free(word, |n| bits.word(n), own, masks, count, capacity, wake);
        if pushed == Pushed::Recorded {
            return Ok(0);
        }
        self.settle(class, g, pushed, adopter)
    }

    /// Does what a push asks for that did more than to record objects.
    #[inline(never)]
    pub(crate) fn settle(
        &self,
        class: Class,
        g: Granule,
        pushed: Pushed,
        adopter: Option<&mut Held>,
    ) -> Result<u32, ()> {
        let own = Account::new(adopter.as_ref().map_or(&self.tally, |held| &held.heap().tally));
        let mut adopter = adopter;
        match pushed {
            Pushed::Recorded => {}
            Pushed::Refused => return Err(()),
            Pushed::Woken => {
                let welcome = adopter
                    .as_mut()
                    .is_some_and(|held| held.attached(class).count < retain::SLABS_ATTACHED);
                match adopter {
                    Some(held) if welcome => self.adopt(held, class, g),
                    Some(ref held) if self.keep_slab(held, class, g) => {}
                    _ if self.pool_slab(class, g, self.word(g).count()) => {}
                    _ => self.release_slab(class, g, &own),
                }
            }
            Pushed::Completed => self.release_slab(class, g, &own),
            Pushed::Disturbing => self.let_go_of_disturbed(adopter.as_deref(), class, g)?,
            Pushed::CompletedInPool => {
                self.unpool_slab(class, g);
                self.release_slab(class, g, &own);
            }
        }
        Ok(own.total_released())
    }
}
