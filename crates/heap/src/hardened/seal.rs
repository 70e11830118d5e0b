//! The seal of an object: the last word of its slot, which tells damage and state.
//!
//! ```text
//! bits 63 ...... 24 | 23 .......... 8 | 7 .... 0
//!  secret           | state ^ secret  | secret
//! ```
//!
//! The secret part depends on the address, so that a seal that was read elsewhere is of no use. Its
//! first and last byte are never 0: who runs over it with zeros changes it. The state is [`FREE`],
//! or how many bytes before the seal were not asked for: the slack. Where there is slack, it begins
//! with up to eight bytes that depend on the secret as well, the mark, and the rest of it is zero.
//!
//! A word that is 0 has not been sealed yet: nobody was ever given the object.
//!
//! What is done for every small object is as few instructions as possible, since each `malloc` and
//! each `free` does it: a seal and a mark come of one product; and that the bits are those of a
//! seal, that the object is in use, and that its slack has room in the slot, is one comparison.
//!
//! All atomics here are Relaxed: a seal belongs to whoever has the object, and objects change hands
//! by other means; what two threads may do to one seal at a time is to free the object twice, and
//! then the exchange tells which of them was first, and to seal what has not been sealed. A process
//! that has had one thread so far has nobody else to free anything, and no exchange. (A thread that
//! frees for the first time at the very moment, and the same object, is not told apart then.)

use super::clear;
use crate::class::{MEDIUM_MAX, SMALL_MAX};
use crate::layout::at;
use core::ptr;
use freehold_sync::atomic::{AtomicU64, Ordering};

/// Bytes of a seal.
pub(crate) const BYTES: usize = size_of::<u64>();

/// The state of an object that is not in use.
const FREE: u64 = u16::MAX as u64;

/// Less than the number that stands for [`FREE`].
const _: () = assert!(MEDIUM_MAX < FREE as usize);

/// Where the state is.
const STATE_SHIFT: u32 = 8;

/// Bytes of slack that are looked at when an object is freed.
const LOOKED_AT: usize = 64;

/// What seals depend on, beside their places: chosen at random when the process starts.
#[derive(Clone, Copy)]
pub struct Secret {
    mask: u64,
    factor: u64,
    /// What marks depend on in addition.
    marks: u64,
    /// Bits that are set in what the others give: one of every byte. No secret, but with the others
    /// it is at hand.
    never_zero: u64,
}

/// Slots of up to so many bytes are *tiny*: what is done for them takes few enough registers and
/// instructions that a function which does nothing else need not save any.
pub(super) const TINY: usize = 128;

/// What is wrong with an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Damage {
    /// It is free.
    Free,
    /// It was never given out.
    Never,
    /// What follows it was written to.
    After,
    /// What precedes it was written to.
    Before,
    /// It was written to while it was free.
    WhenFree,
}

impl Secret {
    /// That of an arena that is not hardened, and seals nothing.
    pub(super) const NONE: Self = Self::of(0, 1, 0);

    /// A secret of random words.
    pub fn new(random: [u64; 2]) -> Self {
        let [mask, factor] = [random[0], random[1] | 1];
        Self::of(mask, factor, Self::of(mask, factor, 0).mix(random[1]))
    }

    const fn of(mask: u64, factor: u64, marks: u64) -> Self {
        Self { mask, factor, marks, never_zero: 0x0101_0101_0101_0101 }
    }

    /// A number that others cannot guess, for each number.
    pub(super) fn mix(&self, n: u64) -> u64 {
        let product = self.key(n as usize).product;
        product ^ product >> 32
    }

    /// What all that is secret about an object depends on whose seal is at `place`.
    #[inline(always)]
    fn key(&self, place: usize) -> Key {
        let product = (place as u64 ^ part(&self.mask)).wrapping_mul(part(&self.factor));
        Key { product, empty: product.rotate_left(8) | part(&self.never_zero) }
    }

    /// What stands at the beginning of slack. Who has read that knows no seal: this part of the
    /// secret is in one of them only.
    #[inline(always)]
    fn mark(&self, key: Key) -> u64 {
        (key.product ^ part(&self.marks)) | part(&self.never_zero)
    }
}

/// Part of a secret, where it is used: compilers keep it for the next use otherwise, and save
/// another register for that.
#[inline(always)]
fn part(part: &u64) -> u64 {
    // SAFETY: a reference can be read.
    unsafe { ptr::from_ref(part).read_volatile() }
}

