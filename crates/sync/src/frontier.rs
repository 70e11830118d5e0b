//! How far a region can be used: it grows by one thread at a time, while others claim from it.
//!
//! Two numbers, for two questions. *Usable* says up to where there is memory: who is given an
//! address asks it whether that can be one of the region's. *Offered* says up to where everything
//! usable can be claimed: who finds nothing to claim asks it whether that is still so.
//!
//! The order of the three steps is what makes that true: what is new is usable first, then it is
//! offered to those who claim, and at last that is noted. If it were offered first, a thread could
//! claim some and give it to another before that was told that the address is one of the region's.
//! If it were noted before it was offered, who found nothing in between would take the region for
//! exhausted.
//!
//! Invariants: *offered* is at most *usable*, and both grow only; whoever was given memory of the
//! region, by whatever orders the giving, finds it usable.

use crate::atomic::{AtomicU32, Ordering};

/// The steps of [`Frontier::advance`].
#[derive(Clone, Copy)]
pub(crate) enum Step {
    /// What is new counts as usable.
    Use,
    /// Others may claim it.
    Offer,
    /// It counts as offered.
    Note,
}

/// The order in force, in one place so that the model can show what happens with another.
pub(crate) const CORRECT: [Step; 3] = [Step::Use, Step::Offer, Step::Note];

/// The two numbers, in whatever unit the region has.
#[derive(Debug)]
pub struct Frontier {
    usable: AtomicU32,
    offered: AtomicU32,
}

impl Frontier {
    /// Nothing is usable yet.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self { usable: AtomicU32::new(0), offered: AtomicU32::new(0) }
    }

    /// Nothing is usable yet.
    #[cfg(loom)]
    pub fn new() -> Self {
        Self { usable: AtomicU32::new(0), offered: AtomicU32::new(0) }
    }

    /// Up to where the region can be used.
    #[inline]
    pub fn usable(&self) -> u32 {
        // Acquire pairs with the Release in `advance`: what is below has been made usable.
        self.usable.load(Ordering::Acquire)
    }

    /// Up to where everything usable has been offered. Asked before looking for something to claim:
    /// if nothing is found and this is the same with the growers' lock held, there is no more.
    pub fn offered(&self) -> u32 {
        // Acquire pairs with the Release in `advance`: what was offered is found.
        self.offered.load(Ordering::Acquire)
    }

    /// Moves the frontier to `to`, beyond what is offered now: everything up to there has been made
    /// usable, and `offer` lets others claim it, with Release. Only for one thread at a time.
    pub fn advance(&self, to: u32, offer: impl FnMut()) {
        self.advance_by(CORRECT, to, offer);
    }

    /// [`Frontier::advance`] in an order that the model may break.
    pub(crate) fn advance_by(&self, order: [Step; 3], to: u32, mut offer: impl FnMut()) {
        debug_assert!(to > self.offered());
        for step in order {
            match step {
                // Release pairs with `usable`. Who claims what is offered finds it as well, since
                // that acquires what `offer` releases.
                Step::Use => self.usable.store(to, Ordering::Release),
                Step::Offer => offer(),
                // Release pairs with `offered`.
                Step::Note => self.offered.store(to, Ordering::Release),
            }
        }
    }

    /// The address, for who reads the usable part from outside the process.
    pub fn place(&self) -> *const AtomicU32 {
        &raw const self.usable
    }
}

impl Default for Frontier {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_offered_is_usable_already_and_is_noted_afterwards() {
        let frontier = Frontier::new();
        for to in [4, 6, 9] {
            let before = frontier.offered();
            frontier.advance(to, || {
                assert_eq!((frontier.usable(), frontier.offered()), (to, before));
            });
            assert_eq!(frontier.offered(), to);
        }
    }
}
