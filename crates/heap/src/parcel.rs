//! Parcels: small objects of one other heap that a thread has freed, for each class one.
//!
//! A parcel is a magazine that the freeing thread fills. When it is full, or the thread begins to
//! free another heap's objects, it goes into the inbox of the heap as it is, and serves the malloc
//! of that heap's thread. Where there is no thread that wants it, its objects go home to their
//! slabs, by way of the outbox, and for a while the thread does not try again.
//!
//! Objects in a parcel are out, as far as their slabs know; so are those in inboxes. Both are
//! bounded in bytes (`policy/retain.rs`).

use crate::arena::Arena;
use crate::class::{Class, SMALL_CLASSES};
use crate::heap::Heap;
use crate::invalid::Invalid;
use crate::layout::{GRANULE, Granule, at};
use crate::magazine::{Magazine, ROUNDS, Rounds, SLOT};
use crate::outbox::Outbox;
use crate::policy::retain;
use freehold_sync::inbox::Inbox;
use freehold_sys::System;

/// The heap that nobody frees objects of.
const NOBODY: u16 = u16::MAX;

/// Fewer objects than this are not worth a magazine of their own.
const WORTH_SENDING: usize = 4;

/// How many objects go home on their own after a parcel was refused. Twice as many each time that
/// the next is refused as well: a burst finds its owner's inbox full just once or twice, and who
/// takes nothing any more is asked ever more rarely.
const REST: u16 = 8 * ROUNDS as u16;
const REST_MOST: u16 = 256 * ROUNDS as u16;

/// How many do after one was refused because its owner has not taken the first yet: it may be about
/// to.
const REST_UNTIL_ANSWERED: u16 = 4 * ROUNDS as u16;

/// If fewer parcels than this may wait in an inbox, none are sent: most would be refused, and slabs
/// of which some objects wait and some are sent home become whole later than with either.
const FEWEST: usize = 4;

/// Free objects of one class and one heap.
#[derive(Clone, Copy)]
pub(crate) struct Parcel {
    /// The next free slot; 0 if there is no magazine.
    next: usize,
    /// Tells where objects of the class start (`class.rs`): here, where it is needed.
    magic: u32,
    /// The heap that the objects go to.
    owner: u16,
    /// How many objects will not be put in, because the last parcel was refused.
    rest: u16,
    /// How many will not be if the next one is refused as well; 0 if the last one was not.
    next_rest: u16,
    /// The low byte of the address of the next free slot when the parcel is full.
    end: u8,
}

const _: () = assert!(size_of::<Parcel>() == 24);

/// Objects that a parcel holds.
fn rounds_of(class: Class) -> usize {
    retain::parcel(class.size()).min(ROUNDS)
}

/// Bytes of the objects in a full parcel.
pub(crate) fn bytes_of(class: Class) -> usize {
    rounds_of(class) * class.size()
}

impl Parcel {
    /// One for a class, without a magazine.
    pub(crate) fn none(class: Class) -> Self {
        let magic = class.info().magic;
        Self { next: 0, magic, owner: NOBODY, rest: 0, next_rest: 0, end: 0 }
    }

    /// Puts in an object of heap `owner`, if that is whom the parcel is for and there is room, and
    /// if an object starts there: so many bytes into its slab.
    #[inline(always)]
    pub(crate) fn add(&mut self, owner: u16, object: usize, offset: u32) -> bool {
        if self.owner != owner {
            return false;
        }
        let starts = offset.wrapping_mul(self.magic) < self.magic;
        if !starts || self.next as u8 == self.end {
            return false;
        }
        // SAFETY: a slot below the end of a magazine of this thread's.
        unsafe { at::<usize>(self.next).write(object) };
        self.next += SLOT;
        true
    }

    /// Whether it was refused lately: then counts one object that goes home on its own.
    #[inline]
    pub(crate) fn rests(&mut self) -> bool {
        let rests = self.rest > 0;
        self.rest -= u16::from(rests);
        rests
    }

    /// Has objects go home on their own for a while, since a parcel was refused.
    fn rest(&mut self) {
        self.rest = self.next_rest.max(REST);
        self.next_rest = self.rest.saturating_mul(2).min(REST_MOST);
    }

    /// Notes that a parcel was not refused.
    fn was_taken(&mut self) {
        self.next_rest = 0;
    }

    /// Makes it one for `owner`. It is empty.
    fn address_to(&mut self, owner: u16, class: Class) {
        let magazine = Magazine::of_slot(self.next);
        self.owner = owner;
        self.end = Magazine::slot_after(magazine, rounds_of(class)) as u8;
    }

    /// Whether there are objects in it.
    #[inline]
    pub(crate) fn has_any(&self) -> bool {
        self.next != 0 && Magazine::rounds_below(self.next) > 0
    }

    /// Takes the objects out.
    pub(crate) fn empty(&mut self) -> Rounds {
        if self.next == 0 {
            return Rounds::NONE;
        }
        // SAFETY: the magazine is this thread's.
        let rounds = unsafe { Magazine::copy_below(self.next) };
        self.next = Magazine::first_slot(Magazine::of_slot(self.next));
        self.owner = NOBODY;
        rounds
    }
}

impl<S: System> Arena<S> {
    /// The heap that may want the objects of slab `g`: whose map it is in, if it is leased to a
    /// thread that uses the class, and if the class has inboxes.
    fn taker(&self, class: Class, g: Granule) -> Option<u16> {
        let owner = self.tag(g).owner();
        let wanted = owner != 0 && self.heap(owner).inbox(class).is_some_and(Inbox::is_open);
        wanted.then_some(owner)
    }

