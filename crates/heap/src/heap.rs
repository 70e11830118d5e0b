//! A heap: an identity that takes from slabs, leased to one thread or shared by several.
//!
//! A heap owns the slabs that it is taking from, a few, and those that it keeps to take from later
//! (`kept`). A slab that has given everything away is detached and belongs to nobody. What stays is
//! the heap's *map*: for every granule the class of the small objects there that the heap's thread
//! may keep in its magazines when it frees them. The map is private to the heap, so that looking at
//! it shares no cache line with anybody.
//!
//! Why a stale map entry is harmless: objects in magazines count as out, whoever's slab they come
//! from; they go home through the slab's word. Only a change of class would matter, and who
//! releases a slab clears its entry first: the store comes before the release of the granule, that
//! before its next claim, and that before any object of the new slab reaches the old owner (model
//! S8).

use crate::arena::Arena;
use crate::attached::Attached;
use crate::blocks::Home;
use crate::class::{Class, SMALL_CLASSES};
use crate::depot::Depots;
use crate::hot::NearSlots;
use crate::hot_runs::HotRuns;
use crate::kept::Keeping;
use crate::layout::{BLOCK_GRANULES, Granule, at};
use crate::magazine::Magazine;
use crate::medium::MediumBins;
use crate::order;
use crate::own_pools::{OwnPooling, OwnPools};
use crate::policy::grow;
use crate::recent::Recent;
use crate::reclaim::Holder;
use crate::slab_list::SlabList;
use crate::swing::HasSwings;
use crate::tables::SlabLocal;
use crate::tally::{Account, Tally};
use core::cell::UnsafeCell;
use core::mem::offset_of;
use freehold_sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use freehold_sync::exchange::LOT;
use freehold_sync::inbox::Inbox;
use freehold_sync::lock::Lock;
use freehold_sync::word::{Count, Ledger, State};
use freehold_sys::System;
use freehold_sys::touch::touch;

/// What is to be known of what is sent to a heap, and what else hardly ever changes. On a line of
/// its own, since senders look at it.
#[repr(align(64))]
struct Mail {
    /// Whether anything was sent to the leaseholder.
    receives: AtomicBool,
    /// Whether the leaseholder has taken anything of it since the inboxes were closed last.
    answers: AtomicBool,
    /// Whether magazines have been made, and not been given back since.
    furnished: AtomicBool,
    /// Whether a thread has had the lease since what the heap has was purged last.
    worn: AtomicBool,
    /// The small classes that leaseholders have used, a bit each. Used by the leaseholder alone;
    /// all accesses are Relaxed, since the lease orders them.
    used: AtomicU64,
}

