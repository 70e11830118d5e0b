//! What happens when a thread asks for memory and its magazine is empty, or the size has none.

use crate::arena::Arena;
use crate::blocks::{Home, Prefer};
use crate::cache::{Holding, ThreadCache};
use crate::class::{Class, MEDIUM_MAX};
use crate::heap::{Heap, Held};
use crate::invalid::FoundLate;
use crate::layout::{GRANULE, UNIT, at};
use crate::magazine::{EMPTY, Magazine, ROUNDS, SLOT};
use crate::medium::Given;
use crate::policy::retain;
use crate::tally::Account;
use freehold_sys::System;

/// Takes objects out of slabs of a heap into an empty magazine, so many or fewer, the one to be
/// used first last. Returns how many.
///
/// # Safety
/// The caller has the magazine, and nothing else uses it; at most [`ROUNDS`] are wanted.
unsafe fn fill<S: System>(
    arena: &Arena<S>,
    held: &mut Held,
    class: Class,
    (magazine, wanted): (*mut Magazine, usize),
) -> usize {
    // SAFETY: the caller's promise.
    let slots = unsafe { Magazine::slots(magazine, wanted) };
    let count = arena.take_small(held, class, slots);
    if count < wanted {
        slots.copy_within(wanted - count.., 0);
    }
    count
}

impl ThreadCache {
    /// Gives out memory for `size` bytes at a multiple of `align`, a power of two. `None` when
    /// there is none.
    pub fn take<S: System>(
        &mut self,
        arena: &Arena<S>,
        size: usize,
        align: usize,
        prefer: Prefer,
    ) -> Option<Given> {
        if size > MEDIUM_MAX {
            let hot = prefer == Prefer::Dirty && align <= GRANULE;
            let hot = if hot { self.pop_run(arena, size) } else { None };
            return match hot {
                Some(address) => Some(Given { address, zero: false }),
                None => self.take_run(arena, size, align, prefer),
            };
        }
        match Class::of_aligned(size, align) {
            Some(class) if class.is_small() => {
                let object = self.pop_when_busy(class);
                let object = if object.is_null() { self.refill(arena, class) } else { object };
                (!object.is_null()).then(|| Given { address: object.addr(), zero: false })
            }
            Some(class) => self.take_medium(arena, class),
            None => self.take_run(arena, size, align, prefer),
        }
    }

    /// Fills the empty magazine of `class` and takes an object out of it. Null when there is no
    /// memory.
    pub fn refill<S: System>(&mut self, arena: &Arena<S>, class: Class) -> *mut u8 {
        self.settle_in(arena);
        self.provide_magazine(arena, class);
        if let Some(object) = self.pop_set_aside(class) {
            return object.as_ptr();
        }
        if self.receive(class) {
            self.drain.note_fetched();
        } else {
            self.note_fetch(class);
            self.note_missed(arena, class);
            self.take_into_magazine(arena, class);
        }
        let object = self.pop_when_busy(class);
        if !object.is_null() {
            return object;
        }
        // There is no memory, or no magazine, or a signal handler has emptied it meanwhile.
        let one = self.take_one(arena, class);
        if one == 0 && self.let_go_for_want_of_memory(arena) {
            return at(self.take_one(arena, class));
        }
        at(one)
    }

    /// Gives back what the thread has at hand, but for what is in magazines, since there is no
    /// memory for what it wants. Returns whether there may be some now.
    #[cold]
    fn let_go_for_want_of_memory<S: System>(&mut self, arena: &Arena<S>) -> bool {
        let account = Account::new(self.heap().map_or(&arena.tally, |heap| &heap.tally));
        arena.release_whole_slabs(&account);
        arena.release_exchanged(&account);
        let handed_over = arena.send_all_lots_home();
        let heap = self.heap();
        let twice = |it| self.found_late.note(it);
        // SAFETY: the thread has the lease, and is at nothing of what it has at hand.
        let gone = heap.map_or(0, |heap| unsafe {
            arena.let_go_of_what_is_at_hand(heap, usize::MAX, twice).released
        });
        let gathered = self.let_go_of_gathered(arena);
        let released = gone + account.total_released() + handed_over + gathered;
        self.released += released;
        released > 0
    }

