//! The word of a slab: what other threads have freed of it, and who may touch the rest.
//!
//! A slab has one such word, in which frees from any thread meet the heap that takes from the slab.
//! State and payload change together, in one exchange, so that every decision rests on a word that
//! was whole when it was made.
//!
//! | state | who may touch the slab's local part | what the payload counts |
//! |---|---|---|
//! | `Free` | whoever owns its granules | nothing |
//! | `Attached` | the heap it is attached to | frees by others since the last drain |
//! | `Detached` | nobody | every free object of the slab |
//! | `Pooled` | the holder of the pool's lock, and only the links | every free object |
//! | `Claimed` | the one thread whose exchange claimed it | every free object |
//! | `Kept` | the holder of the lock of the heap that keeps it | nothing |
//! | `Disturbed` | the same | frees by others since it is kept |
//!
//! The moves:
//!
//! ```text
//!   Free ──create──▶ Attached ──detach──▶ Detached ──push crosses `wake`──▶ Claimed
//!                       ▲                    │                              │  │  │
//!                       └──────adopt─────────┼──────────────────────────────┘  │  └─pool─▶ Pooled
//!                                            └─push completes─▶ Claimed ◀──────┘             │
//!   Free ◀──retire── Claimed ◀──push completes, or `claim_pooled`────────────────────────────┤
//!                       └───────`leave_in_pool`, by whose push has completed it──────────────┘
//!
//!   Claimed ──keep──▶ Kept ──push──▶ Disturbed        either of them ──attach_kept──▶ Attached
//!                                                                    ──let_go──▶ Claimed
//! ```
//!
//! The rules that make it work:
//!
//! * A slab that has given away all it had is detached, and then belongs to nobody: frees gather in
//!   its word, and no thread has to run for them to be used.
//! * `Detached` payload counts *all* free objects, those included that were free when it was
//!   detached. So the slab is complete when the count reaches its capacity: a constant of its
//!   class, that no thread can hold a stale copy of. (With a variable target beside the word one
//!   would need a sequence number; `model` shows that leaving it out breaks.)
//! * The push that reaches the capacity claims the slab: whoever frees the last object gets it.
//! * The push that crosses the wake mark claims it too, to make its free objects available again.
//!   Exactly one push crosses, so no wake-up is lost; and a claimed slab never goes back to
//!   `Detached` with more than the wake mark free.
//! * A slab that a heap keeps is freed of by that heap's thread in its local part, with the heap's
//!   lock held. The first push of another says that this is over (`Disturbed`), and its pusher has
//!   the slab let go of, with that lock held.
//! * After a push that claimed nothing, the pusher does not touch the slab again: somebody else may
//!   have claimed and released it already.

use crate::atomic::{Alone, AtomicU64, Ordering};
pub use crate::ledger::{Count, Ledger, Mask};
use core::marker::PhantomData;

const PAYLOAD_BITS: u32 = 56;
const PAYLOAD: u64 = (1 << PAYLOAD_BITS) - 1;

/// Who may touch the slab's local part. See the module's table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The slab does not exist; its granules belong to somebody else or nobody.
    Free,
    /// A heap takes objects from it.
    Attached,
    /// Nobody's; frees gather.
    Detached,
    /// In the pool, for any heap that needs it.
    Pooled,
    /// One thread is moving it between the other states.
    Claimed,
    /// A heap keeps it, and nobody else has freed any of it since.
    Kept,
    /// A heap keeps it, and others have freed some of it: the heap is to let go of it.
    Disturbed,
}

impl State {
    const fn from_bits(word: u64) -> Self {
        match word >> PAYLOAD_BITS {
            0 => Self::Free,
            1 => Self::Attached,
            2 => Self::Detached,
            3 => Self::Pooled,
            4 => Self::Claimed,
            5 => Self::Kept,
            _ => Self::Disturbed,
        }
    }
}

/// A slab's word as it was at some moment.
#[derive(Clone, Copy)]
pub struct Seen(u64);

