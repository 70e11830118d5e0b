//! The pool: a fixed number of slots, each with inaccessible pages before and after it.
//!
//! An object stands at a random one of the two ends of its slot: at the upper one an overflow
//! touches inaccessible memory, at the lower one an underflow. What its pages have left of room is
//! filled with a byte of the slot's, and compared when the object is freed. The pages of a freed
//! object are inaccessible until the slot is used again, which is as late as possible: new slots
//! first, then one of the older half of those that are free, at random. A quarter of the slots is
//! never in use, so that there are always some that were freed.
//!
//! | state | whose the slot is | its notes |
//! |---|---|---|
//! | `UNUSED` | the pool's | none |
//! | `TAKEN` | the thread's that fills it | being written |
//! | `LIVE` | the program's | the allocation's |
//! | `LEAVING` | the thread's that empties it | the free's are being written |
//! | `FREED` | the pool's | both |
//!
//! The lock protects the choice of slots and nothing else; a slot that was chosen is one thread's.
//! The notes are atomics, since a handler of a fault reads them at any time, and the state says
//! which of them to believe.

use crate::stack::{DEPTH, Stack};
use core::cell::UnsafeCell;
use freehold_heap::layout::{UNIT, at};
use freehold_heap::order;
use freehold_sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use freehold_sync::lock::Lock;
use freehold_sys::{Linux, System, process};

/// Slots: each that is in use takes a page of memory at least, and two mappings of the kernel's.
const SLOTS: usize = 256;
/// Slots that may be in use at once.
const MOST_LIVE: usize = SLOTS / 4 * 3;
/// The largest object that is guarded, in bytes.
pub(crate) const LARGEST: usize = 32 * 1024;

pub(super) const UNUSED: u32 = 0;
pub(super) const TAKEN: u32 = 1;
pub(super) const LIVE: u32 = 2;
pub(super) const LEAVING: u32 = 3;
pub(super) const FREED: u32 = 4;

/// Who did something to an object, and by which calls.
pub(super) struct Note {
    thread: AtomicU32,
    frames: [AtomicUsize; DEPTH],
}

impl Note {
    fn write(&self, stack: &Stack) {
        // Relaxed here and below: the slot's state says whether there is something to read.
        self.thread.store(process::thread_id(), Ordering::Relaxed);
        for (place, &frame) in self.frames.iter().zip(&stack.0) {
            place.store(frame, Ordering::Relaxed);
        }
    }

    /// The thread, and the calls.
    pub(super) fn read(&self) -> (u32, Stack) {
        let frames = core::array::from_fn(|n| self.frames[n].load(Ordering::Relaxed));
        (self.thread.load(Ordering::Relaxed), Stack(frames))
    }
}

/// A slot, and what is known of the object in it.
pub(super) struct Slot {
    pub(super) state: AtomicU32,
    pub(super) object: AtomicUsize,
    pub(super) size: AtomicUsize,
    pub(super) allocated: Note,
    pub(super) freed: Note,
}

/// The slots that may be used next.
struct Queue {
    /// Slots that were used before.
    used: usize,
    live: usize,
    /// The slots that were freed, the oldest at `first`.
    freed: [u16; SLOTS],
    first: usize,
    count: usize,
}

/// The pool. All zero but for the three numbers, which never change.
pub(crate) struct Pool {
    start: usize,
    page: usize,
    /// Bytes of a slot, without the inaccessible page after it.
    room: usize,
    lock: Lock,
    /// Protected by `lock`.
    queue: UnsafeCell<Queue>,
    slots: [Slot; SLOTS],
}

// SAFETY: the queue is used with the lock held; all else is atomic, or never changes.
unsafe impl Sync for Pool {}

/// What is wrong with an address in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Misuse {
    /// It is no object, or no longer.
    NoObject { address: usize },
    /// Something was written before or after the object: so many bytes away at most.
    Spoiled { object: usize, before: usize, after: usize },
}

