//! Medium objects: 2 KiB to 32 KiB, one bit each, in slabs of at most 56.
//!
//! Their memory is never touched by the allocator. A thread takes all free bits of a slab at once
//! and gives them out lowest first, so that a loop reuses the same objects and the rest of the slab
//! stays untouched; from then on the slab is nobody's, and bits freed gather in its word, except
//! those of the slab that the thread is taking from, and the few objects that it keeps hot.

use crate::arena::Arena;
use crate::class::{Class, MEDIUM_CLASSES, SMALL_CLASSES};
use crate::heap::{Heap, Held};
use crate::hot::{HOT_MOST, Hot};
use crate::layout::Granule;
use crate::outbox::Outbox;
use crate::policy::retain;
use crate::tables::SlabLocal;
use crate::tally::{Account, Tally};
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
const NO_SLAB: MediumBin = MediumBin { free: 0, base: 0, untouched: 0, slab: Granule(u32::MAX) };

impl MediumBin {
    fn new(free: u64, slab: Granule, base: usize, untouched: u32) -> Self {
        Self { free, base, untouched, slab }
    }

    /// The first free object from a number on, going around.
    fn first_from(&self, from: u32) -> Option<u32> {
        let n = (self.free.rotate_right(from).trailing_zeros() + from) % u64::BITS;
        (self.free != 0).then_some(n)
    }
}

/// What a heap has at hand of a class.
#[repr(align(128))]
struct AtHand {
    bin: MediumBin,
    hot: Hot,
}

/// The slabs that a heap is taking from, and the objects that it keeps hot.
pub struct MediumBins([AtHand; MEDIUM_CLASSES]);

const _: () = assert!(size_of::<AtHand>() == 128);

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
    /// None yet.
    pub(crate) const fn new() -> Self {
        Self([const { AtHand { bin: NO_SLAB, hot: Hot::NONE } }; MEDIUM_CLASSES])
    }

    /// Objects that there are of a class.
    pub(crate) fn count(&self, class: Class) -> usize {
        let AtHand { bin, hot } = &self.0[class.medium_index()];
        bin.free.count_ones() as usize + hot.count()
    }

    /// Gives out the object freed last, or else the lowest free one of the slab that the heap is
    /// taking from, if there is one.
    #[inline]
    pub(crate) fn pop(&mut self, class: Class) -> Option<Given> {
        let AtHand { bin, hot } = &mut self.0[class.medium_index()];
        if let Some(address) = hot.pop() {
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
        let AtHand { bin, hot } = &mut self.0[class.medium_index()];
        if from % 2 == 1
            && let Some(address) = hot.pop()
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
        let AtHand { bin, hot } = &self.0[class.medium_index()];
        let of_slab = || Some(bin.base + bin.first_from(from)? as usize * class.size());
        if from % 2 == 1 { hot.last().or_else(of_slab) } else { of_slab().or_else(|| hot.last()) }
    }

    /// Keeps object `n` of a slab hot, if there is room for it and it was not free already.
    /// `known_free` says whether the slab's word knows it to be free.
    // Called for each medium object that is freed: a call of its own costs 20 instructions.
    #[inline(always)]
    pub(crate) fn keep(
        &mut self,
        class: Class,
        (slab, n): (Granule, usize),
        object: usize,
        known_free: impl FnOnce() -> bool,
    ) -> bool {
        let AtHand { bin, hot } = &mut self.0[class.medium_index()];
        if hot.is_full() || known_free() || bin.slab == slab && bin.free >> n & 1 != 0 {
            return false;
        }
        hot.keep(object)
    }

    /// Takes back object `n` of a slab, if it is the one that the heap is taking from, or if there
    /// is room for a hot object. `known_free` says whether the slab's word knows it to be free; it
    /// is asked if there is room.
    // Inlined for the reason that `keep` is.
    #[inline(always)]
    pub(crate) fn take_back(
        &mut self,
        class: Class,
        (slab, n): (Granule, usize),
        object: usize,
        known_free: impl FnOnce() -> bool,
    ) -> TakenBack {
        let at_hand = &mut self.0[class.medium_index()];
        let own = at_hand.bin.slab == slab;
        if !own && at_hand.hot.is_full() && !at_hand.hot.may_have(object) {
            return TakenBack::No;
        }
        let bit = 1 << n;
        if known_free() || own && at_hand.bin.free & bit != 0 {
            return TakenBack::Twice;
        }
        if at_hand.hot.keep(object) {
            return TakenBack::Kept;
        }
        at_hand.take_back_cold(own, bit, object)
    }
}

impl AtHand {
    /// Takes back an object that cannot be kept hot.
    #[inline]
    fn take_back_cold(&mut self, own: bool, bit: u64, object: usize) -> TakenBack {
        if self.hot.may_have(object) && self.hot.has(object) {
            return TakenBack::Twice;
        }
        if !own {
            return TakenBack::No;
        }
        self.bin.free |= bit;
        TakenBack::Kept
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
        let bin = match waiting {
            Some(bin) => bin,
            None => self.find_medium_slab(heap, class, account)?,
        };
        let at_hand = &mut bins.0[class.medium_index()];
        at_hand.bin = bin;
        let heaps = self.leases.exclusive_made().into();
        at_hand.hot.allow(retain::hot(class.size(), HOT_MOST, heaps));
        bins.pop(class)
    }