impl Seen {
    /// Whether a heap was attached to the slab, or kept it.
    #[inline(always)]
    pub fn is_at_hand(self) -> bool {
        matches!(State::from_bits(self.0), State::Attached | State::Kept | State::Disturbed)
    }
}

impl SlabWord<Count> {
    /// The word at this moment.
    #[inline(always)]
    pub fn see(&self) -> Seen {
        // Relaxed: as in `look`.
        Seen(self.word.load(Ordering::Relaxed))
    }

    /// [`SlabWord::push`] of one object, when the word was `seen`.
    #[inline(always)]
    pub fn push_one(&self, seen: Seen, capacity: i32, wake: i32, alone: Alone) -> Pushed {
        self.push_one_by(&CORRECT, seen, capacity, wake, alone)
    }

    /// [`SlabWord::push_one`] by rules that the model may break.
    #[inline(always)]
    pub(crate) fn push_one_by(
        &self,
        rules: &Rules,
        Seen(seen): Seen,
        capacity: i32,
        wake: i32,
        alone: Alone,
    ) -> Pushed {
        // Mostly the next number reaches neither mark, and then it is all that changes.
        let (state, before) = unpack::<Count>(seen);
        let is_asleep = state == State::Detached && before.0 < wake;
        let mark = if is_asleep { wake.min(capacity) } else { capacity };
        if !matches!(state, State::Free | State::Kept)
            && before.0 + 1 < mark
            && alone.exchange(&self.word, seen, seen + 1, rules.push).is_ok()
        {
            return Pushed::Recorded;
        }
        self.push_one_more(rules, capacity, wake)
    }

    /// `Kept` or `Disturbed` to `Claimed`, when so many objects are free as far as the heap that
    /// keeps it knows. Returns how many are. With that heap's lock held.
    pub fn let_go(&self, free: i32) -> i32 {
        // Acquire pairs with the Release of the pushes: if all objects are free the slab is
        // released next. No Release: it stays the caller's until `pool`, which has one.
        self.let_go_by(free, Ordering::Acquire)
    }

