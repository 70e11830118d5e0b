//! Freed runs that have waited and are ready to be given out: accessible, cleared, and with the
//! fence that they have. A program that allocates and frees large objects all the time needs no
//! call of the system for them then, neither to put the fence there nor to take it away.
//!
//! For all threads, since who frees is often not who allocates. Bounded in runs and in bytes: who
//! brings one more gives others back first to where runs come from.

use crate::layout::Granule;
use crate::order;
use core::array;
use freehold_sync::atomic::{AtomicU32, AtomicU64, Ordering};
use freehold_sync::lock::Lock;

/// The most bytes of an object that is cleared when it is freed, and not made inaccessible.
pub(super) const MOST_CLEARED: usize = 128 << 10;

/// The most runs.
const PLACES: usize = 32;

/// The most bytes of memory.
const MOST_BYTES: u32 = 2 << 20;

// Who finds no room for one finds another that can leave.
const _: () = assert!(MOST_CLEARED <= MOST_BYTES as usize);

/// A run that is ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cleared {
    pub(super) g: Granule,
    /// Bytes of the object's pages: at most [`MOST_CLEARED`].
    pub(super) bytes: u32,
    /// Whether what follows them is inaccessible.
    pub(super) is_fenced: bool,
}

impl Cleared {
    /// As a word, which is not 0.
    fn packed(self) -> u64 {
        u64::from(self.g.0) << 32 | u64::from(self.bytes) << 1 | u64::from(self.is_fenced)
    }

    /// The other way round; `None` for 0.
    fn unpacked(word: u64) -> Option<Self> {
        let (g, bytes) = (Granule((word >> 32) as u32), (word as u32) >> 1);
        (word != 0).then_some(Self { g, bytes, is_fenced: word & 1 != 0 })
    }
}

/// The runs. All is changed with the lock held, and Relaxed therefore.
pub(super) struct Ready {
    pub(super) lock: Lock,
    /// 0 for none.
    places: [AtomicU64; PLACES],
    /// Bytes of memory of all of them. Who does not hold the lock sees whether there are any.
    bytes: AtomicU32,
    /// The place that is emptied next when there is no room.
    next: AtomicU32,
}

impl Ready {
    /// None.
    pub(super) fn new() -> Self {
        Self {
            lock: Lock::new(order::READY),
            places: array::from_fn(|_| AtomicU64::new(0)),
            bytes: AtomicU32::new(0),
            next: AtomicU32::new(0),
        }
    }

    /// Takes a run for an object whose pages have so many bytes.
    pub(super) fn take(&self, bytes: u32) -> Option<Cleared> {
        if self.bytes.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.lock.hold(|| self.leave(self.find(|run| run.bytes == bytes)?))
    }

    /// Takes a run in, if there is room. If not, another one leaves, and is returned.
    pub(super) fn put(&self, run: Cleared) -> Result<(), Cleared> {
        self.lock.hold(|| {
            let has_room = self.bytes.load(Ordering::Relaxed) + run.bytes <= MOST_BYTES;
            let free = (0..PLACES).find(|&n| has_room && self.at(n).is_none());
            if let Some(n) = free {
                self.enter(n, run);
                return Ok(());
            }
            // One after the other, so that none stays for ever that nobody takes.
            let next = self.next.load(Ordering::Relaxed) as usize;
            let n = (next..PLACES).chain(0..next).find(|&n| self.at(n).is_some());
            debug_assert!(n.is_some());
            self.next.store(n.map_or(0, |n| (n + 1) % PLACES) as u32, Ordering::Relaxed);
            n.and_then(|n| self.leave(n)).map_or(Ok(()), Err)
        })
    }

    /// Takes any run.
    pub(super) fn take_any(&self) -> Option<Cleared> {
        if self.bytes.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.lock.hold(|| self.leave(self.find(|_| true)?))
    }

    fn at(&self, n: usize) -> Option<Cleared> {
        Cleared::unpacked(self.places[n].load(Ordering::Relaxed))
    }

    fn find(&self, is_wanted: impl Fn(Cleared) -> bool) -> Option<usize> {
        (0..PLACES).find(|&n| self.at(n).is_some_and(&is_wanted))
    }

    fn enter(&self, n: usize, run: Cleared) {
        self.places[n].store(run.packed(), Ordering::Relaxed);
        self.bytes.store(self.bytes.load(Ordering::Relaxed) + run.bytes, Ordering::Relaxed);
    }

    fn leave(&self, n: usize) -> Option<Cleared> {
        let run = self.at(n)?;
        self.places[n].store(0, Ordering::Relaxed);
        self.bytes.store(self.bytes.load(Ordering::Relaxed) - run.bytes, Ordering::Relaxed);
        Some(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    const PAGE: u32 = 4096;

    fn run(n: u32, pages: u32) -> Cleared {
        Cleared { g: Granule(n), bytes: pages * PAGE, is_fenced: n.is_multiple_of(2) }
    }

    #[test]
    fn a_run_with_as_many_pages_is_taken() {
        let ready = Ready::new();
        let all = [run(0, 9), run(10, 12), run(20, 10), run(30, 12)];
        assert!(all.iter().all(|&run| ready.put(run).is_ok()));
        assert_eq!(ready.take(11 * PAGE), None);
        assert_eq!(ready.take(12 * PAGE), Some(run(10, 12)));
        assert_eq!(ready.take(12 * PAGE), Some(run(30, 12)));
        assert_eq!(ready.take(12 * PAGE), None);
        assert_eq!(ready.take_any(), Some(run(0, 9)));
        assert_eq!(ready.take_any(), Some(run(20, 10)));
        assert_eq!((ready.take_any(), ready.bytes.load(Ordering::Relaxed)), (None, 0));
    }

    #[test]
    fn what_comes_in_leaves_once_and_within_the_bounds() {
        for pages in [|_| 9, |_| 32, |n| 9 + n % 24, |n| if n < 500 { 9 } else { 32 }] {
            let (ready, mut left) = (Ready::new(), BTreeSet::new());
            let mut inside = BTreeSet::new();
            for n in 0..1000 {
                let new = run(n, pages(n));
                while let Err(run) = ready.put(new) {
                    assert!(run != new && inside.remove(&run.g) && left.insert(run.g));
                }
                inside.insert(new.g);
                let bytes: u32 = inside.iter().map(|g| pages(g.0) * PAGE).sum();
                assert!(inside.len() <= PLACES && bytes <= MOST_BYTES);
                assert_eq!(bytes, ready.bytes.load(Ordering::Relaxed));
            }
            // What is of no use any longer makes room for what comes in.
            assert!(inside.iter().all(|g| g.0 >= 800), "{inside:?}");
            let rest: Vec<_> = core::iter::from_fn(|| ready.take_any()).collect();
            assert!(rest.iter().all(|run| left.insert(run.g)));
            assert_eq!(left.len(), 1000);
        }
    }
}
