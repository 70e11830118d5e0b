//! Medium objects: 2 KiB to 32 KiB, one bit each, in slabs of at most 56.
//!
//! Their memory is never touched by the allocator. A thread takes all free bits of a slab at once
//! and gives them out lowest first, so that a loop reuses the same objects and the rest of the slab
//! stays untouched; from then on the slab is nobody's, and bits freed gather in its word, except
//! those of the slab that the thread is taking from, and the objects that it keeps hot. Who wakes
//! the slab puts it into a pool, where the thread that had it last looks first (`own_pools`).

mod let_go;

use crate::arena::Arena;
use crate::class::{Class, MEDIUM_CLASSES, MEDIUM_PLACES, SMALL_CLASSES, Starts};
use crate::free::InSlab;
use crate::heap::{Heap, Held};
use crate::hot::{AllHot, Hot, NEAR, Received};
use crate::layout::{GRANULE, Granule};
use crate::outbox::Outbox;
use crate::policy::retain;
use crate::swing::Swing;
use crate::tables::{Part, SlabLocal};
use crate::tally::{Account, Tally};
use core::hint::select_unpredictable;
use freehold_sync::atomic::{Ordering, compiler_fence};
use freehold_sync::word::{Mask, Pushed, State};
use freehold_sys::System;

/// The slab that a heap is taking from, for one class.
#[derive(Clone, Copy)]
struct MediumBin {
    /// Objects that may be given out.
    free: u64,
    /// Where the slab starts; 0 if there is none.
    base: usize,
    /// Objects from this one on have never been given out since their memory was zero.
    untouched: u32,
    /// The slab's first granule.
    slab: Granule,
}

/// No object is of the last granule that a number can name: the region is smaller.
const NO_SLAB: Granule = Granule(u32::MAX);

impl MediumBin {
    /// None. (Not a constant, which would be read from a page that a small process has no other
    /// use for.)
    #[inline]
    fn none() -> Self {
        Self::new(0, NO_SLAB, 0, 0)
    }

    fn new(free: u64, slab: Granule, base: usize, untouched: u32) -> Self {
        Self { free, base, untouched, slab }
    }

    /// Becomes another one. Its objects count last, when it says where they are: the child of a
    /// fork may find it between any two steps of a thread that is not there.
    #[inline]
    fn become_that(&mut self, other: Self) {
        self.free = 0;
        compiler_fence(Ordering::SeqCst);
        (self.base, self.untouched, self.slab) = (other.base, other.untouched, other.slab);
        compiler_fence(Ordering::SeqCst);
        self.free = other.free;
    }

    /// Takes all objects out, and forgets the slab.
    fn take(&mut self) -> Self {
        let all = *self;
        self.become_that(Self::none());
        all
    }

    /// The first free object from a number on, going around.
    fn first_from(&self, from: u32) -> Option<u32> {
        let n = (self.free.rotate_right(from).trailing_zeros() + from) % u64::BITS;
        (self.free != 0).then_some(n)
    }
}

/// What a heap has at hand of a class.
#[repr(align(64))]
struct AtHand {
    bin: MediumBin,
    hot: Hot,
    starts: Starts,
}

/// The slabs that a heap is taking from, and the objects that it keeps hot.
#[repr(C)]
pub struct MediumBins {
    at_hand: [AtHand; MEDIUM_PLACES],
    all_hot: AllHot,
}

const _: () = assert!(size_of::<AtHand>() == 64);

/// What became of an object that a thread might have kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TakenBack {
    /// It is kept.
    Kept,
    /// It was free already.
    Twice,
    /// There is no room for it.
    No,
}

impl MediumBins {
    /// How much of one is not zeros as it is made, from its start on.
    pub(crate) const MADE_BYTES: usize = size_of::<[AtHand; MEDIUM_CLASSES]>();

    /// Makes one without anything where there are zeros, which are left where they will do: most of
    /// a filter is never used.
    ///
    /// # Safety
    /// The place is the caller's, aligned, and zero.
    pub(crate) unsafe fn make_at(place: *mut Self) {
        for n in 0..MEDIUM_CLASSES {
            let starts = medium_class(n).starts();
            let none = AtHand { bin: MediumBin::none(), hot: Hot::NONE, starts };
            // SAFETY: the caller's promise; a part of the place.
            unsafe { (&raw mut (*place).at_hand[n]).write(none) };
        }
    }

