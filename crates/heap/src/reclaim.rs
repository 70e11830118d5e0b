//! Reclaiming: what threads have at hand that are not in the allocator goes back to where it came
//! from.
//!
//! A thread keeps hot objects, hot runs, full magazines, and what is on its way home, to itself. If
//! it then sleeps, or does something else, nobody gets at that: of a hundred threads that have
//! stopped it may be hundreds of megabytes. So the background thread, when a program has come to
//! rest, and now and then otherwise, goes through the heaps and the outboxes that are leased and
//! takes their holders' turns (`freehold_sync::turn`), one at a time. All that the fast path does
//! not touch is used in turns only. The magazines, which it does touch, stay with their threads,
//! which are asked to empty them (`drain`).
//!
//! A thread that begins a turn meanwhile waits: for as long as it takes to send home what one
//! thread has. Whoever is called idle and is not has to fetch again what it had.
//!
//! Invariants: one thread reclaims at a time, with the purger's lock held, so that a fork finds
//! none in the middle of it; and a heap or an outbox names its holder's turn from the first thing
//! that the holder does with it to the last, so that what is found out is the holder, or a thread
//! that is gone, and was so before it could be interrupted.
//!
//! The slabs that a heap is attached to stay with it. If another heap took them up, the thread
//! would no longer keep what it frees of them, and a signal handler that has interrupted the fast
//! path as it takes an object, and takes that object first, has to put it back where it was.

use crate::arena::Arena;
use crate::cache::ThreadCache;
use crate::class::{Class, SMALL_CLASSES};
use crate::depot::HALF;
use crate::heap::Heap;
use crate::invalid::Invalid;
use crate::outbox::Outbox;
use crate::tally::Account;
use core::ptr;
use freehold_sync::atomic::{AtomicUsize, Ordering};
use freehold_sync::turn::{self, Summons, Turn};
use freehold_sys::System;

/// The thread whose turn is taken, of all in the process.
pub(crate) static SUMMONS: Summons = Summons::new();

/// Half magazines that are sent home in one turn, at most, so that a holder that comes back
/// meanwhile does not wait for all that it has set aside.
const AT_ONCE: usize = 64;

/// What a heap has let go of.
pub(crate) struct LetGo {
    /// Granules released.
    pub(crate) released: u32,
    /// Whether it has nothing left.
    pub(crate) is_all: bool,
}

/// Which thread has a heap, or an outbox: where its turn is. 0 for nobody. That may be memory which
/// is gone.
#[repr(transparent)]
pub(crate) struct Holder(AtomicUsize);

impl Holder {
    pub(crate) const fn nobody() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// Names the thread that has just begun to lease, and is in its turn.
    pub(crate) fn begin(&self, turn: &Turn) {
        // Release pairs with the Acquire in `turn`.
        self.0.store(turn.address(), Ordering::Release);
    }

    /// Names nobody: the holder, in its turn, ends its lease, or it is gone.
    pub(crate) fn end(&self) {
        // Release, as in `begin`: who still finds the old name has looked before this turn.
        self.0.store(0, Ordering::Release);
    }

    /// Where the holder's turn is, if there is a holder.
    fn turn(&self) -> Option<usize> {
        // Acquire pairs with the Release in `begin` and `end`.
        Some(self.0.load(Ordering::Acquire)).filter(|&turn| turn != 0)
    }
}

impl<S: System> Arena<S> {
    /// Whether what threads have at hand can be taken from them here. The first time it takes the
    /// system milliseconds.
    pub(crate) fn can_reclaim(&self) -> bool {
        let somewhere = ptr::from_ref(self).addr();
        // In hardened mode objects wait elsewhere, and threads do not say when they are in.
        !self.hardening.is_on() && self.system.barrier() && self.system.peek(somewhere).is_some()
    }

    /// Sends home what threads have at hand that are not in the allocator at the moment, and what
    /// the shared heaps have, and the pages in which they keep it back to the system. Returns how
    /// many heaps and outboxes that was taken from. Fails if something had been freed twice.
    ///
    /// # Safety
    /// No thread uses this arena meanwhile. Or else every cache of this arena, from when it first
    /// leases to its end, stays where it is, and its thread is
    /// [marked as busy](ThreadCache::set_busy) in whatever it does with it but for
    /// [`ThreadCache::pop`] and [`ThreadCache::keep`].
    pub unsafe fn reclaim(&self) -> Result<usize, Invalid> {
        // In hardened mode objects wait elsewhere, and threads do not say when they are in.
        if self.hardening.is_on() {
            return Ok(0);
        }
        self.help.asks.ask();
        self.let_go_of_shared()?;
        // Asked for the first time it takes the system milliseconds: before somebody is summoned.
        if !self.system.barrier() {
            // A filter of system calls that came later.
            self.help.reclaims.store(false, Ordering::Relaxed);
            return Ok(0);
        }
        let mut taken = 0;
        // SAFETY: the caller's promise.
        unsafe {
            self.reclaim_heaps(&mut taken)?;
            self.reclaim_outboxes(&mut taken)?;
        }
        Ok(taken)
    }

    /// # Safety
    /// As for [`Arena::reclaim`].
    unsafe fn reclaim_heaps(&self, taken: &mut usize) -> Result<(), Invalid> {
        for heap in self.all_heaps().filter(|heap| heap.is_exclusive()) {
            let holder = || heap.holder.turn();
            let mut is_all = false;
            while !is_all {
                // Nothing is left for another turn if nobody gives one.
                is_all = true;
                self.in_turn_of(holder, |twice| {
                    // SAFETY: this is the holder's turn: it is out, and every other use of what is
                    // taken is in one of its turns, as the caller promises.
                    let gone = unsafe { self.let_go_of_what_is_at_hand(heap, AT_ONCE, twice) };
                    *taken += usize::from(gone.is_all);
                    is_all = gone.is_all;
                    if is_all {
                        // SAFETY: as above.
                        unsafe { self.purge_heap(heap) };
                    }
                })?;
            }
        }
        Ok(())
    }

