//! Making parts of the allocator's memory inaccessible, and accessible again.
//!
//! Linux 6.13 has guard markers: entries of the page tables, which divide no mapping. Where they
//! are not to be had the rights of the range are changed, which divides the mapping that it lies
//! in; since a process may have a limited number of mappings (`vm.max_map_count`, 65,530 unless
//! somebody has changed it), that is done for a limited number of ranges, and the others stay
//! accessible. Sources: `madvise(2)`, `mprotect(2)`, the kernel's `admin-guide/sysctl/vm.rst`.

use crate::syscall::{self, failed, number};
use core::sync::atomic::{AtomicUsize, Ordering};

const MADV_DONTNEED: usize = 4;
const MADV_GUARD_INSTALL: usize = 102;
const MADV_GUARD_REMOVE: usize = 103;
const PROT_NONE: usize = 0;
const PROT_READ_WRITE: usize = 3;

/// Ranges whose rights may be changed at once: two mappings each.
const MOST_RANGES: usize = 8 * 1024;

/// What a process has made inaccessible.
pub(crate) struct Guards {
    /// Ranges whose rights are changed, about. Relaxed everywhere: a bound, not a promise.
    ranges: AtomicUsize,
    /// Ranges that are hidden. Relaxed, as above.
    hidden: AtomicUsize,
}

impl Guards {
    /// Nothing yet.
    pub(crate) const fn new() -> Self {
        Self { ranges: AtomicUsize::new(0), hidden: AtomicUsize::new(0) }
    }

    /// Drops the contents of a range, and makes it inaccessible if that can be had. Returns whether
    /// it could.
    ///
    /// # Safety
    /// The range is accessible, and the caller's.
    pub(crate) unsafe fn guard(&self, at: usize, bytes: usize) -> bool {
        // SAFETY: the caller's range.
        if unsafe { advise(at, bytes, MADV_GUARD_INSTALL) } {
            return true;
        }
        let start = core::ptr::with_exposed_provenance_mut::<u8>(at);
        // SAFETY: as above.
        unsafe {
            // Without overcommit, a mapping that nobody has written to counts no longer once it has
            // no rights, and at the end of memory it could not get them back.
            start.write_volatile(0);
            if !advise(at, bytes, MADV_DONTNEED) {
                // Locked memory, for instance, keeps its contents.
                start.write_bytes(0, bytes);
            }
        }
        if self.has_no_room() {
            return false;
        }
        // SAFETY: as above.
        let done = unsafe { protect(at, bytes, PROT_NONE) };
        self.ranges.fetch_add(usize::from(done), Ordering::Relaxed);
        done
    }

    /// Makes a range accessible that [`Guards::guard`] was told of, or the start of one. Returns
    /// whether it is.
    ///
    /// # Safety
    /// The range is the caller's.
    pub(crate) unsafe fn unguard(&self, at: usize, bytes: usize) -> bool {
        // SAFETY: the caller's range. Where there are no markers, the call is refused.
        unsafe { advise(at, bytes, MADV_GUARD_REMOVE) };
        if self.ranges.load(Ordering::Relaxed) == 0 {
            return true;
        }
        // SAFETY: as above. Where the rights are the same already, nothing changes.
        let done = unsafe { protect(at, bytes, PROT_READ_WRITE) };
        let fewer = |ranges: usize| ranges.checked_sub(usize::from(done));
        let _ = self.ranges.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
        done
    }
}

impl Guards {
    fn has_no_room(&self) -> bool {
        let ranges = self.ranges.load(Ordering::Relaxed);
        ranges + self.hidden.load(Ordering::Relaxed) >= MOST_RANGES
    }

    /// Makes a range inaccessible without dropping its contents. Returns whether it is.
    ///
    /// # Safety
    /// The range is accessible, and the caller's.
    pub(crate) unsafe fn hide(&self, at: usize, bytes: usize) -> bool {
        if self.has_no_room() {
            return false;
        }
        // SAFETY: the caller's range.
        let done = unsafe { protect(at, bytes, PROT_NONE) };
        self.hidden.fetch_add(usize::from(done), Ordering::Relaxed);
        done
    }

    /// Makes a range accessible that was hidden. Returns whether it is.
    ///
    /// # Safety
    /// The range is the caller's.
    pub(crate) unsafe fn reveal(&self, at: usize, bytes: usize) -> bool {
        // SAFETY: the caller's range.
        let done = unsafe { protect(at, bytes, PROT_READ_WRITE) };
        self.hidden.fetch_sub(usize::from(done), Ordering::Relaxed);
        done
    }
}

unsafe fn advise(at: usize, bytes: usize, advice: usize) -> bool {
    // SAFETY: the caller's range, whose contents the caller gives up.
    !failed(unsafe { syscall::call(number::MADVISE, [at, bytes, advice, 0, 0, 0]) })
}

unsafe fn protect(at: usize, bytes: usize, rights: usize) -> bool {
    // SAFETY: the caller's range, which nobody uses if it loses rights.
    !failed(unsafe { syscall::call(number::MPROTECT, [at, bytes, rights, 0, 0, 0]) })
}