    /// Checks how many hot objects there may be.
    ///
    /// # Panics
    /// When that does not agree.
    pub(crate) fn check(&self) {
        let all = self.at_hand[..MEDIUM_CLASSES].iter().enumerate();
        self.all_hot.check(all.map(|(n, at_hand)| (medium_class(n), &at_hand.hot)));
    }

    /// Whether more is hot than usually.
    pub(crate) fn swing(&mut self) -> &mut Swing {
        &mut self.all_hot.swing
    }

    /// Keeps an object of a class that another thread has freed, likewise a lot of it when there is
    /// none hot.
    pub(crate) fn receive(&mut self, class: Class, object: usize) -> Received {
        self.all_hot.receive(&mut self.at_hand[class.medium_index()].hot, object)
    }

    /// Whether the thread frees objects of a class that others are to have.
    #[inline(always)]
    pub(crate) fn has_surplus(&self, class: Class) -> bool {
        self.all_hot.has_surplus(class)
    }

    /// Whether an object may be one that is kept; if not it certainly is not.
    #[inline(always)]
    pub(crate) fn may_have(&self, object: usize) -> bool {
        self.all_hot.may_have(object)
    }

    /// Objects that there are of a class.
    pub(crate) fn count(&self, class: Class) -> usize {
        let AtHand { bin, hot, .. } = &self.at_hand[class.medium_index()];
        bin.free.count_ones() as usize + hot.count()
    }

    /// Gives out the object freed last, or else the lowest free one of the slab that the heap is
    /// taking from, if there is one.
    #[inline]
    pub(crate) fn pop(&mut self, class: Class) -> Option<Given> {
        let AtHand { bin, hot, .. } = &mut self.at_hand[class.medium_index()];
        if let Some(address) = self.all_hot.pop(hot) {
            return Some(Given { address, zero: false });
        }
        if bin.free == 0 {
            return None;
        }
        let n = bin.free.trailing_zeros();
        bin.free &= bin.free - 1;
        let zero = n >= bin.untouched;
        bin.untouched = bin.untouched.max(n + 1);
        Some(Given { address: bin.base + n as usize * class.size(), zero })
    }

    /// Gives out the object freed last if `from` is odd, or else a free one of the slab that the
    /// heap is taking from: the first from number `from` on, going around.
    pub(crate) fn pop_from(&mut self, class: Class, from: u32) -> Option<Given> {
        let AtHand { bin, hot, .. } = &mut self.at_hand[class.medium_index()];
        if from % 2 == 1
            && let Some(address) = self.all_hot.pop(hot)
        {
            return Some(Given { address, zero: false });
        }
        let Some(n) = bin.first_from(from) else { return self.pop(class) };
        bin.free &= !(1 << n);
        let zero = n >= bin.untouched;
        bin.untouched = bin.untouched.max(n + 1);
        Some(Given { address: bin.base + n as usize * class.size(), zero })
    }

    /// The object that [`MediumBins::pop_from`] would give out.
    pub(crate) fn next_from(&self, class: Class, from: u32) -> Option<usize> {
        let AtHand { bin, hot, .. } = &self.at_hand[class.medium_index()];
        let of_slab = || Some(bin.base + bin.first_from(from)? as usize * class.size());
        if from % 2 == 1 { hot.last().or_else(of_slab) } else { of_slab().or_else(|| hot.last()) }
    }

    /// Keeps an object, if one starts at an address, there is room for it, and it was not free
    /// already. It is in granule `g`, which is this part of a slab. Fails with its number in the
    /// slab if all there is against it is that there may be no room. (What takes longer is left to
    /// [`MediumBins::take_back`].)
    // Called for each medium object that is freed: a call of its own costs 20 instructions.
    #[inline(always)]
    pub(crate) fn keep<S: System>(
        &mut self,
        arena: &Arena<S>,
        (g, part): (Granule, Part),
        object: usize,
    ) -> Result<(), Option<usize>> {
        let slab = Granule(g.0 - part.delta());
        let AtHand { bin, hot, starts } = &mut self.at_hand[Class(part.class()).medium_index()];
        // The region begins at a multiple of a granule.
        let offset = object % GRANULE + part.delta() as usize * GRANULE;
        let Some(index) = starts.object_at(offset) else {
            return Err(None);
        };
        // One test for both.
        let here = select_unpredictable(bin.slab == slab, bin.free, 0);
        let free = arena.word(slab).mask().free_now().0 | here;
        if free >> index & 1 != 0 {
            return Err(None);
        }
        if self.all_hot.keep(hot, object) { Ok(()) } else { Err(Some(index)) }
    }