    /// Fills the empty magazine of `class` from one in the heap's inbox, if there is one. The
    /// thread's magazine stays its own, for the reason that `depot` gives.
    fn receive(&mut self, class: Class) -> bool {
        let Some(heap) = self.heap() else { return false };
        let Some(inbox) = heap.inbox(class) else { return false };
        if !inbox.is_open() {
            debug_assert!(heap.is_exclusive());
            inbox.open();
            return false;
        }
        if !inbox.has_mail() {
            return false;
        }
        let top = self.unload_magazine(class);
        let fits = top == 0 || top as u8 == EMPTY;
        let Some(full) = fits.then(|| heap.take_mail(class)).flatten() else {
            self.load_again(class, top);
            return false;
        };
        // SAFETY: it is this thread's now.
        let rounds = unsafe { (*full).noted_rounds() };
        let own = if top == 0 { full } else { Magazine::of_slot(top) };
        if own != full {
            // SAFETY: both are this thread's.
            unsafe { Magazine::copy(full, own, rounds) };
            let before = heap.leave_magazine(class, full);
            debug_assert!(before.is_none(), "a spare magazine was left when mail was taken");
        }
        self.load(class, Magazine::slot_after(own, rounds));
        true
    }

    /// Takes objects into the empty magazine of `class`, if there is one, a signal handler has put
    /// nothing into it meanwhile, and there is memory.
    fn take_into_magazine<S: System>(&mut self, arena: &Arena<S>, class: Class) {
        self.drain.note_fetched();
        let wanted = self.wanted(class);
        let first = self.unload_magazine(class);
        if first as u8 != EMPTY {
            return self.load_again(class, first);
        }
        let magazine = Magazine::of_slot(first);
        // SAFETY: an empty magazine of this thread's, in no other hands until it is loaded; at most
        // `ROUNDS` are wanted.
        let count = unsafe {
            match self.heap() {
                Some(heap) => self.take_from_heap(arena, heap, class, (magazine, wanted)),
                None => self.take_from_shared(arena, class, (magazine, wanted)),
            }
        };
        self.load(class, first + count * SLOT);
        self.wants_help |= arena.is_help_wanted();
    }

    /// Takes objects out of slabs into an empty magazine, so many or fewer, the one to be used
    /// first last. Returns how many: none only when there is no memory.
    ///
    /// # Safety
    /// The caller has the magazine, and nothing else uses it; at most [`ROUNDS`] are wanted.
    unsafe fn take_from_heap<S: System>(
        &mut self,
        arena: &Arena<S>,
        heap: &Heap,
        class: Class,
        (magazine, wanted): (*mut Magazine, usize),
    ) -> usize {
        // SAFETY: the caller's promise.
        let count = unsafe { fill(arena, &mut heap.hold(), class, (magazine, wanted)) };
        self.limit = heap.mapped();
        count
    }

    /// As [`ThreadCache::take_from_heap`], with a shared heap, and rather what was set aside there.
    ///
    /// # Safety
    /// As there.
    unsafe fn take_from_shared<S: System>(
        &mut self,
        arena: &Arena<S>,
        class: Class,
        (magazine, wanted): (*mut Magazine, usize),
    ) -> usize {
        let Some(mut held) = arena.hold_shared_heap(self.hint()) else { return 0 };
        // SAFETY: the caller's promise.
        unsafe {
            let count = held.shared_depots().map_or(0, |it| it.fill(class, magazine));
            if count > 0 {
                return count;
            }
            if let Some(depots) = held.shared_depots() {
                depots.note_missed(arena, class, true, || arena.most_set_aside());
            }
            let count = fill(arena, &mut held, class, (magazine, wanted));
            self.use_shared_map(&held);
            count
        }
    }

    /// Takes one object out of a slab, for a thread that has no magazine. 0 when there is none.
    fn take_one<S: System>(&mut self, arena: &Arena<S>, class: Class) -> usize {
        let mut one = [0];
        if let Some(heap) = self.heap() {
            arena.take_small(&mut heap.hold(), class, &mut one);
            self.limit = heap.mapped();
        } else if let Some(mut held) = arena.hold_shared_heap(self.hint()) {
            arena.take_small(&mut held, class, &mut one);
            self.use_shared_map(&held);
        }
        one[0]
    }

    /// Lets the thread keep what it frees of a shared heap's, now that it may have grown.
    fn use_shared_map(&mut self, held: &Held) {
        if self.holding() == Holding::Shared {
            self.use_map_of(held.heap());
        }
    }

    /// How many objects to take: more if the thread has done nothing but take.
    fn wanted(&mut self, class: Class) -> usize {
        let bit = 1 << class.0;
        let again = self.emptied & bit != 0;
        self.emptied |= bit;
        match self.holding() {
            Holding::Exclusive if again => ROUNDS,
            Holding::Exclusive => ROUNDS / 2,
            Holding::Shared if self.tops[usize::from(class.0)] == 0 => 1,
            Holding::Shared if again => retain::shared_batch_again(class.size(), ROUNDS),
            Holding::Shared => class.info().shared_batch.into(),
            _ => 1,
        }
    }