    /// Puts an object of slab `g` into the parcel of its class, after sending what was in it if
    /// need be. Otherwise the object has to go home on its own, and so has what this returns.
    pub(crate) fn pack(
        &self,
        outbox: &mut Outbox,
        class: Class,
        g: Granule,
        object: usize,
    ) -> Option<Rounds> {
        if outbox.parcel(class).is_none_or(|parcel| parcel.rest > 0) {
            return Some(Rounds::NONE);
        }
        let taker = self.taker(class, g).map(|owner| {
            (owner, outbox.inbox_parcels(class, |bytes, sent| self.inbox_parcels(bytes, sent)))
        });
        let Some((parcel, fresh)) = outbox.parcel_and_fresh(class) else {
            return Some(Rounds::NONE);
        };
        let Some((owner, most)) = taker.filter(|&(_, most)| most >= FEWEST) else {
            parcel.rest();
            return Some(parcel.empty());
        };
        if let Some(unwanted) = self.send(parcel, class, most) {
            return Some(unwanted);
        }
        if parcel.next == 0 {
            match fresh.take(self) {
                Some(magazine) => parcel.next = Magazine::first_slot(magazine),
                None => return Some(Rounds::NONE),
            }
        }
        parcel.address_to(owner, class);
        let offset = (object - self.tables.address(g)) as u32;
        let added = parcel.add(owner, object, offset);
        debug_assert!(added, "an empty parcel was full, or there is no object");
        None
    }

    /// How many parcels may wait in an inbox, when those of all classes have so many bytes, as far
    /// as a thread can tell that has sent so many.
    fn inbox_parcels(&self, parcels: usize, sent: u32) -> usize {
        let received = self.all_heaps().filter(|heap| heap.receives()).count();
        let leased = self.all_heaps().filter(|heap| heap.is_leased()).count();
        let receivers = retain::receivers(received, leased, sent);
        retain::inbox_parcels(self.about_in_use().used * GRANULE, receivers, parcels)
    }

    /// Sends a parcel to its owner, unless `most` are waiting there: then what was in it has to
    /// go home.
    fn send(&self, parcel: &mut Parcel, class: Class, most: usize) -> Option<Rounds> {
        if parcel.owner == NOBODY {
            return None;
        }
        let magazine = Magazine::of_slot(parcel.next);
        let rounds = Magazine::rounds_below(parcel.next);
        if rounds >= WORTH_SENDING {
            // SAFETY: the magazine is this thread's.
            unsafe { (*magazine).note_rounds(rounds) };
            let owner = self.heap(parcel.owner);
            let answers = owner.answers();
            let most = if answers { most } else { retain::PARCELS_UNTIL_ANSWERED };
            let put = owner.inbox(class).and_then(|inbox| inbox.put(magazine.addr(), most));
            if let Some(spare) = put {
                owner.set_receives(true);
                let spare = at::<Magazine>(spare);
                parcel.next = if spare.is_null() { 0 } else { Magazine::first_slot(spare) };
                parcel.owner = NOBODY;
                parcel.was_taken();
                return None;
            }
            if answers {
                parcel.rest();
            } else {
                parcel.rest = REST_UNTIL_ANSWERED;
            }
        }
        Some(parcel.empty())
    }

    /// Sends objects home to their slabs one by one, for when there is no outbox to gather them,
    /// and calls `twice` with each that was free already.
    pub(crate) fn send_each_home(
        &self,
        class: Class,
        objects: &[usize],
        mut twice: impl FnMut(Invalid),
    ) -> u32 {
        let mut released = 0;
        for &address in objects {
            let offset = address - self.tables.region;
            let g = Granule((offset / GRANULE) as u32);
            let found = class.object_at(offset % GRANULE);
            // What was of the class when it was kept, and is not now, was freed twice.
            let found = found.filter(|_| self.tag(g).part().is_head_of(class));
            let sent = found.ok_or(()).and_then(|index| {
                let bit = core::iter::once((index / 64, 1 << (index % 64)));
                self.send_home(class, g, bit, 1, None)
            });
            match sent {
                Ok(granules) => released += granules,
                Err(()) => twice(Invalid::FreedTwice { address }),
            }
        }
        released
    }
}

impl Heap {
    /// Closes all inboxes, and calls `each` with what was in them, until that fails. Only for the
    /// leaseholder.
    pub(crate) fn close_inboxes<E>(
        &self,
        mut each: impl FnMut(Class, &[usize]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut result = Ok(());
        self.set_answers(false);
        for n in 1..=SMALL_CLASSES {
            let class = Class(n as u8);
            let Some(inbox) = self.inbox(class).filter(|inbox| inbox.is_open()) else { continue };
            inbox.close(|magazine| {
                let magazine = at::<Magazine>(magazine);
                // SAFETY: taken out of the inbox, which has it as a spare one from here on.
                let rounds = unsafe { Magazine::copy_noted(magazine) };
                if result.is_ok() {
                    result = each(class, rounds.as_slice());
                }
            });
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn who_is_refused_again_rests_longer_up_to_a_bound_and_less_once_it_was_not() {
        let mut parcel = Parcel::none(Class::of_small(16));
        let rest = |parcel: &mut Parcel| {
            parcel.rest();
            (0..20_000).take_while(|_| parcel.rests()).count()
        };
        let times = |all: &[usize]| all.iter().map(|n| n * ROUNDS).collect::<Vec<_>>();
        let rests: Vec<_> = (0..7).map(|_| rest(&mut parcel)).collect();
        assert_eq!(rests, times(&[8, 16, 32, 64, 128, 256, 256]));
        parcel.was_taken();
        assert_eq!(rest(&mut parcel), 8 * ROUNDS);
    }
}