    /// # Safety
    /// As for [`Arena::reclaim`].
    unsafe fn reclaim_outboxes(&self, taken: &mut usize) -> Result<(), Invalid> {
        for outbox in self.outboxes.all() {
            // SAFETY: outboxes are never unmade, and whoever has this one uses the rest of it.
            let holder = || unsafe { (*outbox).holder.turn() };
            self.in_turn_of(holder, |twice| {
                // SAFETY: this is the holder's turn, as for heaps, and the reference ends with it.
                self.empty_outbox(unsafe { &mut *outbox }, twice);
                // SAFETY: as above.
                unsafe { self.purge_outbox(outbox) };
                *taken += 1;
            })?;
        }
        Ok(())
    }

    /// Runs `take` in the turn of the thread that `holder` names by the place of its turn, if it is
    /// out. What `take` finds freed twice is an error.
    fn in_turn_of(
        &self,
        holder: impl Fn() -> Option<usize>,
        take: impl FnOnce(&mut dyn FnMut(Invalid)),
    ) -> Result<(), Invalid> {
        let Some(turn) = holder() else { return Ok(()) };
        // Somebody purges; or a fork waits, and must not for long.
        if !self.purger.lock.try_acquire() {
            return Ok(());
        }
        let reclaimed = if SUMMONS.call(turn) {
            let reclaimed = self.in_turn_at(turn, holder, take);
            SUMMONS.dismiss();
            reclaimed
        } else {
            // It is done with another arena.
            Ok(())
        };
        self.purger.lock.release();
        reclaimed
    }

    /// Likewise, for the holder whose turn is there and that has been summoned.
    fn in_turn_at(
        &self,
        turn: usize,
        holder: impl Fn() -> Option<usize>,
        take: impl FnOnce(&mut dyn FnMut(Invalid)),
    ) -> Result<(), Invalid> {
        let is_out = self.system.barrier() && self.system.peek(turn).is_some_and(turn::tells_out);
        let mut found = Ok(());
        // Second: if the holder has changed since, it was another thread that was summoned. If not,
        // it stays out, and does not end its lease, until it is dismissed; or it is gone.
        if is_out && holder() == Some(turn) {
            take(&mut |twice| found = Err(twice));
        }
        found
    }

    /// Sends home what a heap has at hand for its holder, and calls `twice` with what was free
    /// already. Of what is set aside it is so many half magazines of objects at most, before all
    /// else.
    ///
    /// # Safety
    /// The caller has the lease, or its holder's turn, or the holder is gone.
    pub(crate) unsafe fn let_go_of_what_is_at_hand(
        &self,
        heap: &Heap,
        most: usize,
        mut twice: impl FnMut(Invalid),
    ) -> LetGo {
        let (mut released, mut left) = (0, most);
        for class in (1..=SMALL_CLASSES as u8).map(Class) {
            // SAFETY: the caller's promise.
            while let Some(rounds) = unsafe { heap.with_depots(|it| it.empty_one(self, class)) } {
                released += self.send_each_home(class, rounds.as_slice(), &mut twice);
                left -= 1;
                if left == 0 {
                    return LetGo { released, is_all: false };
                }
            }
        }
        // SAFETY: as above.
        let bins = unsafe { &mut *heap.medium.get() };
        let medium = self.let_go_of_medium(bins, left.saturating_mul(HALF), &mut twice);
        released += medium.released;
        if !medium.is_all {
            return LetGo { released, is_all: false };
        }
        released += self.let_go_of_runs(heap);
        let closed = heap.close_inboxes(|class, objects| {
            released += self.send_each_home(class, objects, &mut twice);
            Ok::<(), core::convert::Infallible>(())
        });
        let Ok(()) = closed;
        heap.forget_recent();
        LetGo { released, is_all: true }
    }

    /// Sends home what is in an outbox, and calls `twice` with what was free already.
    fn empty_outbox(&self, outbox: &mut Outbox, mut twice: impl FnMut(Invalid)) {
        self.let_go_of_gathered(&outbox.gathered, &Account::new(&self.tally));
        self.let_go_of_gathered_medium(&outbox.gathered_medium);
        if let Err(freed) = self.send_home_all(outbox, None) {
            twice(self.twice(freed));
        }
        for class in (1..=SMALL_CLASSES as u8).map(Class) {
            if let Some(parcel) = outbox.parcel(class).filter(|parcel| parcel.has_any()) {
                self.send_each_home(class, parcel.empty().as_slice(), &mut twice);
            }
        }
    }
}

impl ThreadCache {
    /// Makes every lock free, and takes up what threads have that do not exist here: in the child
    /// of a fork, by its only thread.
    pub fn after_fork_in_child<S: System>(&self, arena: &Arena<S>) {
        arena.after_fork_in_child(self.heap());
        // They may have been in the middle of something: those outboxes are nobody's for ever.
        for outbox in arena.outboxes.all().filter(|&outbox| outbox != self.outbox) {
            // SAFETY: outboxes are never unmade, and nobody else is here.
            unsafe {
                arena.let_go_of_gathered(&(*outbox).gathered, &Account::new(&arena.tally));
                arena.let_go_of_gathered_medium(&(*outbox).gathered_medium);
                (*outbox).holder.end();
            }
        }
    }
}
