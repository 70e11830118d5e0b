//! The protocols under the model checker: every interleaving, and every value that a weak ordering
//! lets a thread read.
//!
//! A miniature heap composes the real words, locks, stacks and bitmaps the way `freehold-heap`
//! does. What they protect are checked cells: two accesses that nothing orders end the run, and so
//! does a broken invariant. The scenarios S1 to S23 and the invariants I1 to I10 are those of
//! `docs/design.md`; the variants in `broken`, and some in other files, are wrong on purpose, and
//! the model must say so.

mod broken;
mod clocks;
mod kept;
mod open;
mod own_pools;
mod questions;
mod scenarios;
mod turns;

use crate::atomic::{Alone, AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use crate::exchange::{self, Exchange};
use crate::freed::{self, Orders};
use crate::frontier::{Frontier, Step};
use crate::granules::FreeGranules;
use crate::inbox::{self, Inbox};
use crate::lock::Lock;
use crate::rank::Rank;
use crate::word::{self, Count, Ledger, Mask, Pushed, Rules, SlabWord, State};
use loom::sync::Arc;
use loom::thread;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::vec::Vec;

/// Memory that the protocols protect. Any two accesses that nothing orders end the run.
struct Checked<T>(loom::cell::UnsafeCell<T>);

impl<T> Checked<T> {
    fn new(value: T) -> Self {
        Self(loom::cell::UnsafeCell::new(value))
    }

    fn read<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        // SAFETY: the checker ends the run before an unordered access could happen.
        self.0.with(|value| f(unsafe { &*value }))
    }

    fn write<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: as in `read`.
        self.0.with_mut(|value| f(unsafe { &mut *value }))
    }
}

const CAPACITY: usize = 2;

/// What a slab's holder knows: which objects are free in its hands, and by how much the frees it
/// has drained exceed the bits it has collected.
#[derive(Default)]
struct Local {
    free: Vec<usize>,
    balance: i32,
}

/// What a model may break.
#[derive(Clone, Copy)]
struct Laws {
    word: &'static Rules,
    bits: &'static Orders,
}

const LAWS: Laws = Laws { word: &word::CORRECT, bits: &freed::CORRECT };

/// Nobody holds two of the model's locks.
static RANK: Rank = Rank::new(0, "model");

/// A slab of [`CAPACITY`] objects in a granule of its own, and a pool that has room for it.
struct Slab {
    word: SlabWord<Count>,
    bits: AtomicU64,
    wake: i32,
    laws: Laws,
    local: Checked<Local>,
    /// The objects' memory.
    contents: [Checked<u32>; CAPACITY],
    granule: FreeGranules,
    pool: Lock,
    listed: Checked<bool>,
    /// The lock of the heap that keeps the slab, if it is kept.
    heap: Lock,
    kept: Checked<bool>,
    released: AtomicU32,
}

impl Slab {
    /// A slab in `state`, all of whose objects are in the program's hands but those in `free`.
    fn new(state: State, free: &[usize], wake: i32, laws: Laws) -> Arc<Self> {
        let slab = Self {
            word: SlabWord::new(),
            bits: AtomicU64::new(0),
            wake,
            laws,
            local: Checked::new(Local { free: free.to_vec(), balance: 0 }),
            contents: std::array::from_fn(|_| Checked::new(0)),
            granule: FreeGranules::new(0),
            pool: Lock::new(&RANK),
            listed: Checked::new(state == State::Pooled),
            heap: Lock::new(&RANK),
            kept: Checked::new(state == State::Kept),
            released: AtomicU32::new(0),
        };
        slab.word.create(State::Attached);
        let count = Count(free.len() as i32);
        match state {
            State::Pooled => {
                assert!(slab.word.detach(State::Claimed, count));
                assert!(slab.word.pool(CAPACITY as i32));
            }
            State::Detached => assert!(slab.word.detach(State::Detached, count)),
            State::Kept => {
                assert!(slab.word.detach(State::Claimed, count));
                assert_eq!(slab.word.keep(), count);
            }
            _ => {}
        }
        Arc::new(slab)
    }