impl Pool {
    /// Makes a pool. `None` when there is no address space for it.
    pub(crate) fn create() -> Option<&'static Self> {
        let system = Linux::new();
        let page = system.page_size();
        let room = LARGEST.next_multiple_of(page);
        let start = system.reserve(SLOTS * (room + page) + page, page)?;
        let pool = at::<Self>(system.map(size_of::<Self>().next_multiple_of(page))?);
        // SAFETY: zeroed memory of the right size, at a multiple of a page, which nobody else knows
        // of; all zero is an empty queue, and slots that were never used.
        unsafe {
            (&raw mut (*pool).lock).write(Lock::new(order::GUARDED));
            (&raw mut (*pool).start).write(start);
            (&raw mut (*pool).page).write(page);
            (&raw mut (*pool).room).write(room);
            Some(&*pool)
        }
    }

    fn stride(&self) -> usize {
        self.room + self.page
    }

    /// Whether an address lies in the pool, inaccessible pages included.
    pub(crate) fn contains(&self, address: usize) -> bool {
        address.wrapping_sub(self.start) < SLOTS * self.stride() + self.page
    }

    /// Where the room of a slot begins.
    fn room_of(&self, n: usize) -> usize {
        self.start + self.page + n * self.stride()
    }

    /// The slot in whose room an address lies.
    fn slot_at(&self, address: usize) -> Option<usize> {
        let offset = address.wrapping_sub(self.start + self.page);
        let n = offset / self.stride();
        (n < SLOTS && offset % self.stride() < self.room).then_some(n)
    }

    /// The slot whose object is the nearest to an address that lies in the pool.
    pub(super) fn nearest(&self, address: usize) -> Option<&Slot> {
        let below = address.saturating_sub(self.start + self.page) / self.stride();
        let candidates = below.saturating_sub(1)..(below + 2).min(SLOTS);
        let known = candidates.map(|n| &self.slots[n]).filter(|slot| !slot.is_empty());
        known.min_by_key(|slot| slot.distance(address))
    }

    fn with_queue<R>(&self, f: impl FnOnce(&mut Queue) -> R) -> R {
        // SAFETY: the lock is held for as long as the reference lives.
        self.lock.hold(|| f(unsafe { &mut *self.queue.get() }))
    }

    /// Gives out an object of `size` bytes, at most [`LARGEST`] and not none, at a multiple of
    /// `align`, a power of two. `None` when there is no slot or no memory for it, or a page is not
    /// aligned enough.
    pub(super) fn allocate(&self, size: usize, align: usize, random: u64) -> Option<usize> {
        let align = align.max(UNIT);
        if align > self.page {
            return None;
        }
        // Before the lock: it takes the loader's, which may be held by somebody who allocates.
        let stack = Stack::here();
        let n = self.with_queue(|queue| queue.take(random))?;
        let (slot, start) = (&self.slots[n], self.room_of(n));
        let end = start + self.room;
        let at_end = random & 1 == 0;
        let object = if at_end { (end - size) & !(align - 1) } else { start };
        slot.state.store(TAKEN, Ordering::Relaxed);
        slot.object.store(object, Ordering::Relaxed);
        slot.size.store(size, Ordering::Relaxed);
        let (first, bytes) = self.pages(slot);
        // SAFETY: pages of this slot, which is this thread's.
        if !unsafe { Linux::new().commit(first, bytes) } {
            slot.state.store(FREED, Ordering::Relaxed);
            self.with_queue(|queue| queue.put(n));
            return None;
        }
        // SAFETY: before and after the object, in pages that were just made accessible.
        unsafe {
            at::<u8>(first).write_bytes(filler(n), object - first);
            let behind = object + size;
            at::<u8>(behind).write_bytes(filler(n), first + bytes - behind);
        }
        slot.allocated.write(&stack);
        // Release pairs with the Acquire of who reads the notes.
        slot.state.store(LIVE, Ordering::Release);
        Some(object)
    }

    /// The pages of the object in a slot: where they begin, and their bytes.
    fn pages(&self, slot: &Slot) -> (usize, usize) {
        let (object, size) = slot.extent();
        let first = object & !(self.page - 1);
        (first, (object + size).next_multiple_of(self.page) - first)
    }

    /// The slot of the object at `address`, and its number.
    fn live(&self, address: usize) -> Result<(usize, &Slot), Misuse> {
        let found = self.slot_at(address).map(|n| (n, &self.slots[n]));
        // Acquire: the notes are complete.
        let is_live = |slot: &Slot| slot.state.load(Ordering::Acquire) == LIVE;
        found
            .filter(|(_, slot)| is_live(slot) && slot.extent().0 == address)
            .ok_or(Misuse::NoObject { address })
    }

    /// The bytes of the object at `address`.
    pub(super) fn size(&self, address: usize) -> Result<usize, Misuse> {
        self.live(address).map(|(_, slot)| slot.extent().1)
    }

    /// Takes back the object at `address`.
    pub(super) fn free(&self, address: usize) -> Result<(), Misuse> {
        let stack = Stack::here();
        let (n, slot) = self.live(address)?;
        // Acquire: all that others did to the object comes before; of two that free it, one does.
        let left = slot.state.compare_exchange(LIVE, LEAVING, Ordering::Acquire, Ordering::Relaxed);
        if left.is_err() {
            return Err(Misuse::NoObject { address });
        }
        slot.freed.write(&stack);
        // SAFETY: the slot is this thread's, and its pages are accessible.
        unsafe { self.compare(n, slot) }?;
        let (first, bytes) = self.pages(slot);
        // SAFETY: pages of this slot, whose object was given up.
        unsafe { Linux::new().withdraw(first, bytes) };
        // Release pairs with the Acquire of who reads the notes.
        slot.state.store(FREED, Ordering::Release);
        self.with_queue(|queue| queue.put(n));
        Ok(())
    }

    /// Looks whether what stands around an object is what was put there.
    ///
    /// # Safety
    /// The object's pages are accessible.
    unsafe fn compare(&self, n: usize, slot: &Slot) -> Result<(), Misuse> {
        let (object, size) = slot.extent();
        let (first, bytes) = self.pages(slot);
        // SAFETY: as far as the pages reach.
        let (before, after) = unsafe {
            let rest = object + size;
            (
                core::slice::from_raw_parts(at::<u8>(first), object - first),
                core::slice::from_raw_parts(at::<u8>(rest), first + bytes - rest),
            )
        };
        let filler = filler(n);
        // Without a way out in the middle, so that many bytes are compared at once.
        let differ = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum | (byte ^ filler)) != 0;
        if !differ(before) && !differ(after) {
            return Ok(());
        }
        let is_spoiled = |&byte: &u8| byte != filler;
        let before = before.iter().position(is_spoiled).map_or(0, |it| before.len() - it);
        let after = after.iter().rposition(is_spoiled).map_or(0, |it| it + 1);
        Err(Misuse::Spoiled { object, before, after })
    }

    /// Makes sure that nobody is choosing a slot: before a fork.
    pub(super) fn lock(&self) {
        self.lock.acquire();
    }

    /// Lets others choose again: after a fork, by the thread that called [`Pool::lock`].
    pub(super) fn unlock(&self) {
        self.lock.release();
    }
}

