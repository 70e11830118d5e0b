//! An exchange: lots of numbers that some threads put in and others take out.
//!
//! Who has something for others puts it in by the lot, and who needs something takes a whole lot:
//! two atomic operations on either side for all of it, whoever the other one is. Nobody waits:
//! where there is no room, or nothing to take, that is the answer.
//!
//! One word says of each place for a lot which state it is in.
//!
//! | state | what is in the place | who may change it |
//! |---|---|---|
//! | Empty | nothing of interest | whoever has something, to hold it |
//! | Held | what its holder is about to write or to read | the holder |
//! | Full | a lot | whoever takes it, to hold it |
//!
//! Invariant: a lot that was put in is taken out by one thread, once. Who vanishes in a fork leaves
//! the child with a place that stays held, until [`Exchange::release_held`].

use crate::atomic::{AtomicU32, Ordering};
#[cfg(not(loom))]
use core::cell::UnsafeCell;
#[cfg(loom)]
use loom::cell::UnsafeCell;

/// Places for lots. Under the model one tells as much.
pub const PLACES: usize = if cfg!(loom) { 1 } else { 16 };
/// Numbers in a lot, at most. They fill a cache line.
pub const LOT: usize = if cfg!(loom) { 2 } else { 16 };

/// In the word: the places that are not empty, and above them those of these that are full.
const FULL_SHIFT: u32 = 16;
const PLACE_BITS: u32 = (1 << PLACES) - 1;

const _: () = assert!(PLACES <= FULL_SHIFT as usize);

/// The orderings in force, in one place so that the model can show what happens with others.
pub(crate) struct Orders {
    /// Of holding a place, empty or full.
    pub(crate) hold: Ordering,
    /// Of saying that it is full.
    pub(crate) fill: Ordering,
    /// Of saying that it is empty.
    pub(crate) clear: Ordering,
}

/// Release: what was done in the place, and to what the numbers stand for, comes before whatever
/// its next holder does. Acquire pairs with that.
pub(crate) const CORRECT: Orders =
    Orders { hold: Ordering::Acquire, fill: Ordering::Release, clear: Ordering::Release };

/// A place for a lot: its numbers, none of which is 0, and 0 behind the last. Its holder's.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Place(UnsafeCell<[u32; LOT]>);

// SAFETY: one thread at a time holds a place, as the word says, which orders one after the other.
unsafe impl Sync for Place {}

#[cfg(not(loom))]
impl Place {
    /// For the holder.
    fn read(&self) -> [u32; LOT] {
        // SAFETY: nobody else holds the place.
        unsafe { *self.0.get() }
    }

    /// For the holder.
    fn write(&self, lot: &[u32]) {
        // SAFETY: nobody else holds the place.
        copy(lot, unsafe { &mut *self.0.get() });
    }
}

#[cfg(loom)]
impl Place {
    fn read(&self) -> [u32; LOT] {
        // SAFETY: the checker ends the run before an unordered access could happen.
        self.0.with(|numbers| unsafe { *numbers })
    }

    fn write(&self, lot: &[u32]) {
        // SAFETY: as in `read`.
        self.0.with_mut(|numbers| copy(lot, unsafe { &mut *numbers }));
    }
}

/// Copies a lot, and 0 behind it if there is room.
fn copy(lot: &[u32], numbers: &mut [u32; LOT]) {
    numbers[..lot.len()].copy_from_slice(lot);
    if let Some(next) = numbers.get_mut(lot.len()) {
        *next = 0;
    }
}

/// An exchange. All zero: every place is empty.
#[derive(Debug, Default)]
pub struct Exchange {
    places: [Place; PLACES],
    word: AtomicU32,
}

impl Exchange {
    /// Whether there was a lot at this moment.
    pub fn has_any(&self) -> bool {
        // Relaxed: a hint, `take` decides.
        self.word.load(Ordering::Relaxed) >> FULL_SHIFT != 0
    }