    /// The program uses an object and frees it; the freeing thread does what the push asks for.
    fn free(&self, object: usize, may_adopt: bool) {
        self.contents[object].write(|c| *c += 1);
        // As `freed::free_one` does.
        let (seen, alone) = (self.word.see(), Alone::now());
        let masks = [(0, 1 << object)].into_iter();
        let once = freed::set_bits(self.laws.bits, |_| &self.bits, |_| 0, masks);
        assert!(once, "a valid free was taken for a second one");
        let (rules, capacity) = (self.laws.word, CAPACITY as i32);
        let pushed = self.word.push_one_by(rules, seen, capacity, self.wake, alone);
        match pushed {
            Pushed::Recorded => {}
            Pushed::Woken if may_adopt => self.adopt(),
            Pushed::Woken => self.put_in_pool(),
            Pushed::Completed => self.release(),
            Pushed::CompletedInPool => {
                self.pool.hold(|| self.listed.write(|l| *l = false));
                self.release();
            }
            Pushed::Disturbing => self.heap.hold(|| {
                if self.kept.read(|k| *k) {
                    self.let_go();
                }
            }),
            Pushed::Refused => panic!("a valid free was refused"),
        }
    }

    /// The holder takes over the count, and collects what bits there are. I5: no object is free
    /// twice. I6: the next user of an object comes after the last one.
    fn drain(&self) {
        let drained = self.word.drain();
        self.take_over(drained);
    }

    fn take_over(&self, drained: Count) {
        let bits = freed::collect_by(self.laws.bits, &self.bits, 0, CAPACITY, |_, _| {});
        self.local.write(|local| {
            local.balance += drained.0 - bits.count_ones() as i32;
            for object in (0..CAPACITY).filter(|o| bits >> o & 1 != 0) {
                assert!(!local.free.contains(&object), "object {object} is free twice");
                self.contents[object].write(|c| *c = 0);
                local.free.push(object);
            }
        });
    }

    /// What the holder has to tell the word when it lets go of the slab.
    fn free_count(&self) -> Count {
        self.local.read(|local| Count(local.free.len() as i32 + local.balance))
    }

    /// The holder gives an object out, if it has it and has nothing else.
    fn take_out(&self, object: usize) -> bool {
        self.local.write(|local| {
            let only = local.free == [object];
            if only {
                local.free.clear();
            }
            only
        })
    }

    fn adopt(&self) {
        let before = self.free_count();
        let all = self.word.adopt();
        self.take_over(Count(all.0 - before.0));
    }

    fn put_in_pool(&self) {
        self.pool.acquire();
        self.listed.write(|l| *l = true);
        let pooled = self.word.pool(CAPACITY as i32);
        if !pooled {
            self.listed.write(|l| *l = false);
        }
        self.pool.release();
        if !pooled {
            self.release();
        }
    }

    /// A heap looks for a slab in the pool. Returns whether it got this one.
    fn take_from_pool(&self) -> bool {
        if !self.pool.try_acquire() {
            return false;
        }
        let got = self.listed.read(|l| *l) && self.word.claim_pooled();
        if got {
            self.listed.write(|l| *l = false);
        }
        self.pool.release();
        if got {
            self.adopt();
        }
        got
    }

    /// The background thread purges what is free of a slab in the pool, if it can be `claimed`, and
    /// puts it back.
    fn purge_in_pool(&self, claimed: impl FnOnce() -> bool) {
        if !self.pool.try_acquire() {
            return;
        }
        let got = self.listed.read(|l| *l) && claimed();
        if got {
            self.listed.write(|l| *l = false);
        }
        self.pool.release();
        if !got {
            return;
        }
        let bits = freed::look_by(self.laws.bits, &self.bits);
        for object in (0..CAPACITY).filter(|o| bits >> o & 1 != 0) {
            self.contents[object].write(|c| *c = 0);
        }
        self.put_in_pool();
    }

    /// I1, I7: whoever releases is alone with the slab; scribbling over everything proves it.
    fn release(&self) {
        self.local.write(|local| *local = Local::default());
        assert!(!self.listed.read(|l| *l), "released while in the pool's list");
        for contents in &self.contents {
            contents.write(|c| *c = u32::MAX);
        }
        // A free that was still under way would set a bit again after this.
        self.bits.store(0, Ordering::Relaxed);
        self.word.retire();
        self.released.fetch_add(1, Ordering::Relaxed);
        self.granule.release(1);
    }

