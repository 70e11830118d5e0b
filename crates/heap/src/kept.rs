//! Slabs that a heap keeps for its thread: those that the thread's own frees have woken.
//!
//! A slab in a pool is anybody's, and each free of it takes two atomic operations and changes lines
//! that others change. Most slabs are freed by the thread that allocates from them. So a slab which
//! its own heap's thread has woken does not go into the pool, but into a list of the heap, under
//! the heap's lock; and what that thread frees of it from then on is written to its local part,
//! without atomic operations. It is taken from when it has waited longest, as from a pool.
//!
//! Nothing is kept from others by that:
//!
//! * who finds nothing in its heap and in the pool takes a slab that another heap keeps
//!   ([`Arena::take_kept_instead`]), if more is kept than a share of what is in use. Until then it
//!   makes a new one: where each thread's objects stay in slabs of its own, none takes lines from
//!   the others, and has to send home what they allocated;
//! * the first free of another thread says that the slab is to go into the pool, which that thread
//!   sees to ([`Arena::let_go_of_disturbed`]), and it is seldom kept from then on: so a slab that
//!   others free is released by whoever frees the last object, as it always is;
//! * what has waited for long goes into the pool with the next tick of the background thread, and
//!   when the program is at rest all of it.
//!
//! Invariants: a slab's word is `Kept` or `Disturbed` if and only if it stands in the list of the
//! heap that its tag names as the owner, which is an exclusive one. The list, and the local parts
//! of slabs in it, are protected by that heap's lock.

use crate::arena::Arena;
use crate::class::Class;
use crate::heap::{Heap, Held};
use crate::layout::{GRANULE, Granule};
use crate::outbox::Row;
use crate::policy::{purge, retain};
use crate::slab_list::SlabList;
use crate::tables::KeptAs;
use crate::tally::Account;
use freehold_sync::atomic::{AtomicU32, AtomicUsize, Ordering, pause};
use freehold_sync::word::State;
use freehold_sys::System;

/// How often the lock of another heap is tried: its holder is at work, and waits for nobody who
/// might wait for the caller.
const TRIES: u32 = 200;

/// How many slabs a heap keeps before it asks for a background thread.
const SLABS_WORTH_A_THREAD: u32 = (purge::SLABS_WORTH_A_THREAD / GRANULE) as u32;

/// How much a heap keeps. Changed with its lock held; Relaxed, since others only add up.
#[derive(Default)]
pub(crate) struct Keeping {
    /// Bytes of free objects in slabs that are kept.
    bytes: AtomicUsize,
    /// Granules of slabs that may be made before it is looked again how much others keep. Used by
    /// the leaseholder alone.
    pub(crate) left: AtomicU32,
    /// Slabs that were kept, ever.
    slabs: AtomicU32,
}

impl Keeping {
    /// Notes that there are so many more bytes of free objects.
    pub(crate) fn add(&self, bytes: usize) {
        self.bytes.store(self.bytes.load(Ordering::Relaxed).wrapping_add(bytes), Ordering::Relaxed);
    }

    /// Counts a slab that is kept. Returns how many there were.
    fn count_slab(&self) -> u32 {
        let count = self.slabs.load(Ordering::Relaxed).wrapping_add(1);
        self.slabs.store(count, Ordering::Relaxed);
        count
    }
}

impl Heap {
    /// Bytes of free objects in slabs that it keeps.
    pub(crate) fn bytes_kept(&self) -> usize {
        self.keeping.bytes.load(Ordering::Relaxed)
    }

    /// The slabs of a class that it keeps.
    fn kept(&self, class: Class) -> &SlabList {
        &self.kept[usize::from(class.0)]
    }
}

impl<S: System> Arena<S> {
    /// Keeps a slab that the heap's thread has claimed by a free, if the heap may: it is its own,
    /// and others have not freed of it while it was kept lately. Returns whether it did.
    pub(crate) fn keep_slab(&self, held: &Held, class: Class, g: Granule) -> bool {
        let heap = held.heap();
        // SAFETY: the slab is claimed by the caller.
        let local = unsafe { &mut *self.local(g) };
        if !heap.is_exclusive()
            || self.tag(g).owner() != heap.id()
            // Not worth it for requests for nothing.
            || class == Class::EMPTY
        {
            return false;
        }
        if local.unkept > 0 {
            local.unkept -= 1;
            return false;
        }
        local.pooled_at = self.pools[usize::from(class.0)].tick();
        local.take_over(self.word(g).count().keep().0, class.info());
        local.take_over_bits(class.info(), self.bits(g));
        local.kept_as.set(KeptAs::key(heap.id(), class));
        heap.keeping.add(local.free_count(class.info()) as usize * class.size());
        // SAFETY: the lock is held, and the slab was claimed by the caller.
        if unsafe { heap.kept(class).append(self, g) } {
            self.pools[usize::from(class.0)].keepers.fetch_add(1, Ordering::Relaxed);
        }
        if heap.keeping.count_slab().is_multiple_of(SLABS_WORTH_A_THREAD)
            && !self.is_helped()
            && !self.help_wanted.load(Ordering::Relaxed)
        {
            self.want_help();
        }
        true
    }

