//! Medium objects that change threads: what a thread frees that keeps none of the class at hand,
//! since others allocate what it frees, goes to one of those.
//!
//! On their way home such objects would be sorted by slab, in the outbox, and each slab would go
//! into its pool and out again. So they are gathered as they come, in the outbox as well, and put
//! in by the lot; who wants one of the class and has none looks here before it looks at the pool,
//! and makes a lot hot objects of its own.
//!
//! They are in use as far as their slabs can tell, and each keeps a slab. So they are bounded in
//! bytes (`policy/retain.rs`), all of them together; nothing is gathered of a class unless somebody
//! has looked for some, and while there is a background thread, which sends those of a class home
//! when none were taken since its last tick, as does who trims or finds no memory.
//!
//! Invariants: an object that is here is out as far as its slab knows, in use by nobody, here once,
//! and marked beside the slab's word, so that a second free by whoever would send it home or here
//! is found out. The mark is gone before the object is hot or home. (In the child of a fork some
//! may be lost.)

use crate::arena::Arena;
use crate::cache::{Holding, ThreadCache};
use crate::class::{Class, MEDIUM_PLACES};
use crate::free::{InSlab, Posted};
use crate::gathered::Gathered;
use crate::hot::Received;
use crate::layout::{GRANULE, Granule};
use crate::medium::{MediumBins, medium_classes};
use crate::outbox::Outbox;
use crate::policy::{grow, retain};
use freehold_sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use freehold_sync::exchange::Exchange;
use freehold_sys::System;

/// Medium objects on their way from thread to thread. All zero: there are none, and nobody wants
/// any. What is written often is apart from what is read all the time.
#[derive(Default)]
#[repr(C, align(128))]
pub(crate) struct Handover {
    /// Of which classes somebody has looked for some.
    wanted: [AtomicBool; MEDIUM_PLACES],
    waiting: Waiting,
    /// Lots of each class taken since the background thread's last tick.
    taken: [AtomicU32; MEDIUM_PLACES],
    /// How often it would have been of use since then that there were such a thread.
    missed: AtomicU32,
    lots: [Exchange; MEDIUM_PLACES],
}

/// About how many bytes wait in lots. Relaxed, as all in [`Handover`]: how much there may be is a
/// matter of about, and what a lot holds the exchange itself orders.
#[derive(Default)]
#[repr(align(64))]
struct Waiting(AtomicUsize);

/// What a thread gathers of each class.
pub(crate) type GatheredOfClasses = [Gathered; MEDIUM_PLACES];

/// Bits of a number below those of the slab's granule.
const INDEX_BITS: u32 = 6;
const _: () = assert!(crate::class::MEDIUM_CAPACITY < 1 << INDEX_BITS);
const _: () = assert!(grow::LARGEST / GRANULE < (u32::MAX >> INDEX_BITS) as usize);

/// An object as a number, which is not 0.
#[inline]
fn number_of(slab: Granule, index: usize) -> u32 {
    (slab.0 << INDEX_BITS | index as u32) + 1
}

/// The slab of a number's object, and the object's number there.
fn object_of(number: u32) -> (Granule, usize) {
    (Granule((number - 1) >> INDEX_BITS), (number - 1) as usize % (1 << INDEX_BITS))
}

impl<S: System> Arena<S> {
    /// Takes a medium object over that its freer does not keep and that is not here already, if
    /// others want such; or says that it goes home alone, since there was no room lately. Then none
    /// of the class waits in the outbox for others of its slab: one that did would not be found if
    /// it were freed a second time.
    #[inline(always)]
    pub(crate) fn gather_medium(&self, outbox: &mut Outbox, place: InSlab) -> Posted {
        let InSlab { class, slab, index } = place;
        let n = class.medium_index();
        if !self.handover.wanted[n].load(Ordering::Relaxed) {
            return Posted::No;
        }
        if !self.is_helped() {
            self.note_nobody_helps(n);
            return Posted::No;
        }
        if outbox.has_medium(class)
            && (!self.send_medium_slots_home(outbox, class) || self.is_known_free(place))
        {
            return Posted::No;
        }
        let gathered = &outbox.gathered_medium[n];
        if gathered.is_to_wait() {
            return Posted::Alone;
        }
        self.word(slab).handover_mark(index).store(true, Ordering::Relaxed);
        let (count, _) = gathered.add(number_of(slab, index), class.size() as u32);
        if count >= retain::lot_of(class.size()) {
            self.hand_over(gathered, class);
        }
        Posted::Done
    }