    /// [`SlabWord::let_go`] with an ordering that the model may break.
    pub(crate) fn let_go_by(&self, free: i32, order: Ordering) -> i32 {
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            let (state, others) = unpack::<Count>(seen);
            debug_assert!(matches!(state, State::Kept | State::Disturbed));
            let all = Count(free + others.0);
            let claimed = pack(State::Claimed, all);
            match self.word.compare_exchange_weak(seen, claimed, order, Ordering::Relaxed) {
                Ok(_) => return all.0,
                Err(now) => seen = now,
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn push_one_more(&self, rules: &Rules, capacity: i32, wake: i32) -> Pushed {
        self.push_by(rules, capacity, wake, |before| Some(Count(before.0 + 1)))
    }
}

impl SlabWord<Mask> {
    /// The objects that are free at this moment, and that those who freed them are done with. For
    /// the claimer.
    pub fn free_objects(&self) -> Mask {
        // Acquire pairs with the Release of the pushes, also of those since the claim.
        self.free_objects_by(Ordering::Acquire)
    }

    /// [`SlabWord::free_objects`] with an ordering that the model may break.
    pub(crate) fn free_objects_by(&self, order: Ordering) -> Mask {
        unpack(self.word.load(order)).1
    }

    /// Whether object `n` is free as far as the word knows, at this moment.
    #[inline]
    pub fn has_free(&self, n: usize) -> bool {
        debug_assert!(n < PAYLOAD_BITS as usize);
        self.free_now().0 >> n & 1 != 0
    }

    /// The objects that are free as far as the word knows, at this moment, in the lowest bits;
    /// whatever in the others.
    #[inline]
    pub fn free_now(&self) -> Mask {
        // Relaxed: as in [`SlabWord::look`]. Free objects are the lowest bits of the word.
        Mask(self.word.load(Ordering::Relaxed))
    }
}

/// What a push found, and therefore has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a push may have claimed the slab"]
pub enum Pushed {
    /// The objects are recorded; nothing is left to do, and the slab must not be touched again.
    Recorded,
    /// Crossed the wake mark: the slab is claimed by this thread, to be adopted or pooled.
    Woken,
    /// Freed the last object: the slab is claimed by this thread, to be released.
    Completed,
    /// The same, and the slab still stands in the pool's list: unlink it before releasing it.
    CompletedInPool,
    /// Recorded, as the first of others since a heap keeps the slab: it is to let go of it.
    Disturbing,
    /// The slab is free, or more objects were freed than it has: an invalid free. Nothing changed.
    Refused,
}

/// What makes the protocol right, in one place so that the model can show what happens without it.
pub(crate) struct Rules {
    /// The ordering of a successful push.
    pub(crate) push: Ordering,
    /// The ordering of a successful detach.
    pub(crate) detach: Ordering,
    /// The ordering by which a holder learns that all objects are back.
    pub(crate) whole: Ordering,
    /// Whether a push from the first count to the second crosses the mark.
    pub(crate) crosses: fn(i32, i32, i32) -> bool,
}

/// The rules in force.
pub(crate) const CORRECT: Rules = Rules {
    push: Ordering::AcqRel,
    detach: Ordering::Release,
    whole: Ordering::Acquire,
    crosses: |before, after, mark| before < mark && after >= mark,
};

/// The word of one slab. All zero is a slab that does not exist.
#[derive(Debug)]
pub struct SlabWord<L: Ledger> {
    word: AtomicU64,
    ledger: PhantomData<L>,
}

fn pack<L: Ledger>(state: State, ledger: L) -> u64 {
    let bits = ledger.to_bits();
    debug_assert!(bits & !PAYLOAD == 0);
    (state as u64) << PAYLOAD_BITS | bits
}

fn unpack<L: Ledger>(word: u64) -> (State, L) {
    (State::from_bits(word), L::from_bits(word & PAYLOAD))
}

impl<L: Ledger> SlabWord<L> {
    /// The word of a slab that does not exist.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self { word: AtomicU64::new(0), ledger: PhantomData }
    }

    /// The word of a slab that does not exist.
    #[cfg(loom)]
    pub fn new() -> Self {
        Self { word: AtomicU64::new(0), ledger: PhantomData }
    }

    /// State and payload at this moment. A hint, unless the caller is the one who may change them.
    pub fn look(&self) -> (State, L) {
        // Relaxed: whoever acts on it either is the only one who changes the state, or exchanges.
        unpack(self.word.load(Ordering::Relaxed))
    }

    /// Whether all objects are free, so many as far as the holder knows, and the others counted
    /// here. Then it may release the slab: it comes after all who freed.
    pub fn makes_whole(&self, free: i32, capacity: i32) -> bool {
        self.makes_whole_by(&CORRECT, free, capacity)
    }

    pub(crate) fn makes_whole_by(&self, rules: &Rules, free: i32, capacity: i32) -> bool {
        let is_whole = free + self.look().1.count() == capacity;
        if is_whole {
            // Acquire pairs with the Release of each push, which are all there by now.
            self.word.load(rules.whole);
        }
        is_whole
    }

    /// `Free` to `state` (`Attached`, or `Detached` with nothing freed) for a new slab.
    /// The caller owns the granules.
    pub fn create(&self, state: State) {
        debug_assert!(self.look().0 == State::Free);
        // Relaxed: other threads learn of the slab only through an object they are given, and what
        // gives it to them orders this store before it.
        self.word.store(pack(state, L::NONE), Ordering::Relaxed);
    }

    /// Records freed objects: `add` turns the payload into the new one, or returns `None` to
    /// refuse.
    #[inline]
    pub fn push(&self, capacity: i32, wake: i32, add: impl FnMut(L) -> Option<L>) -> Pushed {
        // Release, on success: what this thread did in and to the objects comes before whatever the
        // next owner does with them (pairs with the Acquire of `drain`, `adopt`, `take` and of any
        // claiming push). Acquire: if this push claims the slab, all earlier pushes and the detach
        // come before what follows. Exchanges keep the release sequences of those before them.
        self.push_by(&CORRECT, capacity, wake, add)
    }

    /// [`SlabWord::push`] by rules that the model may break.
    #[inline]
    pub(crate) fn push_by(
        &self,
        rules: &Rules,
        capacity: i32,
        wake: i32,
        mut add: impl FnMut(L) -> Option<L>,
    ) -> Pushed {
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            let (state, before) = unpack::<L>(seen);
            if state == State::Free {
                return Pushed::Refused;
            }
            let Some(after) = add(before) else { return Pushed::Refused };
            // While attached, an object may be freed, collected before that is counted, given out
            // and freed again: only otherwise does the count say how many are free.
            let filled = after.compare(capacity);
            if filled.is_gt() && !matches!(state, State::Attached | State::Kept | State::Disturbed)
            {
                return Pushed::Refused;
            }
            let complete = filled.is_eq();
            let woken = || {
                let (before, after) = (before.count_to(wake + 1), after.count_to(wake + 1));
                (rules.crosses)(before, after, wake)
            };
            let (next, outcome) = match state {
                State::Detached if complete => (State::Claimed, Pushed::Completed),
                State::Detached if woken() => (State::Claimed, Pushed::Woken),
                State::Pooled if complete => (State::Claimed, Pushed::CompletedInPool),
                State::Kept => (State::Disturbed, Pushed::Disturbing),
                other => (other, Pushed::Recorded),
            };
            match Alone::now().exchange(&self.word, seen, pack(next, after), rules.push) {
                Ok(_) => return outcome,
                Err(now) => seen = now,
            }
        }
    }

