//! Words of memory that may not be there.

use freehold_heap::layout::at;
use freehold_sys::signal::is_readable;

/// The smallest page there is.
const PAGE: usize = 4096;
const WORD: usize = size_of::<usize>();

/// Memory that was found to be readable: one stretch of pages.
#[derive(Default)]
pub(crate) struct Memory {
    start: usize,
    end: usize,
}

impl Memory {
    /// The word at an address, if there is one.
    pub(crate) fn word(&mut self, address: usize) -> Option<usize> {
        if !address.is_multiple_of(WORD) || !self.covers(address) {
            return None;
        }
        // SAFETY: the kernel says that it can be read, and it belongs to the stack of a thread that
        // waits for this, or is what that led to, where any value will do.
        Some(unsafe { at::<usize>(address).read_volatile() })
    }

    fn covers(&mut self, address: usize) -> bool {
        if (self.start..self.end).contains(&address) {
            return true;
        }
        if !is_readable(address) {
            return false;
        }
        let page = address & !(PAGE - 1);
        if page == self.end && self.end != 0 {
            self.end = page.saturating_add(PAGE);
        } else {
            (self.start, self.end) = (page, page.saturating_add(PAGE));
        }
        true
    }
}