/// What stands around the object of a slot: never 0, which is what overflows mostly write.
fn filler(n: usize) -> u8 {
    0x80 | n as u8
}

impl Slot {
    /// Whether no object was ever in it.
    fn is_empty(&self) -> bool {
        // Acquire: the notes are complete.
        matches!(self.state.load(Ordering::Acquire), UNUSED | TAKEN)
    }

    /// Where the object is or was, and its bytes.
    pub(super) fn extent(&self) -> (usize, usize) {
        (self.object.load(Ordering::Relaxed), self.size.load(Ordering::Relaxed))
    }

    /// Bytes from the object to an address; 0 in the object.
    fn distance(&self, address: usize) -> usize {
        let (object, size) = self.extent();
        if address < object {
            object - address
        } else {
            (address + 1).saturating_sub(object + size)
        }
    }
}

impl Queue {
    /// The slot to use next, if there is one.
    fn take(&mut self, random: u64) -> Option<usize> {
        if self.live == MOST_LIVE {
            return None;
        }
        let n = if self.used < SLOTS {
            self.used += 1;
            self.used - 1
        } else {
            let older = self.count.div_ceil(2).max(1);
            let chosen = (self.first + (random >> 1) as usize % older) % SLOTS;
            let n = self.freed[chosen];
            self.freed[chosen] = self.freed[self.first];
            self.first = (self.first + 1) % SLOTS;
            self.count -= 1;
            n.into()
        };
        self.live += 1;
        Some(n)
    }

