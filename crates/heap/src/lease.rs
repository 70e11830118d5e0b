//! Who has which heap.
//!
//! Heaps are identities that outlive the threads that use them. A thread leases an exclusive heap,
//! the one given back last first, and gives it back when it exits; a new thread that leases it
//! frees its predecessor's objects as its own. When all exclusive heaps are leased, further threads
//! share heaps, one for each processor, under their locks, until they find that an exclusive one
//! was given back. So memory is bounded by the number of processors, and not by that of threads.
//!
//! Heaps are numbered from 1: first the shared ones, which have one map between them, then the
//! exclusive ones. A heap is made when it is first needed.

use crate::arena::Arena;
use crate::class::{Class, SMALL_CLASSES};
use crate::heap::{Heap, Held};
use crate::invalid::Invalid;
use crate::order;
use crate::policy::retain;
use crate::swing::Granted;
use freehold_sync::atomic::{AtomicU16, Ordering};
use freehold_sync::lock::Lock;
use freehold_sync::stack::IndexStack;
use freehold_sys::System;

/// The book of leases.
#[repr(align(64))]
pub struct Leases {
    /// Held while making a heap or an outbox.
    pub(crate) lock: Lock,
    shared: u16,
    exclusive: u16,
    shared_made: AtomicU16,
    exclusive_made: AtomicU16,
    idle: IndexStack,
    /// How many exclusive heaps threads have; in the child of a fork maybe one too many. Relaxed
    /// everywhere: a figure for policies.
    leased: AtomicU16,
    /// How many threads have been told where to begin looking for a shared heap.
    hints: AtomicU16,
    /// What swings of heaps were granted.
    pub(crate) granted: Granted,
}

impl Leases {
    /// A book for a machine with so many processors.
    pub(crate) fn new(processors: usize) -> Self {
        Self {
            lock: Lock::new(order::LEASES),
            shared: retain::shared_heaps(processors) as u16,
            exclusive: retain::exclusive_heaps(processors) as u16,
            shared_made: AtomicU16::new(0),
            exclusive_made: AtomicU16::new(0),
            idle: IndexStack::new(),
            leased: AtomicU16::new(0),
            hints: AtomicU16::new(0),
            granted: Granted::default(),
        }
    }

    /// How many heaps there may be.
    pub(crate) fn heaps(&self) -> usize {
        usize::from(self.shared) + usize::from(self.exclusive)
    }

    /// How many there are up to the first exclusive one.
    pub(crate) fn first_heaps(&self) -> usize {
        usize::from(self.shared) + 1
    }

    /// How many maps there are for them: one for each exclusive heap, and one for the others.
    pub(crate) fn maps(&self) -> usize {
        usize::from(self.exclusive) + 1
    }

    /// The number of a heap's map. That of the first exclusive heap, the only one in many
    /// processes, comes first.
    fn map_of(&self, id: u16) -> usize {
        usize::from(id.checked_sub(self.shared + 1).unwrap_or(self.exclusive))
    }

    /// How many exclusive heaps were made so far.
    pub(crate) fn exclusive_made(&self) -> u16 {
        // Relaxed: a figure for policies.
        self.exclusive_made.load(Ordering::Relaxed)
    }

    /// Whether several threads have heaps, or have shared some.
    pub(crate) fn are_several(&self) -> bool {
        // Relaxed: as above.
        self.leased.load(Ordering::Relaxed) > 1 || self.shared_made.load(Ordering::Relaxed) > 0
    }

    /// The numbers of the heaps made so far.
    pub(crate) fn made(&self) -> impl Iterator<Item = u16> + use<> {
        // Acquire pairs with the Release in `make_heap`.
        let shared = self.shared_made.load(Ordering::Acquire);
        let exclusive = self.exclusive_made.load(Ordering::Acquire);
        let first = self.shared + 1;
        (1..=shared).chain(first..first + exclusive)
    }
}

impl<S: System> Arena<S> {
    /// Leases an exclusive heap, if one is left.
    pub(crate) fn lease(&self) -> Option<&Heap> {
        let leases = &self.leases;
        let heap = match leases.idle.pop(|id| &self.heap(id as u16).link) {
            Some(id) => self.heap(id as u16),
            None => self.make_exclusive()?,
        };
        self.leases.leased.fetch_add(1, Ordering::Relaxed);
        heap.begin_lease();
        Some(heap)
    }

    /// Leases an exclusive heap that was given back, for a thread that has shared some until now.
    #[inline]
    pub(crate) fn lease_idle(&self) -> Option<&Heap> {
        let idle = &self.leases.idle;
        if idle.is_empty() {
            return None;
        }
        let id = idle.pop(|id| &self.heap(id as u16).link)?;
        let heap = self.heap(id as u16);
        self.leases.leased.fetch_add(1, Ordering::Relaxed);
        heap.begin_lease();
        Some(heap)
    }

