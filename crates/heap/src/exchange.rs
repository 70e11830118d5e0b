//! Runs that change threads: what a thread frees that keeps no [hot runs](crate::hot_runs), since
//! others allocate what it frees, goes to one of those.
//!
//! Where one thread allocates buffers and another frees them, each would be given back granule by
//! granule and claimed again, in words that both write to. So who only frees gathers runs, of
//! whatever lengths, and puts them in by the lot; and who has claimed more than it has freed looks
//! here first, and makes them hot runs of its own. Who allocates a few as well, but far fewer than
//! it frees, is one that only frees in this sense.
//!
//! They are in use as far as everybody else can tell. So they are bounded in bytes
//! (`policy/retain.rs`), all of them together; nothing is gathered unless somebody has claimed
//! runs, of which it gives none back itself; and the background thread releases them all when none
//! were taken since its last tick, as does who trims or finds no memory.
//!
//! Invariants: a run that is here is claimed, in use by nobody, and marked as free, so that a
//! second free of it is found out; and as long its granules count here, or in its lot. (In the
//! child of a fork some may be lost.)

use crate::arena::Arena;
use crate::cache::ThreadCache;
use crate::gathered::Gathered;
use crate::heap::Heap;
use crate::layout::{GRANULE, Granule};
use crate::outbox::Outbox;
use crate::policy::retain;
use crate::tally::Account;
use freehold_sync::atomic::{AtomicU32, Ordering};
use freehold_sync::exchange::{Exchange, LOT};
use freehold_sys::System;

/// Runs on their way from thread to thread. All zero: there are none, and nobody wants any. Written
/// often: apart from what is read all the time.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct RunExchange {
    lots: Exchange,
    /// About how many granules they have. Relaxed, as all here: how much there may be is a matter
    /// of about, and what a lot holds the exchange itself orders.
    granules: AtomicU32,
    /// How many there may be: 0 as long as nobody takes any.
    most: AtomicU32,
    /// Lots taken since the background thread's last tick.
    taken: AtomicU32,
}

/// Runs that a thread has freed and had no use for, less [`CLAIM`] for each that it claimed.
pub(crate) struct Surplus(i16);

/// How many runs a thread has no use for until others are to have what it frees, and how many of
/// them one makes up for that it claims: a thread that frees what others have allocated and
/// allocates what others will free has use for them sooner or later. Of so many claims at most:
/// what a thread did long ago says little.
const SURPLUS: i16 = 64;
const CLAIM: i16 = 8;
const CLAIMS: i16 = 512;

impl Surplus {
    /// None yet.
    pub(crate) const NONE: Self = Self(0);

    /// Notes that the thread has no use for a run that it frees. Returns whether that is usual.
    fn note_surplus(&mut self) -> bool {
        self.0 = (self.0 + 1).min(2 * SURPLUS);
        self.0 > SURPLUS
    }

    /// Notes that it claims one.
    pub(crate) fn note_claimed(&mut self) {
        self.0 = (self.0 - CLAIM).max(-CLAIMS * CLAIM);
    }
}

impl<S: System> Arena<S> {
    /// Granules of runs that are here.
    pub(crate) fn exchanged_granules(&self) -> usize {
        // SAFETY: outboxes are never unmade, and this is atomics, whoever writes to them.
        let gathered = |outbox: *mut Outbox| unsafe { &(*outbox).gathered };
        let gathered = self.outboxes.all().map(|it| gathered(it).size());
        let waiting = self.exchange.granules.load(Ordering::Relaxed);
        (waiting + gathered.sum::<u32>()) as usize
    }

    /// Notes that somebody claims runs and gives none back.
    pub(crate) fn want_runs(&self) {
        if self.hardening.is_on() || !self.has_several_threads() {
            return;
        }
        let used = self.about_in_use().used * GRANULE;
        let most = retain::exchanged_runs(used, self.resident_of_hot_runs()) / GRANULE;
        // Not for each little change, which others would have to fetch.
        let known = self.exchange.most.load(Ordering::Relaxed);
        if known.abs_diff(most as u32) > known / 8 {
            self.exchange.most.store(most as u32, Ordering::Relaxed);
        }
        // Who else would release what waits when nobody takes it any longer?
        if known == 0 && !self.is_helped() {
            self.want_help();
        }
    }

