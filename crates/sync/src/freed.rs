//! Which objects of a slab were freed from elsewhere: one bit each, out of line.
//!
//! A free sets bits first and then counts them in the slab's word; whoever holds the slab collects
//! bits, and drains the count. So the holder may collect a bit before its free is counted, never
//! the other way round: its balance of counts drained less bits collected may be below zero for a
//! while. A slab is complete when the *count* says so: then every free is over, and nobody touches
//! the slab any more. The objects themselves are touched by nobody, so their cache lines stay where
//! they are.
//!
//! What the holder takes back itself has bits of the holder's own; others only look whether what
//! they free is among them.
//!
//! Setting bits that are set already is a double free, and is noticed.
//!
//! Invariant: a slab that does not exist has no bits set.

use crate::atomic::{Alone, AtomicU64, Ordering};
use crate::word::{Count, Pushed, Seen, SlabWord};

/// The orderings in force, in one place so that the model can show what happens with others.
pub(crate) struct Orders {
    /// Of setting bits.
    pub(crate) set: Ordering,
    /// Of collecting bits.
    pub(crate) collect: Ordering,
}

/// Release: what the freeing thread did in and to an object comes before whatever is done with it
/// after it was collected. Acquire pairs with that.
pub(crate) const CORRECT: Orders = Orders { set: Ordering::Release, collect: Ordering::Acquire };

/// Frees the `count` objects whose bits are in `masks`, given with the number of their word. `bits`
/// gives the word of bits of a number, and `own` that of the holder's own. [`Pushed::Refused`] if
/// one of them is free already.
pub fn free<'a>(
    word: &SlabWord<Count>,
    bits: impl Fn(usize) -> &'a AtomicU64,
    own: impl Fn(usize) -> u64,
    masks: impl Iterator<Item = (usize, u64)>,
    count: i32,
    capacity: i32,
    wake: i32,
) -> Pushed {
    if !set_bits(&CORRECT, bits, own, masks) {
        return Pushed::Refused;
    }
    // The word's own ordering makes the bits visible to whoever claims the slab.
    word.push(capacity, wake, |before| Some(Count(before.0 + count)))
}

/// [`free`] of one object, whose bit is `bit` of `bits`, when `word` was `seen`.
#[inline(always)]
pub fn free_one(
    (word, seen): (&SlabWord<Count>, Seen),
    bits: &AtomicU64,
    bit: u64,
    capacity: i32,
    wake: i32,
    alone: Alone,
) -> Pushed {
    if alone.fetch_or(bits, bit, CORRECT.set) & bit != 0 {
        return Pushed::Refused;
    }
    word.push_one(seen, capacity, wake, alone)
}

/// Sets bits. Returns whether none of them was set already.
pub(crate) fn set_bits<'a>(
    orders: &Orders,
    bits: impl Fn(usize) -> &'a AtomicU64,
    own: impl Fn(usize) -> u64,
    masks: impl Iterator<Item = (usize, u64)>,
) -> bool {
    let mut masks = masks.filter(|(_, mask)| *mask != 0);
    let alone = Alone::now();
    masks.all(|(n, mask)| {
        own(n) & mask == 0 && alone.fetch_or(bits(n), mask, orders.set) & mask == 0
    })
}

/// Sets the bits of objects that the slab's holder itself has taken back, and counts for itself.
/// Returns those of them that were set already.
pub fn add(bits: &AtomicU64, mask: u64) -> u64 {
    Alone::now().fetch_or(bits, mask, CORRECT.set) & mask
}

/// Collects up to `most` bits of one word, the lowest of those and of the holder's `own`, and calls
/// `each` with the number of each, or of the first of some in a row and how many these are. Only
/// for the slab's holder; `each` must not touch the objects yet. Returns the bits collected, which
/// are still among the holder's own.
#[inline]
pub fn collect(bits: &AtomicU64, own: u64, most: usize, each: impl FnMut(usize, usize)) -> u64 {
    collect_by(&CORRECT, bits, own, most, each)
}

/// Collects all bits of one word. Only for the slab's holder.
pub fn take(bits: &AtomicU64) -> u64 {
    // Relaxed: as in `collect_by`.
    let all = bits.load(Ordering::Relaxed);
    if all != 0 {
        Alone::now().fetch_and(bits, !all, CORRECT.collect);
    }
    all
}

