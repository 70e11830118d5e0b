//! What a thread does with memory in hardened mode.

use super::at_hand::{Attention, Newest};
use super::guarded::{Freed, Large};
use super::quarantine::{Held, Quarantine};
use super::random::Random;
use super::seal::{Damage, Secret, Slot, TINY};
use super::waiting::Waiting;
use crate::arena::Arena;
use crate::blocks::Prefer;
use crate::cache::ThreadCache;
use crate::class::{Class, MEDIUM_MAX, SMALL_MAX};
use crate::free::PutAside;
use crate::invalid::Invalid;
use crate::layout::{GRANULE, Granule, UNIT, at};
use crate::magazine::Kept;
use crate::medium::Given;
use crate::tables::RUN;
use core::num::NonZeroUsize;
use core::ptr;
use freehold_sys::System;

/// What a thread has at hand in hardened mode.
pub struct Thread {
    /// Where objects come from and go to.
    pub cache: ThreadCache,
    /// The arena's.
    pub(super) secret: Secret,
    pub(super) random: Random,
    /// The number that decides which medium object is given out next.
    choice: u32,
    /// The object freed last: it waits.
    pub(super) newest: Newest,
    /// The object of a slab given out last, if it was not freed since: looked at as long as the
    /// process has had one thread, and nothing otherwise.
    pub(super) given: Slot,
    pub(super) attention: Attention,
    /// Whether this was the first thread of the process, and has not seen a second one begin.
    pub(super) first: bool,
    /// Where small objects of the thread's own heap wait: null for a thread that is not leased.
    pub(super) waiting: *mut Waiting,
    /// Where others wait.
    pub(super) quarantine: Quarantine,
    pub(super) freed_runs: Freed,
}

/// What a program did with an object that it must not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Misuse(pub Invalid);

impl From<Invalid> for Misuse {
    fn from(invalid: Invalid) -> Self {
        Self(invalid)
    }
}

impl Misuse {
    pub(super) fn freed_again(address: usize) -> Self {
        Self(Invalid::FreedAgain { address })
    }

    pub(super) fn overrun(address: usize, size: usize) -> Self {
        Self(Invalid::Overrun { address, size })
    }

    fn new(damage: Damage, slot: Slot) -> Self {
        let (address, size) = (slot.start, slot.room());
        Self(match damage {
            Damage::Free => Invalid::FreedAgain { address },
            Damage::Never => Invalid::NotAllocated { address },
            Damage::After => Invalid::Overrun { address, size },
            Damage::Before => Invalid::Underrun { address },
            Damage::WhenFree => Invalid::WrittenWhenFree { address, size },
        })
    }
}

/// An object in use.
enum InUse {
    Small(Slot, Class),
    Large(Large),
    /// Of no bytes, or a mapping of its own: not looked at.
    Other,
}

impl<S: System> Arena<S> {
    /// The class for an object and its seal; `None` when only a run will do.
    #[inline]
    fn sealed_class(size: usize, align: usize) -> Option<Class> {
        let bytes = size.checked_add(super::seal::BYTES)?;
        if align > UNIT {
            return Class::of_aligned(bytes, align);
        }
        if bytes <= SMALL_MAX {
            return Some(Class::of_small(bytes));
        }
        (bytes <= MEDIUM_MAX).then(|| Class::of_medium(bytes))
    }

    /// The slot of an object of a class.
    #[inline]
    fn slot_of(&self, address: usize, class: Class) -> Slot {
        let granule = address & !(GRANULE - 1);
        let base = if class.is_small() {
            granule
        } else {
            let delta = self.granule_of(address).map_or(0, |g| self.tag(g).delta());
            granule - delta as usize * GRANULE
        };
        Slot::new(address, class.size(), address != base)
    }

    fn sealed_at(&self, address: usize) -> Result<InUse, Misuse> {
        let Some(found) = self.object_at(address) else {
            return self.unsealed_at(address);
        };
        if found.class == Class::EMPTY {
            return Ok(InUse::Other);
        }
        let slot = Slot::new(address, found.class.size(), found.index > 0);
        Ok(InUse::Small(slot, found.class))
    }