    /// Takes back an object, if there is room for it among those that are kept, or if it is of the
    /// slab that the heap is taking from. Of a heap that is shared, whose lock is held, there are
    /// never more than at first: room for them comes with another lock, which comes before.
    // Inlined for the reason that `keep` is.
    #[inline(always)]
    pub(crate) fn take_back<S: System>(
        &mut self,
        arena: &Arena<S>,
        place: InSlab,
        object: usize,
        is_shared: bool,
    ) -> TakenBack {
        if self.has_no_room(place, object) {
            self.note_overflow(place.class);
            return TakenBack::No;
        }
        self.take_back_slowly(arena, place, object, is_shared)
    }

    /// Whether an object certainly has to go, and is not here already.
    #[inline(always)]
    pub(crate) fn has_no_room(&self, place: InSlab, object: usize) -> bool {
        let AtHand { bin, hot, .. } = &self.at_hand[place.class.medium_index()];
        bin.slab != place.slab && self.all_hot.has_no_room(hot, object)
    }

    /// Whether there are as many hot objects of a class as there may be, and that is more than at
    /// first.
    #[inline(always)]
    pub(crate) fn is_crowded(&self, class: Class) -> bool {
        self.all_hot.is_crowded(class, &self.at_hand[class.medium_index()].hot)
    }

    /// Whether an object could be kept if there were not as many as there may be.
    #[inline(always)]
    pub(crate) fn has_place(&self, object: usize) -> bool {
        self.all_hot.has_place(object)
    }

    /// Takes out the hot object of a class that was freed last.
    #[inline]
    pub(crate) fn pop_hot(&mut self, class: Class) -> Option<usize> {
        self.all_hot.pop(&mut self.at_hand[class.medium_index()].hot)
    }

    /// Keeps an object hot, if there is room for it.
    #[inline]
    pub(crate) fn keep_hot(&mut self, class: Class, object: usize) -> bool {
        self.all_hot.keep(&mut self.at_hand[class.medium_index()].hot, object)
    }

    /// Notes that an object of a class goes for want of room.
    #[inline]
    pub(crate) fn note_overflow(&mut self, class: Class) {
        self.all_hot.note_overflow(class);
    }

    /// Likewise, where there may be room for it.
    #[inline(never)]
    fn take_back_slowly<S: System>(
        &mut self,
        arena: &Arena<S>,
        place: InSlab,
        object: usize,
        is_shared: bool,
    ) -> TakenBack {
        let Self { at_hand, all_hot } = self;
        let AtHand { bin, hot, .. } = &mut at_hand[place.class.medium_index()];
        if arena.is_known_free(place) || bin.has(place) || all_hot.has(hot, object) {
            return TakenBack::Twice;
        }
        if all_hot.keep(hot, object) {
            return TakenBack::Kept;
        }
        if bin.slab == place.slab {
            bin.free |= 1 << place.index;
            if !is_shared {
                all_hot.note_taken_back(arena, place.class, hot, || arena.most_hot());
            }
            return TakenBack::Kept;
        }
        all_hot.note_overflow(place.class);
        TakenBack::No
    }
}

impl MediumBin {
    /// Whether an object is one that may be given out from here.
    #[inline]
    fn has(&self, place: InSlab) -> bool {
        self.slab == place.slab && self.free >> place.index & 1 != 0
    }
}

/// A block of memory handed out.
#[derive(Clone, Copy)]
pub struct Given {
    /// Its address.
    pub address: usize,
    /// Whether it is known to be zero.
    pub zero: bool,
}

/// A medium class, by its number among them.
fn medium_class(n: usize) -> Class {
    Class((1 + SMALL_CLASSES + n) as u8)
}

