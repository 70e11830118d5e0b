//! What a thread does with memory in hardened mode.

use super::clear;
use super::guarded::{Freed, Large};
use super::quarantine::{Held, Quarantine};
use super::random::Random;
use super::seal::{Damage, Slot};
use crate::arena::Arena;
use crate::blocks::Prefer;
use crate::cache::ThreadCache;
use crate::class::{Class, MEDIUM_MAX, SMALL_MAX};
use crate::free::PutAside;
use crate::invalid::Invalid;
use crate::layout::{GRANULE, UNIT, at};
use crate::stock::Stocked;
use crate::tables::RUN;
use core::ptr;
use freehold_sync::atomic::AtomicU32;
use freehold_sys::System;

/// What a thread has at hand in hardened mode.
pub struct Thread {
    /// The link of the stack of those that no thread has.
    link: AtomicU32,
    /// Where objects come from and go to.
    pub cache: ThreadCache,
    quarantine: Quarantine,
    freed_runs: Freed,
    /// The object freed last, if any was: it is in quarantine.
    newest: Held,
    /// The object of a slab given out last, if it was not freed since: looked at as long as the
    /// process has had one thread.
    given: Held,
    random: Random,
}

impl Stocked for Thread {
    /// 80 MiB of address space. Threads beyond that do without what is kept here.
    const MOST: usize = 1 << 15;

    unsafe fn make_at(_place: *mut Self) {
        // Written when it is leased.
    }

    fn link(&self) -> &AtomicU32 {
        &self.link
    }
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
        Slot { start: address, size: class.size(), has_predecessor: address != base }
    }

    fn sealed_at(&self, address: usize) -> Result<InUse, Misuse> {
        let Some(found) = self.object_at(address) else {
            return self.unsealed_at(address);
        };
        if found.class == Class::EMPTY {
            return Ok(InUse::Other);
        }
        let slot =
            Slot { start: address, size: found.class.size(), has_predecessor: found.index > 0 };
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
                slot.bytes(self.secret()).map_err(|damage| Misuse::new(damage, slot))
            }
            InUse::Large(large) => Ok(large.bytes),
            InUse::Other => self.usable_size(address).map_err(Misuse::from),
        }
    }
}

impl Thread {
    /// Nothing at hand. `number` is another one for each thread.
    pub fn new<S: System>(arena: &Arena<S>, number: usize) -> Self {
        arena.hardening.note_thread();
        Self {
            link: AtomicU32::new(0),
            cache: ThreadCache::new(),
            quarantine: Quarantine::new(),
            freed_runs: Freed::new(),
            newest: Held::NONE,
            given: Held::NONE,
            random: Random::new(
                arena.secret().mix(number as u64 ^ arena.system.milliseconds() << 32),
            ),
        }
    }

    /// Gives out `size` bytes, all zero, at a multiple of `align`, a power of two. `Ok(None)` when
    /// there is no memory.
    #[inline]
    pub fn allocate<S: System>(
        &mut self,
        arena: &Arena<S>,
        size: usize,
        align: usize,
    ) -> Result<Option<usize>, Misuse> {
        self.glance(arena)?;
        let taken = self.take(arena, size, align);
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
        let taken = self.take(arena, size, align);
        self.seal(arena, taken, size, align)
    }

