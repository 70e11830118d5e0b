//! What happens when a thread frees something that the fast path did not keep: because it is not
//! one of the thread's own, or because its magazine is full.

use crate::arena::Arena;
use crate::cache::{Holding, ThreadCache};
use crate::class::Class;
use crate::heap::Heap;
use crate::invalid::Invalid;
use crate::layout::{GRANULE, Granule, at};
use crate::magazine::MAGAZINES;
use crate::medium::TakenBack;
use crate::outbox::Row;
use crate::parcel::Parcel;
use crate::tables::{Part, RUN};
use crate::tally::Account;
use core::ptr;
use freehold_sync::atomic::{AtomicU8, Ordering};
use freehold_sys::System;

/// Granules that a thread releases before it looks whether too many are free and dirty.
const LOOK_AFTER: u32 = 16;

/// Where an address is.
#[derive(Clone, Copy)]
pub enum Found {
    /// In this granule, a slab of small objects of this class.
    Small(Granule, Class),
    /// In this granule, which is this part of a slab of medium objects.
    Medium(Granule, Part),
    /// In this granule, the first of a run, which may be free.
    Run(Granule),
    /// In neither.
    Other,
}

/// What became of an object that might have been put aside.
#[derive(Clone, Copy)]
pub enum PutAside {
    /// It was.
    Done,
    /// It is a small object of this granule and class, but was not.
    Small(Granule, Class),
    /// There was no room for it, or it is no object of a slab.
    Not,
}

/// What became of a medium object that the thread does not keep.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Posted {
    /// It waits in the outbox for others of its slab, or for whoever wants it.
    Done,
    /// It is to go home at once, alone: [`ThreadCache::send_medium_alone`].
    Alone,
    /// Neither.
    No,
}

/// An object of a slab.
#[derive(Clone, Copy)]
pub struct InSlab {
    /// Its class.
    pub class: Class,
    /// The slab's first granule.
    pub slab: Granule,
    /// Its number there.
    pub index: usize,
}

impl<S: System> Arena<S> {
    /// Finds out where an address is.
    pub fn slab_at(&self, address: usize) -> Found {
        let Some(g) = self.granule_of(address) else { return Found::Other };
        // SAFETY: that is committed of the region.
        let part = unsafe { self.part_of(g) };
        let class = Class(part.class());
        if class.is_medium() {
            Found::Medium(g, part)
        } else if class.is_small() {
            Found::Small(g, class)
        } else if part.is_run() {
            Found::Run(g)
        } else {
            Found::Other
        }
    }

    /// Which part of which kind of slab a granule is, or whether a run begins there.
    ///
    /// # Safety
    /// It is committed, as whatever a thread's map reaches is.
    #[inline]
    pub unsafe fn part_of(&self, g: Granule) -> Part {
        self.tag(g).part()
    }

    /// The object of a slab that starts at `address`, if one does.
    #[inline]
    pub fn object_at(&self, address: usize) -> Option<InSlab> {
        let g = self.granule_of(address)?;
        let part = self.tag(g).part();
        if matches!(part.class(), 0 | RUN) {
            return None;
        }
        self.object_in(g, part, address)
    }

    /// An object of a slab that starts at `address`, and is known to have this number there.
    #[inline]
    pub fn numbered(&self, address: usize, index: usize) -> InSlab {
        let g = Granule(((address - self.tables.region) / GRANULE) as u32);
        let part = self.tag(g).part();
        InSlab { class: Class(part.class()), slab: Granule(g.0 - part.delta()), index }
    }

    /// The object that starts at `address`, if one does; that is in granule `g`, which is this part
    /// of a slab.
    #[inline]
    pub fn object_in(&self, g: Granule, part: Part, address: usize) -> Option<InSlab> {
        let (slab, class) = (Granule(g.0 - part.delta()), Class(part.class()));
        let index = class.object_at(address - self.tables.address(slab))?;
        Some(InSlab { class, slab, index })
    }
}