/// The bits of one word that are set at this moment: of objects that those who freed them are done
/// with, and that stay where they are. Only for the slab's holder.
pub fn look(bits: &AtomicU64) -> u64 {
    look_by(&CORRECT, bits)
}

/// [`look`] with an ordering that the model may break.
pub(crate) fn look_by(orders: &Orders, bits: &AtomicU64) -> u64 {
    bits.load(orders.collect)
}

/// [`collect`] with an ordering that the model may break.
#[inline]
pub(crate) fn collect_by(
    orders: &Orders,
    bits: &AtomicU64,
    own: u64,
    most: usize,
    mut each: impl FnMut(usize, usize),
) -> u64 {
    // Relaxed: others only set bits, so what is seen here is still there below.
    let theirs = bits.load(Ordering::Relaxed);
    let all = theirs | own;
    let (mut rest, mut left) = (all, most);
    while rest != 0 && left > 0 {
        let first = rest.trailing_zeros();
        let row = rest >> first;
        // A short row is not worth looking where it ends.
        if row as u8 == u8::MAX {
            let count = (row.trailing_ones() as usize).min(left);
            each(first as usize, count);
            rest &= !(u64::MAX >> (64 - count) << first);
            left -= count;
        } else {
            each(first as usize, 1);
            rest &= rest - 1;
            left -= 1;
        }
    }
    let chosen = all & !rest;
    if theirs & chosen != 0 {
        Alone::now().fetch_and(bits, !chosen, orders.collect);
    }
    chosen
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::word::State;

    #[test]
    fn freed_objects_are_counted_and_collected_once() {
        let (word, bits) = (SlabWord::new(), [AtomicU64::new(0), AtomicU64::new(0)]);
        word.create(State::Attached);
        let masks = [(0, 0b101), (1, 0b10)];
        assert_eq!(
            free(&word, |n| &bits[n], |_| 0, masks.into_iter(), 3, 100, 50),
            Pushed::Recorded
        );
        assert_eq!(word.drain(), Count(3));
        let collect = |n: usize, most| collect(&bits[n], 0, most, |_, _| {});
        assert_eq!((collect(0, 1), collect(1, 9)), (0b001, 0b10));
        assert_eq!((collect(0, 1), collect(0, 1)), (0b100, 0));
    }

    #[test]
    fn the_lowest_bits_are_collected_wherever_they_stand_in_rows() {
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        for n in 0..20_000 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            // Few bits, most of them, and whole rows.
            let all = match n % 4 {
                0 => seed & seed.rotate_left(9),
                1 => seed | seed.rotate_left(9) | seed.rotate_left(30),
                2 => u64::MAX >> (seed % 64) << (seed >> 6 & 63),
                _ => u64::MAX,
            };
            // Some were set by others, some by the holder itself, and some by both.
            let own = all & seed.rotate_left(n % 64);
            let theirs = all & !(own & seed.rotate_left(40));
            let (bits, most) = (AtomicU64::new(theirs), (seed >> 57) as usize);
            let mut numbers = std::vec::Vec::new();
            let collected = collect(&bits, own, most, |first, count| {
                numbers.extend(first..first + count);
            });
            let lowest = (0..64).filter(|n| all >> n & 1 != 0).take(most);
            assert_eq!(numbers, lowest.collect::<std::vec::Vec<_>>(), "{all:#x}, {most}");
            let expected = numbers.iter().fold(0, |bits, n| bits | 1_u64 << n);
            assert_eq!((collected, bits.into_inner()), (expected, theirs & !expected));
        }
    }

    #[test]
    fn a_second_free_of_an_object_is_refused() {
        let (word, bits) = (SlabWord::new(), [AtomicU64::new(0)]);
        word.create(State::Attached);
        let once = |own: u64, mask: u64| {
            let count = mask.count_ones() as i32;
            free(&word, |n| &bits[n], |_| own, [(0, mask)].into_iter(), count, 100, 50)
        };
        assert_eq!(once(0b1000, 0b110), Pushed::Recorded);
        assert_eq!(once(0, 0b010), Pushed::Refused);
        assert_eq!(once(0b1000, 0b1000), Pushed::Refused);
    }
}