    /// Puts some numbers in, none of which is 0. Fails if there is no room.
    #[must_use]
    pub fn put(&self, lot: &[u32]) -> bool {
        self.put_by(&CORRECT, lot)
    }

    /// [`Exchange::put`] with orderings that the model may break.
    pub(crate) fn put_by(&self, orders: &Orders, lot: &[u32]) -> bool {
        debug_assert!(lot.len() <= LOT && !lot.contains(&0));
        let empty = |word: u32| !word & PLACE_BITS;
        let Some(n) = self.hold(orders, empty, |word, bit| word | bit) else { return false };
        self.places[n].write(lot);
        self.word.fetch_or(1 << n << FULL_SHIFT, orders.fill);
        true
    }

    /// Takes a lot out, if there is one.
    pub fn take(&self) -> Option<impl Iterator<Item = u32> + Clone + use<>> {
        self.take_by(&CORRECT)
    }

    /// [`Exchange::take`] with orderings that the model may break.
    pub(crate) fn take_by(
        &self,
        orders: &Orders,
    ) -> Option<impl Iterator<Item = u32> + Clone + use<>> {
        let full = |word: u32| word >> FULL_SHIFT;
        let n = self.hold(orders, full, |word, bit| word & !(bit << FULL_SHIFT))?;
        let lot = self.places[n].read();
        self.word.fetch_and(!(1 << n), orders.clear);
        Some(lot.into_iter().take_while(|&number| number != 0))
    }

    /// Holds the lowest of the places that the word `offers`, if there is one, by changing it.
    fn hold(
        &self,
        orders: &Orders,
        offers: impl Fn(u32) -> u32,
        change: impl Fn(u32, u32) -> u32,
    ) -> Option<usize> {
        // Relaxed, here and where it fails: the exchange decides.
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            let n = offers(seen).trailing_zeros();
            if n as usize >= PLACES {
                return None;
            }
            match self.word.compare_exchange_weak(
                seen,
                change(seen, 1 << n),
                orders.hold,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(n as usize),
                Err(now) => seen = now,
            }
        }
    }

    /// Empties the places of holders that are gone: in the child of a fork, by its only thread.
    pub fn release_held(&self) {
        // Relaxed: nobody else is here.
        let word = self.word.load(Ordering::Relaxed);
        let full = word >> FULL_SHIFT;
        self.word.store(full << FULL_SHIFT | full, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn what_was_put_in_is_taken_out_once() {
        let exchange = Exchange::default();
        assert!(!exchange.has_any() && exchange.take().is_none());
        assert!(exchange.put(&[7, 8]) && exchange.put(&[9]));
        assert!(exchange.has_any());
        let mut taken: Vec<u32> = exchange.take().unwrap().collect();
        taken.extend(exchange.take().unwrap());
        assert_eq!(taken, [7, 8, 9]);
        assert!(exchange.take().is_none());
    }

    #[test]
    fn there_is_room_for_so_many_whole_lots() {
        let exchange = Exchange::default();
        let lot: Vec<u32> = (1..=LOT as u32).collect();
        assert_eq!((0..PLACES + 3).filter(|_| exchange.put(&lot)).count(), PLACES);
        let taken = core::iter::from_fn(|| exchange.take());
        assert!(taken.take(PLACES).all(|taken| taken.eq(lot.iter().copied())));
        // Nothing of a longer lot is left behind a shorter one.
        assert!(exchange.put(&[5]));
        assert!(exchange.take().unwrap().eq([5]));
    }

    #[test]
    fn a_place_whose_holder_is_gone_is_empty_again_and_a_full_one_stays() {
        let exchange = Exchange::default();
        assert!(exchange.put(&[3]));
        let held = exchange.hold(&CORRECT, |word| !word & PLACE_BITS, |word, bit| word | bit);
        assert_eq!(held, Some(1));
        exchange.release_held();
        assert_eq!((0..PLACES).filter(|_| exchange.put(&[4])).count(), PLACES - 1);
        assert!(exchange.take().unwrap().eq([3]));
    }
}
