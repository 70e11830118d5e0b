//! Giving objects back: what a thread does with small objects that it keeps no longer, because a
//! magazine is full or the thread ends.
//!
//! They come by the magazine. What was freed in order stands in rows of one slab; what was freed in
//! no order is of another slab each time, and then what is done for each object counts. So those of
//! the thread's own slabs, or of the shared heaps' if it shares them, do not wait in the outbox for
//! company: putting them there, looking for room, and sending others home in their place takes
//! longer than the two atomic operations that are saved, on lines that are seldom anywhere else. Of
//! slabs that the thread's heap keeps ([`kept`](crate::kept)) there are none to save.

use crate::arena::Arena;
use crate::aside::SetAside;
use crate::cache::{Holding, ThreadCache};
use crate::class::{Class, Info};
use crate::heap::{Heap, Held};
use crate::invalid::Invalid;
use crate::layout::{GRANULE, GRANULE_SHIFT, Granule};
use crate::magazine::{Magazine, ROUNDS};
use crate::outbox::{FreedTwice, Row};
use crate::slab::own_is_far;
use crate::tables::KeptAs;
use freehold_sync::atomic::Alone;
use freehold_sync::freed;
use freehold_sync::word::Pushed;
use freehold_sys::System;

/// When fewer objects than this belong in a row of objects in no order, they are of so many slabs
/// that it takes longer to bring them together than it saves.
const WORTH_GATHERING: usize = 4;

/// How many objects are compared at once with what comes next in order.
const AT_ONCE: usize = 4;

/// Objects that went home one by one.
struct Scattered {
    /// How many.
    count: usize,
    /// What is left to do for the slab of the last, if anything is.
    last: Option<(Granule, Left)>,
}

/// What sending an object home leaves to do.
enum Left {
    /// What the push asks for.
    Push(Pushed),
    /// The heap keeps the slab, which is whole.
    WholeKept,
    /// The object was free already.
    Twice,
}

/// Finds small objects of one class.
struct Rows<'a, S: System> {
    arena: &'a Arena<S>,
    region: usize,
    class: Class,
    info: &'static Info,
}

impl<'a, S: System> Rows<'a, S> {
    fn of(arena: &'a Arena<S>, class: Class) -> Self {
        Self { arena, region: arena.tables.region, class, info: class.info() }
    }

    /// Where an object is. `None` if what is there is not of the class any longer: that it was, and
    /// the start of an object, was found out when the thread kept it.
    #[inline(always)]
    fn place(&self, object: usize) -> Option<(Granule, usize)> {
        let in_region = object - self.region;
        let slab = Granule((in_region >> GRANULE_SHIFT) as u32);
        let is_of_class = self.arena.tag(slab).class() == self.class.0;
        is_of_class.then(|| (slab, self.info.objects_in(in_region % GRANULE)))
    }

    /// Sends objects home, each by itself, from the first on as far as each is of another granule
    /// than the next, and of a slab of the heap with that number to which it is not attached; or
    /// until one leaves something to do. That heap's lock is held. Here each instruction counts.
    #[inline(never)]
    fn send_scattered(&self, heap: u16, objects: &[usize]) -> Scattered {
        if let [first, second, ..] = objects
            && (first ^ second) < GRANULE
        {
            return Scattered { count: 0, last: None };
        }
        Alone::now().apart(|alone| {
            if own_is_far(self.info) {
                self.send_scattered_when(alone, heap, objects, |rest| {
                    self.take_back_kept::<true>(heap, rest)
                })
            } else {
                self.send_scattered_when(alone, heap, objects, |rest| {
                    self.take_back_kept::<false>(heap, rest)
                })
            }
        })
    }

    /// Likewise, where `take_back_kept` sees to those that are of slabs which the heap keeps.
    #[inline(always)]
    fn send_scattered_when(
        &self,
        alone: Alone,
        heap: u16,
        objects: &[usize],
        take_back_kept: impl Fn(&[usize]) -> Scattered,
    ) -> Scattered {
        let (arena, info) = (self.arena, self.info);
        let (capacity, wake) = (info.capacity.into(), info.wake.into());
        let mut count = 0;
        loop {
            let kept = take_back_kept(&objects[count..]);
            count += kept.count;
            if kept.last.is_some() {
                return Scattered { count, last: kept.last };
            }
            let Some(&object) = objects.get(count) else { break };
            if objects.get(count + 1).is_some_and(|&next| (next ^ object) < GRANULE) {
                break;
            }
            let Some((slab, n)) = self.place(object) else { break };
            if arena.tag(slab).owner() != heap {
                break;
            }
            let word = arena.word(slab).count();
            let seen = word.see();
            if seen.is_at_hand() {
                break;
            }
            let (bits, bit) = (arena.bits(slab).word(n / 64), 1 << (n % 64));
            let pushed = freed::free_one((word, seen), bits, bit, capacity, wake, alone);
            count += 1;
            if pushed != Pushed::Recorded {
                return Scattered { count, last: Some((slab, Left::Push(pushed))) };
            }
        }
        Scattered { count, last: None }
    }