    #[cold]
    fn unsealed_at(&self, address: usize) -> Result<InUse, Misuse> {
        let Some(g) = self.granule_of(address) else { return Ok(InUse::Other) };
        if self.tag(g).class() == RUN {
            return self.large_at(address).map(InUse::Large);
        }
        Err(self.explain(address).into())
    }

    /// The bytes that can be used at `address`: as many as were asked for.
    pub fn sealed_size(&self, address: usize) -> Result<usize, Misuse> {
        match self.sealed_at(address)? {
            InUse::Small(slot, _) => {
                slot.bytes(&self.secret()).map_err(|damage| Misuse::new(damage, slot))
            }
            InUse::Large(large) => Ok(large.bytes),
            InUse::Other => self.usable_size(address).map_err(Misuse::from),
        }
    }
}

impl<S: System> Arena<S> {
    /// Whether no thread but the caller's has begun so far, in hardened mode.
    #[inline(always)]
    pub fn is_alone(&self) -> bool {
        self.hardening.is_alone()
    }
}

impl Thread {
    /// The most bytes of a small object, beside its seal.
    pub const SMALL_MAX: usize = SMALL_MAX - super::seal::BYTES;

    /// The most bytes of a tiny one.
    pub const TINY_MAX: usize = TINY - super::seal::BYTES;

    /// Nothing at hand. `number` is another one for each thread.
    pub fn new<S: System>(arena: &Arena<S>, number: usize) -> Self {
        arena.hardening.note_thread();
        let mut random =
            Random::new(arena.secret().mix(number as u64 ^ arena.system.milliseconds() << 32));
        Self {
            cache: ThreadCache::new(),
            secret: arena.secret(),
            choice: random.below(64) as u32,
            random,
            newest: Newest::none(),
            given: Slot::NONE,
            attention: Attention::NONE,
            first: arena.hardening.is_alone(),
            waiting: ptr::null_mut(),
            quarantine: Quarantine::new(),
            freed_runs: Freed::new(),
        }
    }

    /// Gives out `size` bytes, all zero, if there is a medium object for them at hand. `Ok(None)`
    /// if not: nothing has changed then, and [`Thread::allocate`] does it.
    #[inline(always)]
    pub fn allocate_medium<S: System>(
        &mut self,
        arena: &Arena<S>,
        size: usize,
    ) -> Result<Option<usize>, Misuse> {
        let bytes = size + super::seal::BYTES;
        if !(SMALL_MAX + 1..=MEDIUM_MAX).contains(&bytes) {
            return Ok(None);
        }
        let class = Class::of_medium(bytes);
        self.glance(arena)?;
        let given = self.pop_medium(class);
        self.seal_slot(given.map(|it| arena.slot_of(it.address, class)), size)
    }

    /// Takes a medium object of those at hand, and lets the processor fetch the one that comes next
    /// if the next one is of this class: nobody can foresee it, and so not the processor.
    #[inline]
    fn pop_medium(&mut self, class: Class) -> Option<Given> {
        let given = self.cache.pop_any_medium(class, self.choice);
        self.choice = self.random.below(64) as u32;
        if let Some(next) = self.cache.next_medium(class, self.choice) {
            Slot::new(next, class.size(), true).fetch_to_give();
        }
        given
    }

    /// Gives out `size` bytes, all zero, at a multiple of `align`, a power of two. `Ok(None)` when
    /// there is no memory.
    #[inline(never)]
    pub fn allocate<S: System>(
        &mut self,
        arena: &Arena<S>,
        size: usize,
        align: usize,
    ) -> Result<Option<usize>, Misuse> {
        self.glance(arena)?;
        let taken = self.take(arena, size, align)?;
        if taken.is_none() {
            return self.allocate_again(arena, size, align);
        }
        self.seal(arena, taken, size, align)
    }

