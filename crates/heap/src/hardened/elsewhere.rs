//! The way of small objects that a thread frees and another heap has given out: they wait in
//! quarantine, and go from there into the parcel for that heap, or into the outbox. The same as
//! [`Thread::free`] does for every object, but without asking at each step what is known already.
//! Whatever is unusual, everything is as it was, and is left to that.

use super::at_hand::TakenBack;
use super::quarantine::Held;
use super::seal::Slot;
use super::thread::Thread;
use super::waiting::Shape;
use crate::arena::Arena;
use crate::class::Class;
use crate::layout::{GRANULE, Granule};
use core::num::NonZeroUsize;
use freehold_sys::System;

impl Thread {
    /// Takes back an object, if it is a small one, and if the quarantine has room without letting
    /// more than one go.
    ///
    /// # Safety
    /// Nobody uses the object any longer, if it is one.
    #[inline]
    pub unsafe fn take_back_elsewhere<S: System>(
        &mut self,
        arena: &Arena<S>,
        address: usize,
    ) -> TakenBack {
        let Some(g) = arena.granule_of(address) else { return TakenBack::Not };
        let class = Class(arena.tag(g).class());
        let (shape, in_granule) = (Shape::of(class), (address % GRANULE) as u32);
        let size = shape.size as usize;
        if !shape.starts_at(in_granule) || self.quarantine.may_be_overfull(size) {
            return TakenBack::Not;
        }
        let slot = Slot::new(address, size, in_granule != 0);
        slot.fetch();
        // Whatever is wrong, nothing has changed then that matters, and it is found once more.
        if slot.retire::<false>(&self.secret, || arena.is_alone()).is_err() {
            return TakenBack::Not;
        }
        self.note_newest(slot);
        let random = self.random.next();
        let former = self.quarantine.exchange(Held::new(address, class), size, random as usize);
        let Some(object) = NonZeroUsize::new(former.address()) else { return TakenBack::Done };
        if self.send(arena, former) { TakenBack::Done } else { TakenBack::For(object) }
    }

    /// Puts an object that leaves quarantine where it goes, if it is a small one of another heap
    /// and there is room.
    #[inline]
    fn send<S: System>(&mut self, arena: &Arena<S>, former: Held) -> bool {
        let (address, class) = (former.address(), former.class());
        if !class.is_small() {
            return false;
        }
        let g = Granule(((address - arena.tables.region) / GRANULE) as u32);
        // SAFETY: an object of that class, which was given up and is let go of here; the cache is
        // used with this arena.
        unsafe {
            self.cache.put_aside_small(arena, g, class, address)
                || self.cache.post_small(arena, g, class, address)
        }
    }
}
