//! Objects on their way home: frees of objects whose slab is not attached to the thread's heap.
//!
//! They are gathered by slab, without touching them, and each batch goes home with one exchange of
//! the slab's word. What a thread holds back here is bounded in bytes.
//!
//! Medium objects need not go home at all: their slabs are nobody's, so that a thread that wants
//! one takes what waits here first, a slab's worth at a time. One that does may hold back more.

use crate::arena::Arena;
use crate::blocks::ones;
use crate::class::{Class, MEDIUM_PLACES};
use crate::company::Company;
use crate::gathered::Gathered;
use crate::handover::GatheredOfClasses;
use crate::heap::Held;
use crate::layout::{GRANULE, Granule};
use crate::magazine::Fresh;
use crate::magazine::MAGAZINES;
use crate::parcel::{self, Parcel};
use crate::policy::{grow, retain};
use crate::reclaim::Holder;
use crate::stock::Stocked;
use crate::tables::{FAR_WORDS, NEAR_WORDS};
use freehold_sys::System;

/// Sets of slots; a slab's objects go to one of the [`WAYS`] slots of its set.
const SETS: usize = 256;
const WAYS: usize = 2;
const SLOTS: usize = SETS * WAYS;
/// Words of a slab's bits that a slot has room for: a window. A slab of more has several slots.
const WORDS: usize = 4;

/// A slot, plus one, or none.
type SlotLink = u16;

/// What a used slot is for, and if it is one of those that malloc takes medium objects from, where
/// it stands among them: the one before it, which is newer, and the one after it.
#[derive(Clone, Copy, Default)]
struct Place {
    newer: SlotLink,
    older: SlotLink,
    /// The class, as it was when the slot was given to the slab. If the slab has another one since,
    /// its objects were free already when they came here.
    class: u8,
    is_linked: bool,
}

const _: () = assert!(SLOTS < SlotLink::MAX as usize);

/// Parcels that a thread sends before it looks again how much may wait in an inbox.
const PARCELS_BETWEEN_LOOKS: u32 = 128;

/// Parcels that may wait in an inbox as long as a thread has not looked yet.
const PARCELS_AT_FIRST: usize = 4;

/// Windows of a slab's bits, at most.
const WINDOWS: u32 = (FAR_WORDS + NEAR_WORDS).div_ceil(WORDS) as u32;

/// Which objects a slot is for: the number of the window in the lowest bits, above them the slab's
/// granule plus one. 0 stands for an unused slot.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key(u32);

const UNUSED: Key = Key(0);

const _: () = assert!((grow::LARGEST / GRANULE + 1) * WINDOWS as usize <= u32::MAX as usize);

impl Key {
    #[inline]
    fn of(row: Row) -> Self {
        Self((row.slab.0 + 1) * WINDOWS + (row.word / WORDS) as u32)
    }

    fn granule(self) -> Granule {
        Granule(self.0 / WINDOWS - 1)
    }

    fn window(self) -> usize {
        (self.0 % WINDOWS) as usize
    }

    /// The first slot of its set. The upper bits of the product depend on all of the key's: slabs
    /// that fill up together get different sets, and so do the windows of one.
    #[inline]
    fn slot(self) -> usize {
        (self.0.wrapping_mul(0x9e37_79b9) >> (u32::BITS - SETS.ilog2())) as usize * WAYS
    }
}

/// Some objects of one slab: those that have a bit in one word of its bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// The slab's first granule.
    pub(crate) slab: Granule,
    /// The number of the word.
    pub(crate) word: usize,
    /// Their bits.
    pub(crate) mask: u64,
    /// How many they are.
    pub(crate) count: u16,
}

impl Row {
    /// A single object, by its number in the slab.
    #[inline]
    pub(crate) fn one(slab: Granule, index: usize) -> Self {
        Self { slab, word: index / 64, mask: 1 << (index % 64), count: 1 }
    }
}