    /// Takes what others freed; the slab stays `Attached`. Only for the heap it is attached to.
    pub fn drain(&self) -> L {
        // Acquire pairs with the Release of the pushes. No Release: nothing is handed over.
        let before = self.word.swap(pack(State::Attached, L::NONE), Ordering::Acquire);
        debug_assert!(unpack::<L>(before).0 == State::Attached);
        unpack(before).1
    }

    /// `Attached` to `state` (`Detached`, or `Claimed` on the way to the pool), with the objects
    /// that are free at this moment. Fails, changing nothing, when others have freed some
    /// meanwhile: drain first. Only for the heap the slab is attached to.
    pub fn detach(&self, state: State, free: L) -> bool {
        // Release pairs with the Acquire of whoever claims the slab: the local part is complete.
        self.detach_by(&CORRECT, state, free)
    }

    /// [`SlabWord::detach`] by rules that the model may break.
    pub(crate) fn detach_by(&self, rules: &Rules, state: State, free: L) -> bool {
        let empty = pack(State::Attached, L::NONE);
        let detached = pack(state, free);
        self.word.compare_exchange(empty, detached, rules.detach, Ordering::Relaxed).is_ok()
    }

    /// `Claimed` to `Attached`; returns all that is free. Only for the claimer.
    pub fn adopt(&self) -> L {
        // Acquire pairs with the Release of pushes that came after the claim.
        let before = self.word.swap(pack(State::Attached, L::NONE), Ordering::Acquire);
        debug_assert!(unpack::<L>(before).0 == State::Claimed);
        unpack(before).1
    }

    /// `Claimed` to `Kept`; returns all that is free. Only for the claimer, who holds the lock of
    /// the heap that is to keep it.
    pub fn keep(&self) -> L {
        // Acquire as in `adopt`.
        let before = self.word.swap(pack(State::Kept, L::NONE), Ordering::Acquire);
        debug_assert!(unpack::<L>(before).0 == State::Claimed);
        unpack(before).1
    }

    /// `Kept` or `Disturbed` to `Attached`; returns what others have freed. With the lock held of
    /// the heap that keeps it.
    pub fn attach_kept(&self) -> L {
        // Acquire pairs with the Release of the pushes.
        let before = self.word.swap(pack(State::Attached, L::NONE), Ordering::Acquire);
        debug_assert!(matches!(unpack::<L>(before).0, State::Kept | State::Disturbed));
        unpack(before).1
    }

