//! The slabs of small objects that a heap takes from: a few of each class, the newest last.
//!
//! Invariants: as many places as count are in use, each with another slab, and the rest are 0; all
//! zero is none. Protected by the heap's lock.

use crate::layout::Granule;
use crate::policy::retain;

/// The most slabs of a class that a heap is attached to: those it keeps, and one it takes from.
const MOST_ATTACHED: usize = retain::SLABS_KEPT + 1;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_none() {
        // SAFETY: zeros are valid for each of its fields.
        assert_eq!(unsafe { core::mem::zeroed::<Attached>() }, Attached::default());
    }
}