/// All of them.
pub(crate) fn medium_classes() -> impl Iterator<Item = Class> {
    (0..MEDIUM_CLASSES).map(medium_class)
}

/// Bytes of objects of a class that have bits.
fn bytes_of(class: Class, bits: u64) -> isize {
    (bits.count_ones() as usize * class.size()) as isize
}

/// The mask of all objects of a slab.
fn everything(class: Class) -> u64 {
    u64::MAX >> (64 - u32::from(class.info().capacity))
}

impl<S: System> Arena<S> {
    /// Gives out a medium object. `None` when there is no memory.
    pub(crate) fn take_medium(
        &self,
        heap: &Heap,
        bins: &mut MediumBins,
        outbox: Option<&mut Outbox>,
        class: Class,
        account: &Account,
    ) -> Option<Given> {
        if let Some(given) = bins.pop(class) {
            return Some(given);
        }
        let waiting = outbox.and_then(|outbox| {
            let is_sound = |g, bits| {
                let word = self.word(g).mask();
                self.tag(g).class() == class.0 && word.look().1.0 & bits == 0
            };
            let (g, free) = outbox.take_medium(class, is_sound)?;
            let capacity = class.info().capacity.into();
            Some(MediumBin::new(free, g, self.tables.address(g), capacity))
        });
        let heaps = self.leases.exclusive_made().into();
        let hot = &mut bins.at_hand[class.medium_index()].hot;
        hot.allow(heap.near_slots(class), retain::hot(class.size(), NEAR, heaps));
        if waiting.is_none()
            && heap.is_exclusive()
            && self.has_several_threads()
            && self.take_handed_over(bins, class)
        {
            let AtHand { hot, .. } = &bins.at_hand[class.medium_index()];
            let count = hot.count();
            bins.all_hot.note_fetched(class, count);
            if let Some(given) = bins.pop(class) {
                return Some(given);
            }
        }
        let bin = match waiting {
            Some(bin) => bin,
            None => self.find_medium_slab(heap, class, account)?,
        };
        bins.all_hot.note_fetched(class, bin.free.count_ones() as usize);
        bins.at_hand[class.medium_index()].bin.become_that(bin);
        bins.pop(class)
    }

    #[cold]
    fn find_medium_slab(&self, heap: &Heap, class: Class, account: &Account) -> Option<MediumBin> {
        let capacity = class.info().capacity.into();
        if let Some(g) = self.claim_medium_slab(heap, class) {
            return Some(self.take_all_of(g, heap, class, account));
        }
        let granules = class.info().granules;
        let recent = self.claim_recent(granules.into(), heap, account);
        let claim = recent.or_else(|| self.claim_for_slab(class, &heap.slab_home, account));
        let Some(claim) = claim else {
            let g = self.claim_own_of_others(heap, class)?;
            return Some(self.take_all_of(g, heap, class, account));
        };
        let g = claim.granule;
        for i in 0..granules {
            self.tag(g.plus(i.into())).set(class.0, i);
        }
        // SAFETY: the granule is the caller's, and so is its local part: its links are used when
        // the slab is pooled.
        unsafe { self.local(g).write(SlabLocal::untouched()) };
        self.take_medium_over(g, heap);
        self.word(g).mask().create(State::Detached);
        let fresh = claim.dirty == 0;
        if fresh {
            self.note_grown(heap, granules.into(), account);
        }
        let untouched = if fresh { 0 } else { capacity };
        Some(MediumBin::new(everything(class), g, self.tables.address(g), untouched))
    }

    /// Takes all that is free of a slab which the caller has claimed from a pool.
    #[inline(never)]
    fn take_all_of(&self, g: Granule, heap: &Heap, class: Class, account: &Account) -> MediumBin {
        self.note_claimed_from_pool(class, g);
        self.take_medium_over(g, heap);
        // SAFETY: the slab is the caller's, until the next line.
        unsafe { (*self.local(g)).purged = 0 };
        let free = self.word(g).mask().take().0;
        account.medium_came_home(-bytes_of(class, free), &self.tally);
        MediumBin::new(free, g, self.tables.address(g), class.info().capacity.into())
    }