    /// Takes once more, after all that waits was released.
    #[cold]
    fn allocate_again<S: System>(
        &mut self,
        arena: &Arena<S>,
        size: usize,
        align: usize,
    ) -> Result<Option<usize>, Misuse> {
        self.discharge(arena)?;
        arena.release_ready();
        let taken = self.take(arena, size, align)?;
        self.seal(arena, taken, size, align)
    }

    /// Takes an object, which is sealed already if it is not one of a slab.
    #[inline]
    fn take<S: System>(
        &mut self,
        arena: &Arena<S>,
        size: usize,
        align: usize,
    ) -> Result<Option<usize>, Misuse> {
        match Self::class_of(arena, size, align) {
            Some(Class::EMPTY) => {
                let given = self.cache.take(arena, 0, UNIT, Prefer::Dirty);
                Ok(given.map(|it| it.address))
            }
            Some(class) => Ok(self.take_any(arena, class)),
            None => self.take_large(arena, size, align),
        }
    }

    /// The class that serves a request; `None` when only a run will do.
    #[inline]
    fn class_of<S: System>(_: &Arena<S>, size: usize, align: usize) -> Option<Class> {
        if size == 0 && align <= UNIT {
            return Some(Class::EMPTY);
        }
        Arena::<S>::sealed_class(size, align)
    }

    /// Seals an object that was taken out of a slab.
    #[inline]
    fn seal<S: System>(
        &mut self,
        arena: &Arena<S>,
        taken: Option<usize>,
        size: usize,
        align: usize,
    ) -> Result<Option<usize>, Misuse> {
        let class = Self::class_of(arena, size, align).filter(|&class| class != Class::EMPTY);
        let (Some(address), Some(class)) = (taken, class) else { return Ok(taken) };
        self.seal_slot(Some(arena.slot_of(address, class)), size)
    }

    /// Seals the object of a slot, if there is one.
    #[inline(always)]
    fn seal_slot(&mut self, slot: Option<Slot>, size: usize) -> Result<Option<usize>, Misuse> {
        let Some(slot) = slot else { return Ok(None) };
        let random = |end| self.random.below(end);
        slot.open(&self.secret, size, random).map_err(|damage| Misuse::new(damage, slot))?;
        if self.first {
            self.note_given(slot);
        }
        Ok(Some(slot.start))
    }

    /// Takes one of the free objects of a class that are at hand, which nobody can foresee. Of
    /// small ones it is the one put in last, for they are put in at random.
    #[inline]
    fn take_any<S: System>(&mut self, arena: &Arena<S>, class: Class) -> Option<usize> {
        if !class.is_small() {
            let given = self.pop_medium(class);
            return given.or_else(|| self.cache.take_medium(arena, class)).map(|it| it.address);
        }
        let object = self.cache.pop(class);
        if object.is_null() { self.refill(arena, class) } else { Some(object.addr()) }
    }

    /// Fills the empty magazine of a class, in an order by chance.
    #[cold]
    fn refill<S: System>(&mut self, arena: &Arena<S>, class: Class) -> Option<usize> {
        let first = self.cache.refill(arena, class);
        let random = &mut self.random;
        let first = NonZeroUsize::new(first.addr())?.get();
        Some(self.cache.shuffle(class, first, |end| random.below(end)))
    }

    /// Looks at both objects that are looked at again and again.
    #[inline(always)]
    fn glance<S: System>(&self, arena: &Arena<S>) -> Result<(), Misuse> {
        self.glance_at_newest()
            .and_then(|()| self.glance_at_given(arena))
            .map_err(|(damage, slot)| Misuse::new(damage, slot))
    }

    /// Looks whether the object freed last is still clear.
    #[inline(always)]
    fn glance_at_newest(&self) -> Result<(), (Damage, Slot)> {
        if self.newest.is_clear() {
            return Ok(());
        }
        let Newest { start, end } = self.newest;
        Err((Damage::WhenFree, Slot { start, end, has_predecessor: false }))
    }