    /// Notes that something would be handed over if there were a background thread. Asks for one,
    /// but seldom where it does not come; and what is freed until somebody looks for some of the
    /// class again goes home.
    #[cold]
    fn note_nobody_helps(&self, n: usize) {
        self.handover.wanted[n].store(false, Ordering::Relaxed);
        let missed = self.handover.missed.load(Ordering::Relaxed).wrapping_add(1);
        self.handover.missed.store(missed, Ordering::Relaxed);
        if missed.is_power_of_two() {
            self.want_help();
        }
    }

    /// Whether a medium object is on its way to another thread.
    #[inline(always)]
    pub(crate) fn is_handed_over(&self, InSlab { slab, index, .. }: InSlab) -> bool {
        // Relaxed: a second free is found out by this at best.
        self.word(slab).handover_mark(index).load(Ordering::Relaxed)
    }

    /// Whether a medium object is known to be free already, by what stands beside its slab's word.
    #[inline]
    pub(crate) fn is_known_free(&self, place: InSlab) -> bool {
        self.word(place.slab).mask().has_free(place.index) || self.is_handed_over(place)
    }

    /// Puts what was gathered of a class in for others, or sends it home if there is no room.
    #[inline(never)]
    fn hand_over(&self, gathered: &Gathered, class: Class) {
        let (numbers, count) = gathered.empty();
        let (lots, waiting) = (&self.handover.lots[class.medium_index()], &self.handover.waiting.0);
        let bytes = count * class.size();
        let before = waiting.fetch_add(bytes, Ordering::Relaxed);
        let used = self.about_in_use().used * GRANULE;
        if before + bytes <= retain::handed_over(used) && lots.put(&numbers[..count]) {
            return;
        }
        waiting.fetch_sub(bytes, Ordering::Relaxed);
        gathered.note_refused();
        self.send_numbers_home(class, &numbers[..count]);
    }

    /// Sends objects home that were gathered, or waited in a lot. Returns the granules released.
    fn send_numbers_home(&self, class: Class, numbers: &[u32]) -> u32 {
        let send = |&number: &u32| {
            let (slab, index) = self.take_back_handed_over(class, number)?;
            // What is free already was freed twice, and is home.
            self.send_medium_home(class, slab, 1 << index, None, &self.tally).ok()
        };
        numbers.iter().filter_map(send).sum()
    }

    /// Takes an object's mark away, and says where the object is: `None` if it has none, since it
    /// was freed twice and its slab has been released. That has cleared the marks.
    fn take_back_handed_over(&self, class: Class, number: u32) -> Option<(Granule, usize)> {
        let (slab, index) = object_of(number);
        if self.tag(slab).class() != class.0 {
            return None;
        }
        let mark = self.word(slab).handover_mark(index);
        mark.load(Ordering::Relaxed).then(|| {
            mark.store(false, Ordering::Relaxed);
            (slab, index)
        })
    }

    /// Makes a lot of objects of a class hot ones of a heap's leaseholder, which has none of them,
    /// if there is a lot; if not, notes that they are wanted. Returns whether there was one. Only
    /// where there are several threads: a small process touches none of this.
    #[inline(never)]
    pub(crate) fn take_handed_over(&self, bins: &mut MediumBins, class: Class) -> bool {
        if self.hardening.is_on() {
            return false;
        }
        let (n, handover) = (class.medium_index(), &self.handover);
        if !handover.wanted[n].load(Ordering::Relaxed) {
            handover.wanted[n].store(true, Ordering::Relaxed);
        }
        if !handover.lots[n].has_any() {
            return false;
        }
        let Some(lot) = handover.lots[n].take() else { return false };
        handover.taken[n].fetch_add(1, Ordering::Relaxed);
        let mut count = 0;
        for number in lot {
            count += 1;
            let Some((slab, index)) = self.take_back_handed_over(class, number) else { continue };
            let object = self.tables.address(slab) + index * class.size();
            // What is home or hot already was freed twice, and is not given out twice.
            if !self.word(slab).mask().has_free(index)
                && bins.receive(class, object) == Received::NoRoom
            {
                // It may be home by now all the same, if it was freed twice.
                _ = self.send_medium_home(class, slab, 1 << index, None, &self.tally);
            }
        }
        handover.waiting.0.fetch_sub(count * class.size(), Ordering::Relaxed);
        true
    }