/// Of a seal's place and the secret.
#[derive(Clone, Copy)]
struct Key {
    product: u64,
    /// The seal of state 0. The first byte has the product's best bits.
    empty: u64,
}

impl Key {
    /// The seal of a state.
    #[inline(always)]
    fn seal(self, state: u64) -> u64 {
        self.empty ^ state << STATE_SHIFT
    }

    /// What a word tells as a seal: a state if it is one, and more than [`FREE`] if it is none.
    #[inline(always)]
    fn state(self, word: u64) -> u64 {
        (word ^ self.empty).rotate_right(STATE_SHIFT)
    }
}

/// The slot of an object: where it starts, where its seal is, and whether another one comes before
/// it in its slab.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) has_predecessor: bool,
}

impl Slot {
    /// None.
    pub(super) const NONE: Self = Self { start: 0, end: 0, has_predecessor: false };

    /// The slot of `size` bytes at an address.
    #[inline(always)]
    pub(super) fn new(start: usize, size: usize, has_predecessor: bool) -> Self {
        Self { start, end: start + (size - BYTES), has_predecessor }
    }

    /// Whether it is none.
    #[inline(always)]
    pub(super) fn is_none(self) -> bool {
        self.start == 0
    }

    /// Its bytes, with the seal.
    #[inline(always)]
    pub(super) fn size(self) -> usize {
        self.room() + BYTES
    }