    /// Takes a run over that its freer does not keep, if there is room.
    fn gather_run(&self, gathered: &Gathered, g: Granule, account: &Account) -> bool {
        let most = self.exchange.most.load(Ordering::Relaxed);
        let count = self.run_granules(g);
        if count > retain::longest_exchanged(most) || gathered.is_to_wait() {
            return false;
        }
        self.set_free_run(g);
        let (runs, granules) = gathered.add(g.0 + 1, count);
        if runs == LOT || granules >= retain::exchanged_at_once(most, self.outboxes.made()) {
            self.send_gathered(gathered, account);
        }
        true
    }

    /// Puts what was gathered into the exchange, or gives it back if there is no room.
    fn send_gathered(&self, gathered: &Gathered, account: &Account) {
        let exchange = &self.exchange;
        let granules = gathered.size();
        let (runs, count) = gathered.empty();
        let waiting = exchange.granules.fetch_add(granules, Ordering::Relaxed) + granules;
        let fits = waiting <= exchange.most.load(Ordering::Relaxed);
        if fits && exchange.lots.put(&runs[..count]) {
            return;
        }
        exchange.granules.fetch_sub(granules, Ordering::Relaxed);
        gathered.note_refused();
        self.note_runs_go();
        self.give_back_lot(&runs[..count], account);
    }

    fn give_back_lot(&self, runs: &[u32], account: &Account) {
        for run in runs {
            self.give_run(Granule(run - 1), account);
        }
    }

    /// Gives out a run of so many granules, or not many more, of those that others have freed, if
    /// there is one in the next lot; the others of that become hot ones of the heap's leaseholder.
    pub(crate) fn take_exchanged(
        &self,
        heap: &Heap,
        count: u32,
        account: &Account,
    ) -> Option<usize> {
        let may_be = count <= retain::HOT_RUN_LONGEST;
        (may_be && self.take_lot(heap, account)).then(|| self.pop_taken_run(heap, count))?
    }

    /// Makes a lot of runs hot ones of a heap's leaseholder, if there is one, and room for them.
    fn take_lot(&self, heap: &Heap, account: &Account) -> bool {
        let exchange = &self.exchange;
        // First whether there are several: in a small process this page is not touched.
        let may_be = self.has_several_threads() && exchange.lots.has_any();
        if !may_be || !heap.hot_runs.has_room_for_lot() {
            return false;
        }
        let Some(lot) = exchange.lots.take() else { return false };
        let lot = lot.map(|run| Granule(run - 1));
        // All at once, before any is waited for: what tells of them is in another's cache.
        let granules = lot.clone().map(|g| self.run_granules(g)).sum();
        exchange.granules.fetch_sub(granules, Ordering::Relaxed);
        exchange.taken.fetch_add(1, Ordering::Relaxed);
        heap.hot_runs.note_taken(granules);
        for g in lot {
            if !self.push_hot_again(&heap.hot_runs, g) {
                self.give_run(g, account);
            }
        }
        true
    }

    /// Releases what waits in the exchange.
    #[cold]
    pub(crate) fn release_exchanged(&self, account: &Account) {
        while let Some(lot) = self.exchange.lots.take() {
            for g in lot.map(|run| Granule(run - 1)) {
                self.exchange.granules.fetch_sub(self.run_granules(g), Ordering::Relaxed);
                self.give_run(g, account);
            }
        }
    }

    /// Releases what waits in the exchange if no lot was taken since this was asked last: for the
    /// background thread, once in a tick. Returns how many were.
    pub(crate) fn release_exchanged_if_unused(&self) -> u32 {
        let exchange = &self.exchange;
        let taken = exchange.taken.swap(0, Ordering::Relaxed);
        if taken > 0 {
            return taken;
        }
        if exchange.most.load(Ordering::Relaxed) > 0 {
            exchange.most.store(0, Ordering::Relaxed);
        }
        // Also where there may be none: some may have come in as they were released before.
        self.release_exchanged(&Account::new(&self.tally));
        0
    }

    /// Empties the exchange and the places in it of threads that are gone: in the child of a fork.
    pub(crate) fn reset_exchange(&self) {
        if self.leases.made().nth(1).is_none() {
            return;
        }
        self.exchange.lots.release_held();
        self.release_exchanged(&Account::new(&self.tally));
        self.exchange.granules.store(0, Ordering::Relaxed);
    }

    /// Gives back what a thread has gathered: for that one, in its turn, or when it is gone.
    pub(crate) fn let_go_of_gathered(&self, gathered: &Gathered, account: &Account) {
        let (runs, count) = gathered.empty();
        self.give_back_lot(&runs[..count], account);
    }
}

