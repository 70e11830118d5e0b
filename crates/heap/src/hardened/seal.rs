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
//! with up to eight bytes that depend on the secret as well, and the rest of it is zero.
//!
//! A word that is 0 has not been sealed yet: nobody was ever given the object.
//!
//! All atomics here are Relaxed: a seal belongs to whoever has the object, and objects change hands
//! by other means; what two threads may do to one seal at a time is to free the object twice, and
//! then the exchange tells which of them was first, and to seal what has not been sealed. A process
//! that has had one thread so far has nobody else to free anything, and no exchange. (A thread that
//! frees for the first time at the very moment, and the same object, is not told apart then.)

use super::clear;
use crate::class::MEDIUM_MAX;
use crate::layout::at;
use freehold_sync::atomic::{AtomicU64, Ordering};

/// Bytes of a seal.
pub(crate) const BYTES: usize = size_of::<u64>();

/// The state of an object that is not in use.
const FREE: u16 = u16::MAX;

/// Less than the number that stands for [`FREE`].
const _: () = assert!(MEDIUM_MAX < FREE as usize);

/// Where the state is.
const STATE: u64 = 0x00ff_ff00;
const STATE_SHIFT: u32 = 8;

/// Bits that are set in every seal: of its first and of its last byte.
const NEVER_ZERO: u64 = 1 | 1 << 56;

/// Bits that are set in the bytes at the beginning of slack.
const NEVER_ZEROS: u64 = 0x0101_0101_0101_0101;

/// Bytes of slack that are looked at when an object is freed.
const LOOKED_AT: usize = 64;

/// What seals depend on, beside their places: chosen at random when the process starts.
#[derive(Clone, Copy)]
pub struct Secret {
    mask: u64,
    factor: u64,
}

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
    pub(super) const NONE: Self = Self { mask: 0, factor: 1 };

    /// A secret of random words.
    pub fn new(random: [u64; 2]) -> Self {
        Self { mask: random[0], factor: random[1] | 1 }
    }

    /// A number that others cannot guess, for each number.
    #[inline(always)]
    pub(super) fn mix(self, n: u64) -> u64 {
        self.key(n as usize).mixed()
    }

    /// What all that is secret about an object depends on whose seal is at `place`.
    #[inline(always)]
    fn key(self, place: usize) -> Key {
        Key((place as u64 ^ self.mask).wrapping_mul(self.factor))
    }

    /// What stands at the beginning of slack. Who has read that knows no seal: the mask is in one
    /// of them only.
    #[inline(always)]
    fn mark(self, key: Key) -> u64 {
        key.0.rotate_left(24) ^ self.mask | NEVER_ZEROS
    }
}

/// Of a seal's place and the secret.
#[derive(Clone, Copy)]
struct Key(u64);

impl Key {
    #[inline(always)]
    fn mixed(self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    #[inline(always)]
    fn seal(self, state: u16) -> u64 {
        (self.mixed() | NEVER_ZERO) ^ u64::from(state) << STATE_SHIFT
    }

    /// The state that a seal tells; `None` if it is none.
    #[inline(always)]
    fn state(self, seal: u64) -> Option<u16> {
        let difference = seal ^ self.seal(0);
        (difference & !STATE == 0).then_some((difference >> STATE_SHIFT) as u16)
    }
}

/// The slot of an object: where it starts, its bytes with the seal, and whether another one comes
/// before it in its slab.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub(super) start: usize,
    pub(super) size: usize,
    pub(super) has_predecessor: bool,
}

impl Slot {
    /// None.
    pub(super) const NONE: Self = Self { start: 0, size: 0, has_predecessor: false };

    /// Whether it is none.
    #[inline(always)]
    pub(super) fn is_none(self) -> bool {
        self.start == 0
    }

    /// Where its seal is.
    #[inline(always)]
    fn end(self) -> usize {
        self.start + self.size - BYTES
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
        self.size - BYTES
    }

    /// Seals an object of `bytes` bytes that is about to be given out. It must have been clear, and
    /// is then, up to there. If it was not, nothing has changed.
    #[inline(always)]
    pub(super) fn open(
        self,
        secret: Secret,
        bytes: usize,
        random: impl FnOnce(usize) -> usize,
    ) -> Result<(), Damage> {
        let key = secret.key(self.end());
        let found = Self::word(self.end()).load(Ordering::Relaxed);
        let clean = found == 0 || found == key.seal(FREE);
        if !clean || !clear::looks_clear(self.start, self.room(), random) {
            return Err(Damage::WhenFree);
        }
        if self.has_predecessor {
            self.seal_predecessor(secret)?;
        }
        self.close_with(secret, key, bytes);
        Ok(())
    }

    /// Seals an object that is in use, of which `bytes` bytes are, and the others clear.
    #[inline(always)]
    pub(super) fn close(self, secret: Secret, bytes: usize) {
        self.close_with(secret, secret.key(self.end()), bytes);
    }