    /// `Claimed` to `Detached` with nothing free; returns all that was free, which is the caller's
    /// from now on. Only for the claimer.
    pub fn take(&self) -> L {
        // Acquire as in `adopt`. Release: the next claimer sees what this one did with the local
        // part.
        let before = self.word.swap(pack(State::Detached, L::NONE), Ordering::AcqRel);
        debug_assert!(unpack::<L>(before).0 == State::Claimed);
        unpack(before).1
    }

    /// `Claimed` to `Pooled`. Fails when the slab has become complete meanwhile: it stays claimed,
    /// and the caller releases it. Only for the claimer, with the pool's lock held.
    #[must_use]
    pub fn pool(&self, capacity: i32) -> bool {
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            let (state, free) = unpack::<L>(seen);
            debug_assert!(state == State::Claimed);
            if free.count() == capacity {
                // The completing push was of the kind that claims nothing: all it published must be
                // seen before the slab is released. Acquire, to pair with its Release.
                self.word.load(Ordering::Acquire);
                return false;
            }
            let pooled = pack(State::Pooled, free);
            // Release pairs with the Acquire of `claim_pooled` and of the completing push.
            match self.word.compare_exchange_weak(
                seen,
                pooled,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
    }

    /// `Claimed` to `Pooled` again, for whose push has completed the slab in its pool, and who left
    /// it on the list: with all its objects free it stays there until somebody claims it.
    pub fn leave_in_pool(&self) {
        self.leave_in_pool_by(Ordering::Release);
    }

    /// [`SlabWord::leave_in_pool`] with an ordering that the model may break.
    pub(crate) fn leave_in_pool_by(&self, order: Ordering) {
        // Relaxed, and no exchange: a claimed slab's word is changed by pushes alone, and where all
        // objects are free there is none that would not be refused.
        let (state, free) = unpack::<L>(self.word.load(Ordering::Relaxed));
        debug_assert!(state == State::Claimed);
        // Release pairs with the Acquire of `claim_pooled`, as in `pool`.
        self.word.store(pack(State::Pooled, free), order);
    }

    /// `Pooled` to `Claimed`. Fails when the slab is not pooled any longer: the push that completed
    /// it has claimed it, and waits for the lock to unlink it. With the pool's lock held.
    #[must_use]
    pub fn claim_pooled(&self) -> bool {
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            let (state, free) = unpack::<L>(seen);
            if state != State::Pooled {
                return false;
            }
            // Acquire pairs with the Release of `pool` and of the pushes since.
            match self.word.compare_exchange_weak(
                seen,
                pack(State::Claimed, free),
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
    }

    /// Sets the word to what it was when last looked at: what no part of the protocol may do.
    #[cfg(all(test, loom))]
    pub(crate) fn store_for_model(&self, state: State, ledger: L) {
        self.word.swap(pack(state, ledger), Ordering::AcqRel);
    }

    /// The latest state and payload: a load may return an older one that the model still allows.
    #[cfg(all(test, loom))]
    pub(crate) fn latest_for_model(&self) -> (State, L) {
        unpack(self.word.fetch_or(0, Ordering::AcqRel))
    }

    /// To `Free`. For the claimer, or the heap it is attached to, when every object is back; the
    /// granules are released after this.
    pub fn retire(&self) {
        // Relaxed: releasing the granules publishes it to whoever claims them.
        self.word.store(pack(State::Free, L::NONE), Ordering::Relaxed);
    }
}

impl<L: Ledger> Default for SlabWord<L> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn add(n: i32) -> impl FnMut(Count) -> Option<Count> {
        move |c| Some(Count(c.0 + n))
    }

    #[test]
    fn frees_of_an_attached_slab_are_recorded_and_drained() {
        let word = SlabWord::<Count>::new();
        word.create(State::Attached);
        assert_eq!(word.push(4, 1, add(2)), Pushed::Recorded);
        assert!(!word.detach(State::Detached, Count::NONE));
        assert_eq!(word.drain(), Count(2));
        assert!(word.detach(State::Detached, Count::NONE));
    }

    #[test]
    fn a_detached_slab_is_claimed_at_the_wake_mark_and_at_the_last_object() {
        let word = SlabWord::<Count>::new();
        word.create(State::Detached);
        assert_eq!(word.push(8, 3, add(2)), Pushed::Recorded);
        assert_eq!(word.push(8, 3, add(1)), Pushed::Woken);
        assert_eq!(word.push(8, 3, add(1)), Pushed::Recorded);
        assert!(word.pool(8));
        assert_eq!(word.push(8, 3, add(3)), Pushed::Recorded);
        assert_eq!(word.push(8, 3, add(1)), Pushed::CompletedInPool);
        assert!(!word.claim_pooled());
        word.leave_in_pool();
        assert!(word.claim_pooled());
        word.retire();
        assert_eq!(word.look().0, State::Free);
    }

    #[test]
    fn a_batch_that_frees_everything_completes_rather_than_wakes() {
        let word = SlabWord::<Count>::new();
        word.create(State::Detached);
        assert_eq!(word.push(4, 2, add(4)), Pushed::Completed);
    }

    #[test]
    fn what_was_free_at_the_detach_counts_towards_completion() {
        let word = SlabWord::<Count>::new();
        word.create(State::Attached);
        assert!(word.detach(State::Detached, Count(1)));
        assert_eq!(word.push(4, 4, add(2)), Pushed::Recorded);
        assert_eq!(word.push(4, 4, add(1)), Pushed::Completed);
    }

    #[test]
    fn frees_that_were_used_before_they_were_counted_keep_a_slab_from_completing() {
        let word = SlabWord::<Count>::new();
        word.create(State::Attached);
        // Two objects were collected and given out again; their frees are counted later.
        assert!(word.detach(State::Detached, Count(-2)));
        assert_eq!(word.push(4, 4, add(2)), Pushed::Recorded);
        assert_eq!(word.push(4, 4, add(3)), Pushed::Recorded);
        assert_eq!(word.push(4, 4, add(1)), Pushed::Completed);
    }

    #[test]
    fn frees_beyond_the_capacity_and_of_no_slab_are_refused() {
        let word = SlabWord::<Count>::new();
        assert_eq!(word.push(4, 1, add(1)), Pushed::Refused);
        word.create(State::Attached);
        assert_eq!(word.push(4, 1, add(4)), Pushed::Recorded);
        assert_eq!(word.push(4, 1, add(1)), Pushed::Recorded);
        word.drain();
        assert!(word.detach(State::Claimed, Count(3)));
        assert_eq!(word.push(4, 1, add(2)), Pushed::Refused);
        assert_eq!(word.look().1, Count(3));
    }

    #[test]
    fn a_mask_tells_what_is_free_in_whatever_state() {
        let word = SlabWord::<Mask>::new();
        word.create(State::Detached);
        let freed = word.push(56, 2, |m: Mask| Some(Mask(m.0 | 1 << 55 | 1 << 3)));
        assert_eq!((freed, word.free_objects()), (Pushed::Woken, Mask(1 << 55 | 1 << 3)));
        let free: std::vec::Vec<_> = (0..56).filter(|&n| word.has_free(n)).collect();
        assert_eq!(free, [3, 55]);
        assert!(word.pool(56) && word.has_free(55) && !word.has_free(54));
    }

    #[test]
    fn a_mask_refuses_the_second_free_of_an_object() {
        let free = |bit: u64| move |m: Mask| (m.0 & bit == 0).then_some(Mask(m.0 | bit));
        let word = SlabWord::<Mask>::new();
        word.create(State::Detached);
        assert_eq!(word.push(3, 2, free(2)), Pushed::Recorded);
        assert_eq!(word.push(3, 2, free(2)), Pushed::Refused);
        assert_eq!(word.push(3, 2, free(1)), Pushed::Woken);
        assert_eq!(word.take(), Mask(3));
        assert_eq!(word.look(), (State::Detached, Mask::NONE));
    }
}