impl ThreadCache {
    /// Takes a run over that the thread frees and does not keep, for others to take, if there are
    /// some who would.
    pub(crate) fn offer_run<S: System>(
        &mut self,
        arena: &Arena<S>,
        g: Granule,
        account: &Account,
    ) -> bool {
        let is_usual = self.surplus.note_surplus();
        // Last, since where nobody takes any this page is not touched otherwise.
        if !is_usual
            || !arena.has_several_threads()
            || arena.exchange.most.load(Ordering::Relaxed) == 0
        {
            return false;
        }
        self.provide_outbox(arena);
        // SAFETY: the outbox is leased to this thread.
        let outbox = unsafe { self.outbox.as_ref() };
        outbox.is_some_and(|outbox| arena.gather_run(&outbox.gathered, g, account))
    }

    /// Frees a run of a thread that has no heap, which keeps none.
    pub(crate) fn put_run_without_heap<S: System>(&mut self, arena: &Arena<S>, g: Granule) {
        let account = Account::new(&arena.tally);
        let is_zeroed = arena.is_zeroed(g);
        arena.look_if_zeroed(g);
        if is_zeroed || !self.offer_run(arena, g, &account) {
            arena.give_run(g, &account);
        }
        self.note_released(arena, account.total_released());
    }

    /// Gives back what the thread has gathered. Returns the granules released.
    pub(crate) fn let_go_of_gathered<S: System>(&mut self, arena: &Arena<S>) -> u32 {
        let account = Account::new(&arena.tally);
        // SAFETY: the outbox is leased to this thread.
        let Some(outbox) = (unsafe { self.outbox.as_ref() }) else { return 0 };
        arena.let_go_of_gathered(&outbox.gathered, &account);
        account.total_released() + arena.let_go_of_gathered_medium(&outbox.gathered_medium)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::{Home, Prefer};
    use freehold_sys::fake::Fake;

    /// How many of a thousand runs that a thread frees others are to have, if it claims one after
    /// so many.
    fn offered(between_claims: usize) -> usize {
        let mut surplus = Surplus::NONE;
        let offers = |n: &usize| {
            if n.is_multiple_of(between_claims) {
                surplus.note_claimed();
            }
            surplus.note_surplus()
        };
        (1..=1000).filter(offers).count()
    }

    #[test]
    fn others_are_to_have_what_a_thread_frees_that_claims_far_fewer_than_it_frees() {
        assert_eq!(offered(usize::MAX), 1000 - SURPLUS as usize);
        assert!(offered(20) > 800);
        assert_eq!([8, 4, 1].map(offered), [0, 0, 0]);
    }

    #[test]
    fn who_begins_to_claim_keeps_what_it_frees_from_then_on() {
        let mut surplus = Surplus::NONE;
        assert!((0..10_000).filter(|_| surplus.note_surplus()).count() > 9000);
        (0..2 * SURPLUS / CLAIM).for_each(|_| surplus.note_claimed());
        assert!(!surplus.note_surplus());
    }

    #[test]
    fn who_gives_back_what_it_has_claimed_itself_does_not_only_free() {
        for runs in [100, 300, CLAIMS] {
            let mut surplus = Surplus::NONE;
            (0..runs).for_each(|_| surplus.note_claimed());
            assert!((0..runs * (CLAIM - 1)).all(|_| !surplus.note_surplus()));
        }
        let mut surplus = Surplus::NONE;
        (0..100_000).for_each(|_| surplus.note_claimed());
        let given_back = (0..100_000).take_while(|_| !surplus.note_surplus()).count();
        assert_eq!(given_back as i16, CLAIMS * CLAIM + SURPLUS);
    }

    #[test]
    fn a_lot_goes_when_none_was_taken_even_if_it_came_in_as_all_were_released() {
        let place = Arena::create(Fake::new()).unwrap();
        // SAFETY: it lives until the end of the test.
        let arena = unsafe { place.as_ref() };
        let (home, account) = (Home::default(), Account::new(&arena.tally));
        let given = arena.take_run(100_000, 16, Prefer::Dirty, &home, &account).unwrap();
        let g = arena.granule_of(given.address).unwrap();
        arena.set_free_run(g);
        arena.exchange.granules.store(arena.run_granules(g), Ordering::Relaxed);
        assert!(arena.exchange.lots.put(&[g.0 + 1]));
        arena.exchange.taken.store(3, Ordering::Relaxed);
        assert_eq!(arena.release_exchanged_if_unused(), 3);
        assert!(arena.granules_in_use().used > 0);
        assert_eq!(arena.release_exchanged_if_unused(), 0);
        assert_eq!((arena.granules_in_use().used, arena.exchanged_granules()), (0, 0));
        arena.leave_home(&home);
        // SAFETY: nobody uses it any more.
        unsafe { Arena::destroy(place) };
    }
}