    #[inline(always)]
    fn close_with(self, secret: Secret, key: Key, bytes: usize) {
        let slack = self.room() - bytes;
        if slack > 0 {
            self.mark_slack(secret.mark(key), slack);
        }
        Self::word(self.end()).store(key.seal(slack as u16), Ordering::Relaxed);
    }

    /// Writes the mark, or as much of it as there is slack. The seal is not touched even for a
    /// moment: who frees the next object may look at it.
    #[inline(always)]
    fn mark_slack(self, mark: u64, slack: usize) {
        if slack >= BYTES {
            // SAFETY: inside the slot, and before the seal.
            unsafe { at::<u64>(self.end() - slack).write_unaligned(mark) };
            return;
        }
        let last = at::<u64>(self.end() - BYTES);
        let unused = u64::BITS - 8 * slack as u32;
        // SAFETY: the last word before the seal; slots are of two words at least, and aligned.
        unsafe { last.write(last.read() << (64 - unused) >> (64 - unused) | mark << unused) };
    }

    /// Looks at the seal before the object, and makes one if nobody has.
    #[inline(always)]
    fn seal_predecessor(self, secret: Secret) -> Result<(), Damage> {
        let place = self.start - BYTES;
        let key = secret.key(place);
        let found = Self::word(place).load(Ordering::Relaxed);
        if key.state(found).is_some() {
            return Ok(());
        }
        Self::make_seal(place, key)
    }