    /// Looks whether the object given out last is whole.
    #[inline(always)]
    pub(super) fn glance_at_given<S: System>(
        &self,
        arena: &Arena<S>,
    ) -> Result<(), (Damage, Slot)> {
        if self.given.is_none() || !arena.hardening.is_alone() {
            return Ok(());
        }
        self.inspect_given(arena).map_or(Ok(()), |damage| Err((damage, self.given)))
    }

    #[inline(never)]
    fn inspect_given<S: System>(&self, arena: &Arena<S>) -> Option<Damage> {
        arena.hardening.while_alone(|| self.given.inspect(&self.secret).err()).flatten()
    }

    /// Releases an object that has left for another one.
    pub fn let_go<S: System>(
        &mut self,
        arena: &Arena<S>,
        former: NonZeroUsize,
    ) -> Result<(), Misuse> {
        self.release(arena, former.get())
    }

    /// Takes an object back.
    ///
    /// # Safety
    /// Nobody uses the object any longer, if it is one.
    #[inline(never)]
    pub unsafe fn free<S: System>(
        &mut self,
        arena: &Arena<S>,
        address: usize,
    ) -> Result<(), Misuse> {
        let Some((slot, class)) = Self::sealed_slot(arena, address) else {
            return self.free_unsealed(arena, address);
        };
        slot.fetch();
        let alone = || arena.hardening.is_alone();
        slot.retire::<false>(&self.secret, alone).map_err(|damage| Misuse::new(damage, slot))?;
        self.detain(arena, slot, class)
    }

    /// Keeps a medium object that leaves quarantine, or posts it.
    #[inline]
    fn keep_medium<S: System>(&mut self, arena: &Arena<S>, held: Held) -> bool {
        let (class, address) = (held.class(), held.address());
        class.is_medium()
            && arena
                .object_at(address)
                // SAFETY: an object of that class, which was given up and is let go of here.
                .is_some_and(|place| unsafe { self.cache.put_aside_medium(arena, place, address) })
    }

    /// Puts a freed object into quarantine, and releases others for it.
    #[inline(always)]
    fn detain<S: System>(
        &mut self,
        arena: &Arena<S>,
        slot: Slot,
        class: Class,
    ) -> Result<(), Misuse> {
        self.note_newest(slot);
        let (held, random) = (Held::new(slot.start, class), self.random.next());
        let former = self.quarantine.exchange(held, slot.size(), random as usize);
        let done = former == Held::NONE || self.keep(arena, former, random >> 32);
        if done && !self.quarantine.is_overfull() {
            return Ok(());
        }
        self.make_room(arena, held, if done { Held::NONE } else { former })
    }

    /// The slot of an object of a slab that has bytes.
    #[inline]
    fn sealed_slot<S: System>(arena: &Arena<S>, address: usize) -> Option<(Slot, Class)> {
        let found = arena.object_at(address).filter(|found| found.class != Class::EMPTY)?;
        let (size, has_predecessor) = (found.class.size(), found.index > 0);
        Some((Slot::new(address, size, has_predecessor), found.class))
    }

    /// Keeps an object that leaves quarantine in its magazine, if that is this thread's and has
    /// room: in a place chosen by a random number of 32 bits.
    #[inline]
    fn keep<S: System>(&mut self, arena: &Arena<S>, held: Held, random: u64) -> bool {
        let (address, class) = (held.address(), held.class());
        let g = address.wrapping_sub(arena.tables.region) / GRANULE;
        self.cache.keeps(Granule(g as u32), class)
            && self.cache.push_any(class, address, |end| ((random * end as u64) >> 32) as usize)
    }

    #[cold]
    fn free_unsealed<S: System>(&mut self, arena: &Arena<S>, address: usize) -> Result<(), Misuse> {
        match arena.sealed_at(address)? {
            InUse::Large(_) => self.free_large(arena, address),
            InUse::Small(..) | InUse::Other => self.release(arena, address),
        }
    }