    /// I3, I9 at the end: nothing is lost, and nothing waits for a wake-up that will not come.
    /// `held` objects are still in the program's hands.
    fn check(&self, held: i32) {
        let released = self.released.load(Ordering::Relaxed);
        let (state, counted) = self.word.latest_for_model();
        let bits = self.bits.fetch_or(0, Ordering::AcqRel).count_ones() as i32;
        if state == State::Free {
            assert_eq!((released, held), (1, 0), "released too often or too early");
            assert_eq!((self.granule.look(), bits), (1, 0), "I8: a free slab is really free");
            return;
        }
        assert_eq!(released, 0);
        let capacity = CAPACITY as i32;
        let (known, in_hand) = self.local.read(|l| (l.free.len() as i32 + l.balance, l.free.len()));
        match state {
            State::Attached | State::Kept => {
                assert_eq!(known + counted.0 + held, capacity, "objects are lost");
            }
            _ => assert_eq!(counted.0 + held, capacity, "objects are lost"),
        }
        assert_eq!(in_hand as i32 + bits + held, capacity, "I3: a free object is nowhere");
        assert!(state != State::Claimed, "claimed by nobody");
        assert!(state != State::Disturbed, "disturbed, and nobody has let go of it");
        assert_eq!(self.kept.read(|k| *k), state == State::Kept, "I9: kept if and only if listed");
        if state == State::Detached {
            assert!(counted.0 < self.wake, "I9: a wake-up was lost");
        }
        let listed = self.listed.read(|l| *l);
        assert_eq!(listed, state == State::Pooled, "I9: in the pool's list if and only if pooled");
    }
}