    #[inline(always)]
    fn word(place: usize) -> &'static AtomicU64 {
        // SAFETY: the last word of an object of a slab, which is committed as long as any object of
        // it is in somebody's hands; all access to it is atomic, but for a program's that does what
        // it must not.
        unsafe { &*at::<AtomicU64>(place) }
    }

    /// The most bytes that it has for an object.
    #[inline(always)]
    pub(super) fn room(self) -> usize {
        self.end - self.start
    }

    /// Makes an object ready that its slab gives out for the first time: from now on it has a seal.
    /// If there is damage it stays, and is found when the object is given out. Of a page that
    /// nobody has touched, looking before writing would be one more fault.
    pub(super) fn prepare(self, secret: &Secret) {
        let _ = Self::make_seal(self.end, secret.key(self.end));
    }

    /// Seals an object of `bytes` bytes that is about to be given out. It must have been clear, and
    /// is then, up to there. If it was not, nothing has changed.
    pub(super) fn open(
        self,
        secret: &Secret,
        bytes: usize,
        random: impl FnOnce(usize) -> usize,
    ) -> Result<(), Damage> {
        if self.size() > SMALL_MAX {
            self.touch(secret)?;
        }
        if self.has_predecessor {
            self.seal_predecessor(secret)?;
        }
        self.open_ready::<false>(secret, bytes, random)
    }

    /// Makes sure that there is a seal, and that the first word is clear: by writing, if only what
    /// stands there, as in [`Slot::prepare`].
    fn touch(self, secret: &Secret) -> Result<(), Damage> {
        let _ = Self::make_seal(self.end, secret.key(self.end));
        let first = Self::word(self.start);
        match first.compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Ok(()),
            Err(_) => Err(Damage::WhenFree),
        }
    }

    /// As [`Slot::open`], for an object that was made ready. What is before it is not looked at.
    #[inline(always)]
    pub(super) fn open_ready<const IS_TINY: bool>(
        self,
        secret: &Secret,
        bytes: usize,
        random: impl FnOnce(usize) -> usize,
    ) -> Result<(), Damage> {
        let key = secret.key(self.end);
        let found = Self::word(self.end).load(Ordering::Relaxed);
        if found != key.seal(FREE) {
            return Err(Damage::WhenFree);
        }
        let is_clear = if IS_TINY {
            clear::is_tiny_clear(self.start, self.end)
        } else {
            clear::looks_clear(self.start, self.room(), random)
        };
        if !is_clear {
            return Err(Damage::WhenFree);
        }
        self.close_with(secret, key, bytes);
        Ok(())
    }

    /// Seals an object that is in use, of which `bytes` bytes are, and the others clear.
    pub(super) fn close(self, secret: &Secret, bytes: usize) {
        self.close_with(secret, secret.key(self.end), bytes);
    }

    #[inline(always)]
    fn close_with(self, secret: &Secret, key: Key, bytes: usize) {
        let slack = self.room() - bytes;
        let mark = secret.mark(key);
        if slack >= BYTES {
            // SAFETY: inside the slot, and before the seal.
            unsafe { at::<u64>(self.end - slack).write_unaligned(mark) };
        } else if slack > 0 {
            self.mark_short_slack(mark, slack);
        }
        Self::word(self.end).store(key.seal(slack as u64), Ordering::Relaxed);
    }

    /// Writes as much of the mark as there is slack. The seal is not touched even for a moment: who
    /// frees the next object may look at it.
    #[inline(always)]
    fn mark_short_slack(self, mark: u64, slack: usize) {
        let last = at::<u64>(self.end - BYTES);
        let unused = u64::BITS - 8 * slack as u32;
        // SAFETY: the last word before the seal; slots are of two words at least, and aligned.
        unsafe { last.write(last.read() << (64 - unused) >> (64 - unused) | mark << unused) };
    }

    /// Looks at the seal before the object, and makes one if nobody has.
    fn seal_predecessor(self, secret: &Secret) -> Result<(), Damage> {
        let place = self.start - BYTES;
        let key = secret.key(place);
        let found = Self::word(place).load(Ordering::Relaxed);
        if key.state(found) <= FREE { Ok(()) } else { Self::make_seal(place, key) }
    }

    /// Makes the first seal at a place, if there is none.
    fn make_seal(place: usize, key: Key) -> Result<(), Damage> {
        let sealed = Self::word(place).compare_exchange(
            0,
            key.seal(FREE),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        match sealed {
            Ok(_) => Ok(()),
            Err(found) if key.state(found) <= FREE => Ok(()),
            Err(_) => Err(Damage::Before),
        }
    }

    /// The bytes of an object in use.
    pub(super) fn bytes(self, secret: &Secret) -> Result<usize, Damage> {
        let seal = Self::word(self.end).load(Ordering::Relaxed);
        Ok(self.room() - self.slack_by(secret.key(self.end), seal)?)
    }

    #[inline(always)]
    fn slack_by(self, key: Key, seal: u64) -> Result<usize, Damage> {
        // That of a free object is more than any slack, and no seal is more than that.
        match key.state(seal) {
            slack if slack <= self.room() as u64 => Ok(slack as usize),
            state => Err(Self::not_in_use(state, seal)),
        }
    }

    #[cold]
    fn not_in_use(state: u64, seal: u64) -> Damage {
        match state {
            FREE => Damage::Free,
            _ if seal == 0 => Damage::Never,
            _ => Damage::After,
        }
    }

    /// Looks at what surrounds an object in use, and returns its bytes.
    pub(super) fn inspect(self, secret: &Secret) -> Result<usize, Damage> {
        let seal = Self::word(self.end).load(Ordering::Relaxed);
        Ok(self.room() - self.inspect_with::<false>(secret, secret.key(self.end), seal)?)
    }

    /// The same, with the slack. Fails for a tiny slot that has more slack than its class needs.
    #[inline(always)]
    fn inspect_with<const IS_TINY: bool>(
        self,
        secret: &Secret,
        key: Key,
        seal: u64,
    ) -> Result<usize, Damage> {
        let slack = self.slack_by(key, seal)?;
        if !self.is_slack_whole::<IS_TINY>(secret.mark(key), slack) {
            return Err(Damage::After);
        }
        if self.has_predecessor {
            let place = self.start - BYTES;
            let before = Self::word(place).load(Ordering::Relaxed);
            // When the object was given out there was a seal.
            if secret.key(place).state(before) > FREE {
                return Err(Damage::Before);
            }
        }
        Ok(slack)
    }

    #[inline(always)]
    fn is_slack_whole<const IS_TINY: bool>(self, mark: u64, slack: usize) -> bool {
        if slack < BYTES {
            return slack == 0 || self.is_short_slack_whole(mark, slack);
        }
        let from = self.end - slack;
        // SAFETY: inside the slot, which is the caller's; the seal follows.
        let found = unsafe { at::<u64>(from).read_unaligned() };
        found == mark && (slack == BYTES || Self::is_clear_after_mark::<IS_TINY>(from, slack))
    }

    #[inline(always)]
    fn is_short_slack_whole(self, mark: u64, slack: usize) -> bool {
        let unused = u64::BITS - 8 * slack as u32;
        // SAFETY: the last word before the seal; slots are of two words at least, and aligned.
        let found = unsafe { at::<u64>(self.end - BYTES).read() };
        found >> unused == mark << unused >> unused
    }

    /// Whether slack is clear behind its mark, as far as it is looked at.
    #[inline(always)]
    fn is_clear_after_mark<const IS_TINY: bool>(from: usize, slack: usize) -> bool {
        if slack < 2 * BYTES {
            // SAFETY: the word before the seal; the mark is in its first bytes.
            let last = unsafe { at::<u64>(from + slack - BYTES).read() };
            return last >> (8 * (2 * BYTES - slack)) == 0;
        }
        if IS_TINY {
            return false;
        }
        let looked_at = slack.min(LOOKED_AT);
        let (first, last) = (from + BYTES, from + looked_at - BYTES);
        clear::is_clear(first, (last - first).next_multiple_of(BYTES))
            && clear::is_clear(last, BYTES)
    }

    /// Lets the processor fetch an object that is about to be taken back, as far as it does not go
    /// on by itself: what is done first waits for its seal otherwise, and only then for the rest.
    #[inline(always)]
    pub(super) fn fetch(self) {
        clear::fetch(self.end);
        clear::fetch(self.start - BYTES);
        clear::fetch_first(self.start, self.room());
    }

    /// The same for one that is about to be given out.
    #[inline(always)]
    pub(super) fn fetch_to_give(self) {
        clear::fetch(self.end);
        clear::fetch(self.start - BYTES);
        clear::fetch_looked_at(self.start, self.room());
    }

    /// Takes an object back: looks at what surrounds it, seals it as free, and clears it. If it
    /// fails, nothing has changed that matters. `alone`: no other thread can do so at the same
    /// time. Of tiny slots, those fail whose slack is unusual.
    #[inline(always)]
    pub(super) fn retire<const IS_TINY: bool>(
        self,
        secret: &Secret,
        alone: impl FnOnce() -> bool,
    ) -> Result<(), Damage> {
        let (word, key) = (Self::word(self.end), secret.key(self.end));
        let seal = word.load(Ordering::Relaxed);
        let inspected = self.inspect_with::<IS_TINY>(secret, key, seal);
        let slack = inspected.map_err(|damage| Self::look_again(word, key, damage))?;
        let free = key.seal(FREE);
        if alone() {
            word.store(free, Ordering::Relaxed);
        } else if word.swap(free, Ordering::Relaxed) != seal {
            return Err(Damage::Free);
        }
        if IS_TINY {
            clear::clear_tiny(self.start, self.end);
        } else {
            // With the mark, if there is one.
            clear::clear(self.start, self.room() - slack.saturating_sub(BYTES));
        }
        Ok(())
    }

    /// What is wrong with an object: if it was freed while it was looked at, that.
    #[cold]
    fn look_again(word: &AtomicU64, key: Key, damage: Damage) -> Damage {
        if word.load(Ordering::Relaxed) == key.seal(FREE) { Damage::Free } else { damage }
    }

    /// Clears an object of `bytes` bytes from `kept` on, with the beginning of its slack.
    #[inline(always)]
    pub(super) fn clear_from(self, kept: usize, bytes: usize) {
        let end = (bytes + BYTES).min(self.room());
        if end > kept {
            clear::clear(self.start + kept, end - kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    const SECRET: Secret =
        Secret::of(0x1234_5678_9abc_def0, 0x9e37_79b9_7f4a_7c15, 0x0123_4567_89ab_cdef);
    const SIZE: usize = 64;

    impl Slot {
        /// Gives out an object, for the first time perhaps.
        fn give(self, bytes: usize) -> Result<(), Damage> {
            self.prepare(&SECRET);
            self.open(&SECRET, bytes, |_| 0)
        }
    }

    /// Two slots, one after the other, that nobody was given yet.
    struct Slots(Vec<u128>);

    impl Slots {
        fn new() -> Self {
            Self(vec![0; 2 * SIZE / 16])
        }

        fn nth(&mut self, n: usize) -> Slot {
            let start = self.0.as_mut_ptr().expose_provenance() + n * SIZE;
            Slot::new(start, SIZE, n > 0)
        }
    }

    fn change(place: usize) {
        // SAFETY: inside the slots of the test.
        unsafe { *at::<u8>(place) ^= 1 };
    }

    #[test]
    fn every_size_of_an_object_is_remembered_and_no_byte_of_it_is_touched() {
        for bytes in 0..=SIZE - BYTES {
            let mut slots = Slots::new();
            let slot = slots.nth(0);
            slot.give(bytes).unwrap();
            // SAFETY: inside the slots of the test.
            let byte = |n: usize| unsafe { *at::<u8>(slot.start + n) };
            assert!((0..bytes).all(|n| byte(n) == 0));
            assert_eq!(slot.inspect(&SECRET), Ok(bytes));
            let alone = bytes % 2 == 0;
            slot.retire::<false>(&SECRET, || alone).unwrap();
            assert!(clear::is_clear(slot.start, slot.room()));
            assert_eq!(slot.inspect(&SECRET), Err(Damage::Free));
            assert_eq!(slot.retire::<false>(&SECRET, || alone), Err(Damage::Free));
        }
    }

    #[test]
    fn a_change_of_any_byte_behind_an_object_is_noticed() {
        for bytes in 0..=SIZE - BYTES {
            for place in bytes..SIZE {
                let mut slots = Slots::new();
                let slot = slots.nth(0);
                slot.give(bytes).unwrap();
                change(slot.start + place);
                let state = SIZE - BYTES + 1..SIZE - BYTES + 3;
                let found = slot.retire::<false>(&SECRET, || false);
                // A state can be changed into another one, which tells another size.
                assert!(found == Err(Damage::After) || state.contains(&place), "{bytes} {place}");
            }
        }
    }

    #[test]
    fn zeros_behind_an_object_are_noticed() {
        for bytes in 0..=SIZE - BYTES {
            let mut slots = Slots::new();
            let slot = slots.nth(0);
            slot.give(bytes).unwrap();
            clear::clear(slot.start + bytes, 1);
            assert_eq!(slot.retire::<false>(&SECRET, || false), Err(Damage::After), "{bytes}");
        }
    }

    #[test]
    fn what_precedes_an_object_is_sealed_and_looked_at() {
        let mut slots = Slots::new();
        let (first, second) = (slots.nth(0), slots.nth(1));
        second.give(10).unwrap();
        assert_eq!(first.inspect(&SECRET), Err(Damage::Free));
        first.give(10).unwrap();
        assert_eq!(second.inspect(&SECRET), Ok(10));
        change(second.start - 1);
        assert_eq!(second.retire::<false>(&SECRET, || false), Err(Damage::Before));
    }

    #[test]
    fn a_write_to_a_free_object_is_noticed_when_it_is_given_out() {
        for place in 0..SIZE {
            let mut slots = Slots::new();
            let slot = slots.nth(0);
            slot.give(20).unwrap();
            slot.retire::<false>(&SECRET, || false).unwrap();
            change(slot.start + place);
            assert_eq!(slot.give(20), Err(Damage::WhenFree), "{place}");
        }
    }

    #[test]
    fn an_address_that_nobody_was_given_is_not_called_free() {
        let mut slots = Slots::new();
        assert_eq!(slots.nth(0).retire::<false>(&SECRET, || false), Err(Damage::Never));
    }

    #[test]
    fn of_threads_that_free_an_object_at_once_one_is_told_that_it_has() {
        let mut slots = Slots::new();
        let slot = slots.nth(0);
        for _ in 0..200 {
            slot.give(20).unwrap();
            let retired = std::thread::scope(|scope| {
                let threads =
                    [(); 3].map(|()| scope.spawn(|| slot.retire::<false>(&SECRET, || false)));
                threads.map(|thread| thread.join().unwrap())
            });
            let first = retired.iter().filter(|it| it.is_ok()).count();
            assert_eq!(first, 1, "{retired:?}");
            let other = |it: &Result<(), Damage>| matches!(it, Ok(()) | Err(Damage::Free));
            assert!(retired.iter().all(other), "{retired:?}");
        }
    }

    #[test]
    fn who_knows_what_stands_in_slack_does_not_know_the_seal() {
        let other = Secret { marks: 1, ..SECRET };
        let key = SECRET.key(0x1000);
        assert_eq!(key.seal(0), other.key(0x1000).seal(0));
        assert_ne!(SECRET.mark(key), other.mark(key));
    }

    #[test]
    fn another_secret_makes_other_seals() {
        let other = Secret { mask: 1, ..SECRET };
        let mut slots = Slots::new();
        let slot = slots.nth(0);
        slot.give(20).unwrap();
        assert_eq!(slot.inspect(&other), Err(Damage::After));
    }
}