    /// Ends a lease: the heap lets go of everything it holds, and waits for the next thread. Calls
    /// `twice` with what was free already.
    ///
    /// # Safety
    /// The caller's thread has the lease and does not use it afterwards, or its thread is gone.
    pub(crate) unsafe fn end_lease(&self, heap: &Heap, twice: impl FnMut(Invalid)) -> u32 {
        heap.holder.end();
        // SAFETY: the caller's thread has the lease, or the leaseholder is gone.
        let gone = unsafe { self.let_go_of_what_is_at_hand(heap, usize::MAX, twice) };
        let mut released = gone.released;
        heap.set_receives(false);
        let mut held = heap.hold();
        // First, so that nobody puts a slab into its pools afterwards.
        held.end_lease();
        self.let_go_of_slabs(&mut held);
        released += held.account.total_released();
        drop(held);
        self.leases.leased.fetch_sub(1, Ordering::Relaxed);
        self.leases.idle.push(heap.id().into(), |id| &self.heap(id as u16).link);
        released
    }

    /// How many threads that have not ended have heaps of their own, besides that of heap `mine`.
    pub fn leases_besides(&self, mine: Option<&Heap>) -> usize {
        let mine = mine.map(Heap::id);
        let leased = self.all_heaps().filter(|heap| heap.is_exclusive() && heap.is_leased());
        leased.filter(|heap| Some(heap.id()) != mine).count()
    }

    /// Makes the shared heaps let go of everything they hold. Fails if an object of that had been
    /// freed twice.
    pub fn let_go_of_shared(&self) -> Result<(), Invalid> {
        let mut found = Ok(());
        for id in 1..=self.leases.shared_made.load(Ordering::Acquire) {
            let heap = self.heap(id);
            for class in (1..=SMALL_CLASSES as u8).map(Class) {
                // For one class at a time, so that nobody waits for long.
                let mut held = heap.hold();
                while let Some(rounds) =
                    held.shared_depots().and_then(|it| it.empty_one(self, class))
                {
                    self.send_each_home(class, rounds.as_slice(), |twice| found = Err(twice));
                }
            }
            let mut held = heap.hold();
            // SAFETY: the heap is shared, so its lock, which is held, protects its bins.
            let bins = unsafe { &mut *held.heap().medium.get() };
            self.let_go_of_medium(bins, usize::MAX, |twice| found = Err(twice));
            self.let_go_of_slabs(&mut held);
        }
        found
    }

    fn make_exclusive(&self) -> Option<&Heap> {
        let leases = &self.leases;
        leases.lock.hold(|| {
            // Another thread may have ended its lease meanwhile.
            if let Some(id) = leases.idle.pop(|id| &self.heap(id as u16).link) {
                return Some(self.heap(id as u16));
            }
            let made = leases.exclusive_made.load(Ordering::Relaxed);
            if made == leases.exclusive {
                return None;
            }
            let id = leases.shared + 1 + made;
            self.make_heap(id, true)?;
            // Release pairs with the Acquire in `made`.
            leases.exclusive_made.store(made + 1, Ordering::Release);
            Some(self.heap(id))
        })
    }

    /// The number of shared heaps, made if they were not; 0 when there is no memory for them.
    fn shared_heaps(&self) -> u16 {
        let leases = &self.leases;
        let made = leases.shared_made.load(Ordering::Acquire);
        if made != 0 {
            return made;
        }
        leases.lock.hold(|| {
            let made = leases.shared_made.load(Ordering::Relaxed);
            if made != 0 {
                return made;
            }
            if !(1..=leases.shared).all(|id| self.make_heap(id, false).is_some()) {
                return 0;
            }
            // Release pairs with the Acquire above and in `made`.
            leases.shared_made.store(leases.shared, Ordering::Release);
            leases.shared
        })
    }

    fn make_heap(&self, id: u16, exclusive: bool) -> Option<()> {
        let place = self.heap_place(id);
        if place.addr() < self.first_heaps {
            let page = self.system.page_size();
            let (from, end) = (place.addr() / page * page, place.addr() + size_of::<Heap>());
            // SAFETY: inside the part of the metadata planned for heaps; the rights of neighbouring
            // heaps on the same page do not change.
            if !unsafe { self.system.commit(from, end.next_multiple_of(page) - from) } {
                return None;
            }
        }
        let map = self.map_place(self.leases.map_of(id));
        // SAFETY: committed, and nobody knows of this heap yet. Zero, as committed memory is; or
        // else, when not all shared heaps could be made the last time, as this left it, which wrote
        // nothing that is relied on to be zero.
        unsafe { Heap::make_at(place, id, exclusive, map) };
        Some(())
    }

    /// Where a new thread begins to look for a shared heap: each where the one before did not.
    pub(crate) fn next_hint(&self) -> u16 {
        // Relaxed: any spread will do.
        self.leases.hints.fetch_add(1, Ordering::Relaxed)
    }

    /// Holds a shared heap: that of the processor, or the one that `hint` says where nobody knows
    /// which that is; if it is not free another that is, or else that one after waiting for it.
    /// `None` when there is no memory for shared heaps.
    pub(crate) fn hold_shared_heap(&self, hint: u16) -> Option<Held<'_>> {
        let count = self.shared_heaps();
        if count == 0 {
            return None;
        }
        // What a processor has used is in its own caches, and nobody else is there now but who was
        // interrupted in the middle.
        let first = self.system.processor().map_or(hint, |number| number as u16) % count;
        let nth = |i: u16| self.heap(1 + (first + i) % count);
        let free = (0..count).find_map(|i| nth(i).try_hold());
        Some(free.unwrap_or_else(|| nth(0).hold()))
    }

    /// Whether a heap is one of the shared ones.
    pub(crate) fn is_shared(&self, id: u16) -> bool {
        (1..=self.leases.shared).contains(&id)
    }
}