    #[cold]
    fn find_medium_slab(&self, heap: &Heap, class: Class, account: &Account) -> Option<MediumBin> {
        let capacity = class.info().capacity.into();
        if let Some(g) = self.claim_pooled_slab(class, |g| self.word(g).mask()) {
            let free = self.word(g).mask().take().0;
            return Some(MediumBin::new(free, g, self.tables.address(g), capacity));
        }
        let granules = class.info().granules;
        let claim = self.claim_for_slab(granules.into(), &heap.slab_home, account)?;
        let g = claim.granule;
        for i in 0..granules {
            self.tag(g.plus(i.into())).set(class.0, i);
        }
        // SAFETY: the granule is the caller's, and so is its local part: its links are used when
        // the slab is pooled.
        unsafe { self.local(g).write(SlabLocal::NEW) };
        self.word(g).mask().create(State::Detached);
        let untouched = if claim.dirty == 0 { 0 } else { capacity };
        Some(MediumBin::new(everything(class), g, self.tables.address(g), untouched))
    }

    /// Returns bits to a slab's word, and does what the push asks for. `mine` are the bins of the
    /// calling thread, if it has any. Returns the granules released, which are counted on `tally`;
    /// fails if an object was free.
    #[inline]
    pub(crate) fn send_medium_home(
        &self,
        class: Class,
        g: Granule,
        bits: u64,
        mine: Option<&mut MediumBins>,
        tally: &Tally,
    ) -> Result<u32, ()> {
        let (info, word) = (class.info(), self.word(g).mask());
        let pushed = word.push(info.capacity.into(), info.wake.into(), |mask: Mask| {
            (mask.0 & bits == 0).then_some(Mask(mask.0 | bits))
        });
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
        mine: Option<&mut MediumBins>,
        tally: &Tally,
    ) -> Result<u32, ()> {
        let (info, word) = (class.info(), self.word(g).mask());
        let account = Account::new(tally);
        match pushed {
            Pushed::Recorded => {}
            Pushed::Refused => return Err(()),
            Pushed::Woken => match mine.map(|bins| &mut bins.0[class.medium_index()].bin) {
                Some(bin) if bin.free == 0 => {
                    let (free, base) = (word.take().0, self.tables.address(g));
                    *bin = MediumBin::new(free, g, base, info.capacity.into());
                }
                _ => {
                    if !self.pool_slab(class, g, word) {
                        self.release_slab(class, g, &account);
                    }
                }
            },
            Pushed::Completed => self.release_slab(class, g, &account),
            Pushed::CompletedInPool => {
                self.unpool_slab(class, g);
                self.release_slab(class, g, &account);
            }
        }
        Ok(account.total_released())
    }

    /// Returns what the bins hold, and what is hot, to the slabs it came from. Returns the granules
    /// released.
    pub(crate) fn let_go_of_medium(&self, bins: &mut MediumBins) -> u32 {
        let mut released = 0;
        for (i, AtHand { bin, hot }) in bins.0.iter_mut().enumerate() {
            let class = Class((1 + SMALL_CLASSES + i) as u8);
            while let Some(object) = hot.pop() {
                released += self.send_hot_home(class, object, hot);
            }
            hot.allow(0);
            let bin = core::mem::replace(bin, NO_SLAB);
            if bin.free != 0 {
                let home = self.send_medium_home(class, bin.slab, bin.free, None, &self.tally);
                debug_assert!(home.is_ok(), "a bin held an object that is free");
                released += home.unwrap_or(0);
            }
        }
        released
    }

    /// Returns an object to its slab, and with it those others that are hot.
    fn send_hot_home(&self, class: Class, object: usize, others: &mut Hot) -> u32 {
        let slab_of = |object| self.granule_of(object).map(|g| Granule(g.0 - self.tag(g).delta()));
        let Some(slab) = slab_of(object) else { return 0 };
        let base = self.tables.address(slab);
        let bit = |object: usize| class.object_at(object - base).map_or(0, |n| 1_u64 << n);
        let mut bits = bit(object);
        others.remove(|other| {
            let same = slab_of(other) == Some(slab);
            bits |= if same { bit(other) } else { 0 };
            same
        });
        let home = self.send_medium_home(class, slab, bits, None, &self.tally);
        debug_assert!(home.is_ok(), "a hot object was free");
        home.unwrap_or(0)
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

    #[test]
    fn what_will_be_given_out_is_known_before() {
        let class = Class::of_medium(3000);
        for from in 0..64 {
            let mut bins = MediumBins::new();
            let AtHand { bin, hot } = &mut bins.0[class.medium_index()];
            *bin = MediumBin::new(0x90_0000_8421, Granule(5), 0x10_0000, 40);
            hot.allow(3);
            assert!(hot.keep(0x50_0000) && hot.keep(0x60_0000));
            for left in (0..8).rev() {
                let next = bins.next_from(class, from);
                assert_eq!(next, bins.pop_from(class, from).map(|given| given.address));
                assert_eq!((next.is_some(), bins.count(class)), (true, left));
            }
            assert_eq!(bins.next_from(class, from), None);
        }
    }
}
