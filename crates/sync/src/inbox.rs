//! The inbox of a heap, for one class: full magazines that other threads have sent to it.
//!
//! A thread that frees objects of another's heap gathers them in a magazine and, when that is full,
//! puts it into the owner's inbox, in exchange for an empty one that the owner left there. The
//! owner takes it, and leaves its empty one, instead of looking for objects in its slabs. Nobody
//! touches an object, or anything of its slab: one atomic read-modify-write, the sender's, moves a
//! whole magazine.
//!
//! A slot is one word: the address of a magazine, or 0, and a state. All of what a slot says is in
//! that word, so an exchange that succeeds has seen the slot as it is, however often it changed in
//! between. And while it is full only the leaseholder changes it, which therefore need not compare.
//!
//! | state | the magazine is | who may change it |
//! |---|---|---|
//! | Closed | a spare one, or none | the leaseholder, to open it |
//! | Open | a spare one, or none | senders, to fill it; the leaseholder, to close it |
//! | Full | of free objects | the leaseholder, to take it or to close the slot |
//!
//! Invariant: a magazine is in at most one slot or in the hands of one thread.

use crate::atomic::{AtomicUsize, Ordering};

/// Magazines that an inbox holds. Under the model one tells as much.
pub const SLOTS: usize = if cfg!(loom) { 1 } else { 32 };

const CLOSED: usize = 0;
// A new heap's inboxes are not written to.
const _: () = assert!(CLOSED == 0);
const OPEN: usize = 1;
const FULL: usize = 2;
const STATE: usize = 3;

/// The orderings in force, in one place so that the model can show what happens with others.
pub(crate) struct Orders {
    /// Of putting a full magazine in, for a spare one.
    pub(crate) put: Ordering,
    /// Of looking at a full one that is taken out, and of leaving a spare one in its place.
    pub(crate) look: Ordering,
    pub(crate) leave: Ordering,
}

/// Release: what was done to the magazine that goes in, and to the objects in it, comes before
/// whatever its next user does. Acquire pairs with that for the magazine that comes out.
pub(crate) const CORRECT: Orders =
    Orders { put: Ordering::AcqRel, look: Ordering::Acquire, leave: Ordering::Release };

/// An inbox. All zero: closed, without magazines.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Inbox([AtomicUsize; SLOTS]);

impl Inbox {
    /// A closed inbox.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self([const { AtomicUsize::new(CLOSED) }; SLOTS])
    }

    /// A closed inbox.
    #[cfg(loom)]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether it was open at this moment: a hint for senders.
    pub fn is_open(&self) -> bool {
        // Relaxed: `put` decides.
        self.0[0].load(Ordering::Relaxed) & STATE != CLOSED
    }

    /// Puts a full magazine into one of the first `most` slots, if one of them is open, and returns
    /// the spare one that was there, or 0.
    pub fn put(&self, magazine: usize, most: usize) -> Option<usize> {
        self.put_by(&CORRECT, magazine, most)
    }

    /// [`Inbox::put`] with orderings that the model may break.
    pub(crate) fn put_by(&self, orders: &Orders, magazine: usize, most: usize) -> Option<usize> {
        debug_assert!(magazine != 0 && magazine & STATE == 0);
        self.0[..most].iter().find_map(|slot| {
            // Relaxed: the exchange decides.
            let seen = slot.load(Ordering::Relaxed);
            if seen & STATE != OPEN {
                return None;
            }
            let put = slot.compare_exchange(seen, magazine | FULL, orders.put, Ordering::Relaxed);
            put.ok().map(|_| seen & !STATE)
        })
    }

    /// Whether there was a full magazine at this moment, most likely: a hint for the leaseholder.
    #[inline]
    pub fn has_mail(&self) -> bool {
        // Relaxed: `take` looks again.
        self.0[0].load(Ordering::Relaxed) & STATE == FULL
    }

    /// Takes a full magazine out, if there is one, and leaves `spare` in its place. Only for the
    /// leaseholder. Senders fill the first slot that is open, so the last of those that are full in
    /// a row is the one sent last, and its objects are the most likely to be in a cache. One that
    /// was sent just while another was taken may stand alone further on, until the row has grown up
    /// to it again.
    pub fn take(&self, spare: usize) -> Option<usize> {
        self.take_by(&CORRECT, spare)
    }

    /// [`Inbox::take`] with orderings that the model may break.
    pub(crate) fn take_by(&self, orders: &Orders, spare: usize) -> Option<usize> {
        debug_assert!(spare & STATE == 0);
        let is_full = |slot: &&AtomicUsize| slot.load(Ordering::Relaxed) & STATE == FULL;
        let slot = self.0.iter().take_while(is_full).last()?;
        let seen = slot.load(orders.look);
        // Neither looked at again nor compared: senders leave a full slot alone.
        debug_assert!(seen & STATE == FULL);
        slot.store(spare | OPEN, orders.leave);
        Some(seen & !STATE)
    }

    /// Opens the inbox. Only for the leaseholder.
    pub fn open(&self) {
        for slot in &self.0 {
            // Relaxed: only the leaseholder changes closed slots. The spare magazine there was left
            // by a leaseholder, and the lease's own ordering came between.
            let seen = slot.load(Ordering::Relaxed);
            if seen & STATE == CLOSED {
                // Release pairs with the Acquire in `put`, which may get that spare magazine.
                slot.store(seen | OPEN, Ordering::Release);
            }
        }
    }

    /// Takes the spare magazines out of a closed inbox. Only for who has it to himself: the
    /// leaseholder, or who keeps others from leasing.
    pub fn take_spares(&self) -> impl Iterator<Item = usize> {
        self.0.iter().filter_map(|slot| {
            // Relaxed: closed slots are changed by nobody else.
            let spare = slot.load(Ordering::Relaxed);
            debug_assert!(spare & STATE == CLOSED);
            if spare != 0 {
                slot.store(0, Ordering::Relaxed);
            }
            Some(spare).filter(|&spare| spare != 0)
        })
    }

    /// Closes the inbox, and calls `empty` for each full magazine, which is empty afterwards. Only
    /// for the leaseholder.
    pub fn close(&self, mut empty: impl FnMut(usize)) {
        // The first one last: one that is closed by half counts as open, in the child of a fork.
        for slot in self.0.iter().rev() {
            loop {
                let seen = slot.load(Ordering::Relaxed);
                let magazine = seen & !STATE;
                if seen & STATE == CLOSED {
                    break;
                }
                // Acquire: as in `take`, before what is in the magazine is looked at.
                let done = slot.compare_exchange(
                    seen,
                    magazine | CLOSED,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                );
                if done.is_ok() {
                    if seen & STATE == FULL {
                        empty(magazine);
                    }
                    break;
                }
            }
        }
    }
}