impl ThreadCache {
    /// Whether the thread keeps objects of this granule.
    #[inline]
    pub(crate) fn keeps(&self, g: Granule, class: Class) -> bool {
        if g.0 as usize >= self.limit {
            return false;
        }
        let entry = at::<AtomicU8>(self.map + g.0 as usize);
        // SAFETY: the map is committed below the limit.
        let kept = unsafe { (*entry).load(Ordering::Relaxed) };
        kept == class.0
    }

    /// Puts an object back into its magazine, if it is what was taken out of that last and is in no
    /// slab that the thread keeps objects of: see [`ThreadCache::put_back`].
    pub fn put_back_last<S: System>(&mut self, arena: &Arena<S>, address: usize) -> bool {
        let Found::Small(g, class) = arena.slab_at(address) else { return false };
        // SAFETY: a small class.
        unsafe { self.took_last(class, address) && self.put_back(g, class, address) }
    }

    /// Puts an object where it costs least: a small one of another heap's into the parcel for that
    /// heap, if there is one with room; a medium one of the slab that the thread is taking from
    /// back there, others into the outbox; a run among the hot ones.
    ///
    /// # Safety
    /// As for [`ThreadCache::free_slow`].
    #[inline]
    pub unsafe fn put_aside<S: System>(&mut self, arena: &Arena<S>, address: usize) -> PutAside {
        match arena.slab_at(address) {
            // SAFETY: the caller's promise; the address was found there.
            Found::Small(g, class) => unsafe {
                let put = self.put_aside_small(arena, g, class, address);
                if put { PutAside::Done } else { PutAside::Small(g, class) }
            },
            Found::Medium(g, part) => {
                let Some(place) = arena.object_in(g, part, address) else { return PutAside::Not };
                // SAFETY: as above.
                let put = unsafe { self.put_aside_medium(arena, place, address) };
                if put { PutAside::Done } else { PutAside::Not }
            }
            Found::Run(g) => {
                // SAFETY: as above.
                let put =
                    unsafe { self.keep_run(arena, g, address) || self.put_run(arena, address) };
                if put { PutAside::Done } else { PutAside::Not }
            }
            Found::Other => PutAside::Not,
        }
    }

    /// Puts a small object of another heap's into the parcel for that heap, if there is one with
    /// room.
    ///
    /// # Safety
    /// As for [`ThreadCache::free_slow`]; `address` is in granule `g`, which is of a slab of small
    /// objects of class `class`.
    #[inline(always)]
    #[must_use]
    pub unsafe fn put_aside_small<S: System>(
        &mut self,
        arena: &Arena<S>,
        g: Granule,
        class: Class,
        address: usize,
    ) -> bool {
        // SAFETY: the outbox is leased to this thread.
        let Some(outbox) = (unsafe { self.outbox.as_mut() }) else { return false };
        // SAFETY: a small class.
        let parcel = unsafe { outbox.parcel_of_small(class) };
        // The region begins at a multiple of a granule.
        let offset = address as u32 % GRANULE as u32;
        parcel.add(arena.tag(g).owner(), address, offset)
    }

    /// Puts an object into the outbox that [`ThreadCache::put_aside`] found no room for, if its
    /// parcel was refused lately. Fails if it is one that the thread keeps, or if there is no room:
    /// [`ThreadCache::free_slow`] does the rest.
    ///
    /// # Safety
    /// As for [`ThreadCache::free_slow`].
    #[inline]
    #[must_use]
    pub unsafe fn post<S: System>(
        &mut self,
        arena: &Arena<S>,
        address: usize,
        aside: PutAside,
    ) -> bool {
        match aside {
            PutAside::Done => true,
            // SAFETY: the caller's promise; the address was found there.
            PutAside::Small(g, class) => unsafe { self.post_small(arena, g, class, address) },
            PutAside::Not => false,
        }
    }