    /// Returns bits to a slab's word, and does what the push asks for. `mine` are the heap of the
    /// calling thread and its bins, if it has one. Returns the granules released, which are counted
    /// on `tally`; fails if an object was free.
    #[inline]
    pub(crate) fn send_medium_home(
        &self,
        class: Class,
        g: Granule,
        bits: u64,
        mine: Option<(&Heap, &mut MediumBins)>,
        tally: &Tally,
    ) -> Result<u32, ()> {
        let (info, word) = (class.info(), self.word(g).mask());
        let pushed = word.push(info.capacity.into(), info.wake.into(), |mask: Mask| {
            (mask.0 & bits == 0).then_some(Mask(mask.0 | bits))
        });
        if pushed != Pushed::Refused {
            tally.medium_came_home(bytes_of(class, bits), &self.tally);
        }
        if pushed == Pushed::Recorded {
            return Ok(0);
        }
        self.settle_medium(class, g, pushed, mine, tally)
    }

    /// Does what a push asks for that did more than to record objects.
    #[inline(never)]
    fn settle_medium(
        &self,
        class: Class,
        g: Granule,
        pushed: Pushed,
        mine: Option<(&Heap, &mut MediumBins)>,
        tally: &Tally,
    ) -> Result<u32, ()> {
        let (info, word) = (class.info(), self.word(g).mask());
        let account = Account::new(tally);
        // What is given back for others is not given back to be taken again.
        let may_stay = mine.is_some();
        let (freer, bins) = mine.unzip();
        match pushed {
            // No medium slab is kept by a heap.
            Pushed::Recorded | Pushed::Disturbing => {}
            Pushed::Refused => return Err(()),
            Pushed::Woken => match freer.zip(bins) {
                Some((heap, MediumBins { at_hand, all_hot }))
                    if at_hand[class.medium_index()].bin.free == 0 =>
                {
                    self.take_medium_over(g, heap);
                    let (free, base) = (word.take().0, self.tables.address(g));
                    account.medium_came_home(-bytes_of(class, free), &self.tally);
                    all_hot.note_fetched(class, free.count_ones() as usize);
                    let bin = &mut at_hand[class.medium_index()].bin;
                    bin.become_that(MediumBin::new(free, g, base, info.capacity.into()));
                }
                _ if self.pool_at_owner(class, g) => {}
                _ => {
                    if !self.pool_slab(class, g, word) {
                        self.release_slab(class, g, &account);
                    }
                }
            },
            Pushed::Completed => self.release_medium(freer, class, g, &account),
            Pushed::CompletedInPool if may_stay && self.leave_whole(class, g) => {}
            Pushed::CompletedInPool => {
                self.unpool_slab(class, g);
                self.release_medium(freer, class, g, &account);
            }
        }
        Ok(account.total_released())
    }

    /// Gives out a medium object from a heap whose lock is held because it is shared.
    pub(crate) fn take_medium_shared(&self, held: &mut Held, class: Class) -> Option<Given> {
        let heap = held.heap();
        // SAFETY: the heap is shared, so its lock, which is held, protects its bins.
        let bins = unsafe { &mut *heap.medium.get() };
        self.take_medium(heap, bins, None, class, &held.account)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freehold_sync::exchange::LOT;
    use std::boxed::Box;

    #[test]
    fn what_will_be_given_out_is_known_before() {
        let class = Class::of_medium(3000);
        for from in 0..64 {
            // SAFETY: zeros are where it is made.
            let mut bins = unsafe {
                let mut bins = Box::<MediumBins>::new_zeroed();
                MediumBins::make_at(bins.as_mut_ptr());
                bins.assume_init()
            };
            let mut slots = [0; LOT];
            let MediumBins { at_hand, all_hot } = &mut *bins;
            let AtHand { bin, hot, .. } = &mut at_hand[class.medium_index()];
            *bin = MediumBin::new(0x90_0000_8421, Granule(5), 0x10_0000, 40);
            hot.allow(slots.as_mut_ptr().expose_provenance(), 3);
            assert!(all_hot.keep(hot, 0x50_0000) && all_hot.keep(hot, 0x60_0000));
            for left in (0..8).rev() {
                let next = bins.next_from(class, from);
                assert_eq!(next, bins.pop_from(class, from).map(|given| given.address));
                assert_eq!((next.is_some(), bins.count(class)), (true, left));
            }
            assert_eq!(bins.next_from(class, from), None);
        }
    }
}
