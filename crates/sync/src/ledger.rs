//! What a slab's word remembers of freed objects: how many, or which.

use core::cmp;

/// What the word remembers of freed objects: at most 56 bits.
pub trait Ledger: Copy {
    /// Nothing freed.
    const NONE: Self;
    /// As bits, at most 56.
    fn to_bits(self) -> u64;
    /// From the bits that [`Ledger::to_bits`] gave.
    fn from_bits(bits: u64) -> Self;
    /// How many objects it stands for.
    fn count(self) -> i32;
    /// The same, or any number from `enough` on if they are more than that.
    fn count_to(self, enough: i32) -> i32;
    /// How that compares with a slab's capacity.
    fn compare(self, capacity: i32) -> cmp::Ordering;
}

/// Freed objects as their number alone; which they are stands in the slab's bits: see
/// [`crate::freed`]. Below zero while bits have been collected whose frees are not yet counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Count(pub i32);

/// Keeps the number in the word positive. More than any slab has objects.
const BIAS: i32 = 1 << 15;

impl Ledger for Count {
    const NONE: Self = Self(0);
    fn to_bits(self) -> u64 {
        (self.0 + BIAS) as u64
    }
    fn from_bits(bits: u64) -> Self {
        Self(bits as i32 - BIAS)
    }
    fn count(self) -> i32 {
        self.0
    }
    fn count_to(self, _: i32) -> i32 {
        self.0
    }
    fn compare(self, capacity: i32) -> cmp::Ordering {
        self.0.cmp(&capacity)
    }
}

/// Freed objects as one bit each: for slabs of at most 56 objects. Touches no object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mask(pub u64);

impl Ledger for Mask {
    const NONE: Self = Self(0);
    fn to_bits(self) -> u64 {
        self.0
    }
    fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
    fn count(self) -> i32 {
        self.0.count_ones() as i32
    }
    // To count all of them takes twenty instructions where there is none for it.
    #[inline]
    fn count_to(self, enough: i32) -> i32 {
        let (mut left, mut count) = (self.0, 0);
        while left != 0 && count < enough {
            left &= left - 1;
            count += 1;
        }
        count
    }
    #[inline]
    fn compare(self, capacity: i32) -> cmp::Ordering {
        self.0.cmp(&(u64::MAX >> (u64::BITS - capacity as u32)))
    }
}