#[cfg(all(test, loom))]
impl Inbox {
    /// Closing as it must not be done: a look, and then a store. Returns what was seen to be full.
    pub(crate) fn close_blindly_for_model(&self) -> Option<usize> {
        let seen = self.0[0].load(Ordering::Acquire);
        self.0[0].store(seen & !STATE | CLOSED, Ordering::Relaxed);
        (seen & STATE == FULL).then_some(seen & !STATE)
    }

    /// Taking as it must not be done: leaving a spare magazine in a slot that is not full.
    pub(crate) fn leave_blindly_for_model(&self, spare: usize) -> Option<usize> {
        let seen = self.0[0].load(Ordering::Acquire);
        self.0[0].store(spare | OPEN, Ordering::Release);
        (seen & STATE == FULL).then_some(seen & !STATE)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const A: usize = 0x100;
    const B: usize = 0x200;

    #[test]
    fn a_closed_inbox_refuses_and_an_open_one_exchanges() {
        let inbox = Inbox::new();
        assert_eq!((inbox.put(A, SLOTS), inbox.take(B)), (None, None));
        inbox.open();
        assert_eq!(inbox.put(A, SLOTS), Some(0));
        assert_eq!(inbox.take(B), Some(A));
        assert_eq!((inbox.take(B), inbox.put(A, SLOTS)), (None, Some(B)));
    }

    #[test]
    fn it_holds_no_more_than_it_is_told_to() {
        let inbox = Inbox::new();
        inbox.open();
        let put = (1..10).filter(|n| inbox.put(n * A, 3).is_some()).count();
        assert_eq!(put, 3);
    }

    #[test]
    fn closing_finds_what_is_full_and_keeps_every_magazine() {
        let inbox = Inbox::new();
        inbox.open();
        inbox.put(A, SLOTS);
        inbox.put(B, SLOTS);
        inbox.take(0);
        let mut found = std::vec::Vec::new();
        inbox.close(|magazine| found.push(magazine));
        assert_eq!(found, [A]);
        assert!(!inbox.is_open());
        inbox.open();
        assert_eq!((inbox.put(B, SLOTS), inbox.put(B, SLOTS)), (Some(A), Some(0)));
        inbox.close(|_| ());
        let spares: std::vec::Vec<_> = inbox.take_spares().collect();
        assert_eq!(spares, [B, B]);
        assert_eq!(inbox.take_spares().next(), None);
    }

    #[test]
    fn one_that_is_closed_by_half_counts_as_open() {
        let inbox = Inbox::new();
        inbox.open();
        for magazine in [A, B] {
            assert_eq!(inbox.put(magazine, SLOTS), Some(0));
        }
        let mut left = 2;
        inbox.close(|_| {
            left -= 1;
            assert!(left == 0 || inbox.is_open(), "there is one more");
        });
        assert!(left == 0 && !inbox.is_open());
    }
}