/// A heap. Never moved, never unmade; unused between leases.
///
/// What every process uses of its first heap comes first, on one page of 4 KiB, and what takes much
/// and begins as zeros behind it.
#[repr(C, align(4096))]
pub struct Heap {
    /// Protects `attached` and `kept`, and all the slabs in them. The leaseholder takes it on slow
    /// paths only, where it is nearly always free; others take it to fork, because the heap is
    /// shared, to take a slab that it keeps or have it let go of one, or to purge what the heap has
    /// while nobody has the lease, which begins with it.
    pub(crate) lock: Lock,
    id: u16,
    exclusive: bool,
    /// Whether a thread has the lease. Changes with the lock held.
    leased: AtomicBool,
    /// Which thread that is.
    pub(crate) holder: Holder,
    /// The link of the stack of idle heaps.
    pub(crate) link: AtomicU32,
    /// Where granules for slabs, and where those for runs come from.
    pub(crate) slab_home: Home,
    pub(crate) run_home: Home,
    /// The map: its address, and the granules it is committed for.
    map: usize,
    mapped: AtomicU32,
    pub(crate) tally: Tally,
    mail: Mail,
    /// How much it keeps.
    pub(crate) keeping: Keeping,
    pub(crate) own_pooling: OwnPooling,
    /// Whether anything is in `recent`, which a small process is not to touch. Used as that.
    pub(crate) has_recent: AtomicBool,
    pub(crate) has_swings: HasSwings,
    /// Runs that were freed last. Used by the leaseholder alone.
    pub(crate) hot_runs: HotRuns,
    attached: UnsafeCell<[Attached; SMALL_CLASSES + 1]>,
    /// Used by the leaseholder alone without a lock, or with the lock held if the heap is shared.
    pub(crate) medium: UnsafeCell<MediumBins>,
    /// Slots for hot medium objects. Used by way of the bins alone.
    pub(crate) near_slots: UnsafeCell<NearSlots>,
    /// Slabs that it keeps to take from later, of each small class.
    pub(crate) kept: [SlabList; SMALL_CLASSES + 1],
    /// Slabs that its thread has taken from, of each medium class.
    pub(crate) own_pools: OwnPools,
    /// Granules of slabs that its thread has released last.
    pub(crate) recent: Recent,
    /// For each small class, what other threads have freed of this heap's and sent to it. Open
    /// while a thread has the lease and has allocated in the class.
    pub(crate) inboxes: [Inbox; SMALL_CLASSES + 1],
    /// Empty magazines, which change hands with the heap: for each class one, or 0. While the
    /// leaseholder has one of a class, the one here is spare, for its inbox. Used by the
    /// leaseholder alone; all accesses are Relaxed, since the lease orders them.
    pub(crate) magazines: [AtomicUsize; SMALL_CLASSES + 1],
    /// Full magazines for each class. Used by the leaseholder alone, or with the lock held if the
    /// heap is shared.
    depots: UnsafeCell<Depots>,
}

const _: () = assert!(offset_of!(Heap, medium) + MediumBins::MADE_BYTES <= 4096);
const _: () = assert!(size_of::<Heap>() <= 10 * 4096);

// SAFETY: each field says which lock or which thread it belongs to; the rest is atomic.
unsafe impl Sync for Heap {}

/// Stores a hint if it is news, so that those who read it keep their lines. Relaxed: a hint.
fn set(hint: &AtomicBool, value: bool) {
    if hint.load(Ordering::Relaxed) != value {
        hint.store(value, Ordering::Relaxed);
    }
}

/// A heap whose lock is held.
pub struct Held<'a> {
    heap: &'a Heap,
    /// What the holder claims and releases.
    pub(crate) account: Account<'a>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.heap.lock.release();
    }
}

impl<'a> Held<'a> {
    pub(crate) fn attached(&mut self, class: Class) -> &mut Attached {
        // SAFETY: the lock is held, and `self` is borrowed for as long as the result.
        unsafe { &mut (*self.heap.attached.get())[usize::from(class.0)] }
    }

    /// Whether the heap is attached to slab `g`, of class `class`.
    pub(crate) fn is_attached_to(&self, class: Class, g: Granule) -> bool {
        // SAFETY: the lock is held, and the reference ends here.
        unsafe { (&(*self.heap.attached.get()))[usize::from(class.0)].has(g) }
    }

    /// Whether the heap is attached to slabs of a class.
    pub(crate) fn is_attached(&self, class: Class) -> bool {
        // SAFETY: the lock is held, and the reference ends here.
        unsafe { (&(*self.heap.attached.get()))[usize::from(class.0)].count > 0 }
    }

    /// The slabs of a class that the heap is attached to.
    pub(crate) fn attached_slabs(&mut self, class: Class) -> impl Iterator<Item = Granule> {
        self.attached(class).slabs()
    }

    /// The heap's depots, if threads share it: those of another are its leaseholder's.
    pub(crate) fn shared_depots(&mut self) -> Option<&mut Depots> {
        if self.heap.is_exclusive() {
            return None;
        }
        // SAFETY: the heap is shared, so its lock, which is held, protects its depots, and `self`
        // is borrowed for as long as the result.
        Some(unsafe { &mut *self.heap.depots.get() })
    }

    /// Notes that no thread has the lease from now on.
    pub(crate) fn end_lease(&mut self) {
        // Relaxed: who relies on it holds the lock.
        self.heap.leased.store(false, Ordering::Relaxed);
    }

    /// The heap.
    pub(crate) fn heap(&self) -> &'a Heap {
        self.heap
    }
}