    /// Takes objects back of slabs that the heap with that number keeps, whose lock is held, from
    /// the first on as far as each is of such a one, and does not lie beside the one before; or
    /// until one leaves something to do. `FAR` is [`own_is_far`] of the class.
    #[inline(always)]
    fn take_back_kept<const FAR: bool>(&self, heap: u16, objects: &[usize]) -> Scattered {
        let (arena, key) = (self.arena, KeptAs::key(heap, self.class));
        let (mut count, mut before, mut last) = (0, Granule(u32::MAX), None);
        let in_order = |n: usize| objects[n].abs_diff(objects[n - 1]) == self.class.size();
        while let Some(&object) = objects.get(count) {
            let in_region = object - self.region;
            let slab = Granule((in_region >> GRANULE_SHIFT) as u32);
            if slab == before && in_order(count) || !arena.is_kept_as(key, slab) {
                break;
            }
            before = slab;
            count += 1;
            let n = self.info.objects_in(in_region % GRANULE);
            // SAFETY: kept by the heap whose lock is held.
            let local = unsafe { &mut *arena.local(slab) };
            let left = match local.take_back_kept::<FAR>(self.info, || arena.bits(slab), n) {
                Some(false) => continue,
                Some(true) => Left::WholeKept,
                None => Left::Twice,
            };
            last = Some((slab, left));
            break;
        }
        if count > 0 {
            let twice = usize::from(matches!(last, Some((_, Left::Twice))));
            arena.heap(heap).keeping.add((count - twice) * self.class.size());
        }
        Scattered { count, last }
    }

    /// A row of one object, `first`, the `n`th of its slab, with those of the others that follow it
    /// there: what was freed together is often of one slab. An object that comes a second time ends
    /// the row.
    #[inline]
    fn with_neighbours(&self, slab: Granule, n: usize, first: usize, others: &[usize]) -> Row {
        let mut row = Row::one(slab, n);
        let (count, mask) = in_order(self.info, first, n, others);
        row.mask |= mask;
        row.count += count as u16;
        let (base, end) = word_of(self.info, first, n);
        for &object in &others[count..] {
            let offset = object.wrapping_sub(base);
            if offset >= end {
                break;
            }
            let bit = 1 << (self.info.objects_in(offset) % 64);
            if row.mask & bit != 0 {
                break;
            }
            row.mask |= bit;
            row.count += 1;
        }
        row
    }
}

/// Where the objects are that have a bit in the same word as one, the `n`th of its slab: the
/// address of the first of them, and how many bytes they take up.
#[inline]
fn word_of(info: &Info, object: usize, n: usize) -> (usize, usize) {
    let size = info.size as usize;
    let before = n / 64 * 64 * size;
    (object - n % 64 * size, (64 * size).min(GRANULE - before))
}

/// How many of some objects stand in a row with one before them, the `n`th of its slab, each next
/// to the one before, all in one direction and with bits in one word; and their bits. What was
/// allocated at once and freed in that order, or in the other, takes a third of the instructions
/// that it takes to look at each.
#[inline]
fn in_order(info: &Info, first: usize, n: usize, others: &[usize]) -> (usize, u64) {
    let (size, bit) = (info.size as usize, n % 64);
    let Some(step) = others.first().map(|next| next.wrapping_sub(first)) else { return (0, 0) };
    let up = step == size;
    let most = if up {
        (usize::from(info.capacity) - n - 1).min(63 - bit)
    } else if step == size.wrapping_neg() {
        bit
    } else {
        return (0, 0);
    };
    let count = count_in_steps(first, step, &others[..most.min(others.len())]);
    let ones = (1 << count) - 1;
    (count, if up { ones << bit << 1 } else { ones << (bit - count) })
}

/// How many numbers follow a first one in steps of so much, until one does not.
#[inline]
fn count_in_steps(first: usize, step: usize, numbers: &[usize]) -> usize {
    let nth = |n: usize| first.wrapping_add(step.wrapping_mul(n + 1));
    let mut count = 0;
    // Several at a time, without a branch for each.
    for some in numbers.chunks_exact(AT_ONCE) {
        let expected = nth(count);
        let wrong = |n: usize| some[n] ^ expected.wrapping_add(step.wrapping_mul(n));
        if (0..AT_ONCE).fold(0, |all, n| all | wrong(n)) != 0 {
            break;
        }
        count += AT_ONCE;
    }
    while count < numbers.len() && numbers[count] == nth(count) {
        count += 1;
    }
    count
}