    /// A slot is free again.
    fn put(&mut self, n: usize) {
        self.freed[(self.first + self.count) % SLOTS] = n as u16;
        self.count += 1;
        self.live -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn allocate(pool: &Pool, size: usize, random: u64) -> usize {
        pool.allocate(size, 16, random).unwrap()
    }

    #[test]
    fn objects_stand_at_either_end_of_their_slots_and_are_aligned() {
        let pool = Pool::create().unwrap();
        for size in [1, 8, 16, 100, 4096, 5000, LARGEST] {
            for align in [1, 16, 64, 4096] {
                for random in [0, 1] {
                    let object = pool.allocate(size, align, random).unwrap();
                    assert!(object.is_multiple_of(align.max(16)));
                    let offset = (object - pool.start - pool.page) % pool.stride();
                    let to_the_end = pool.room - offset - size;
                    if random == 0 {
                        assert!(to_the_end < align.max(16), "{size} {align}: {to_the_end}");
                    } else {
                        assert_eq!(offset, 0);
                    }
                    // SAFETY: an object of that size.
                    unsafe { at::<u8>(object).write_bytes(1, size) };
                    assert_eq!(pool.size(object), Ok(size));
                    assert_eq!(pool.free(object), Ok(()));
                    assert_eq!(pool.size(object), Err(Misuse::NoObject { address: object }));
                }
            }
        }
        assert_eq!(pool.allocate(16, 2 * pool.page, 0), None);
    }

    #[test]
    fn a_freed_slot_is_used_again_as_late_as_possible() {
        let pool = Pool::create().unwrap();
        let mut last_used: Vec<Option<usize>> = std::vec![None; SLOTS];
        let mut sooner = SLOTS;
        for step in 0..10 * SLOTS {
            let object = allocate(pool, 10, (step as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let n = pool.slot_at(object).unwrap();
            if let Some(before) = last_used[n].replace(step) {
                sooner = sooner.min(step - before);
            }
            pool.free(object).unwrap();
        }
        assert!(sooner >= SLOTS / 2, "after {sooner}");
        assert!(last_used.iter().all(Option::is_some));
    }

    #[test]
    fn a_quarter_of_the_slots_is_never_in_use() {
        let pool = Pool::create().unwrap();
        let objects: Vec<_> = (0..MOST_LIVE).map(|n| allocate(pool, 100, n as u64)).collect();
        assert_eq!(pool.allocate(100, 16, 0), None);
        for object in objects {
            pool.free(object).unwrap();
        }
        for n in 0..SLOTS {
            let object = allocate(pool, 100, n as u64);
            pool.free(object).unwrap();
        }
    }

    #[test]
    fn writing_around_an_object_is_noticed_when_it_is_freed() {
        let pool = Pool::create().unwrap();
        for (offset, before, after) in [(-1, 1, 0), (-40, 40, 0), (100, 0, 1), (103, 0, 4)] {
            for random in [0, 1] {
                let object = allocate(pool, 100, random);
                let place = object.wrapping_add_signed(offset);
                let (first, _) = pool.pages(&pool.slots[pool.slot_at(object).unwrap()]);
                if place < first {
                    pool.free(object).unwrap();
                    continue;
                }
                // SAFETY: in the pages of the object.
                unsafe { at::<u8>(place).write(0) };
                assert_eq!(pool.free(object), Err(Misuse::Spoiled { object, before, after }));
            }
        }
    }

    #[test]
    fn the_nearest_object_is_found() {
        let pool = Pool::create().unwrap();
        assert!(pool.nearest(pool.start + 5).is_none());
        let objects: Vec<_> = (0..4).map(|n| allocate(pool, 64, n)).collect();
        let found = |address: usize| pool.nearest(address).map(|slot| slot.extent().0);
        for &object in &objects {
            for offset in [0, 5, 63, 64, 70, -1, -20] {
                assert_eq!(found(object.wrapping_add_signed(offset)), Some(object), "{offset}");
            }
        }
        assert_eq!(found(pool.start), Some(objects[0]));
        assert!(found(pool.room_of(SLOTS - 1)).is_none());
    }
}