/// Never reached by a slab of two: no wake-up.
const NEVER: i32 = CAPACITY as i32 + 1;

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// Runs a model that must fail, for the reason given and no other, without filling the log.
fn must_be_rejected(because: &str, model: impl Fn() + Sync + Send + 'static) {
    let hook = std::panic::take_hook();
    std::panic::set_hook(std::boxed::Box::new(|_| {}));
    let verdict = catch_unwind(AssertUnwindSafe(|| explore(model)));
    std::panic::set_hook(hook);
    let payload = verdict.expect_err("the model did not notice what is broken");
    let reason = payload
        .downcast_ref::<std::string::String>()
        .map(std::string::String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or_default();
    assert!(reason.contains(because), "rejected for another reason: {reason}");
}

const RACE: &str = "Causality violation";

/// Another thread frees an object of a slab while its holder, in whose hands the rest are, looks
/// whether all are back, and uses the memory if so.
fn found_whole(rules: &'static Rules) {
    let slab = Slab::new(State::Attached, &[0], NEVER, LAWS);
    let other = slab.clone();
    let other = thread::spawn(move || other.free(1, false));
    // The model does not interrupt a thread that does nothing but look.
    thread::yield_now();
    if slab.word.makes_whole_by(rules, 1, CAPACITY as i32) {
        slab.contents[1].write(|contents| *contents = 0);
    }
    other.join().unwrap();
}

/// A region of one unit grows by another while a thread claims from it, and gives what it got to
/// whoever asks whether that is memory of the region.
fn grown_and_claimed(order: [Step; 3]) {
    const NEW: u64 = 0b10;
    let region = Arc::new((Frontier::new(), FreeGranules::new(0), Lock::new(&RANK)));
    region.0.advance(1, || {});
    let grower = {
        let region = region.clone();
        thread::spawn(move || {
            let (frontier, free, lock) = &*region;
            lock.hold(|| frontier.advance_by(order, 2, || _ = free.release(NEW)));
        })
    };
    let (frontier, free, lock) = &*region;
    let take = || free.claim(|free| (free & NEW != 0).then_some(NEW));
    let offered = frontier.offered();
    if take().is_some() {
        assert_eq!(frontier.usable(), 2, "memory was given out before it was usable");
    } else {
        let exhausted = lock.hold(|| frontier.offered() == offered && take().is_some());
        assert!(!exhausted, "a region was taken for exhausted");
    }
    grower.join().unwrap();
}

/// A granule changes hands and class while a thread that knew the old class looks at its map.
fn released_and_reused(release: Ordering) {
    let map = Arc::new(AtomicU8::new(1));
    let granule = Arc::new(AtomicU64::new(0));
    let mailbox = Arc::new(AtomicBool::new(false));
    // Frees the last object of the old class: clears the owner's map entry, releases the granule.
    let releaser = {
        let (map, granule) = (map.clone(), granule.clone());
        thread::spawn(move || {
            map.store(0, Ordering::Relaxed);
            granule.fetch_or(1, release);
        })
    };
    // Claims the granule for another class and gives an object to the old owner.
    let claimer = {
        let (granule, mailbox) = (granule.clone(), mailbox.clone());
        thread::spawn(move || {
            if granule.compare_exchange(1, 0, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                mailbox.store(true, Ordering::Release);
            }
        })
    };
    // The old owner frees what it was given: its map must not say the old class.
    if mailbox.load(Ordering::Acquire) {
        assert_eq!(map.load(Ordering::Relaxed), 0, "an object of one class in the bin of another");
    }
    releaser.join().unwrap();
    claimer.join().unwrap();
}

/// An owner with an inbox, and magazines that are known by their number.
struct Post {
    inbox: Inbox,
    orders: &'static inbox::Orders,
    /// How often something was sent or refused. Orders nothing: it only makes the checker try who
    /// comes first, which it overlooks between a look and another thread's look and exchange.
    sent: AtomicU32,
    /// What is in each magazine: a number that its sender knows, 0 when it is empty.
    magazines: [Checked<u32>; 3],
}

impl Post {
    fn new(orders: &'static inbox::Orders) -> Arc<Self> {
        let post = Self {
            inbox: Inbox::new(),
            orders,
            sent: AtomicU32::new(0),
            magazines: std::array::from_fn(|_| Checked::new(0)),
        };
        post.inbox.open();
        Arc::new(post)
    }

    fn address(n: usize) -> usize {
        (n + 1) * 4
    }

    fn magazine(&self, address: usize) -> &Checked<u32> {
        &self.magazines[address / 4 - 1]
    }

    /// Fills magazine `n` and sends it, and then the one it got for it, if any. Returns how many
    /// were refused.
    fn send(&self, n: usize, contents: u32) -> u32 {
        let mut magazine = Self::address(n);
        let mut refused = 0;
        for contents in [contents, contents << 8] {
            self.magazine(magazine).write(|c| {
                assert_eq!(*c, 0, "a spare magazine is not empty");
                *c = contents;
            });
            let put = self.inbox.put_by(self.orders, magazine, inbox::SLOTS);
            self.sent.fetch_add(1, Ordering::Relaxed);
            match put {
                Some(0) => break,
                Some(spare) => magazine = spare,
                None => {
                    refused |= contents;
                    break;
                }
            }
        }
        refused
    }

    /// The owner takes a magazine for its empty one, number `n`, and uses up what is in it. Returns
    /// what that was.
    fn receive(&self, n: usize) -> u32 {
        let spare = Self::address(n);
        self.sent.fetch_add(0, Ordering::Relaxed);
        self.magazine(spare).write(|c| assert_eq!(*c, 0));
        let taken = self.inbox.take_by(self.orders, spare);
        taken.map_or(0, |address| self.use_up(address))
    }

    fn use_up(&self, address: usize) -> u32 {
        self.magazine(address).write(std::mem::take)
    }

    /// The owner ends its lease. Returns what was in the inbox.
    fn close(&self) -> u32 {
        let mut found = 0;
        self.inbox.close(|address| found |= self.use_up(address));
        found
    }
}

/// A slab of medium objects in the pool is purged while one of them is freed.
fn purged_while_freed(order: Ordering) {
    let word = Arc::new(SlabWord::<Mask>::new());
    word.create(State::Attached);
    assert!(word.detach(State::Claimed, Mask(0)) && word.pool(CAPACITY as i32));
    let contents = Arc::new(Checked::new(0));
    let other = {
        let (word, contents) = (word.clone(), contents.clone());
        thread::spawn(move || {
            contents.write(|c| *c = 1);
            let pushed = word.push(CAPACITY as i32, NEVER, |before| Some(Mask(before.0 | 1)));
            assert_eq!(pushed, Pushed::Recorded);
        })
    };
    assert!(word.claim_pooled());
    if word.free_objects_by(order).0 & 1 != 0 {
        contents.write(|c| *c = 0);
    }
    assert!(word.pool(CAPACITY as i32));
    other.join().unwrap();
}

/// A slab of medium objects is completed in the pool and left there, while a heap looks for one.
fn left_whole_in_pool(order: Ordering) {
    let word = Arc::new(SlabWord::<Mask>::new());
    word.create(State::Attached);
    assert!(word.detach(State::Claimed, Mask(0)) && word.pool(CAPACITY as i32));
    let contents: Arc<[_; CAPACITY]> = Arc::new(std::array::from_fn(|_| Checked::new(0)));
    let whole = Arc::new(Checked::new(false));
    let others: [_; CAPACITY] = std::array::from_fn(|o| {
        let (word, contents, whole) = (word.clone(), contents.clone(), whole.clone());
        thread::spawn(move || {
            contents[o].write(|c| *c = 1);
            let bit = 1 << o;
            let pushed = word.push(CAPACITY as i32, NEVER, |before| Some(Mask(before.0 | bit)));
            if pushed == Pushed::CompletedInPool {
                whole.write(|whole| *whole = true);
                word.leave_in_pool_by(order);
            }
        })
    });
    let mut taken = Mask(0);
    if word.claim_pooled() {
        let was_whole = whole.read(|whole| *whole);
        taken = word.take();
        for object in (0..CAPACITY).filter(|o| taken.0 >> o & 1 != 0) {
            contents[object].write(|c| *c = 0);
        }
        assert!(!was_whole || taken.count() == CAPACITY as i32, "left whole with one out");
    }
    for other in others {
        other.join().unwrap();
    }
    let left = word.look().1;
    assert_eq!((taken.0 & left.0, taken.count() + left.count()), (0, CAPACITY as i32));
}

/// Two senders and an owner that receives once and closes its inbox: everything that was sent was
/// received, found at the end, or refused; nothing twice.
fn posted(orders: &'static inbox::Orders) {
    let post = Post::new(orders);
    let senders: Vec<_> = [(0, 1), (1, 2)]
        .map(|(n, contents)| {
            let post = post.clone();
            thread::spawn(move || post.send(n, contents))
        })
        .into();
    let received = post.receive(2);
    let found = post.close();
    let mut all = received + found;
    for sender in senders {
        all += sender.join().unwrap();
    }
    let second = all >> 8;
    assert_eq!(all & 0xff, 3, "a magazine was lost or doubled");
    assert!(second < 3, "more magazines than there are");
}

/// Two threads put a lot in each, of something that they have written to, where there is room for
/// one, and a third takes what it finds: every lot was taken, is still there, or was refused.
fn exchanged(orders: &'static exchange::Orders) {
    let market = Market::new(orders);
    let (taker, other) = (market.clone(), market.clone());
    let taker = thread::spawn(move || taker.take() + taker.take());
    let other = thread::spawn(move || other.put(2));
    let refused = market.put(1);
    let refused = refused + other.join().unwrap();
    let taken = taker.join().unwrap();
    let left = market.take();
    assert_eq!(market.take(), 0, "there was room for two");
    assert_eq!(refused + taken + left, 3, "a lot was lost or doubled");
}

/// An exchange, and what the numbers 1 and 2 stand for.
#[derive(Clone)]
struct Market {
    orders: &'static exchange::Orders,
    exchange: Arc<Exchange>,
    contents: Arc<[Checked<u32>; 2]>,
}

impl Market {
    fn new(orders: &'static exchange::Orders) -> Self {
        let contents = [0, 0].map(Checked::new);
        Self { orders, exchange: Arc::new(Exchange::default()), contents: Arc::new(contents) }
    }

    /// Puts a number in, after writing to what it stands for. Returns it if it was refused.
    fn put(&self, n: u32) -> u32 {
        self.contents[n as usize - 1].write(|c| *c = n);
        if self.exchange.put_by(self.orders, &[n]) { 0 } else { n }
    }

    /// Takes a number out, if there is one, and uses up what it stands for. Returns that.
    fn take(&self) -> u32 {
        let lot = self.exchange.take_by(self.orders);
        lot.into_iter().flatten().map(|n| self.contents[n as usize - 1].write(std::mem::take)).sum()
    }
}