/// Brings small objects of a class together that belong in one row, as long as there are some to a
/// row.
fn gather(info: &Info, objects: &mut [usize]) {
    let mut rest = objects;
    while let Some(&first) = rest.first() {
        let (base, end) = word_of(info, first, info.objects_in(first % GRANULE));
        let mut count = 1;
        for i in 1..rest.len() {
            // Without a branch, which a processor would guess wrong.
            rest.swap(i, count);
            count += usize::from(rest[count].wrapping_sub(base) < end);
        }
        if count < WORTH_GATHERING {
            return;
        }
        rest = &mut rest[count..];
    }
}

impl<S: System> Arena<S> {
    /// Whether a slab of small objects stands in the map of this heap, which others may share: of
    /// medium ones none does.
    #[inline]
    fn owns(&self, held: &Held, slab: Granule) -> bool {
        let owner = self.tag(slab).owner();
        owner == held.heap().id() || !held.heap().is_exclusive() && self.is_shared(owner)
    }

    /// Holds a shared heap, if the first of some objects is of the shared heaps': what a thread
    /// gives back together is nearly always of one kind. Others go into the outbox, which may have
    /// to send much home for it, and nobody is to wait for that.
    fn hold_shared_heap_for(&self, first: usize, hint: u16) -> Option<Held<'_>> {
        let owner = self.tag(self.granule_of(first)?).owner();
        if self.is_shared(owner) { self.hold_shared_heap(hint) } else { None }
    }
}

impl ThreadCache {
    /// Makes room in a full magazine: it is set aside and another used. If as many are set aside as
    /// may be, the objects of the one that has been longest go back to their slabs; so do the older
    /// objects of a thread that can set none aside.
    pub(crate) fn unload<S: System>(
        &mut self,
        arena: &Arena<S>,
        class: Class,
    ) -> Result<(), Invalid> {
        if self.drain_if_asked(arena)? {
            return Ok(());
        }
        match self.set_aside(arena, class) {
            SetAside::Done => return Ok(()),
            SetAside::Instead(oldest) => {
                self.emptied &= !(1 << class.0);
                self.provide_outbox(arena);
                // SAFETY: it is full, which is `ROUNDS` objects, and in nobody's hands but these
                // until it is loaded.
                let objects = unsafe { Magazine::slots(oldest, ROUNDS) };
                if arena.hardening.is_on() {
                    // They have waited, and left in no order.
                    gather(class.info(), objects);
                }
                let given_back = self.give_back(arena, class, objects);
                self.load(class, Magazine::first_slot(oldest));
                given_back.and_then(|()| self.give_back_unused(arena))?;
                return self.drain_if_only_freeing(arena, class);
            }
            SetAside::Not => {}
        }
        self.emptied &= !(1 << class.0);
        let rounds = self.empty(class);
        let rounds = rounds.as_slice();
        self.provide_outbox(arena);
        let (old, new) = rounds.split_at(rounds.len() / 2);
        let unwanted = if self.fill(class, new.iter().copied()) { old } else { rounds };
        self.give_back(arena, class, unwanted)?;
        self.drain_if_only_freeing(arena, class)
    }

    /// Gives objects of one class back to their slabs: those of the thread's own slabs at once,
    /// others by way of the outbox.
    pub(crate) fn give_back<S: System>(
        &mut self,
        arena: &Arena<S>,
        class: Class,
        objects: &[usize],
    ) -> Result<(), Invalid> {
        if objects.is_empty() {
            return Ok(());
        }
        let mut held = match self.holding() {
            Holding::Shared => arena.hold_shared_heap_for(objects[0], self.hint()),
            _ => self.heap().map(Heap::hold),
        };
        let (rows, mut released, mut rest) = (Rows::of(arena, class), 0, objects);
        loop {
            if let Some(held) = held.as_mut() {
                let sent = rows.send_scattered(held.heap().id(), rest);
                rest = &rest[sent.count..];
                if let Some((slab, left)) = sent.last {
                    let settled = match left {
                        Left::Push(pushed) => arena.settle(class, slab, pushed, Some(held)),
                        Left::WholeKept => {
                            arena.release_if_whole(held, class, slab);
                            Ok(0)
                        }
                        Left::Twice => Err(()),
                    };
                    released += settled.map_err(|()| arena.twice(FreedTwice { slab }))?;
                    continue;
                }
            }
            let Some((&first, others)) = rest.split_first() else { break };
            let twice = Invalid::FreedTwice { address: first };
            let (slab, n) = rows.place(first).ok_or(twice)?;
            let row = rows.with_neighbours(slab, n, first, others);
            rest = &rest[usize::from(row.count)..];
            released += self.give_back_row(arena, class, row, held.as_mut())?;
        }
        released += held.map_or(0, |held| held.account.total_released());
        self.note_released(arena, released);
        Ok(())
    }