    /// How many slabs heaps have kept, or put into their own pools, ever.
    pub(crate) fn slabs_kept(&self) -> u32 {
        let kept = |heap: &Heap| {
            heap.keeping.slabs.load(Ordering::Relaxed).wrapping_add(heap.slabs_pooled())
        };
        self.all_heaps().map(kept).fold(0, u32::wrapping_add)
    }

    /// Takes a slab out of the list of the heap that keeps it, whose lock is held.
    fn unlink_kept(&self, held: &Held, class: Class, g: Granule) {
        // SAFETY: the lock protects the slabs in the list.
        let local = unsafe { &*self.local(g) };
        local.kept_as.set(0);
        let free = local.free_count(class.info()) as usize;
        held.heap().keeping.add((free * class.size()).wrapping_neg());
        // SAFETY: the lock is held, and the slab is in the list, as the caller has found.
        if unsafe { held.heap().kept(class).unlink(self, g) } {
            self.pools[usize::from(class.0)].keepers.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether a heap keeps slabs of a class. A hint.
    #[inline]
    pub(crate) fn is_any_kept(&self, class: Class) -> bool {
        self.pools[usize::from(class.0)].keepers.load(Ordering::Relaxed) != 0
    }

    /// Attaches the heap to the slab that it has kept longest, if it keeps any.
    #[inline(never)]
    pub(crate) fn attach_kept(&self, held: &mut Held, class: Class) -> bool {
        let Some(g) = held.heap().kept(class).first() else { return false };
        self.unlink_kept(held, class, g);
        self.attach_unlinked(held, class, g);
        true
    }

    /// Attaches the heap to a slab that another heap keeps, instead of a new one, if so much is
    /// kept that this is not to grow. Returns whether it did: not if others are at work with their
    /// heaps for long.
    #[inline(never)]
    pub(crate) fn take_kept_instead(&self, held: &mut Held, class: Class) -> bool {
        !self.may_make_small_slab(held.heap()) && self.take_kept_by_others(held, class)
    }

    /// Attaches the heap to a slab that another heap keeps, the first of all that keeps one: where
    /// all come to the same one the slabs of the others stay theirs.
    pub(crate) fn take_kept_by_others(&self, held: &mut Held, class: Class) -> bool {
        let mine = held.heap().id();
        for heap in self.leases.made().filter(|&id| id != mine).map(|id| self.heap(id)) {
            if heap.kept(class).first().is_none() {
                continue;
            }
            let Some(other) = hold_soon(heap) else { continue };
            let Some(g) = heap.kept(class).first() else { continue };
            self.unlink_kept(&other, class, g);
            self.attach_unlinked(held, class, g);
            return true;
        }
        false
    }

    /// Attaches the heap to a slab that was kept, by it or by another whose lock is held as well.
    fn attach_unlinked(&self, held: &mut Held, class: Class, g: Granule) {
        self.move_map_entry(held.heap(), g, class);
        let others = self.word(g).count().attach_kept();
        // SAFETY: the slab is attached to the heap whose lock is held.
        unsafe { (*self.local(g)).drained(others) };
        held.attached(class).push(g);
    }

    /// Claims a slab that the heap keeps. Returns how many of its objects had been freed twice.
    fn claim_kept(&self, held: &Held, class: Class, g: Granule) -> i32 {
        self.unlink_kept(held, class, g);
        // SAFETY: the lock is held, so that the slab is still as the heap that keeps it knows.
        let local = unsafe { &*self.local(g) };
        let twice = local.give_up_bits(class.info(), self.bits(g));
        self.word(g).count().let_go(local.free_count(class.info()) - twice);
        twice
    }

    /// Lets go of a slab that the heap keeps: it goes into the pool, or is released if it is whole.
    /// Fails, all the same, if an object had been freed twice.
    fn let_go_of_kept_slab(
        &self,
        held: &Held,
        class: Class,
        g: Granule,
        account: &Account,
    ) -> Result<(), ()> {
        let twice = self.claim_kept(held, class, g);
        if !self.put_into_pool(class, g, self.word(g).count()) {
            self.release_slab(class, g, account);
        }
        if twice == 0 { Ok(()) } else { Err(()) }
    }

    /// Lets go of all that a heap keeps of a class.
    pub(crate) fn let_go_of_kept(&self, held: &Held, class: Class) {
        while let Some(g) = held.heap().kept(class).first() {
            // A second free that is found out now stays unnamed: that thread may be gone.
            _ = self.let_go_of_kept_slab(held, class, g, &held.account);
        }
    }

    /// Claims a slab that a heap has kept for so many ticks: for the background thread, whose last
    /// tick has this number.
    pub(crate) fn claim_slab_kept_for(
        &self,
        class: Class,
        (ticks, last): (u32, u32),
    ) -> Option<Granule> {
        if !self.is_any_kept(class) {
            return None;
        }
        for heap in self.all_heaps().filter(|heap| heap.kept(class).first().is_some()) {
            let held = heap.hold();
            let Some(g) = heap.kept(class).first() else { continue };
            // SAFETY: the lock protects the slabs in the list.
            let since = last.saturating_sub(unsafe { (*self.local(g)).pooled_at });
            if since >= ticks {
                self.claim_kept(&held, class, g);
                return Some(g);
            }
        }
        None
    }

    /// Has a slab let go of whose word said that a heap keeps it, when this thread was the first to
    /// free of it. It may have changed hands since then; whoever has it now has seen what was
    /// freed. Whose lock cannot be had soon keeps it until it takes from it, or another heap does,
    /// or some ticks have passed. Fails if an object of it had been freed twice.
    pub(crate) fn let_go_of_disturbed(
        &self,
        mine: Option<&Held>,
        class: Class,
        g: Granule,
    ) -> Result<(), ()> {
        for _ in 0..2 {
            let owner = self.tag(g).owner();
            if owner == 0 {
                break;
            }
            let mine = mine.filter(|mine| mine.heap().id() == owner);
            let other = if mine.is_some() { None } else { hold_soon(self.heap(owner)) };
            let Some(held) = mine.or(other.as_ref()) else { break };
            // With the lock held of the heap that is its owner: it is in that heap's list, whatever
            // else it was meanwhile.
            if self.tag(g).owner() == owner && self.tag(g).class() == class.0 {
                if self.word(g).count().look().0 == State::Disturbed {
                    // SAFETY: the lock protects the slabs in the list.
                    unsafe { (*self.local(g)).unkept = retain::WAKES_UNKEPT };
                    // The tally of another heap is its leaseholder's, who also counts without the
                    // lock.
                    let all = Account::new(&self.tally);
                    let account = if mine.is_some() { &held.account } else { &all };
                    return self.let_go_of_kept_slab(held, class, g, account);
                }
                break;
            }
        }
        Ok(())
    }

    /// Whether a heap whose lock is held keeps a slab of a class: with `key` for both.
    #[inline(always)]
    pub(crate) fn is_kept_as(&self, key: u16, g: Granule) -> bool {
        // SAFETY: an atomic field of a committed granule's local part. Whether it says so of this
        // heap changes with the heap's lock held alone; of others it may come and go.
        unsafe { (*self.local(g)).kept_as.look() == key }
    }

    /// Takes back objects of a slab that the heap keeps. Fails if one of them is free already.
    pub(crate) fn take_back_kept(&self, held: &Held, class: Class, row: Row) -> Result<(), ()> {
        let (g, info) = (row.slab, class.info());
        // SAFETY: the lock protects the slabs in the list.
        let local = unsafe { &mut *self.local(g) };
        if !local.take_back(info, self.bits(g), row.word, (row.mask, row.count)) {
            return Err(());
        }
        held.heap().keeping.add(usize::from(row.count) * class.size());
        if local.free_count(info) == info.capacity.into() {
            self.release_if_whole(held, class, g);
        }
        Ok(())
    }

    /// Releases a slab that the heap keeps and that is whole, unless it is the only one of its
    /// class: a heap at the edge of a slab does not make and release it in turn.
    pub(crate) fn release_if_whole(&self, held: &Held, class: Class, g: Granule) {
        // SAFETY: the lock protects the slabs in the list.
        let is_only = unsafe { (*self.local(g)).next | (*self.local(g)).prev } == 0;
        if !is_only || held.is_attached(class) {
            self.unlink_kept(held, class, g);
            self.release_own_slab(held.heap(), class, g, &held.account);
        }
    }

    /// Calls `add` with the free objects of each slab that a heap keeps.
    pub(crate) fn free_in_kept(&self, held: &Held, class: Class, mut add: impl FnMut(i32)) {
        let mut at = held.heap().kept(class).first();
        while let Some(g) = at {
            // SAFETY: the lock protects the slabs in the list.
            let local = unsafe { &*self.local(g) };
            add(local.free_count(class.info()) + self.word(g).count().look().1.0);
            // SAFETY: as above.
            at = unsafe { SlabList::after(self, g) };
        }
    }
}

/// Takes a heap's lock for who may hold that of another heap: if it is to be had soon.
fn hold_soon(heap: &Heap) -> Option<Held<'_>> {
    for _ in 0..TRIES {
        if let Some(held) = heap.try_hold() {
            return Some(held);
        }
        pause();
    }
    None
}
