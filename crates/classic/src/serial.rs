//! One heap, one lock, best fit: what the C library of Solaris did, and most others with it.
//!
//! Freeing is put off: a freed block keeps its contents until the next allocation, which takes the
//! last one freed if its size is exactly right, and else really frees all of them. Small requests
//! come from lists of blocks of one size, which are never joined with others.

use crate::Model;
use crate::bestfit::{BestFit, pointer};
use crate::block::{Header, Kind, UNIT, at, header, header_of, whole_units};
use crate::guarded::Guarded;
use crate::order;
use crate::segment::Segment;
use freehold_sync::lock::Lock;

/// Freed blocks that wait.
const PENDING: usize = 32;

/// Sizes in units that have a list: 16 and 32 bytes.
const LISTS: usize = 2;

/// Small blocks that are made at once.
const BATCH: usize = 128;

/// The model.
pub struct Serial {
    state: Guarded<State>,
    segment: Segment,
}

struct State {
    heap: BestFit,
    /// For each small size, the first free block. The next is written in it.
    lists: [usize; LISTS],
    pending: [usize; PENDING],
    waiting: usize,
}

impl Serial {
    /// An empty heap.
    pub const fn new() -> Self {
        let state =
            State { heap: BestFit::new(), lists: [0; LISTS], pending: [0; PENDING], waiting: 0 };
        Self { state: Guarded::new(order::HEAP, state), segment: Segment::new() }
    }

    /// Bytes taken from the system so far.
    pub fn taken(&self) -> usize {
        self.segment.taken()
    }

    /// How often a thread had to wait for the lock.
    pub fn waits(&self) -> u32 {
        self.state.lock().waits()
    }
}

impl Default for Serial {
    fn default() -> Self {
        Self::new()
    }
}

impl Model for Serial {
    fn allocate(&self, size: usize) -> *mut u8 {
        let Some(bytes) = whole_units(size) else { return core::ptr::null_mut() };
        pointer(self.state.with(|state| state.allocate(bytes, &self.segment)))
    }

    unsafe fn deallocate(&self, block: *mut u8) {
        self.state.with(|state| {
            if state.waiting == PENDING {
                state.settle();
            }
            state.pending[state.waiting] = block.expose_provenance();
            state.waiting += 1;
        });
    }

    fn each_lock(&self, each: &mut dyn FnMut(&Lock)) {
        [self.state.lock(), self.segment.lock()].into_iter().for_each(each);
    }
}

impl State {
    fn allocate(&mut self, bytes: usize, segment: &Segment) -> Option<usize> {
        if let Some(last) = self.waiting.checked_sub(1) {
            let block = self.pending[last];
            // SAFETY: a block that waits is nobody's but the heap's.
            if unsafe { header_of(at(block)) }.bytes() == bytes {
                self.waiting = last;
                return Some(block);
            }
            self.settle();
        }
        match bytes / UNIT - 1 {
            list if list < LISTS => self.small(list, segment),
            _ => self.heap.allocate(bytes, segment),
        }
    }

    /// Really frees everything that waits.
    fn settle(&mut self) {
        for n in 0..core::mem::take(&mut self.waiting) {
            let block = at::<u8>(self.pending[n]);
            // SAFETY: a block that waits was freed by its user, and comes from here.
            unsafe {
                match header_of(block) {
                    own if own.kind() == Kind::Fitted => self.heap.deallocate(block),
                    own => {
                        let list = &mut self.lists[own.bytes() / UNIT - 1];
                        at::<usize>(block.addr()).write(core::mem::replace(list, block.addr()));
                    }
                }
            }
        }
    }

    fn small(&mut self, list: usize, segment: &Segment) -> Option<usize> {
        if self.lists[list] == 0 {
            self.fill(list, segment)?;
        }
        let block = self.lists[list];
        // SAFETY: a block in the list is free, and has the next one's address in it.
        self.lists[list] = unsafe { at::<usize>(block).read() };
        Some(block)
    }

    /// Cuts a block of the heap into small ones.
    fn fill(&mut self, list: usize, segment: &Segment) -> Option<()> {
        let bytes = (list + 1) * UNIT;
        let batch = self.heap.allocate(BATCH * (UNIT + bytes), segment)?;
        for n in (0..BATCH).rev() {
            let own = batch + n * (UNIT + bytes);
            // SAFETY: it lies within the block that the heap has just given.
            unsafe {
                *header(own) = Header::new(0, bytes, Kind::Classed);
                at::<usize>(own + UNIT).write(self.lists[list]);
            }
            self.lists[list] = own + UNIT;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    #[test]
    fn the_last_block_freed_comes_back_for_the_same_size_with_its_contents() {
        let model = Serial::new();
        let block = model.allocate(100);
        // SAFETY: the block is this test's, until it is freed, and then again.
        unsafe {
            block.add(50).write(7);
            model.deallocate(block);
            assert_eq!(model.allocate(100), block);
            assert_eq!(block.add(50).read(), 7);
        }
    }

    #[test]
    fn while_one_thread_is_inside_every_other_one_waits() {
        let model = Serial::new();
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            model.each_lock(&mut Lock::acquire_among_peers);
            scope.spawn(|| {
                let block = model.allocate(10);
                // SAFETY: it has just come.
                unsafe { model.deallocate(block) };
                is_done.store(true, Ordering::SeqCst);
            });
            while model.waits() == 0 {
                thread::yield_now();
            }
            assert!(!is_done.load(Ordering::SeqCst), "it was to wait");
            model.each_lock(&mut Lock::release);
        });
        assert!(is_done.load(Ordering::SeqCst));
    }
}