/// The objects that one thread is about to send home.
#[repr(C, align(64))]
pub(crate) struct Outbox {
    /// The objects of each slot, one bit each: half a line a slot.
    masks: [[u64; WORDS]; SLOTS],
    keys: [Key; SLOTS],
    /// How many objects each slot has.
    counts: [u16; SLOTS],
    /// Which slots are used.
    used: [u64; SLOTS / 64],
    /// Bytes of objects that may still be held back before something is sent home, and how many
    /// there may be.
    left: isize,
    limit: isize,
    /// The slot to look at next when something has to go.
    next: u16,
    /// Whether medium objects wait here at all.
    pub(crate) company: Company,
    /// For each medium class the newest of its slots, and for each slot what it is for.
    medium: [SlotLink; MEDIUM_PLACES],
    places: [Place; SLOTS],
    /// Whether the thread has looked for some here since it was last asked how much may be.
    is_drawn_on: bool,
    /// How many parcels may wait in an inbox, and how many may be sent before that is looked at
    /// again.
    inbox_parcels: usize,
    parcels_left: u32,
    /// How many parcels were sent until that was looked at last, or as many as can be counted.
    parcels_sent: u32,
    /// The classes of the parcels since then, and of those before.
    classes: u64,
    classes_before: u64,
    fresh: Fresh,
    /// For each class objects that go to another heap's inbox.
    parcels: [Parcel; MAGAZINES],
    /// Runs, and medium objects of each class, that others are to have.
    pub(crate) gathered: Gathered,
    pub(crate) gathered_medium: GatheredOfClasses,
    /// The thread that has it. Zero is nobody.
    pub(crate) holder: Holder,
}

impl Stocked for Outbox {
    const MOST: usize = 4096;

    /// In place: a whole one on the stack would stay resident there, in each thread. Where zeros
    /// will do nothing is written: slots are unused, nothing is held back. But what is read before
    /// it is written to is, at its ends, so that each page takes one page fault, and not a second
    /// one for which all processors are stopped.
    #[inline(never)]
    unsafe fn make_at(place: *mut Self) {
        const _: () = assert!(UNUSED.0 == 0);
        let bytes = retain::outbox_bytes(0, 1) as isize;
        // SAFETY: the caller's promise; each is a field of the place.
        unsafe {
            (&raw mut (*place).keys[0]).write(UNUSED);
            (&raw mut (*place).counts[SLOTS - 1]).write(0);
            (&raw mut (*place).left).write(bytes);
            (&raw mut (*place).limit).write(bytes);
            (&raw mut (*place).inbox_parcels).write(PARCELS_AT_FIRST);
            (&raw mut (*place).parcels_left).write(PARCELS_BETWEEN_LOOKS);
            (&raw mut (*place).company).write(Company::NONE);
            (&raw mut (*place).medium).write([0; MEDIUM_PLACES]);
            (&raw mut (*place).places[0]).write(Place::default());
            (&raw mut (*place).places[SLOTS - 1]).write(Place::default());
            (&raw mut (*place).is_drawn_on).write(false);
            (&raw mut (*place).fresh).write(Fresh::NONE);
            let parcels = (&raw mut (*place).parcels).cast::<Parcel>();
            for n in 0..MAGAZINES {
                parcels.add(n).write(Parcel::none(Class(n as u8)));
            }
        }
    }
}

impl Outbox {
    /// Puts objects in, if there is a slot for their slab, or an unused one; otherwise
    /// [`Arena::post`] does it.
    #[inline]
    pub(crate) fn add(&mut self, class: Class, row: Row) -> bool {
        // First: a slot that was given to a slab must have an object of it, which keeps the slab.
        self.join(class, row)
            || !self.is_full() && self.occupy(class, Key::of(row)) && self.join(class, row)
    }