    /// Makes the first seal at a place, if there is none.
    #[cold]
    fn make_seal(place: usize, key: Key) -> Result<(), Damage> {
        let sealed = Self::word(place).compare_exchange(
            0,
            key.seal(FREE),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        match sealed {
            Ok(_) => Ok(()),
            Err(found) if key.state(found).is_some() => Ok(()),
            Err(_) => Err(Damage::Before),
        }
    }

    /// The bytes of an object in use.
    #[inline(always)]
    pub(super) fn bytes(self, secret: Secret) -> Result<usize, Damage> {
        let seal = Self::word(self.end()).load(Ordering::Relaxed);
        self.bytes_by(secret.key(self.end()), seal)
    }

    #[inline(always)]
    fn bytes_by(self, key: Key, seal: u64) -> Result<usize, Damage> {
        // That of a free object is more than any slack.
        match key.state(seal) {
            Some(slack) if usize::from(slack) <= self.room() => {
                Ok(self.room() - usize::from(slack))
            }
            state => Err(Self::not_in_use(state, seal)),
        }
    }

    #[cold]
    fn not_in_use(state: Option<u16>, seal: u64) -> Damage {
        match state {
            Some(FREE) => Damage::Free,
            None if seal == 0 => Damage::Never,
            _ => Damage::After,
        }
    }

    /// Looks at what surrounds an object in use, and returns its bytes.
    #[inline(always)]
    pub(super) fn inspect(self, secret: Secret) -> Result<usize, Damage> {
        let seal = Self::word(self.end()).load(Ordering::Relaxed);
        self.inspect_with(secret, secret.key(self.end()), seal)
    }

    #[inline(always)]
    fn inspect_with(self, secret: Secret, key: Key, seal: u64) -> Result<usize, Damage> {
        let bytes = self.bytes_by(key, seal)?;
        let slack = self.room() - bytes;
        if slack > 0 && !self.is_slack_whole(secret.mark(key), slack) {
            return Err(Damage::After);
        }
        if self.has_predecessor {
            let place = self.start - BYTES;
            let seal = Self::word(place).load(Ordering::Relaxed);
            // When the object was given out there was a seal.
            secret.key(place).state(seal).ok_or(Damage::Before)?;
        }
        Ok(bytes)
    }

    #[inline(always)]
    fn is_slack_whole(self, mark: u64, slack: usize) -> bool {
        if slack < BYTES {
            let unused = u64::BITS - 8 * slack as u32;
            // SAFETY: the last word before the seal; slots are of two words at least, and aligned.
            return unsafe { at::<u64>(self.end() - BYTES).read() } >> unused
                == mark << unused >> unused;
        }
        let from = self.end() - slack;
        // SAFETY: inside the slot, which is the caller's; the seal follows.
        let found = unsafe { at::<u64>(from).read_unaligned() };
        found == mark && (slack == BYTES || Self::is_clear_after_mark(from, slack))
    }

    #[inline(never)]
    fn is_clear_after_mark(from: usize, slack: usize) -> bool {
        let rest = slack.min(LOOKED_AT) - BYTES;
        // Whole words, and, if that is not all, the bytes that are left before the seal.
        let whole = rest / BYTES * BYTES;
        let last = at::<u64>(from + slack - BYTES);
        // SAFETY: the word before the seal.
        let is_last_clear =
            || rest == whole || unsafe { last.read() } >> (64 - 8 * (rest - whole)) == 0;
        clear::is_clear(from + BYTES, whole) && is_last_clear()
    }

    /// Takes an object back: looks at what surrounds it, seals it as free, and clears it. If it
    /// fails, nothing has changed that matters. `alone`: no other thread can do so at the same
    /// time.
    #[inline(always)]
    pub(super) fn retire(self, secret: Secret, alone: bool) -> Result<(), Damage> {
        let (word, key) = (Self::word(self.end()), secret.key(self.end()));
        let seal = word.load(Ordering::Relaxed);
        let inspected = self.inspect_with(secret, key, seal);
        let bytes = inspected.map_err(|damage| Self::look_again(word, key, damage))?;
        let free = key.seal(FREE);
        if alone {
            word.store(free, Ordering::Relaxed);
        } else if word.swap(free, Ordering::Relaxed) != seal {
            return Err(Damage::Free);
        }
        self.clear_from(0, bytes);
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

    const SECRET: Secret = Secret { mask: 0x1234_5678_9abc_def0, factor: 0x9e37_79b9_7f4a_7c15 };
    const SIZE: usize = 64;

    /// Two slots, one after the other, that nobody was given yet.
    struct Slots(Vec<u128>);

    impl Slots {
        fn new() -> Self {
            Self(vec![0; 2 * SIZE / 16])
        }

        fn nth(&mut self, n: usize) -> Slot {
            let start = self.0.as_mut_ptr().expose_provenance() + n * SIZE;
            Slot { start, size: SIZE, has_predecessor: n > 0 }
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
            slot.open(SECRET, bytes, |_| 0).unwrap();
            // SAFETY: inside the slots of the test.
            let byte = |n: usize| unsafe { *at::<u8>(slot.start + n) };
            assert!((0..bytes).all(|n| byte(n) == 0));
            assert_eq!(slot.inspect(SECRET), Ok(bytes));
            let alone = bytes % 2 == 0;
            slot.retire(SECRET, alone).unwrap();
            assert!(clear::is_clear(slot.start, slot.room()));
            assert_eq!(slot.inspect(SECRET), Err(Damage::Free));
            assert_eq!(slot.retire(SECRET, alone), Err(Damage::Free));
        }
    }

    #[test]
    fn a_change_of_any_byte_behind_an_object_is_noticed() {
        for bytes in 0..=SIZE - BYTES {
            for place in bytes..SIZE {
                let mut slots = Slots::new();
                let slot = slots.nth(0);
                slot.open(SECRET, bytes, |_| 0).unwrap();
                change(slot.start + place);
                let state = SIZE - BYTES + 1..SIZE - BYTES + 3;
                let found = slot.retire(SECRET, false);
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
            slot.open(SECRET, bytes, |_| 0).unwrap();
            clear::clear(slot.start + bytes, 1);
            assert_eq!(slot.retire(SECRET, false), Err(Damage::After), "{bytes}");
        }
    }

    #[test]
    fn what_precedes_an_object_is_sealed_and_looked_at() {
        let mut slots = Slots::new();
        let (first, second) = (slots.nth(0), slots.nth(1));
        second.open(SECRET, 10, |_| 0).unwrap();
        assert_eq!(first.inspect(SECRET), Err(Damage::Free));
        first.open(SECRET, 10, |_| 0).unwrap();
        assert_eq!(second.inspect(SECRET), Ok(10));
        change(second.start - 1);
        assert_eq!(second.retire(SECRET, false), Err(Damage::Before));
    }

    #[test]
    fn a_write_to_a_free_object_is_noticed_when_it_is_given_out() {
        for place in 0..SIZE {
            let mut slots = Slots::new();
            let slot = slots.nth(0);
            slot.open(SECRET, 20, |_| 0).unwrap();
            slot.retire(SECRET, false).unwrap();
            change(slot.start + place);
            assert_eq!(slot.open(SECRET, 20, |_| 0), Err(Damage::WhenFree), "{place}");
        }
    }

    #[test]
    fn an_address_that_nobody_was_given_is_not_called_free() {
        let mut slots = Slots::new();
        assert_eq!(slots.nth(0).retire(SECRET, false), Err(Damage::Never));
    }

    #[test]
    fn of_threads_that_free_an_object_at_once_one_is_told_that_it_has() {
        let mut slots = Slots::new();
        let slot = slots.nth(0);
        for _ in 0..200 {
            slot.open(SECRET, 20, |_| 0).unwrap();
            let retired = std::thread::scope(|scope| {
                let threads = [(); 3].map(|()| scope.spawn(|| slot.retire(SECRET, false)));
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
        let (a, b) = (Secret { mask: 1, factor: 3 }, Secret { mask: 2, factor: 3 });
        // The same key by other masks: the same seal, another mark.
        let (at_a, at_b) = (a.key(0x1000 ^ 1), b.key(0x1000 ^ 2));
        assert_eq!(at_a.seal(0), at_b.seal(0));
        assert_ne!(a.mark(at_a), b.mark(at_b));
    }

    #[test]
    fn another_secret_makes_other_seals() {
        let other = Secret { mask: 1, ..SECRET };
        let mut slots = Slots::new();
        let slot = slots.nth(0);
        slot.open(SECRET, 20, |_| 0).unwrap();
        assert_eq!(slot.inspect(other), Err(Damage::After));
    }
}
