//! Parts of the region that nobody may touch.

use crate::arena::Arena;
use crate::layout::{GRANULE, Granule, at};
use freehold_sys::System;

impl<S: System> Arena<S> {
    /// Whether single granules can be made inaccessible: they can unless a page is larger.
    fn can_guard(&self) -> bool {
        self.system.page_size() <= GRANULE
    }

    /// Drops the contents of granules, and makes them inaccessible if that can be had. They are
    /// zero when they are accessible again.
    ///
    /// # Safety
    /// The granules are accessible, and the caller's.
    pub(crate) unsafe fn guard(&self, g: Granule, count: u32) {
        let (start, bytes) = (self.tables.address(g), count as usize * GRANULE);
        // SAFETY: the caller's granules.
        unsafe {
            if self.can_guard() {
                self.system.guard(start, bytes);
            } else {
                at::<u8>(start).write_bytes(0, bytes);
            }
        }
    }

    /// Makes granules accessible that [`Arena::guard`] was told of. Returns whether they are: only
    /// where the system keeps rights by mappings can it lack the memory for that.
    ///
    /// # Safety
    /// The granules are the caller's.
    pub(crate) unsafe fn unguard(&self, g: Granule, count: u32) -> bool {
        let (start, bytes) = (self.tables.address(g), count as usize * GRANULE);
        // SAFETY: the caller's granules.
        !self.can_guard() || unsafe { self.system.unguard(start, bytes) }
    }
}