    /// Takes out what waits here of one slab of a medium class, the last that some came of: the
    /// slab, and the objects' bits. `is_sound` says whether the slab still is of that class and
    /// knows none of them to be free already; if it is not so they go home, where that is found
    /// out.
    pub(crate) fn take_medium(
        &mut self,
        class: Class,
        is_sound: impl Fn(Granule, u64) -> bool,
    ) -> Option<(Granule, u64)> {
        self.is_drawn_on = true;
        while let Some(n) = self.medium[class.medium_index()].checked_sub(1).map(usize::from) {
            let (slab, bits) = (self.keys[n].granule(), self.masks[n][0]);
            self.unlink(n);
            if is_sound(slab, bits) {
                self.vacate(n, class);
                self.masks[n][0] = 0;
                return Some((slab, bits));
            }
        }
        None
    }

    /// Whether any of a medium class wait here for others of their slab.
    #[inline(always)]
    pub(crate) fn has_medium(&self, class: Class) -> bool {
        self.medium[class.medium_index()] != 0
    }

    /// Ends the use of a slot with objects of a class, which are seen to. Returns how many they
    /// were.
    fn vacate(&mut self, n: usize, class: Class) -> u16 {
        self.keys[n] = UNUSED;
        self.used[n / 64] &= !(1 << (n % 64));
        self.unlink(n);
        let count = core::mem::take(&mut self.counts[n]);
        self.left += (usize::from(count) * class.size()) as isize;
        count
    }

    /// Takes a slot out of those that malloc takes medium objects from, if it is one.
    fn unlink(&mut self, n: usize) {
        let place = &mut self.places[n];
        if !core::mem::take(&mut place.is_linked) {
            return;
        }
        let Place { newer, older, class, .. } = *place;
        match newer.checked_sub(1) {
            Some(newer) => self.places[usize::from(newer)].older = older,
            None => self.medium[Class(class).medium_index()] = older,
        }
        if let Some(older) = older.checked_sub(1) {
            self.places[usize::from(older)].newer = newer;
        }
    }

    /// Notes that a slot, which was unused, is for objects of a medium class.
    fn link(&mut self, n: usize, class: Class) {
        let (newest, link) = (&mut self.medium[class.medium_index()], n as SlotLink + 1);
        let older = core::mem::replace(newest, link);
        self.places[n] = Place { newer: 0, older, class: class.0, is_linked: true };
        if let Some(older) = older.checked_sub(1) {
            self.places[usize::from(older)].newer = link;
        }
    }

    /// Puts objects in, if there is a slot for their slab and not too much is held back.
    #[inline]
    pub(crate) fn join(&mut self, class: Class, row: Row) -> bool {
        let key = Key::of(row);
        let first = key.slot();
        let slot = first + usize::from(self.keys[first] != key);
        if self.keys[slot] != key || self.is_full() {
            return false;
        }
        let mask = &mut self.masks[slot][row.word % WORDS];
        // An object that is here already is being freed a second time: its slab will say so.
        if *mask & row.mask != 0 {
            return false;
        }
        *mask |= row.mask;
        self.counts[slot] += row.count;
        self.left -= (usize::from(row.count) * class.size()) as isize;
        true
    }

    /// Whether so much is held back that something has to go.
    #[inline]
    fn is_full(&self) -> bool {
        self.left < 0
    }

    /// Gives a slot to `key`, which has none, if one of the two where it may be is unused.
    #[cold]
    fn occupy(&mut self, class: Class, key: Key) -> bool {
        let slots = self.keys[key.slot()..].iter().take(WAYS);
        let taken = slots.take_while(|&&it| it != UNUSED && it != key).count();
        if taken == WAYS || self.keys[key.slot() + taken] == key {
            return false;
        }
        let n = key.slot() + taken;
        self.keys[n] = key;
        // Zeros are there already, but their page may not be.
        self.masks[n] = [0; WORDS];
        self.used[n / 64] |= 1 << (n % 64);
        if class.is_small() {
            self.places[n] = Place { class: class.0, ..Place::default() };
        } else {
            self.link(n, class);
        }
        true
    }