impl Heap {
    /// Makes a heap with the given number and the map at `map`, field by field: a whole one on the
    /// stack would stay resident there, in each thread that makes one.
    ///
    /// # Safety
    /// The place is the caller's, aligned, and zero.
    #[inline(never)]
    pub(crate) unsafe fn make_at(place: *mut Self, id: u16, exclusive: bool, map: usize) {
        // SAFETY: the caller's promise; each is a field of the place, and none is left out but what
        // begins as zeros, which is there without being written, so that its pages stay untouched:
        // the slots, and all that is attached, received, set aside, kept or noted.
        unsafe {
            (&raw mut (*place).lock).write(Lock::new(order::HEAP));
            (&raw mut (*place).own_pooling).write(OwnPooling::new());
            (&raw mut (*place).id).write(id);
            (&raw mut (*place).exclusive).write(exclusive);
            (&raw mut (*place).leased).write(AtomicBool::new(false));
            (&raw mut (*place).holder).write(Holder::nobody());
            (&raw mut (*place).link).write(AtomicU32::new(0));
            (&raw mut (*place).slab_home).write(Home::default());
            (&raw mut (*place).run_home).write(Home::default());
            (&raw mut (*place).map).write(map);
            (&raw mut (*place).mapped).write(AtomicU32::new(0));
            MediumBins::make_at(UnsafeCell::raw_get(&raw const (*place).medium));
            (&raw mut (*place).tally).write(Tally::default());
        }
    }

    /// Notes that a thread has the lease from now on: with the lock held, so that it waits for who
    /// is purging what the heap has.
    pub(crate) fn begin_lease(&self) {
        self.lock.hold(|| {
            // Relaxed: who relies on them holds the lock.
            self.leased.store(true, Ordering::Relaxed);
            self.mail.worn.store(true, Ordering::Relaxed);
        });
    }

    /// Its number.
    pub fn id(&self) -> u16 {
        self.id
    }

    /// Whether one thread at a time has it to itself.
    pub fn is_exclusive(&self) -> bool {
        self.exclusive
    }

    /// Whether a thread has the lease.
    pub(crate) fn is_leased(&self) -> bool {
        // Relaxed: asked by the holder of this lock, or after a fork, when there is one thread; or
        // it is a hint of how many threads there are.
        self.leased.load(Ordering::Relaxed)
    }

    /// Whether anything was sent to the leaseholder.
    pub(crate) fn receives(&self) -> bool {
        // Relaxed: a hint.
        self.mail.receives.load(Ordering::Relaxed)
    }

    /// Notes whether it has.
    pub(crate) fn set_receives(&self, receives: bool) {
        set(&self.mail.receives, receives);
    }

    /// Whether the leaseholder has taken anything of it since the inboxes were closed last.
    pub(crate) fn answers(&self) -> bool {
        // Relaxed: a hint.
        self.mail.answers.load(Ordering::Relaxed)
    }

    /// Notes whether it has.
    pub(crate) fn set_answers(&self, answers: bool) {
        set(&self.mail.answers, answers);
    }