    /// Takes an object, which is sealed already if it is not one of a slab.
    #[inline]
    fn take<S: System>(&mut self, arena: &Arena<S>, size: usize, align: usize) -> Option<usize> {
        match Self::class_of(arena, size, align) {
            Some(Class::EMPTY) => {
                let given = self.cache.take(arena, 0, UNIT, Prefer::Dirty)?;
                Some(given.address)
            }
            Some(class) => self.take_any(arena, class),
            None => arena.take_guarded(&mut self.cache, size, align),
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
        let slot = arena.slot_of(address, class);
        let random = |end| self.random.below(end);
        slot.open(arena.secret(), size, random).map_err(|damage| Misuse::new(damage, slot))?;
        self.given = Held::new(address, class);
        Ok(taken)
    }

    /// Takes one of the free objects of a class that are at hand, chosen at random.
    #[inline]
    fn take_any<S: System>(&mut self, arena: &Arena<S>, class: Class) -> Option<usize> {
        if !class.is_small() {
            let n = self.random.below(64) as u32;
            let given = self.cache.pop_any_medium(class, n);
            return given.or_else(|| self.cache.take_medium(arena, class)).map(|it| it.address);
        }
        let random = &mut self.random;
        let object = self.cache.pop_any(class, |end| random.below(end));
        if object.is_some() {
            return object;
        }
        let first = self.cache.refill(arena, class);
        if first.is_null() {
            return None;
        }
        Some(self.cache.swap_any(class, first.addr(), |end| random.below(end)))
    }

    /// Looks whether the object freed last is still clear, and whether the one given out last is
    /// whole.
    #[inline]
    fn glance<S: System>(&mut self, arena: &Arena<S>) -> Result<(), Misuse> {
        if self.newest != Held::NONE {
            let (start, size) = (self.newest.address(), self.newest.class().size());
            let slot = Slot { start, size, has_predecessor: false };
            if !clear::are_ends_clear(start, slot.room()) {
                return Err(Misuse::new(Damage::WhenFree, slot));
            }
        }
        if self.given != Held::NONE {
            let slot = arena.slot_of(self.given.address(), self.given.class());
            let inspected = arena.hardening.while_alone(|| slot.inspect(arena.secret()));
            if let Some(Err(damage)) = inspected {
                return Err(Misuse::new(damage, slot));
            }
        }
        Ok(())
    }

    /// Takes an object back.
    ///
    /// # Safety
    /// Nobody uses the object any longer, if it is one.
    #[inline]
    pub unsafe fn free<S: System>(
        &mut self,
        arena: &Arena<S>,
        address: usize,
    ) -> Result<(), Misuse> {
        let found = arena.object_at(address).filter(|found| found.class != Class::EMPTY);
        let Some(found) = found else { return self.free_unsealed(arena, address) };
        let (class, has_predecessor) = (found.class, found.index > 0);
        let slot = Slot { start: address, size: class.size(), has_predecessor };
        let held = Held::new(address, class);
        if self.given == held {
            self.given = Held::NONE;
        }
        if let Err(damage) = slot.retire(arena.secret()) {
            return Err(Misuse::new(damage, slot));
        }
        self.detain(arena, held)
    }

    #[cold]
    fn free_unsealed<S: System>(&mut self, arena: &Arena<S>, address: usize) -> Result<(), Misuse> {
        match arena.sealed_at(address)? {
            InUse::Large(_) => arena.free_guarded(&mut self.cache, &mut self.freed_runs, address),
            InUse::Small(..) | InUse::Other => self.release(arena, address),
        }
    }

    /// Puts a freed object into quarantine, and releases others for it.
    #[inline]
    fn detain<S: System>(&mut self, arena: &Arena<S>, held: Held) -> Result<(), Misuse> {
        let former = self.quarantine.exchange(held, &mut self.random);
        self.newest = held;
        if let Some(former) = former {
            self.release(arena, former.address())?;
        }
        while let Some(former) = self.quarantine.excess(held, &mut self.random) {
            self.release(arena, former.address())?;
        }
        Ok(())
    }

    /// Gives a free object back to where it came from.
    #[inline]
    fn release<S: System>(&mut self, arena: &Arena<S>, address: usize) -> Result<(), Misuse> {
        // SAFETY: nobody has the object but this thread, and the cache is used with this arena.
        unsafe {
            if self.cache.keep(arena.tables.region, address) {
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
                    slot.inspect(arena.secret()).map_err(|damage| Misuse::new(damage, slot))?;
                if Arena::<S>::sealed_class(size, UNIT) == Some(class) && size > 0 {
                    slot.clear_from(size.min(bytes), bytes);
                    slot.close(arena.secret(), size);
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
        self.newest = Held::NONE;
        while let Some(held) = self.quarantine.empty_one() {
            self.release(arena, held.address())?;
        }
        while arena.release_one(&mut self.cache, &mut self.freed_runs)? {}
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
        self.cache.end(arena)?;
        discharged
    }
}