    /// The parcel of a small class.
    #[inline]
    pub(crate) fn parcel(&mut self, class: Class) -> Option<&mut Parcel> {
        self.parcels.get_mut(usize::from(class.0))
    }

    /// Likewise.
    ///
    /// # Safety
    /// The class is a small one.
    #[inline(always)]
    pub(crate) unsafe fn parcel_of_small(&mut self, class: Class) -> &mut Parcel {
        // SAFETY: there is one for each small class.
        unsafe { self.parcels.get_unchecked_mut(usize::from(class.0)) }
    }

    /// How many parcels may wait in an inbox. Asked for each parcel; `look` is asked now and then,
    /// and told how many bytes parcels have, one of each class that there were parcels of since,
    /// and how many there were so far.
    pub(crate) fn inbox_parcels(
        &mut self,
        class: Class,
        look: impl FnOnce(usize, u32) -> usize,
    ) -> usize {
        self.classes |= 1 << class.0;
        if self.parcels_left == 0 {
            self.parcels_left = PARCELS_BETWEEN_LOOKS;
            let before = core::mem::replace(&mut self.classes_before, self.classes);
            let bytes = ones(self.classes | before).map(|n| parcel::bytes_of(Class(n as u8)));
            self.parcels_sent = self.parcels_sent.saturating_add(PARCELS_BETWEEN_LOOKS);
            self.inbox_parcels = look(bytes.sum(), self.parcels_sent);
            self.classes = 0;
        }
        self.parcels_left -= 1;
        self.inbox_parcels
    }

    /// The parcel of a small class, and where it may get a magazine.
    pub(crate) fn parcel_and_fresh(&mut self, class: Class) -> Option<(&mut Parcel, &mut Fresh)> {
        Some((self.parcels.get_mut(usize::from(class.0))?, &mut self.fresh))
    }

    fn set_limit(&mut self, bytes: usize) {
        self.left += bytes as isize - self.limit;
        self.limit = bytes as isize;
    }

    /// The slot to send home when `key` can be put into neither of its two: the one that is already
    /// for `key`, or else the one that has more.
    fn victim(&self, key: Key) -> usize {
        let first = key.slot();
        let fuller = usize::from(self.counts[first + 1] > self.counts[first]);
        let own = (0..WAYS).find(|&way| self.keys[first + way] == key);
        first + own.unwrap_or(fuller)
    }

    /// The next used slot in turn, from `next` on and around; `None` when all are unused.
    fn next_used(&self) -> Option<usize> {
        let (from, words) = (usize::from(self.next), self.used.len());
        let ahead = self.used[from / 64] >> (from % 64);
        if ahead != 0 {
            return Some(from + ahead.trailing_zeros() as usize);
        }
        let around = (1..=words).map(|i| (from / 64 + i) % words);
        let mut around = around.filter(|&w| self.used[w] != 0);
        around.next().map(|w| w * 64 + self.used[w].trailing_zeros() as usize)
    }
}

/// An object that was freed although its slab has none out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FreedTwice {
    /// A slab with more frees than objects.
    pub(crate) slab: Granule,
}

