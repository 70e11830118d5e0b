//! Direct mappings: for what the region cannot hold, because it is too large or too full.
//!
//! Each is a mapping of its own, found again by its address in a short table under a lock. That is
//! slow and meant to be rare: with a region of its usual size nothing ever comes here.

use crate::order;
use core::cell::UnsafeCell;
use freehold_sync::lock::Lock;
use freehold_sys::System;

/// Direct mappings that there may be at once.
const MOST: usize = 256;

/// A mapping, and the address in it that the program was given.
#[derive(Clone, Copy)]
struct Mapping {
    start: usize,
    bytes: usize,
    given: usize,
}

const NONE: Mapping = Mapping { start: 0, bytes: 0, given: 0 };

/// The direct mappings of an arena.
#[repr(align(64))]
pub(crate) struct DirectMappings {
    pub(crate) lock: Lock,
    /// Protected by `lock`. Unused entries are [`NONE`].
    table: UnsafeCell<[Mapping; MOST]>,
}

impl DirectMappings {
    /// None.
    pub(crate) const fn new() -> Self {
        Self { lock: Lock::new(order::DIRECT), table: UnsafeCell::new([NONE; MOST]) }
    }

    fn with<R>(&self, f: impl FnOnce(&mut [Mapping; MOST]) -> R) -> R {
        // SAFETY: the lock is held for as long as the reference lives.
        self.lock.hold(|| f(unsafe { &mut *self.table.get() }))
    }

    /// Maps `bytes` at a multiple of `align` (a power of two).
    pub(crate) fn map<S: System>(&self, system: &S, bytes: usize, align: usize) -> Option<usize> {
        let page = system.page_size();
        let bytes = bytes.max(1).checked_next_multiple_of(page)?;
        let slack = if align <= page { 0 } else { align };
        let total = bytes.checked_add(slack)?;
        let start = system.map(total)?;
        let given = start.next_multiple_of(align);
        let mapping = Mapping { start, bytes: total, given };
        let entered = self.with(|table| {
            let free = table.iter_mut().find(|m| m.given == 0)?;
            *free = mapping;
            Some(())
        });
        if entered.is_none() {
            // SAFETY: the mapping just made, which nobody knows of.
            unsafe { system.unmap(start, total) };
            return None;
        }
        Some(given)
    }

    /// Unmaps what was given out at `address`. Returns whether there was such a mapping.
    pub(crate) fn unmap<S: System>(&self, system: &S, address: usize) -> bool {
        let found = self.with(|table| {
            let entry = table.iter_mut().find(|m| m.given == address)?;
            Some(core::mem::replace(entry, NONE))
        });
        let Some(mapping) = found else { return false };
        // SAFETY: given out by `map`, and given back by the program, as a whole.
        unsafe { system.unmap(mapping.start, mapping.bytes) };
        true
    }

    /// The bytes that can be used at `address`, if a mapping was given out there.
    pub(crate) fn usable(&self, address: usize) -> Option<usize> {
        self.with(|table| {
            let m = table.iter().find(|m| m.given == address)?;
            Some(m.start + m.bytes - m.given)
        })
    }

    /// The mapping that contains `address`: where it was given out, and its bytes.
    pub(crate) fn containing(&self, address: usize) -> Option<(usize, usize)> {
        self.with(|table| {
            let mut all = table.iter().filter(|m| m.given != 0);
            let m = all.find(|m| (m.start..m.start + m.bytes).contains(&address))?;
            Some((m.given, m.start + m.bytes - m.given))
        })
    }

    /// Resizes the mapping given out at `address`, which may move. `None` leaves it as it is.
    pub(crate) fn resize<S: System>(
        &self,
        system: &S,
        address: usize,
        bytes: usize,
    ) -> Option<usize> {
        let bytes = bytes.checked_next_multiple_of(system.page_size())?;
        self.with(|table| {
            let m = table.iter_mut().find(|m| m.given == address && m.given == m.start)?;
            // SAFETY: the whole mapping, in use by the caller alone.
            let start = unsafe { system.remap(m.start, m.bytes, bytes) }?;
            *m = Mapping { start, bytes, given: start };
            Some(start)
        })
    }

    /// How many there are, and their bytes.
    pub(crate) fn count(&self) -> (usize, usize) {
        self.with(|table| {
            let used = table.iter().filter(|m| m.given != 0);
            used.fold((0, 0), |(count, bytes), m| (count + 1, bytes + m.bytes))
        })
    }

    /// Unmaps all of them.
    pub(crate) fn unmap_all<S: System>(&self, system: &S) {
        self.with(|table| {
            for m in table.iter_mut().filter(|m| m.given != 0) {
                let m = core::mem::replace(m, NONE);
                // SAFETY: the arena is being destroyed: nobody uses its memory.
                unsafe { system.unmap(m.start, m.bytes) };
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_mappings_there_are_zeros_but_for_the_locks_rank() {
        let none = |it: &Mapping| (it.start, it.bytes, it.given) == (0, 0, 0);
        assert!(DirectMappings::new().with(|table| table.iter().all(none)));
    }
}