    /// Takes the heap's lock.
    pub(crate) fn hold(&self) -> Held<'_> {
        self.lock.acquire();
        Held { heap: self, account: Account::new(&self.tally) }
    }

    /// Takes the heap's lock if it is free.
    pub(crate) fn try_hold(&self) -> Option<Held<'_>> {
        self.lock.try_acquire().then(|| Held { heap: self, account: Account::new(&self.tally) })
    }

    /// The address of the map, for the fast path.
    pub fn map(&self) -> usize {
        self.map
    }

    /// How many granules the map can be asked for. Grows only.
    pub fn mapped(&self) -> usize {
        // Relaxed: written by this heap's holder; others only come by it through a lease.
        self.mapped.load(Ordering::Relaxed) as usize
    }

    /// Where there are slots for the first hot objects of a medium class.
    pub(crate) fn near_slots(&self, class: Class) -> usize {
        let slots = self.near_slots.get().expose_provenance();
        slots + class.medium_index() * size_of::<[usize; LOT]>()
    }

    /// Where other threads send what they freed of this heap's, if they do for the class.
    pub(crate) fn inbox(&self, class: Class) -> Option<&Inbox> {
        self.inboxes.get(usize::from(class.0))
    }

    /// Takes the magazine of a class away, for the leaseholder. The first time magazines are made
    /// for all classes at once, if nobody has left any, so that threads that start together do not
    /// wait for each other.
    pub(crate) fn take_magazine<S: System>(
        &self,
        arena: &Arena<S>,
        class: Class,
    ) -> Option<*mut Magazine> {
        if !self.mail.furnished.load(Ordering::Relaxed) {
            // From now on they are read before they are written to. (So are inboxes, which others
            // may write to by now.)
            let from = (&raw const self.magazines).expose_provenance();
            let last = (&raw const self.depots).expose_provenance();
            let bytes = last + size_of::<Depots>() - from;
            // SAFETY: two fields beside each other, atomics and a cell, that are the leaseholder's,
            // who is here and at neither of them; the system says how large its pages are.
            unsafe { touch(from, bytes, arena.system.page_size()) };
            // Those that others have given back come first, one at a time.
            if arena.magazines.has_no_idle() {
                let first = arena.magazines.make(&arena.system, SMALL_CLASSES)?;
                for (i, place) in self.magazines[1..].iter().enumerate() {
                    place.store(first.wrapping_add(i).addr(), Ordering::Relaxed);
                }
            }
            self.mail.furnished.store(true, Ordering::Relaxed);
        }
        let place = &self.magazines[usize::from(class.0)];
        let magazine = place.load(Ordering::Relaxed);
        place.store(0, Ordering::Relaxed);
        match magazine {
            // Given back, or lost with a thread that vanished in a fork.
            0 => arena.magazines.lease(&arena.system),
            address => Some(at(address)),
        }
    }

    /// Notes that the leaseholder uses a class; tells whether one had done so before.
    pub(crate) fn note_used(&self, class: Class) -> bool {
        let (before, bit) = (self.mail.used.load(Ordering::Relaxed), 1 << class.0);
        self.mail.used.store(before | bit, Ordering::Relaxed);
        before & bit != 0
    }

    /// Runs `f` with the depots of a heap that is not shared.
    ///
    /// # Safety
    /// The caller's thread has the lease, or that of the last leaseholder is gone; and `f` does not
    /// come here again.
    pub(crate) unsafe fn with_depots<R>(&self, f: impl FnOnce(&mut Depots) -> R) -> R {
        // SAFETY: the caller's promise.
        f(unsafe { &mut *self.depots.get() })
    }

    /// Leaves an empty magazine here, for the next leaseholder or to be a spare one for mail.
    /// Returns the one that was here.
    pub(crate) fn leave_magazine(
        &self,
        class: Class,
        magazine: *mut Magazine,
    ) -> Option<*mut Magazine> {
        let place = &self.magazines[usize::from(class.0)];
        let before = place.load(Ordering::Relaxed);
        place.store(magazine.addr(), Ordering::Relaxed);
        (before != 0).then(|| at(before))
    }

    /// Whether a thread has had the lease since what the heap has was purged last.
    pub(crate) fn is_worn(&self) -> bool {
        // Relaxed: a hint, and who relies on it holds the lock.
        self.mail.worn.load(Ordering::Relaxed)
    }

    /// Notes that what the heap has is purged, and that it has no magazines from now on.
    pub(crate) fn note_purged(&self) {
        // Relaxed: who relies on them holds the lock, or has the lease, which begins with that.
        self.mail.worn.store(false, Ordering::Relaxed);
        self.mail.furnished.store(false, Ordering::Relaxed);
    }

    /// Takes a full magazine out of the inbox, and leaves the spare one there, if there is one.
    /// For the leaseholder.
    pub(crate) fn take_mail(&self, class: Class) -> Option<*mut Magazine> {
        let inbox = self.inbox(class)?;
        let place = &self.magazines[usize::from(class.0)];
        let spare = place.load(Ordering::Relaxed);
        // First, so that in the child of a fork it is not both here and in the inbox. The store
        // into that, which releases, keeps the order.
        place.store(0, Ordering::Relaxed);
        let full = inbox.take(spare);
        match full {
            Some(_) => self.set_answers(true),
            None => place.store(spare, Ordering::Relaxed),
        }
        full.map(at)
    }

    fn map_entry(&self, g: Granule) -> &AtomicU8 {
        // SAFETY: the map is committed there: no entry is used before.
        unsafe { &*at::<AtomicU8>(self.map + g.0 as usize) }
    }
}

