//! What a thread has freed and must not be given out again yet.
//!
//! Each object takes the place of one chosen at random, which leaves: so nobody knows when an
//! object is used again. Bounded in objects and in bytes.

use super::random::Random;
use crate::class::{Class, SIZES};

/// The most objects.
pub(super) const PLACES: usize = 64;

/// The most bytes, unless a single object has more.
pub(super) const MOST_BYTES: usize = 64 << 10;

/// An object with its class, in one word: addresses have at most 56 bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Held(u64);

const CLASS_SHIFT: u32 = 56;

impl Held {
    /// None.
    pub(super) const NONE: Self = Self(0);

    /// An object of a class.
    #[inline]
    pub(super) fn new(address: usize, class: Class) -> Self {
        Self(address as u64 | u64::from(class.0) << CLASS_SHIFT)
    }

    /// Where it is.
    #[inline]
    pub(super) fn address(self) -> usize {
        (self.0 & ((1 << CLASS_SHIFT) - 1)) as usize
    }

    /// Its class.
    #[inline]
    pub(super) fn class(self) -> Class {
        Class((self.0 >> CLASS_SHIFT) as u8)
    }

    /// The bytes of its slot.
    #[inline]
    fn size(self) -> usize {
        SIZES[(self.0 >> CLASS_SHIFT) as usize] as usize
    }
}

/// The objects.
pub(super) struct Quarantine {
    places: [Held; PLACES],
    bytes: usize,
}

impl Quarantine {
    /// None.
    pub(super) const fn new() -> Self {
        Self { places: [Held::NONE; PLACES], bytes: 0 }
    }

    /// Takes an object in, whose slot has `size` bytes, in the place that a random number chooses.
    /// Returns the one that was there, or [`Held::NONE`].
    #[inline]
    pub(super) fn exchange(&mut self, held: Held, size: usize, random: usize) -> Held {
        debug_assert_eq!(held.size(), size);
        let former = core::mem::replace(&mut self.places[random % PLACES], held);
        self.bytes = self.bytes + size - former.size();
        former
    }

    /// Whether there are more bytes than there may be.
    #[inline]
    pub(super) fn is_overfull(&self) -> bool {
        self.bytes > MOST_BYTES
    }

    /// Whether there might be with one object more of so many.
    #[inline]
    pub(super) fn may_be_overfull(&self, size: usize) -> bool {
        self.bytes + size > MOST_BYTES
    }

    /// Lets an object go while there are more bytes than there may be, but not `last`.
    #[inline]
    pub(super) fn excess(&mut self, last: Held, random: &mut Random) -> Option<Held> {
        if !self.is_overfull() {
            return None;
        }
        let first = random.below(PLACES);
        let order = (first..PLACES).chain(0..first);
        let n = order
            .into_iter()
            .find(|&n| !matches!(self.places[n], Held::NONE) && self.places[n] != last)?;
        Some(self.leave(n))
    }

    /// Lets any object go.
    pub(super) fn empty_one(&mut self) -> Option<Held> {
        let n = self.places.iter().position(|&held| held != Held::NONE)?;
        Some(self.leave(n))
    }

    #[inline]
    fn leave(&mut self, n: usize) -> Held {
        let former = core::mem::replace(&mut self.places[n], Held::NONE);
        self.bytes -= former.size();
        former
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(n: usize, class: Class) -> Held {
        Held::new(0x7f00_0000_0000 + n * class.size(), class)
    }

    #[test]
    fn an_object_is_told_with_its_class() {
        let class = Class::of_medium(5000);
        let held = held(3, class);
        assert_eq!((held.address(), held.class()), (0x7f00_0000_0000 + 3 * class.size(), class));
    }

    #[test]
    fn what_comes_in_leaves_once_and_within_the_bounds() {
        for class in [Class::of_small(16), Class::of_small(1000), Class::of_medium(30_000)] {
            let (mut quarantine, mut random) = (Quarantine::new(), Random::new(1));
            let mut left = std::collections::BTreeSet::new();
            for n in 0..1000 {
                let new = held(n, class);
                let former = quarantine.exchange(new, class.size(), random.next() as usize);
                let is_none = former == Held::NONE;
                assert!(is_none || former != new && left.insert(former.address()));
                while let Some(former) = quarantine.excess(new, &mut random) {
                    assert!(former != new && left.insert(former.address()));
                }
                let inside = n + 1 - left.len();
                let most = (MOST_BYTES / class.size()).max(1);
                assert!(inside <= PLACES.min(most), "{inside} of {}", class.size());
            }
            while let Some(former) = quarantine.empty_one() {
                assert!(left.insert(former.address()));
            }
            assert_eq!((left.len(), quarantine.bytes), (1000, 0));
        }
    }

    #[test]
    fn how_long_an_object_stays_cannot_be_foreseen() {
        let (mut quarantine, mut random) = (Quarantine::new(), Random::new(1));
        let class = Class::of_small(16);
        let mut stays = std::collections::BTreeSet::new();
        for n in 0..2000 {
            let former = quarantine.exchange(held(n, class), class.size(), random.next() as usize);
            if former != Held::NONE {
                stays.insert(n - (former.address() - 0x7f00_0000_0000) / class.size());
            }
        }
        assert!(stays.len() > PLACES, "{} different times", stays.len());
    }
}
