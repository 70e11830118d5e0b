//! Zeroing: memory that is zero when it is given out, as `calloc` promises.
//!
//! What is known to be zero is left alone. Other memory is written to, or, if it is large, given
//! back to the system, where the policy says that this is worth it. For that one has to know
//! whether the program writes to what it asks to be zero; therefore a large run that was given out
//! as zero is marked, and when it is freed one page of it is looked at. This is the only memory
//! that the allocator reads after the program has freed it.

use crate::arena::Arena;
use crate::blocks::Prefer;
use crate::cache::ThreadCache;
use crate::class::MEDIUM_MAX;
use crate::layout::{GRANULE, Granule, at};
use crate::policy::zeroing;
use crate::tables::RUN;
use core::ptr;
use freehold_sync::atomic::{AtomicU32, Ordering};
use freehold_sys::System;

/// What is looked at of a run that is freed, in bytes: a page, or part of one.
const LOOK: usize = 4096;

/// What is known of memory that was asked to be zero. Relaxed: the numbers say which of two ways
/// is likely to cost less, and a look more or less does not matter.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Zeroing {
    /// The share of it that was written to, in the policy's terms.
    written: AtomicU32,
    /// How often it was looked.
    looks: AtomicU32,
    /// How much of it was too small to be given back, and how much was not.
    asked: [AtomicU32; 2],
}

impl Zeroing {
    /// Notes a request for a run, and says whether next to all of them are large enough.
    fn note_asked(&self, bytes: usize) -> bool {
        let [small, large] = &self.asked;
        let load = |it: &AtomicU32| it.load(Ordering::Relaxed);
        let asked = zeroing::Asked { small: load(small), large: load(large) }.and(bytes);
        small.store(asked.small, Ordering::Relaxed);
        large.store(asked.large, Ordering::Relaxed);
        asked.is_large()
    }
}

impl<S: System> Arena<S> {
    /// Whether the program writes to little of what it asks to be zero.
    pub(crate) fn is_little_written(&self) -> bool {
        zeroing::is_little(self.zeroing.written.load(Ordering::Relaxed))
    }

    /// Makes a run zero by giving its memory back. Returns the bytes that are zero now, from its
    /// start.
    fn give_back_to_zero(&self, g: Granule) -> usize {
        let (address, page) = (self.tables.address(g), self.system.page_size());
        let bytes = self.run_granules(g) as usize * GRANULE / page * page;
        // SAFETY: whole pages of a run that the caller has just claimed.
        let purged = address.is_multiple_of(page) && unsafe { self.system.purge(address, bytes) };
        if purged { bytes } else { 0 }
    }

    /// Notes that a run is resized: then part of it was not given out as zero, and its pages may
    /// have moved.
    pub(crate) fn forget_zeroed(&self, g: Granule) {
        // SAFETY: the run is the caller's.
        unsafe { (*self.local(g)).zeroed = false };
    }

    /// Whether a run was given out as zero, and is to be looked at. For whoever frees it.
    #[inline]
    pub(crate) fn is_zeroed(&self, g: Granule) -> bool {
        // SAFETY: the run is the caller's.
        unsafe { (*self.local(g)).zeroed }
    }

    /// Looks, if a run was given out as zero, whether the program has written to it. For whoever
    /// frees it.
    #[inline]
    pub(crate) fn look_if_zeroed(&self, g: Granule) {
        // SAFETY: the run is the caller's.
        let zeroed = unsafe { &mut (*self.local(g)).zeroed };
        if core::mem::take(zeroed) {
            self.look_at_zeroed(g);
        }
    }

    #[cold]
    fn look_at_zeroed(&self, g: Granule) {
        // Not its first page, where even the least used table has something; and not its last
        // granule, of which the program may have asked for a part only.
        let pages = (self.run_granules(g) as usize - 1) * GRANULE / LOOK - 1;
        let looks = self.zeroing.looks.fetch_add(1, Ordering::Relaxed);
        let n = 1 + (looks.wrapping_mul(0x9E37_79B9) >> 8) as usize % pages;
        let words = at::<[u64; 8]>(self.tables.address(g) + n * LOOK);
        // SAFETY: committed memory of a run of the caller's, aligned to a page.
        let is_zero =
            |i| unsafe { words.add(i).read() }.iter().fold(0, |all, word| all | word) == 0;
        let is_written = !(0..LOOK / size_of::<[u64; 8]>()).all(is_zero);
        let written = self.zeroing.written.load(Ordering::Relaxed);
        let learned = zeroing::learned(written, is_written);
        self.zeroing.written.store(learned, Ordering::Relaxed);
    }
}

impl ThreadCache {
    /// Gives out `size` bytes that are zero at a multiple of `align`, a power of two. `None` when
    /// there is no memory.
    pub fn take_zeroed<S: System>(
        &mut self,
        arena: &Arena<S>,
        size: usize,
        align: usize,
    ) -> Option<usize> {
        let large = size >= zeroing::LARGE;
        let next_to_all_large = size > MEDIUM_MAX && arena.zeroing.note_asked(size);
        let is_worth_it = large && (next_to_all_large || size >= zeroing::HUGE);
        let lazily = is_worth_it && arena.is_little_written();
        let prefer = if lazily { Prefer::Clean } else { Prefer::Dirty };
        let given = self.take(arena, size, align, prefer)?;
        let run = arena.granule_of(given.address).filter(|_| large);
        debug_assert!(run.is_none_or(|g| arena.tag(g).class() == RUN));
        if !given.zero {
            let zero = match run {
                Some(g) if lazily => arena.give_back_to_zero(g).min(size),
                _ => 0,
            };
            // SAFETY: just given out, with at least `size` bytes.
            unsafe { ptr::write_bytes(at::<u8>(given.address + zero), 0, size - zero) };
        }
        if let Some(g) = run {
            // SAFETY: the run is the caller's.
            unsafe { (*arena.local(g)).zeroed = true };
        }
        Some(given.address)
    }
}
