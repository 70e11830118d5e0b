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
//! then the exchange tells which of them was first, and to seal what has not been sealed.

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
    #[inline]
    pub(super) fn mix(self, n: u64) -> u64 {
        let product = (n ^ self.mask).wrapping_mul(self.factor);
        product ^ product >> 32
    }

    #[inline]
    fn seal(self, place: usize, state: u16) -> u64 {
        (self.mix(place as u64) | NEVER_ZERO) ^ u64::from(state) << STATE_SHIFT
    }

    /// The state that a seal at `place` tells; `None` if it is none.
    #[inline]
    fn state(self, place: usize, seal: u64) -> Option<u16> {
        let difference = seal ^ self.seal(place, 0);
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
    /// Where its seal is.
    #[inline]
    fn end(self) -> usize {
        self.start + self.size - BYTES
    }

    #[inline]
    fn word(place: usize) -> &'static AtomicU64 {
        // SAFETY: the last word of an object of a slab, which is committed as long as any object of
        // it is in somebody's hands; all access to it is atomic, but for a program's that does what
        // it must not.
        unsafe { &*at::<AtomicU64>(place) }
    }

    /// The most bytes that it has for an object.
    pub(super) fn room(self) -> usize {
        self.size - BYTES
    }

    /// Seals an object of `bytes` bytes that is about to be given out. It must have been clear, and
    /// is then, up to there.
    #[inline]
    pub(super) fn open(
        self,
        secret: Secret,
        bytes: usize,
        random: impl FnOnce(usize) -> usize,
    ) -> Result<(), Damage> {
        let found = Self::word(self.end()).load(Ordering::Relaxed);
        let clean = found == 0 || found == secret.seal(self.end(), FREE);
        if !clean || !clear::looks_clear(self.start, self.room(), random) {
            return Err(Damage::WhenFree);
        }
        if self.has_predecessor {
            self.seal_predecessor(secret)?;
        }
        self.close(secret, bytes);
        Ok(())
    }

    /// Seals an object that is in use, of which `bytes` bytes are, and the others clear.
    #[inline]
    pub(super) fn close(self, secret: Secret, bytes: usize) {
        let slack = self.room() - bytes;
        if slack > 0 {
            self.mark_slack(secret, slack);
        }
        Self::word(self.end()).store(secret.seal(self.end(), slack as u16), Ordering::Relaxed);
    }

    /// What stands at the beginning of slack.
    #[inline]
    fn mark(self, secret: Secret) -> u64 {
        secret.mix(self.start as u64) | NEVER_ZEROS
    }

    /// Writes the mark, or as much of it as there is slack. The seal is not touched even for a
    /// moment: who frees the next object may look at it.
    #[inline]
    fn mark_slack(self, secret: Secret, slack: usize) {
        let mark = self.mark(secret);
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
    #[inline]
    fn seal_predecessor(self, secret: Secret) -> Result<(), Damage> {
        let place = self.start - BYTES;
        let word = Self::word(place);
        let found = word.load(Ordering::Relaxed);
        if secret.state(place, found).is_some() {
            return Ok(());
        }
        let free = secret.seal(place, FREE);
        let sealed = word.compare_exchange(0, free, Ordering::Relaxed, Ordering::Relaxed);
        match sealed {
            Ok(_) => Ok(()),
            Err(found) if secret.state(place, found).is_some() => Ok(()),
            Err(_) => Err(Damage::Before),
        }
    }

    /// The bytes of an object in use.
    #[inline]
    pub(super) fn bytes(self, secret: Secret) -> Result<usize, Damage> {
        let seal = Self::word(self.end()).load(Ordering::Relaxed);
        self.bytes_by(secret, seal)
    }

    #[inline]
    fn bytes_by(self, secret: Secret, seal: u64) -> Result<usize, Damage> {
        match secret.state(self.end(), seal) {
            Some(FREE) => Err(Damage::Free),
            Some(slack) if usize::from(slack) <= self.room() => {
                Ok(self.room() - usize::from(slack))
            }
            None if seal == 0 => Err(Damage::Never),
            _ => Err(Damage::After),
        }
    }

    /// Looks at what surrounds an object in use, and returns its bytes.
    #[inline]
    pub(super) fn inspect(self, secret: Secret) -> Result<usize, Damage> {
        let bytes = self.bytes(secret)?;
        self.inspect_around(secret, bytes)?;
        Ok(bytes)
    }

    #[inline]
    fn inspect_around(self, secret: Secret, bytes: usize) -> Result<(), Damage> {
        let slack = self.room() - bytes;
        if slack > 0 && !self.is_slack_whole(secret, slack) {
            return Err(Damage::After);
        }
        if self.has_predecessor {
            let place = self.start - BYTES;
            let seal = Self::word(place).load(Ordering::Relaxed);
            // When the object was given out there was a seal.
            secret.state(place, seal).ok_or(Damage::Before)?;
        }
        Ok(())
    }

    #[inline]
    fn is_slack_whole(self, secret: Secret, slack: usize) -> bool {
        let mark = self.mark(secret);
        if slack < BYTES {
            let unused = u64::BITS - 8 * slack as u32;
            // SAFETY: the last word before the seal; slots are of two words at least, and aligned.
            return unsafe { at::<u64>(self.end() - BYTES).read() } >> unused
                == mark << unused >> unused;
        }
        let from = self.end() - slack;
        // SAFETY: inside the slot, which is the caller's; the seal follows.
        let found = unsafe { at::<u64>(from).read_unaligned() };
        let rest = slack.min(LOOKED_AT) - BYTES;
        // Whole words, and, if that is not all, the bytes that are left before the seal.
        let whole = rest / BYTES * BYTES;
        let last = at::<u64>(from + slack - BYTES);
        // SAFETY: the word before the seal.
        let is_last_clear =
            || rest == whole || unsafe { last.read() } >> (64 - 8 * (rest - whole)) == 0;
        found == mark && clear::is_clear(from + BYTES, whole) && is_last_clear()
    }

    /// Takes an object back: seals it as free, looks at what surrounds it, and clears it.
    #[inline]
    pub(super) fn retire(self, secret: Secret) -> Result<(), Damage> {
        let free = secret.seal(self.end(), FREE);
        let seal = Self::word(self.end()).swap(free, Ordering::Relaxed);
        let bytes = self.bytes_by(secret, seal)?;
        self.inspect_around(secret, bytes)?;
        self.clear_from(0, bytes);
        Ok(())
    }

    /// Clears an object of `bytes` bytes from `kept` on, with the beginning of its slack.
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
            slot.retire(SECRET).unwrap();
            assert!(clear::is_clear(slot.start, slot.room()));
            assert_eq!(slot.inspect(SECRET), Err(Damage::Free));
            assert_eq!(slot.retire(SECRET), Err(Damage::Free));
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
                let found = slot.retire(SECRET);
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
            assert_eq!(slot.retire(SECRET), Err(Damage::After), "{bytes}");
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
        assert_eq!(second.retire(SECRET), Err(Damage::Before));
    }

    #[test]
    fn a_write_to_a_free_object_is_noticed_when_it_is_given_out() {
        for place in 0..SIZE {
            let mut slots = Slots::new();
            let slot = slots.nth(0);
            slot.open(SECRET, 20, |_| 0).unwrap();
            slot.retire(SECRET).unwrap();
            change(slot.start + place);
            assert_eq!(slot.open(SECRET, 20, |_| 0), Err(Damage::WhenFree), "{place}");
        }
    }

    #[test]
    fn an_address_that_nobody_was_given_is_not_called_free() {
        let mut slots = Slots::new();
        assert_eq!(slots.nth(0).retire(SECRET), Err(Damage::Never));
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