    /// Keeps a freed object whose magazine the fast path found full, after making room for it.
    ///
    /// # Safety
    /// As for [`ThreadCache::free_slow`].
    pub unsafe fn keep_in_full<S: System>(
        &mut self,
        arena: &Arena<S>,
        address: usize,
    ) -> Result<(), Invalid> {
        if let Some(class) = self.kept_class(arena.tables.region, address)
            && self.is_full(class)
        {
            self.unload(arena, class)?;
            if self.push_when_busy(class, address) {
                return Ok(());
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.free_slow(arena, address) }
    }

    /// As [`ThreadCache::post`], with a small object.
    ///
    /// # Safety
    /// As for [`ThreadCache::put_aside_small`].
    #[inline(always)]
    #[must_use]
    pub unsafe fn post_small<S: System>(
        &mut self,
        arena: &Arena<S>,
        g: Granule,
        class: Class,
        address: usize,
    ) -> bool {
        let keeps = self.keeps(g, class);
        // SAFETY: the outbox is leased to this thread.
        let Some(outbox) = (unsafe { self.outbox.as_mut() }) else { return false };
        let rests = outbox.parcel(class).is_some_and(Parcel::rests);
        if keeps || !rests {
            return false;
        }
        let offset = address - arena.tables.address(g);
        class.object_at(offset).is_some_and(|index| outbox.add(class, Row::one(g, index)))
    }

    /// Keeps a medium object hot, if one starts at `address`, and there is room for it. It is in
    /// granule `g`, which is this part of a slab. Fails with its number in the slab if it is to go
    /// elsewhere, and not known to be free already.
    ///
    /// # Safety
    /// As for [`ThreadCache::free_slow`].
    #[inline(always)]
    pub unsafe fn keep_medium<S: System>(
        &mut self,
        arena: &Arena<S>,
        (g, part): (Granule, Part),
        address: usize,
    ) -> Result<(), Option<usize>> {
        let Some(bins) = self.medium_bins() else { return Err(None) };
        bins.keep(arena, (g, part), address)
    }

    /// Puts a medium object that is not kept into the outbox, if it is of a slab that some are
    /// there of, and there is nothing else to be done with it; or says that it goes home alone.
    ///
    /// # Safety
    /// As for [`ThreadCache::free_slow`]; `place` is where `address` is.
    #[inline(always)]
    #[must_use]
    pub unsafe fn post_medium<S: System>(
        &mut self,
        arena: &Arena<S>,
        place: InSlab,
        address: usize,
    ) -> Posted {
        let InSlab { class, slab, index } = place;
        // SAFETY: the outbox is leased to this thread.
        let outbox = unsafe { self.outbox.as_mut() };
        let (Some(outbox), Some(bins)) = (outbox, self.medium_bins()) else { return Posted::No };
        if !bins.has_no_room(place, address) || arena.is_handed_over(place) {
            return Posted::No;
        }
        if outbox.company.goes_alone() {
            return Posted::Alone;
        }
        if !outbox.join(class, Row::one(slab, index)) {
            return Posted::No;
        }
        bins.note_overflow(class);
        Posted::Done
    }

    /// Keeps a medium object, or puts it into the outbox if there is one with room.
    ///
    /// # Safety
    /// As for [`ThreadCache::free_slow`]; `place` is where `address` is.
    #[inline(always)]
    pub unsafe fn put_aside_medium<S: System>(
        &mut self,
        arena: &Arena<S>,
        place: InSlab,
        address: usize,
    ) -> bool {
        match self.take_back_medium(arena, place, address) {
            TakenBack::Kept => true,
            TakenBack::Twice => false,
            TakenBack::No if self.hand_over_without_heap(arena, place) => true,
            TakenBack::No => match self.send_alone(arena, place) {
                Some(sent) => sent.is_ok(),
                None => self.put_one_into_outbox(place),
            },
        }
    }

    /// Puts an object into the outbox, if there is one with room for it.
    #[inline(never)]
    fn put_one_into_outbox(&mut self, InSlab { class, slab, index }: InSlab) -> bool {
        self.put_into_outbox(class, Row::one(slab, index))
    }

    /// Keeps a medium object if the thread has room for it.
    #[inline(always)]
    fn take_back_medium<S: System>(
        &mut self,
        arena: &Arena<S>,
        place: InSlab,
        address: usize,
    ) -> TakenBack {
        let InSlab { class, slab, index } = place;
        // Who has no room would send it home, where that is found out later.
        if arena.is_known_free(place) {
            return TakenBack::Twice;
        }
        match self.medium_bins() {
            Some(bins) => bins.take_back(arena, place, address, false),
            None => self.take_back_shared(arena, class, slab, index, address),
        }
    }

    /// Keeps a medium object in the shared heap of the processor if it has room for it. (A function
    /// of its own, with single arguments, so that who has a heap need not save anything.)
    #[inline(never)]
    fn take_back_shared<S: System>(
        &self,
        arena: &Arena<S>,
        class: Class,
        slab: Granule,
        index: usize,
        address: usize,
    ) -> TakenBack {
        if self.holding() != Holding::Shared {
            return TakenBack::No;
        }
        let Some(held) = arena.hold_shared_heap(self.hint()) else { return TakenBack::No };
        // SAFETY: the heap is shared, so its lock, which is held, protects its bins.
        let bins = unsafe { &mut *held.heap().medium.get() };
        bins.take_back(arena, InSlab { class, slab, index }, address, true)
    }

    /// Frees an object that the fast path did not keep. On an error nothing has changed.
    ///
    /// # Safety
    /// `address` is not in use by anybody else, if it is an object at all.
    pub unsafe fn free_slow<S: System>(
        &mut self,
        arena: &Arena<S>,
        address: usize,
    ) -> Result<(), Invalid> {
        if let Some(place) = arena.object_at(address) {
            let InSlab { class, slab, index } = place;
            if class.is_small() && self.keeps(slab, class) {
                self.provide_magazine(arena, class);
                self.look_at_free(arena, class, slab, index, address)?;
                // There is room if the fast path was not asked, or if there was no magazine.
                if self.push_when_busy(class, address) {
                    return Ok(());
                }
                self.unload(arena, class)?;
                if self.push_when_busy(class, address) {
                    return Ok(());
                }
            }
            return self.free_elsewhere(arena, place, address);
        }
        if let Some(g) = arena.run_at(address) {
            let account = Account::new(self.heap().map_or(&arena.tally, |heap| &heap.tally));
            arena.give_run(g, &account);
            self.note_released(arena, account.total_released());
            return Ok(());
        }
        if arena.granule_of(address).is_none() && arena.direct.unmap(&arena.system, address) {
            return Ok(());
        }
        Err(arena.explain(address))
    }

    fn free_elsewhere<S: System>(
        &mut self,
        arena: &Arena<S>,
        place: InSlab,
        address: usize,
    ) -> Result<(), Invalid> {
        let InSlab { class, slab, index } = place;
        if !class.is_small() {
            match self.take_back_medium(arena, place, address) {
                TakenBack::Kept => return Ok(()),
                TakenBack::Twice => return Err(Invalid::FreedTwice { address }),
                TakenBack::No => {}
            }
        }
        if let Some(sent) = self.send_alone(arena, place) {
            return sent.map_err(|()| Invalid::FreedTwice { address });
        }
        if class.is_small() && self.pack(arena, class, slab, address)? {
            return Ok(());
        }
        self.send_by_outbox(arena, class, Row::one(slab, index))
    }

    /// Frees an object of whichever heap, which does not go into a magazine: for what
    /// signal handlers have freed. Who does so may be in a handler itself, which interrupted malloc
    /// when that had read the last object of a full magazine. With one object more than before half
    /// of the magazine would be set aside, and malloc would go on with all of it.
    ///
    /// # Safety
    /// As for [`ThreadCache::free_slow`].
    pub unsafe fn free_past_magazine<S: System>(
        &mut self,
        arena: &Arena<S>,
        address: usize,
    ) -> Result<(), Invalid> {
        match arena.object_at(address) {
            Some(InSlab { class, slab, index }) if class.is_small() => {
                self.send_by_outbox(arena, class, Row::one(slab, index))
            }
            // SAFETY: the caller's promise.
            _ => unsafe { self.free_slow(arena, address) },
        }
    }

    fn send_by_outbox<S: System>(
        &mut self,
        arena: &Arena<S>,
        class: Class,
        row: Row,
    ) -> Result<(), Invalid> {
        self.provide_outbox(arena);
        if !self.put_into_outbox(class, row) {
            let mut held = self.heap().map(Heap::hold);
            let released = self.post_row(arena, class, row, held.as_mut())?;
            let released = released + held.map_or(0, |held| held.account.total_released());
            self.note_released(arena, released);
        }
        Ok(())
    }

    /// Puts a small object of another heap's into a parcel, if that heap wants it.
    fn pack<S: System>(
        &mut self,
        arena: &Arena<S>,
        class: Class,
        slab: Granule,
        address: usize,
    ) -> Result<bool, Invalid> {
        self.provide_outbox(arena);
        // SAFETY: the outbox is leased to this thread.
        let Some(outbox) = (unsafe { self.outbox.as_mut() }) else { return Ok(false) };
        let Some(unwanted) = arena.pack(outbox, class, slab, address) else { return Ok(true) };
        self.give_back(arena, class, unwanted.as_slice())?;
        Ok(false)
    }

    /// Gets the thread an outbox if it has none. Not with a heap held: the lock of the outboxes
    /// comes before it.
    #[inline]
    pub(crate) fn provide_outbox<S: System>(&mut self, arena: &Arena<S>) {
        if self.outbox.is_null() && self.holding() != Holding::Ended {
            self.lease_outbox(arena);
        }
    }

    #[cold]
    fn lease_outbox<S: System>(&mut self, arena: &Arena<S>) {
        self.outbox = arena.outboxes.lease(&arena.system).unwrap_or(ptr::null_mut());
        // SAFETY: leased to this thread.
        if let Some(outbox) = unsafe { self.outbox.as_ref() } {
            outbox.holder.begin(&self.turn);
        }
    }

    /// Puts objects into the outbox, if there is one with room for them.
    #[inline]
    fn put_into_outbox(&mut self, class: Class, row: Row) -> bool {
        // SAFETY: the outbox is leased to this thread.
        unsafe { self.outbox.as_mut() }.is_some_and(|outbox| outbox.add(class, row))
    }

    /// Gives back all objects that the thread has in magazines, parcels, its inboxes and its
    /// outbox. It can go on.
    pub fn flush<S: System>(&mut self, arena: &Arena<S>) -> Result<(), Invalid> {
        let gathered = self.let_go_of_gathered(arena);
        self.note_released(arena, gathered);
        self.drain(arena, None)?;
        for class in (1..MAGAZINES as u8).map(Class) {
            while let Some(rounds) = self.heap().and_then(|heap| {
                // SAFETY: the thread has the lease.
                unsafe { heap.with_depots(|it| it.empty_one(arena, class)) }
            }) {
                self.give_back(arena, class, rounds.as_slice())?;
            }
            // SAFETY: the outbox is leased to this thread.
            let outbox = unsafe { self.outbox.as_mut() };
            let parcel = outbox.and_then(|it| it.parcel(class)).filter(|it| it.has_any());
            if let Some(rounds) = parcel.map(Parcel::empty) {
                self.give_back(arena, class, rounds.as_slice())?;
            }
        }
        if let Some(heap) = self.heap() {
            heap.close_inboxes(|class, objects| self.give_back(arena, class, objects))?;
        }
        // SAFETY: the outbox is leased to this thread.
        if let Some(outbox) = unsafe { self.outbox.as_mut() } {
            let mut held = self.heap().map(Heap::hold);
            let sent = arena.send_home_all(outbox, held.as_mut());
            drop(held);
            let released = sent.map_err(|e| arena.twice(e))?;
            self.note_released(arena, released);
        }
        Ok(())
    }

    /// Counts released granules, and looks now and then whether too many are free and dirty.
    pub(crate) fn note_released<S: System>(&mut self, arena: &Arena<S>, count: u32) {
        self.released += count;
        if self.released >= LOOK_AFTER {
            let released = core::mem::take(&mut self.released) as usize * GRANULE;
            self.wants_help |= arena.purge_excess(released);
        }
        self.wants_help |= arena.is_help_wanted();
    }
}