    /// Sends home what waits of a class. Returns the granules released.
    #[cold]
    fn send_lots_home(&self, class: Class) -> u32 {
        let mut released = 0;
        while let Some(lot) = self.handover.lots[class.medium_index()].take() {
            for number in lot {
                self.handover.waiting.0.fetch_sub(class.size(), Ordering::Relaxed);
                released += self.send_numbers_home(class, &[number]);
            }
        }
        released
    }

    /// Sends home all that waits. Returns the granules released.
    pub(crate) fn send_all_lots_home(&self) -> u32 {
        if self.handover.waiting.0.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        medium_classes().map(|class| self.send_lots_home(class)).sum()
    }

    /// Sends home what waits of the classes of which no lot was taken since this was asked last:
    /// for the background thread, once in a tick. Returns how many were of the others.
    pub(crate) fn send_lots_home_if_unused(&self) -> u32 {
        let handover = &self.handover;
        let mut all = 0;
        handover.missed.store(0, Ordering::Relaxed);
        for class in medium_classes() {
            let n = class.medium_index();
            if !handover.wanted[n].load(Ordering::Relaxed) {
                continue;
            }
            let taken = handover.taken[n].swap(0, Ordering::Relaxed);
            if taken == 0 {
                handover.wanted[n].store(false, Ordering::Relaxed);
            }
            all += taken;
        }
        for class in medium_classes() {
            // Also where none are wanted any longer: some may have come in since.
            if !handover.wanted[class.medium_index()].load(Ordering::Relaxed) {
                self.send_lots_home(class);
            }
        }
        all
    }

    /// Sends home what waits, and empties the places of threads that are gone: in the child of a
    /// fork.
    pub(crate) fn reset_handover(&self) {
        if self.leases.made().nth(1).is_none() {
            return;
        }
        self.handover.lots.iter().for_each(Exchange::release_held);
        medium_classes().for_each(|class| _ = self.send_lots_home(class));
        self.handover.waiting.0.store(0, Ordering::Relaxed);
    }

    /// Sends home what a thread has gathered: for that one, in its turn, or when it is gone.
    /// Returns the granules released.
    pub(crate) fn let_go_of_gathered_medium(&self, gathered: &GatheredOfClasses) -> u32 {
        let send = |class: Class| {
            let (numbers, count) = gathered[class.medium_index()].empty();
            self.send_numbers_home(class, &numbers[..count])
        };
        medium_classes().map(send).sum()
    }
}

impl ThreadCache {
    /// Hands a medium object over that the thread does not keep, if it has freed so many of the
    /// class that it had no use for that others are to have the next ones, and they want some; or
    /// says that it goes home alone.
    ///
    /// # Safety
    /// As for [`ThreadCache::free_slow`]; `place` is where `address` is.
    #[inline(always)]
    #[must_use]
    pub unsafe fn hand_over_medium<S: System>(
        &mut self,
        arena: &Arena<S>,
        place: InSlab,
        address: usize,
    ) -> Posted {
        // SAFETY: the outbox is leased to this thread.
        let outbox = unsafe { self.outbox.as_mut() };
        let (Some(outbox), Some(bins)) = (outbox, self.medium_bins()) else { return Posted::No };
        if !bins.has_surplus(place.class) || bins.may_have(address) || arena.is_handed_over(place) {
            return Posted::No;
        }
        let posted = arena.gather_medium(outbox, place);
        if posted == Posted::Done {
            bins.note_overflow(place.class);
        }
        posted
    }

    /// Whether others may want a medium object of a class that the thread does not keep. If not,
    /// [`ThreadCache::hand_over_medium`] would do nothing.
    #[inline(always)]
    pub fn may_hand_over<S: System>(&mut self, arena: &Arena<S>, class: Class) -> bool {
        arena.handover.wanted[class.medium_index()].load(Ordering::Relaxed)
            && self.medium_bins().is_some_and(|bins| bins.has_surplus(class))
    }

    /// Hands a medium object over that is freed by a thread which has never had a heap: whatever it
    /// frees others have allocated.
    #[inline]
    pub(crate) fn hand_over_without_heap<S: System>(
        &mut self,
        arena: &Arena<S>,
        place: InSlab,
    ) -> bool {
        // SAFETY: the outbox is leased to this thread.
        let outbox = unsafe { self.outbox.as_mut() };
        let outbox = outbox.filter(|_| self.holding() == Holding::None);
        outbox.is_some_and(|outbox| arena.gather_medium(outbox, place) == Posted::Done)
    }
}