    /// Gives out a medium object that the thread has at hand, if it has one.
    #[inline]
    pub fn pop_medium(&mut self, class: Class) -> Option<Given> {
        self.medium_bins()?.pop(class)
    }

    /// Notes that the thread has no medium object of a class at hand, before it takes one: if it
    /// could not keep enough, it may keep more from now on.
    pub fn note_medium_missed<S: System>(&mut self, arena: &Arena<S>, class: Class) {
        if let Some(bins) = self.medium_bins() {
            let mut twice = FoundLate::NOTHING;
            let released = arena.note_medium_missed(bins, class, &mut twice);
            let has_swing = bins.swing().is_any();
            self.found_late.note_all(&twice);
            self.note_released(arena, released);
            self.note_swing(has_swing);
            // About as many as a slab has in the mean.
            let bytes = usize::from(class.info().capacity) * class.size() / 2;
            self.make_room(arena, bytes);
        }
    }

    /// Gives out one of the medium objects that the thread has at hand, if it has any: which one,
    /// `from` decides.
    #[inline]
    pub(crate) fn pop_any_medium(&mut self, class: Class, from: u32) -> Option<Given> {
        self.medium_bins()?.pop_from(class, from)
    }

    /// The object that [`ThreadCache::pop_any_medium`] would give out.
    #[inline]
    pub(crate) fn next_medium(&mut self, class: Class, from: u32) -> Option<usize> {
        self.medium_bins()?.next_from(class, from)
    }

    /// Gives out a medium object. `None` when there is no memory.
    pub fn take_medium<S: System>(&mut self, arena: &Arena<S>, class: Class) -> Option<Given> {
        let given = self.try_take_medium(arena, class);
        if given.is_none() && self.let_go_for_want_of_memory(arena) {
            return self.try_take_medium(arena, class);
        }
        given
    }

    fn try_take_medium<S: System>(&mut self, arena: &Arena<S>, class: Class) -> Option<Given> {
        self.settle_in(arena);
        let Some(heap) = self.heap() else {
            let mut held = arena.hold_shared_heap(self.hint())?;
            return arena.take_medium_shared(&mut held, class);
        };
        let account = Account::new(&heap.tally);
        // SAFETY: the outbox is leased to this thread, and used for nothing else meanwhile.
        let outbox = unsafe { self.outbox.as_mut() };
        let given = arena.take_medium(heap, self.medium_bins()?, outbox, class, &account);
        self.wants_help |= arena.is_help_wanted();
        given
    }

    /// Gives out a run, or a direct mapping if the region cannot hold it.
    pub fn take_run<S: System>(
        &mut self,
        arena: &Arena<S>,
        size: usize,
        align: usize,
        prefer: Prefer,
    ) -> Option<Given> {
        let given = self.try_take_run(arena, size, align, prefer);
        if given.is_none() && self.let_go_for_want_of_memory(arena) {
            return self.try_take_run(arena, size, align, prefer);
        }
        given
    }

    fn try_take_run<S: System>(
        &mut self,
        arena: &Arena<S>,
        size: usize,
        align: usize,
        prefer: Prefer,
    ) -> Option<Given> {
        self.settle_in(arena);
        let nowhere = Home::default();
        let heap = self.heap();
        let (home, tally) =
            heap.map_or((&nowhere, &arena.tally), |heap| (&heap.run_home, &heap.tally));
        let account = Account::new(tally);
        let count = u32::try_from(arena.length_for(size)).unwrap_or(u32::MAX);
        if let Some(heap) = heap {
            let may_be_hot = prefer == Prefer::Dirty && align <= GRANULE;
            if may_be_hot && let Some(address) = arena.pop_longer_run(heap, count) {
                return Some(Given { address, zero: false });
            }
            if may_be_hot && let Some(address) = arena.take_exchanged(heap, count, &account) {
                self.released += account.total_released();
                return Some(Given { address, zero: false });
            }
            self.surplus.note_claimed();
            self.make_room(arena, count as usize * GRANULE);
            arena.note_run_claimed(heap, count, &account);
            if may_be_hot && let Some(address) = arena.take_batch(heap, count, &account) {
                return Some(Given { address, zero: false });
            }
        }
        let given = arena.take_run(size, align.max(UNIT), prefer, home, &account);
        self.wants_help |= arena.is_help_wanted();
        if let Some(heap) = heap {
            if prefer == Prefer::Dirty && given.is_some_and(|given| given.zero) {
                arena.note_grown(heap, count, &account);
            }
            self.released += account.total_released();
        }
        arena.leave_home(&nowhere);
        given.or_else(|| {
            let address = arena.direct.map(&arena.system, size, align.max(UNIT))?;
            Some(Given { address, zero: true })
        })
    }
}
