//! Making parts of the allocator's memory inaccessible, and accessible again.
//!
//! Linux 6.13 has guard markers: entries of the page tables, which divide no mapping. Where they
//! are not to be had the rights of the range are changed, which divides the mapping that it lies
//! in; since a process may have a limited number of mappings (`vm.max_map_count`, 65,530 unless
//! somebody has changed it), that is done for a limited number of ranges, and the others stay
//! accessible. Sources: `madvise(2)`, `mprotect(2)`, the kernel's `admin-guide/sysctl/vm.rst`.

use crate::syscall::{self, failed, number};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const MADV_DONTNEED: usize = 4;
const MADV_DONTNEED_LOCKED: usize = 24;
const MADV_GUARD_INSTALL: usize = 102;
const MADV_GUARD_REMOVE: usize = 103;
const PROT_NONE: usize = 0;
const PROT_READ_WRITE: usize = 3;

/// Ranges whose rights may be changed at once: two mappings each.
const MOST_RANGES: usize = 8 * 1024;

/// What a process has made inaccessible.
pub(crate) struct Guards {
    /// Whether the rights of any range were ever changed for want of markers. Relaxed everywhere:
    /// it is set before they are, and who has the range has it from who did that.
    has_divided: AtomicBool,
    /// Ranges whose rights are changed, about. Relaxed everywhere: a bound, not a promise.
    ranges: AtomicUsize,
    /// Ranges that are hidden. Relaxed, as above.
    hidden: AtomicUsize,
}

impl Guards {
    /// Nothing yet.
    pub(crate) const fn new() -> Self {
        Self {
            has_divided: AtomicBool::new(false),
            ranges: AtomicUsize::new(0),
            hidden: AtomicUsize::new(0),
        }
    }

    /// Drops the contents of a range, and makes it inaccessible if that can be had. Returns whether
    /// it could.
    ///
    /// # Safety
    /// The range is accessible, not empty, and the caller's.
    pub(crate) unsafe fn guard(&self, at: usize, bytes: usize) -> bool {
        // SAFETY: the caller's range.
        unsafe { advise(at, bytes, MADV_GUARD_INSTALL) || self.guard_by_rights(at, bytes) }
    }

    /// The same where there are no markers.
    ///
    /// # Safety
    /// As there.
    unsafe fn guard_by_rights(&self, at: usize, bytes: usize) -> bool {
        debug_assert!(bytes > 0, "what follows would be written to");
        let start = core::ptr::with_exposed_provenance_mut::<u8>(at);
        // SAFETY: the caller's range.
        unsafe {
            // Without overcommit, a mapping that nobody has written to counts no longer once it has
            // no rights, and at the end of memory it could not get them back.
            start.write_volatile(0);
            if !discard(at, bytes) {
                // Before Linux 5.18 locked memory, for instance, keeps its contents.
                start.write_bytes(0, bytes);
            }
        }
        self.has_divided.store(true, Ordering::Relaxed);
        // SAFETY: as above.
        let done = unsafe { self.take_rights(at, bytes) };
        self.ranges.fetch_add(usize::from(done), Ordering::Relaxed);
        done
    }

