//! The slabs of small objects that a heap takes from: a few of each class, the newest last.
//!
//! Invariants: as many places as count are in use, each with another slab, and the rest are 0; all
//! zero is none. Protected by the heap's lock.

use crate::arena::Arena;
use crate::class::{Class, SMALL_CLASSES};
use crate::heap::Held;
use crate::layout::Granule;
use crate::policy::retain;
use freehold_sync::word::{Count, State};
use freehold_sys::System;

/// The most slabs of a class that a heap is attached to: those with free objects, and one more.
const MOST_ATTACHED: usize = retain::SLABS_ATTACHED + 1;

/// The slabs of one class that a heap is attached to, each as its granule plus one; the one to take
/// from is last.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Attached {
    slabs: [u32; MOST_ATTACHED],
    pub(crate) count: usize,
}

impl Attached {
    /// All of them.
    pub(crate) fn slabs(&self) -> impl Iterator<Item = Granule> + use<> {
        let Self { slabs, count } = *self;
        slabs.into_iter().take(count).map(|link| Granule(link - 1))
    }

    /// The one to take from.
    pub(crate) fn last(&self) -> Option<Granule> {
        self.count.checked_sub(1).map(|i| Granule(self.slabs[i] - 1))
    }

    /// Whether a slab is one of these.
    pub(crate) fn has(&self, g: Granule) -> bool {
        // Unused places are 0.
        self.slabs.contains(&(g.0 + 1))
    }

    /// Attaches a slab, for which there is room.
    pub(crate) fn push(&mut self, g: Granule) {
        self.slabs[self.count] = g.0 + 1;
        self.count += 1;
    }

    /// Forgets a slab.
    pub(crate) fn remove(&mut self, g: Granule) {
        let found = self.slabs[..self.count].iter().position(|&n| n == g.0 + 1);
        if let Some(i) = found {
            self.slabs.copy_within(i + 1..self.count, i);
            self.count -= 1;
            self.slabs[self.count] = 0;
        }
    }
}

impl<S: System> Arena<S> {
    /// Gives up every slab the heap is attached to, whole ones to the region, the others to the
    /// pool or to themselves: a heap that nobody leases holds nothing back.
    pub(crate) fn let_go_of_slabs(&self, held: &mut Held) {
        for n in 1..=SMALL_CLASSES as u8 {
            let class = Class(n);
            self.let_go_of_kept(held, class);
            while let Some(g) = held.attached(class).last() {
                held.attached(class).remove(g);
                self.let_go_of(held, class, g);
            }
        }
        self.let_go_of_own_pools(held.heap(), &held.account);
        self.leave_home(&held.heap().slab_home);
        self.leave_home(&held.heap().run_home);
    }

    /// Gives up a slab that is attached to the heap and off its list.
    fn let_go_of(&self, held: &Held, class: Class, g: Granule) {
        let info = class.info();
        let word = self.word(g).count();
        loop {
            // SAFETY: the slab is still attached to the heap whose lock is held. The reference ends
            // with each turn, before a successful detach makes the slab anybody's.
            let local = unsafe { &mut *self.local(g) };
            let twice = local.give_up_bits(info, self.bits(g));
            local.balance -= twice as i16;
            let free = local.free_count(info);
            if word.makes_whole(free, info.capacity.into()) {
                self.release_slab(class, g, &held.account);
                return;
            }
            let awake = free >= i32::from(info.wake);
            let state = if awake { State::Claimed } else { State::Detached };
            if word.detach(state, Count(free)) {
                if awake && !self.pool_slab(class, g, word) {
                    self.release_slab(class, g, &held.account);
                }
                return;
            }
            // Frees came from elsewhere: take them over and try again.
            local.drained(word.drain());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_none() {
        // SAFETY: zeros are valid for each of its fields.
        assert_eq!(unsafe { core::mem::zeroed::<Attached>() }, Attached::default());
    }
}
