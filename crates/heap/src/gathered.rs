//! What a thread gathers in its outbox, to hand it over to others by the lot.

use freehold_sync::atomic::{AtomicU32, Ordering};
use freehold_sync::exchange::LOT;

/// A lot that is gathered. Used by the thread that has the outbox alone but for its size, which
/// others look at; all accesses but one are Relaxed, since the lease orders them. All zero: there
/// is nothing in it.
#[derive(Default)]
pub(crate) struct Gathered {
    /// What is in it, by numbers none of which is 0.
    numbers: [AtomicU32; LOT],
    count: AtomicU32,
    /// The sum of the sizes, in whatever unit.
    size: AtomicU32,
    /// How many are given back before others are gathered, since there was no room for a lot.
    until_next: AtomicU32,
}

/// How many are given back when there was no room for a lot: one lot's worth.
const UNTIL_NEXT: u32 = LOT as u32;

impl Gathered {
    /// Adds something of this size. Returns how many there are, and their size.
    #[inline]
    pub(crate) fn add(&self, number: u32, size: u32) -> (usize, u32) {
        let n = self.count.load(Ordering::Relaxed);
        let size = self.size.load(Ordering::Relaxed) + size;
        self.numbers[n as usize % LOT].store(number, Ordering::Relaxed);
        self.size.store(size, Ordering::Relaxed);
        // Release: in the child of a fork those that count are there.
        self.count.store(n + 1, Ordering::Release);
        (n as usize + 1, size)
    }

    /// Takes all out. Returns how many there are in what they stood in.
    pub(crate) fn empty(&self) -> ([u32; LOT], usize) {
        let count = self.count.load(Ordering::Relaxed) as usize;
        let numbers = core::array::from_fn(|n| self.numbers[n].load(Ordering::Relaxed));
        self.count.store(0, Ordering::Relaxed);
        self.size.store(0, Ordering::Relaxed);
        (numbers, count)
    }

    /// The size of all.
    pub(crate) fn size(&self) -> u32 {
        self.size.load(Ordering::Relaxed)
    }

    /// Notes that there was no room for a lot.
    pub(crate) fn note_refused(&self) {
        self.until_next.store(UNTIL_NEXT, Ordering::Relaxed);
    }

    /// Whether the next one is to be given back.
    #[inline]
    pub(crate) fn is_to_wait(&self) -> bool {
        let left = self.until_next.load(Ordering::Relaxed).checked_sub(1);
        left.inspect(|&left| self.until_next.store(left, Ordering::Relaxed)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_gathered_is_taken_out_once() {
        let gathered = Gathered::default();
        for n in 0..LOT as u32 {
            let all = gathered.add(10 * n + 1, n + 1);
            assert_eq!(all, (n as usize + 1, (n + 1) * (n + 2) / 2));
        }
        let (numbers, count) = gathered.empty();
        assert_eq!((numbers[3], count, gathered.size()), (31, LOT, 0));
        assert_eq!(gathered.empty().1, 0);
        assert_eq!(gathered.add(1, 7), (1, 7));
    }

    #[test]
    fn after_a_refusal_as_many_as_a_lot_has_are_given_back() {
        let gathered = Gathered::default();
        assert!(!gathered.is_to_wait());
        gathered.note_refused();
        assert_eq!((0..100).filter(|_| gathered.is_to_wait()).count(), LOT);
    }
}
