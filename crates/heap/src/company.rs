//! Company: whether it pays that a medium object waits in the outbox for others of its slab.
//!
//! A slab of medium objects holds 8 to 56 of them, and what an outbox holds back is bounded in
//! bytes. So a thread that frees objects of many slabs in no order sends them home in batches of
//! one, and each has been put into the outbox and taken out for nothing. Who finds that it is so
//! lets the next ones go home alone, and tries again after them.
//!
//! Invariant: of a thread that lets medium objects go alone none is in its outbox, so that one that
//! is freed twice is found out as if both had gone the same way.

use crate::arena::Arena;
use crate::cache::ThreadCache;
use crate::free::InSlab;
use crate::policy::retain::{ALONE_AT_ONCE, BATCHES_TO_JUDGE, WORTH_WAITING};
use freehold_sys::System;

/// How large the batches are in which a thread's medium objects go home, and whether they go alone.
pub(crate) struct Company {
    /// Batches since it was last judged, and the objects in them.
    batches: u16,
    objects: u16,
    /// Objects that go alone before others wait again.
    alone: u16,
}

const _: () = assert!(BATCHES_TO_JUDGE as usize * u64::BITS as usize <= u16::MAX as usize);

impl Company {
    /// Nothing sent yet, and objects wait.
    pub(crate) const NONE: Self = Self { batches: 0, objects: 0, alone: 0 };

    /// Counts a batch of so many medium objects of one slab.
    pub(crate) fn sent(&mut self, objects: u16) {
        self.batches += 1;
        self.objects += objects;
        if self.batches >= BATCHES_TO_JUDGE {
            let worth_it = self.objects >= self.batches * WORTH_WAITING;
            *self = Self { alone: if worth_it { 0 } else { ALONE_AT_ONCE }, ..Self::NONE };
        }
    }

    /// Whether the next object goes alone.
    #[inline]
    pub(crate) fn goes_alone(&self) -> bool {
        self.alone != 0
    }

    /// Counts an object that went alone.
    #[inline]
    pub(crate) fn went_alone(&mut self) {
        self.alone = self.alone.saturating_sub(1);
    }
}

impl ThreadCache {
    /// Sends a medium object home by itself that [`ThreadCache::post_medium`] has said this of, or
    /// [`ThreadCache::hand_over_medium`]. Fails if it is free already.
    ///
    /// # Safety
    /// As for [`ThreadCache::free_slow`]; `place` is where the object is.
    #[inline(always)]
    #[must_use]
    pub unsafe fn send_medium_alone<S: System>(&mut self, arena: &Arena<S>, place: InSlab) -> bool {
        if let Some(bins) = self.medium_bins() {
            bins.note_overflow(place.class);
        }
        // SAFETY: the outbox is leased to this thread.
        if let Some(outbox) = unsafe { self.outbox.as_mut() } {
            outbox.company.went_alone();
        }
        self.send_home_alone(arena, place).is_ok()
    }

    /// Sends a medium object home by itself, if the thread lets none wait for others. Fails if the
    /// object is free already.
    #[inline(always)]
    pub(crate) fn send_alone<S: System>(
        &mut self,
        arena: &Arena<S>,
        place: InSlab,
    ) -> Option<Result<(), ()>> {
        // SAFETY: the outbox is leased to this thread.
        let outbox = unsafe { self.outbox.as_mut() }?;
        if place.class.is_small() || !outbox.company.goes_alone() {
            return None;
        }
        outbox.company.went_alone();
        Some(self.send_home_alone(arena, place))
    }

    /// Sends a medium object home by itself. Fails if it is free already.
    #[inline(always)]
    fn send_home_alone<S: System>(
        &mut self,
        arena: &Arena<S>,
        InSlab { class, slab, index }: InSlab,
    ) -> Result<(), ()> {
        let tally = self.heap().map_or(&arena.tally, |heap| &heap.tally);
        let mine = self.heap().zip(self.medium_bins());
        let sent = arena.send_medium_home(class, slab, 1 << index, mine, tally);
        self.note_released(arena, sent.unwrap_or(0));
        sent.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The company of a thread that has sent as many batches as it takes to judge.
    fn after_batches_of(objects: impl Fn(u16) -> u16) -> Company {
        let mut company = Company::NONE;
        for n in 0..BATCHES_TO_JUDGE {
            assert!(!company.goes_alone(), "judged after {n} batches");
            company.sent(objects(n));
        }
        company
    }

    #[test]
    fn objects_that_hardly_ever_find_company_go_alone_for_a_while() {
        for pairs in [0, 1, BATCHES_TO_JUDGE - 1] {
            let mut company = after_batches_of(|n| if n < pairs { 2 } else { 1 });
            let alone = (0..).take_while(|_| {
                let alone = company.goes_alone();
                company.went_alone();
                alone
            });
            assert_eq!(alone.count(), usize::from(ALONE_AT_ONCE));
        }
    }

    #[test]
    fn objects_that_find_company_wait_for_it() {
        assert!(!after_batches_of(|_| WORTH_WAITING).goes_alone());
        assert!(!after_batches_of(|_| u64::BITS as u16).goes_alone());
        let uneven = |n| if n % 2 == 0 { 1 } else { 2 * WORTH_WAITING - 1 };
        assert!(!after_batches_of(uneven).goes_alone());
    }

    #[test]
    fn after_those_that_went_alone_it_is_judged_again() {
        let mut company = after_batches_of(|_| 1);
        while company.goes_alone() {
            company.went_alone();
        }
        for _ in 0..BATCHES_TO_JUDGE {
            company.sent(WORTH_WAITING + 1);
        }
        assert!(!company.goes_alone());
        for _ in 0..BATCHES_TO_JUDGE {
            company.sent(1);
        }
        assert!(company.goes_alone());
    }
}