    /// Makes a range accessible that [`Guards::guard`] has made inaccessible. Returns whether it
    /// is: if not, a part of it may be.
    ///
    /// # Safety
    /// The range is the caller's.
    pub(crate) unsafe fn unguard(&self, at: usize, bytes: usize) -> bool {
        // SAFETY: the caller's range. Where there are no markers, the call is refused.
        unsafe { advise(at, bytes, MADV_GUARD_REMOVE) };
        if !self.has_divided.load(Ordering::Relaxed) {
            return true;
        }
        // SAFETY: as above. Where the rights are the same already, nothing changes.
        let done = unsafe { protect(at, bytes, PROT_READ_WRITE) };
        // None is left to count where markers were removed.
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

    /// Takes a range its rights, if there is room for one more such range. Returns whether that was
    /// done: whether they have to be given back.
    ///
    /// # Safety
    /// The range is the caller's, and nobody uses it.
    unsafe fn take_rights(&self, at: usize, bytes: usize) -> bool {
        if self.has_no_room() {
            return false;
        }
        // SAFETY: the caller's range. Where it lies in several mappings, the call may fail when it
        // has changed some of them; then these get their rights back.
        unsafe { protect(at, bytes, PROT_NONE) || !protect(at, bytes, PROT_READ_WRITE) }
    }

    /// Makes a range inaccessible without dropping its contents. Returns whether it is.
    ///
    /// # Safety
    /// The range is accessible, and the caller's.
    pub(crate) unsafe fn hide(&self, at: usize, bytes: usize) -> bool {
        // SAFETY: the caller's range.
        let done = unsafe { self.take_rights(at, bytes) };
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

/// Returns the memory behind a range to the system; its bytes are zero then. Returns whether that
/// was done.
///
/// # Safety
/// The range is the caller's, who gives up its contents.
pub(crate) unsafe fn discard(at: usize, bytes: usize) -> bool {
    // The usual advice is refused where memory is locked; the other one, by kernels that do not
    // have it yet. What is locked stays so: who uses the range again has locked memory.
    // SAFETY: the caller's promise, passed on.
    unsafe { advise(at, bytes, MADV_DONTNEED) || advise(at, bytes, MADV_DONTNEED_LOCKED) }
}

unsafe fn advise(at: usize, bytes: usize, advice: usize) -> bool {
    // SAFETY: the caller's range, whose contents the caller gives up.
    !failed(unsafe { syscall::call(number::MADVISE, [at, bytes, advice, 0, 0, 0]) })
}

unsafe fn protect(at: usize, bytes: usize, rights: usize) -> bool {
    // SAFETY: the caller's range, which nobody uses if it loses rights.
    !failed(unsafe { syscall::call(number::MPROTECT, [at, bytes, rights, 0, 0, 0]) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Linux, System as _};

    const PAGES: usize = 4;

    /// Runs `f` with some accessible pages and their size.
    fn with_pages(f: impl FnOnce(usize, usize)) {
        let system = Linux::new();
        let page = system.page_size();
        let at = system.map(PAGES * page).unwrap();
        f(at, page);
        // SAFETY: mapped above.
        unsafe { system.unmap(at, PAGES * page) };
    }

    fn read(at: usize) -> u8 {
        // SAFETY: accessible, as those who ask say.
        unsafe { core::ptr::with_exposed_provenance::<u8>(at).read_volatile() }
    }

    fn write(at: usize) {
        // SAFETY: accessible, as those who ask say.
        unsafe { core::ptr::with_exposed_provenance_mut::<u8>(at).write_volatile(7) };
    }

    #[test]
    fn what_is_guarded_by_rights_is_zero_when_it_is_accessible_again_whatever_is_counted() {
        with_pages(|at, page| {
            let guards = Guards::new();
            for n in 0..PAGES {
                write(at + n * page);
            }
            // SAFETY: the test's own pages, accessible whenever they are guarded.
            unsafe {
                assert!(guards.guard_by_rights(at, page));
                assert!(guards.guard_by_rights(at + 2 * page, page));
                assert_eq!(guards.ranges.load(Ordering::Relaxed), 2);
                // Makes no other range be forgotten, whether it was guarded or not.
                assert!(guards.unguard(at + page, page) && guards.unguard(at + page, page));
                assert!(guards.unguard(at, page) && guards.unguard(at + 2 * page, page));
            }
            assert_eq!(guards.ranges.load(Ordering::Relaxed), 0);
            assert_eq!([0, 1, 2, 3].map(|n| read(at + n * page)), [0, 7, 0, 7]);
        });
    }

    #[test]
    fn what_is_hidden_keeps_its_contents_and_counts_until_it_is_revealed() {
        with_pages(|at, page| {
            let guards = Guards::new();
            write(at);
            // SAFETY: the test's own pages, of which the last is unmapped here.
            unsafe {
                assert!(guards.hide(at, 2 * page));
                assert!(guards.reveal(at, 2 * page));
                assert_eq!(guards.hidden.load(Ordering::Relaxed), 0);
                Linux::new().unmap(at + 3 * page, page);
                // Some of it is made inaccessible, and that cannot be undone as a whole.
                assert!(guards.hide(at, 4 * page));
                assert_eq!(guards.hidden.load(Ordering::Relaxed), 1);
                assert!(guards.reveal(at, 3 * page));
            }
            assert_eq!(guards.hidden.load(Ordering::Relaxed), 0);
            assert_eq!(read(at), 7);
        });
    }

    #[test]
    fn where_there_is_no_room_for_more_ranges_nothing_is_made_inaccessible() {
        with_pages(|at, page| {
            let guards = Guards::new();
            guards.ranges.store(MOST_RANGES, Ordering::Relaxed);
            write(at);
            // SAFETY: the test's own pages, accessible all the time.
            unsafe {
                assert!(!guards.hide(at, page));
                assert_eq!(read(at), 7);
                assert!(!guards.guard_by_rights(at, page));
            }
            assert_eq!(read(at), 0);
            assert_eq!(guards.ranges.load(Ordering::Relaxed), MOST_RANGES);
        });
    }
}