impl<S: System> Arena<S> {
    /// Puts objects into the outbox after making room for them: sends home one of the slots where
    /// they could go, and others in turn if the outbox holds too much. Returns the granules
    /// released.
    pub(crate) fn post(
        &self,
        outbox: &mut Outbox,
        class: Class,
        row: Row,
        mut adopter: Option<&mut Held>,
    ) -> Result<u32, FreedTwice> {
        let mut released = 0;
        if outbox.is_full() {
            let used = self.about_in_use().used * GRANULE;
            let mut bytes = retain::outbox_bytes(used, self.outboxes.made());
            if core::mem::take(&mut outbox.is_drawn_on) {
                bytes = bytes.max(self.most_set_aside());
            }
            outbox.set_limit(bytes);
            // Half of them go, so that each waits long enough to have company.
            while let Some(n) = outbox.next_used().filter(|_| outbox.left < outbox.limit / 2) {
                outbox.next = ((n + 1) % SLOTS) as u16;
                released += self.send_slot_home(outbox, n, adopter.as_deref_mut())?;
            }
        }
        if !outbox.add(class, row) {
            let victim = outbox.victim(Key::of(row));
            released += self.send_slot_home(outbox, victim, adopter)?;
            let added = outbox.add(class, row);
            debug_assert!(added, "there was no room after room was made");
        }
        if outbox.company.goes_alone() {
            released += self.send_home_all(outbox, None)?;
        }
        Ok(released)
    }

    /// Sends home everything in the outbox. Returns the granules released.
    pub(crate) fn send_home_all(
        &self,
        outbox: &mut Outbox,
        mut adopter: Option<&mut Held>,
    ) -> Result<u32, FreedTwice> {
        let mut released = 0;
        while let Some(n) = outbox.next_used() {
            released += self.send_slot_home(outbox, n, adopter.as_deref_mut())?;
        }
        Ok(released)
    }

    /// Sends home what waits of a medium class. Fails if something of it had been freed twice.
    #[cold]
    pub(crate) fn send_medium_slots_home(&self, outbox: &mut Outbox, class: Class) -> bool {
        while let Some(n) = outbox.medium[class.medium_index()].checked_sub(1) {
            if self.send_slot_home(outbox, n.into(), None).is_err() {
                return false;
            }
        }
        true
    }

    fn send_slot_home(
        &self,
        outbox: &mut Outbox,
        n: usize,
        adopter: Option<&mut Held>,
    ) -> Result<u32, FreedTwice> {
        let key = outbox.keys[n];
        if key == UNUSED {
            return Ok(0);
        }
        let (slab, first) = (key.granule(), key.window() * WORDS);
        let class = Class(outbox.places[n].class);
        let count = outbox.vacate(n, class);
        if !class.is_small() {
            outbox.company.sent(count);
        }
        let words = usize::from(class.info().words) - first;
        let masks = &mut outbox.masks[n][..words.min(WORDS)];
        let masks =
            masks.iter_mut().enumerate().map(|(n, mask)| (first + n, core::mem::take(mask)));
        // What is of another class by now, or no slab, or inside of one, was released: all of it
        // was free, so that what waited here had been freed twice.
        if !self.tag(slab).part().is_head_of(class) {
            return Err(FreedTwice { slab });
        }
        let sent = self.send_home(class, slab, masks, count.into(), adopter);
        sent.map_err(|()| FreedTwice { slab })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;

    fn outbox() -> Box<Outbox> {
        let mut place = Box::<Outbox>::new_zeroed();
        // SAFETY: zeroed memory is what an outbox is made in.
        unsafe {
            Outbox::make_at(place.as_mut_ptr());
            place.assume_init()
        }
    }

    #[test]
    fn a_slot_that_malloc_has_looked_at_in_vain_is_none_of_its_classs_any_more() {
        let class = Class::of_medium(3000);
        let row = |slab| Row::one(Granule(slab), 0);
        let mut outbox = outbox();
        assert!([1, 2].into_iter().all(|slab| outbox.add(class, row(slab))));
        let taken = outbox.take_medium(class, |slab, _| slab.0 == 1);
        assert_eq!(taken, Some((Granule(1), 1)));
        assert!(!outbox.has_medium(class));
        assert!(outbox.add(class, row(3)));
        let waits = outbox.keys.iter().position(|&key| key == Key::of(row(2)));
        assert_eq!(outbox.vacate(waits.unwrap(), class), 1);
        assert_eq!(outbox.take_medium(class, |_, _| true), Some((Granule(3), 1)));
        assert!(!outbox.has_medium(class));
    }
}