    /// Releases an object that has left quarantine, if there is one, and others while there are too
    /// many bytes, but not `last`.
    #[inline(never)]
    fn make_room<S: System>(
        &mut self,
        arena: &Arena<S>,
        last: Held,
        former: Held,
    ) -> Result<(), Misuse> {
        if former != Held::NONE && !self.keep_medium(arena, former) {
            self.release(arena, former.address())?;
        }
        while let Some(former) = self.quarantine.excess(last, &mut self.random) {
            let random = self.random.next() >> 32;
            if !self.keep_medium(arena, former) && !self.keep(arena, former, random) {
                self.release(arena, former.address())?;
            }
        }
        Ok(())
    }

    /// Gives a free object back to where it came from.
    #[inline]
    fn release<S: System>(&mut self, arena: &Arena<S>, address: usize) -> Result<(), Misuse> {
        // SAFETY: nobody has the object but this thread, and the cache is used with this arena.
        unsafe {
            if self.cache.keep(arena.tables.region, address) == Kept::Done {
                return Ok(());
            }
            let aside = self.cache.put_aside(arena, address);
            if matches!(aside, PutAside::Done) || self.cache.post(arena, address, aside) {
                return Ok(());
            }
            self.cache.free_slow(arena, address).map_err(Misuse::from)
        }
    }

    /// Changes the size of an object: the contents up to the smaller size are kept, what is new is
    /// zero, and the address may change. `Ok(None)` when there is no memory; the object is as
    /// before then.
    ///
    /// # Safety
    /// `address` is in use by the caller alone, if it is an object at all.
    pub unsafe fn resize<S: System>(
        &mut self,
        arena: &Arena<S>,
        address: usize,
        size: usize,
    ) -> Result<Option<usize>, Misuse> {
        let have = match arena.sealed_at(address)? {
            InUse::Small(slot, class) => {
                let bytes =
                    slot.inspect(&arena.secret()).map_err(|damage| Misuse::new(damage, slot))?;
                if Arena::<S>::sealed_class(size, UNIT) == Some(class) && size > 0 {
                    slot.clear_from(size.min(bytes), bytes);
                    slot.close(&arena.secret(), size);
                    return Ok(Some(address));
                }
                bytes
            }
            InUse::Large(large) => {
                arena.inspect_large(large)?;
                if Arena::<S>::sealed_class(size, UNIT).is_none() && arena.resize_large(large, size)
                {
                    return Ok(Some(address));
                }
                large.bytes
            }
            InUse::Other => arena.usable_size(address)?,
        };
        let Some(new) = self.allocate(arena, size, UNIT)? else { return Ok(None) };
        // SAFETY: both are objects of at least so many bytes, and different ones.
        unsafe { ptr::copy_nonoverlapping(at::<u8>(address), at::<u8>(new), have.min(size)) };
        // SAFETY: the caller gives the old object up.
        unsafe { self.free(arena, address) }?;
        Ok(Some(new))
    }

    /// Releases all that is in quarantine.
    fn discharge<S: System>(&mut self, arena: &Arena<S>) -> Result<(), Misuse> {
        self.newest = Newest::none();
        // SAFETY: leased to this thread, and no other reference to it is in use.
        if let Some(waiting) = unsafe { self.waiting.as_mut() } {
            for (object, _) in waiting.drain() {
                self.release(arena, object)?;
            }
        }
        while let Some(held) = self.quarantine.empty_one() {
            self.release(arena, held.address())?;
        }
        while self.release_one_large(arena)? {}
        arena.give_back_shut();
        Ok(())
    }

    /// Gives back everything that is free.
    pub fn trim<S: System>(&mut self, arena: &Arena<S>) -> Result<(), Misuse> {
        self.discharge(arena)?;
        Ok(self.cache.trim(arena)?)
    }

    /// Gives back everything, and the heap, too.
    pub fn end<S: System>(&mut self, arena: &Arena<S>) -> Result<(), Misuse> {
        let discharged = self.discharge(arena);
        arena.leave_freed(&mut self.freed_runs);
        self.cache.end(arena)?;
        discharged
    }
}