impl<S: System> Arena<S> {
    /// Enters a slab into the heap's map. Where the map cannot be extended the slab stays out of
    /// it, and frees take the slower way.
    fn map_slab(&self, heap: &Heap, g: Granule, class: Class) {
        if g.0 as usize >= heap.mapped() && !self.extend_map(heap) {
            return;
        }
        // Relaxed: see the module's argument.
        heap.map_entry(g).store(class.0, Ordering::Relaxed);
        self.tag(g).set_owner(heap.id());
    }

    /// Commits the heap's map for everything that is committed in the region.
    fn extend_map(&self, heap: &Heap) -> bool {
        let page = self.system.page_size();
        let granules = self.committed_blocks() * BLOCK_GRANULES;
        let bytes = (granules as usize).next_multiple_of(page);
        // SAFETY: inside the map's place, which is as long as the region has granules.
        let done = unsafe { self.system.commit(heap.map, bytes) };
        if done {
            let new_pages = (heap.mapped().next_multiple_of(page)..bytes).step_by(page);
            for n in new_pages.take(grow::MAP_PAGES_TOUCHED) {
                // Writes, and changes nothing, so that the page takes one fault: `free` reads the
                // map before anything is written there. An exchange, since other shared heaps have
                // the same map; Relaxed, since it says nothing.
                let entry = heap.map_entry(Granule(n as u32));
                let _ = entry.compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed);
            }
            heap.mapped.store(granules, Ordering::Relaxed);
        }
        done
    }

    /// Clears the slab's entry in the map of the heap that has it.
    fn unmap_slab(&self, g: Granule) {
        let owner = self.tag(g).owner();
        if owner != 0 {
            // Relaxed: see the module's argument.
            self.heap(owner).map_entry(g).store(0, Ordering::Relaxed);
            self.tag(g).set_owner(0);
        }
    }

    /// Takes small objects for a thread until `taken` is full or a slab is exhausted, and returns
    /// how many: none only when there is no memory.
    pub(crate) fn take_small(&self, held: &mut Held, class: Class, taken: &mut [usize]) -> usize {
        let info = class.info();
        loop {
            let Some(g) = held.attached(class).last() else {
                if self.attach_some_slab(held, class) {
                    continue;
                }
                return 0;
            };
            let word = self.word(g).count();
            // SAFETY: the slab is attached to the heap whose lock is held.
            let local = unsafe { &mut *self.local(g) };
            if local.balance <= 0 && word.look().1 != Count::NONE {
                local.drained(word.drain());
            }
            let carved = local.carved;
            let count = local.take(self.tables.address(g), info, self.bits(g), taken);
            if self.hardening.is_on() && local.carved > carved {
                self.seal_carved(class, g, carved..local.carved);
            }
            if local.is_exhausted(info) {
                let free = Count(local.free_count(info));
                self.detach_exhausted(held, class, g, free);
            }
            if count > 0 {
                return count;
            }
        }
    }

    /// Gives up a slab that has nothing left, unless frees from elsewhere have just arrived.
    fn detach_exhausted(&self, held: &mut Held, class: Class, g: Granule, free: Count) {
        if self.word(g).count().detach(State::Detached, free) {
            held.attached(class).remove(g);
        }
    }

    /// Attaches the heap to one more slab. Those in the pool come first: if new ones were made
    /// beside them as long as there is dirty memory, every object that outlives its neighbours
    /// would keep a slab of its own.
    fn attach_some_slab(&self, held: &mut Held, class: Class) -> bool {
        if self.is_any_kept(class) && self.attach_kept(held, class) {
            return true;
        }
        if let Some(g) = self.claim_pooled_slab(class, |g| self.word(g).count()) {
            self.adopt(held, class, g);
            return true;
        }
        if self.is_any_kept(class) && self.take_kept_instead(held, class) {
            return true;
        }
        let home = &held.heap().slab_home;
        let claim = self.claim_recent(1, held.heap(), &held.account);
        let claim = claim.or_else(|| self.claim_for_slab(class, home, &held.account));
        let Some(claim) = claim else {
            return self.is_any_kept(class) && self.take_kept_by_others(held, class);
        };
        let g = claim.granule;
        if class == Class::EMPTY {
            // SAFETY: the granule is the caller's. Where it stays accessible no harm is done.
            unsafe { self.guard(g, 1) };
        }
        self.tag(g).set(class.0, 0);
        let fresh = claim.dirty == 0;
        if fresh {
            self.note_grown(held.heap(), 1, &held.account);
        }
        // SAFETY: the granule is the caller's, and so is its local part.
        unsafe { self.local(g).write(SlabLocal { fresh, ..SlabLocal::untouched() }) };
        self.word(g).count().create(State::Attached);
        self.map_slab(held.heap(), g, class);
        held.attached(class).push(g);
        true
    }

    /// Attaches a claimed slab to the heap.
    pub(crate) fn adopt(&self, held: &mut Held, class: Class, g: Granule) {
        self.move_map_entry(held.heap(), g, class);
        let all = self.word(g).count().adopt();
        // SAFETY: the slab was claimed by the caller and is now attached to the heap whose lock is
        // held.
        unsafe { (*self.local(g)).take_over(all.0, class.info()) };
        held.attached(class).push(g);
    }

    /// Enters a slab into a heap's map, if it stands in another's.
    pub(crate) fn move_map_entry(&self, heap: &Heap, g: Granule, class: Class) {
        if self.tag(g).owner() != heap.id() {
            self.unmap_slab(g);
            self.map_slab(heap, g, class);
        }
    }

    /// Releases a slab of which every object is back, and which the caller has claimed or detached.
    pub(crate) fn release_slab(&self, class: Class, g: Granule, account: &Account) {
        // Those of medium objects stand in no map.
        if class.is_small() {
            self.unmap_slab(g);
        }
        if self.hardening.is_on() {
            self.clear_seals(class, g);
        }
        let granules = u32::from(class.info().granules);
        for i in 0..granules {
            self.tag(g.plus(i)).clear();
        }
        if class.is_small() {
            self.clear_bits(class, g);
        } else {
            // That of an object that was freed twice may be left.
            self.word(g).clear_handover_marks();
            account.medium_came_home(-(class.info().span as isize), &self.tally);
        }
        self.word(g).count().retire();
        if class == Class::EMPTY {
            // SAFETY: the granule is the caller's.
            if !unsafe { self.unguard(g, 1) } {
                return self.keep_shut_granule(g);
            }
            self.give_back_shut();
        }
        self.release_granules(g, granules, account);
    }

    /// Clears the bits of a slab of which every object is back.
    fn clear_bits(&self, class: Class, g: Granule) {
        let bits = self.bits(g);
        for n in 0..class.info().words.into() {
            // Relaxed: every free of the slab is over, and releasing the granule publishes it.
            bits.word(n).store(0, Ordering::Relaxed);
        }
        // SAFETY: the slab is the caller's.
        unsafe { (*self.local(g)).clear_far_own(class.info(), bits) };
    }

    /// Calls `add` with the class and the free objects of every slab the heap is attached to.
    pub(crate) fn free_in_attached(&self, heap: &Heap, add: &mut impl FnMut(Class, i32)) {
        let mut held = heap.hold();
        for n in 1..=SMALL_CLASSES as u8 {
            let class = Class(n);
            self.free_in_kept(&held, class, |free| add(class, free));
            let mut attached = *held.attached(class);
            while let Some(g) = attached.last() {
                // SAFETY: the slab is attached to the heap whose lock is held.
                let free = unsafe { (*self.local(g)).free_count(class.info()) };
                add(class, free + self.word(g).count().look().1.count());
                attached.remove(g);
            }
        }
    }
}