    /// Gives back objects that stand in a row. Returns the granules released, but for those on the
    /// account of the heap held.
    #[inline]
    fn give_back_row<S: System>(
        &mut self,
        arena: &Arena<S>,
        class: Class,
        row: Row,
        held: Option<&mut Held>,
    ) -> Result<u32, Invalid> {
        let sent = match held {
            Some(held) if arena.owns(held, row.slab) => {
                if held.is_attached_to(class, row.slab) {
                    arena.take_back(held, class, row).map(|()| 0)
                } else if arena.is_kept_as(KeptAs::key(held.heap().id(), class), row.slab) {
                    arena.take_back_kept(held, class, row).map(|()| 0)
                } else {
                    arena.send_row_home(class, row, Some(held))
                }
            }
            held => return self.post_row(arena, class, row, held),
        };
        sent.map_err(|()| arena.twice(FreedTwice { slab: row.slab }))
    }

    /// Puts objects into the outbox, where they or others may have to go home for it; sends them
    /// home by themselves if there is none. Returns the granules released, but for those on the
    /// account of the heap held.
    #[inline(never)]
    pub(crate) fn post_row<S: System>(
        &mut self,
        arena: &Arena<S>,
        class: Class,
        row: Row,
        held: Option<&mut Held>,
    ) -> Result<u32, Invalid> {
        // SAFETY: the outbox is leased to this thread.
        let Some(outbox) = (unsafe { self.outbox.as_mut() }) else {
            let masks = core::iter::once((row.word, row.mask));
            let sent = arena.send_home(class, row.slab, masks, row.count.into(), held);
            return sent.map_err(|()| arena.twice(FreedTwice { slab: row.slab }));
        };
        if outbox.add(class, row) {
            return Ok(0);
        }
        arena.post(outbox, class, row, held).map_err(|e| arena.twice(e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn objects_in_order_are_told_with_their_bits_as_far_as_one_word_goes() {
        for class in [Class::of_small(16), Class::of_small(80), Class::of_small(2000)] {
            let (info, slab, size) = (class.info(), 7 * GRANULE, class.size());
            let capacity = usize::from(info.capacity);
            for n in 0..capacity {
                let at = |n: usize| slab + n * size;
                let bits = |all: &mut dyn Iterator<Item = usize>| {
                    all.take_while(|m| m / 64 == n / 64).map(|m| 1_u64 << (m % 64)).collect()
                };
                let up: Vec<_> = bits(&mut (n + 1..capacity));
                let down: Vec<_> = bits(&mut (0..n).rev());
                // Beyond the last object of the slab, too, where none can be.
                let above: Vec<_> = (n + 1..capacity + 3).map(at).collect();
                let below: Vec<_> = (0..n).rev().map(at).chain([slab - size]).collect();
                for (others, bits) in [(above, up), (below, down)] {
                    let all = bits.iter().fold(0, |all, bit| all | bit);
                    assert_eq!(in_order(info, at(n), n, &others), (bits.len(), all));
                    for end in 0..bits.len().min(5) {
                        let mut others = others.clone();
                        others[end] = at(n);
                        let all = bits[..end].iter().fold(0, |all, bit| all | bit);
                        assert_eq!(in_order(info, at(n), n, &others), (end, all));
                    }
                }
                assert_eq!(in_order(info, at(n), n, &[]), (0, 0));
                assert_eq!(in_order(info, at(n), n, &[at(n + 2)]), (0, 0));
            }
        }
    }

    #[test]
    fn objects_in_no_order_are_brought_together_by_words_and_none_is_lost() {
        let (class, slab) = (Class::of_small(80), 7 * GRANULE);
        let size = class.size();
        let word = |object: usize| (object / GRANULE, object % GRANULE / size / 64);
        // Of three words of one slab, and the first of another.
        let numbers = (0..28).map(|n| n * 11 % 28);
        let mut objects: Vec<_> =
            numbers.map(|n| slab + n / 7 % 3 * 64 * size + n * size).collect();
        objects.extend((0..6).map(|n| slab + 3 * GRANULE + n * size));
        objects.sort_by_key(|object| object.wrapping_mul(0x9e37_79b9) % 101);
        let mut sorted = objects.clone();
        sorted.sort_unstable();
        let rows = |objects: &[usize]| objects.chunk_by(|&a, &b| word(a) == word(b)).count();
        assert!(rows(&objects) > 10);
        gather(class.info(), &mut objects);
        assert_eq!(rows(&objects), 4);
        objects.sort_unstable();
        assert_eq!(objects, sorted);
    }
}
