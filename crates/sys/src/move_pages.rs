//! Moving pages from one range to another without copying what is in them. Source: `mremap(2)`.
//!
//! Where `mremap` is told where to, the kernel unmaps what is there before it finds out whether
//! anything can be moved: of the source there may be more than one mapping, the process may have
//! as many mappings or as much address space as it is allowed. Then the target is a hole, in which
//! somebody else's mapping may be by the time the call returns. So the pages go to a place of the
//! kernel's choice first. Where that cannot be, nothing is changed; and where it was, they are one
//! mapping of their own, which is moved on to the target without needing more of anything.
//!
//! The place between is one that the target resembles, as far as huge pages can tell: what lies
//! differently within those is moved page by page, and divides them.
//!
//! What was moved before is a mapping of its own, so that what has grown since is of several, of
//! which the kernel moves one at a time. Where one ends it does not say, and so it is tried: with
//! half as much where there were several, and with twice as much from there.

use crate::guard::discard;
use crate::syscall::{self, failed, number};
use core::ptr;

const MREMAP_MAYMOVE: usize = 1;
const MREMAP_FIXED: usize = 2;
const MREMAP_DONTUNMAP: usize = 4;
const PROT_NONE: usize = 0;
const PROT_READ_WRITE: usize = 3;
const MAP_PRIVATE_ANONYMOUS: usize = 0x02 | 0x20;
const MAP_PRIVATE_ANONYMOUS_NORESERVE: usize = MAP_PRIVATE_ANONYMOUS | 0x4000;
const MAP_FIXED_NOREPLACE: usize = 0x10_0000;
const EFAULT: isize = 14;
const EEXIST: isize = 17;
const HUGE_PAGE: usize = 2 << 20;

/// Moves the pages of a range to another one, or copies those that cannot be moved: that has the
/// contents then, and the first stays mapped, with whatever is left there. Returns `false`, with
/// nothing changed, where none can be moved: before Linux 5.7, or under a limit.
///
/// # Safety
/// Both ranges are mapped, can be read and written to, do not overlap, and are in use by nobody but
/// the caller.
pub(crate) unsafe fn move_pages(from: usize, to: usize, bytes: usize) -> bool {
    let Some(hint) = place_like(to, bytes) else { return false };
    let (mut done, mut step) = (0, bytes);
    while done < bytes {
        step = step.min(bytes - done);
        let (from, to) = (from + done, to + done);
        // SAFETY: parts of the caller's ranges; the kernel takes a place that is free, this or
        // another.
        match unsafe { move_mapping(from, to, step, hint + done) } {
            Ok(()) => (done, step) = (done + step, step * 2),
            Err(EFAULT) if step > HUGE_PAGE => {
                step = (step / 2 / HUGE_PAGE * HUGE_PAGE).max(HUGE_PAGE);
            }
            Err(EFAULT) => {
                // SAFETY: likewise.
                unsafe { ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, step) };
                done += step;
            }
            Err(_) if done == 0 => return false,
            Err(_) => {
                // SAFETY: likewise, all the rest.
                unsafe { ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes - done) };
                done = bytes;
            }
        }
    }
    true
}

/// Moves the pages of a range that is of one mapping, by way of a place that is near `hint` if that
/// is free. Otherwise nothing is changed.
///
/// # Safety
/// As for [`move_pages`].
unsafe fn move_mapping(from: usize, to: usize, bytes: usize, hint: usize) -> Result<(), isize> {
    // SAFETY: takes the pages out of the caller's range, which stays mapped. Then the mapping just
    // made, which nobody else knows, takes the place of the caller's other range.
    unsafe {
        let between = remap(from, bytes, MREMAP_DONTUNMAP, hint)?;
        if remap(between, bytes, MREMAP_FIXED, to).is_err() {
            copy(between, to, bytes);
        }
    }
    Ok(())
}

/// A place for so many bytes that is free at this moment, at the same distance from a multiple of
/// the size of a huge page as another one.
fn place_like(other: usize, bytes: usize) -> Option<usize> {
    let room = bytes.checked_add(HUGE_PAGE)?;
    let flags = MAP_PRIVATE_ANONYMOUS_NORESERVE;
    // SAFETY: a new mapping at a place of the kernel's choice, and its end.
    let at = unsafe {
        let at = syscall::call(number::MMAP, [0, room, PROT_NONE, flags, usize::MAX, 0]);
        if failed(at) {
            return None;
        }
        syscall::call(number::MUNMAP, [at as usize, room, 0, 0, 0, 0]);
        at as usize
    };
    Some(at + other.wrapping_sub(at) % HUGE_PAGE)
}

/// # Safety
/// The mapping is the caller's, and what is at `to` if that is where it must be moved.
unsafe fn remap(from: usize, bytes: usize, how: usize, to: usize) -> Result<usize, isize> {
    let arguments = [from, bytes, bytes, MREMAP_MAYMOVE | how, to, 0];
    // SAFETY: the caller's promise.
    let result = unsafe { syscall::call(number::MREMAP, arguments) };
    if failed(result) { Err(-result) } else { Ok(result as usize) }
}

/// Copies what could not be moved on, because the kernel has no memory for what it notes, and
/// unmaps it.
///
/// # Safety
/// The mapping is the caller's; the target as well, which is mapped unless it just was unmapped.
unsafe fn copy(from: usize, to: usize, bytes: usize) {
    let flags = MAP_PRIVATE_ANONYMOUS | MAP_FIXED_NOREPLACE;
    // SAFETY: the caller's range, where nothing is mapped if this succeeds.
    let mapped =
        unsafe { syscall::call(number::MMAP, [to, bytes, PROT_READ_WRITE, flags, usize::MAX, 0]) };
    // Who has as many mappings as may be is refused before the kernel looks whether there is one.
    // SAFETY: the caller's range; that it can be read and written to is as it was, where it is.
    let is_there =
        || unsafe { syscall::call(number::MPROTECT, [to, bytes, PROT_READ_WRITE, 0, 0, 0]) };
    if failed(mapped) && mapped != -EEXIST && failed(is_there()) {
        // Part of the memory that the program has is gone.
        crate::process::abort();
    }
    // SAFETY: both are mapped, and the caller's.
    unsafe {
        ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes);
        if failed(syscall::call(number::MUNMAP, [from, bytes, 0, 0, 0, 0])) {
            // It was merged with one beside it, and cannot be divided from that.
            discard(from, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Linux, System};

    const MIB: usize = 1 << 20;
    const BYTES: usize = 16 * MIB;

    /// Two ranges, the first of which has a number in each page, and all of which can be used.
    fn ranges() -> [usize; 2] {
        let system = Linux::new();
        let at = system.reserve(2 * BYTES, HUGE_PAGE).unwrap();
        // SAFETY: this test's own.
        unsafe { assert!(system.commit(at, 2 * BYTES)) };
        pages(at, BYTES).enumerate().for_each(|(n, page)| {
            // SAFETY: likewise.
            unsafe { page.write(n as u64 + 1) };
        });
        [at, at + BYTES]
    }

    fn pages(at: usize, bytes: usize) -> impl Iterator<Item = *mut u64> {
        (at..at + bytes).step_by(4096).map(|page| page as *mut u64)
    }

    /// Moves the pages, if the kernel can do that, and looks whether what was in the first range is
    /// where it should be, and both can be written to. Returns how many pages were moved rather
    /// than copied.
    fn moved([from, to]: [usize; 2], bytes: usize) -> Option<usize> {
        // SAFETY: this test's own.
        let moved = unsafe { move_pages(from, to, bytes) };
        let (full, other) = if moved { (to, from) } else { (from, to) };
        let mut count = 0;
        for (n, (full, other)) in pages(full, bytes).zip(pages(other, bytes)).enumerate() {
            // SAFETY: this test's own.
            unsafe {
                assert_eq!(full.read(), n as u64 + 1);
                count += usize::from(other.read() == 0);
                other.write(7);
                full.write(7);
            }
        }
        if !moved {
            std::eprintln!("skipped: this kernel has no MREMAP_DONTUNMAP");
        }
        moved.then_some(count)
    }

    /// Has the kernel make mappings of their own of parts of a range.
    fn divide(parts: impl Iterator<Item = usize>, bytes: usize) {
        const MADV_DONTDUMP: usize = 16;
        for part in parts {
            // SAFETY: this test's own.
            let divided =
                unsafe { syscall::call(number::MADVISE, [part, bytes, MADV_DONTDUMP, 0, 0, 0]) };
            assert!(!failed(divided));
        }
    }

    #[test]
    fn moved_pages_keep_their_contents_and_leave_zeroes_behind() {
        assert!(moved(ranges(), BYTES).is_none_or(|count| count == BYTES / 4096));
    }

    #[test]
    fn pages_of_several_mappings_are_moved_as_well() {
        let ranges = ranges();
        divide([ranges[0] + BYTES / 4].into_iter(), BYTES / 4);
        assert!(moved(ranges, BYTES).is_none_or(|count| count == BYTES / 4096));
    }

    #[test]
    fn what_is_left_is_moved_as_well_if_it_is_less_than_two_steps() {
        let ranges = ranges();
        divide([ranges[0] + 4 * MIB].into_iter(), MIB);
        assert!(moved(ranges, 5 * MIB).is_none_or(|count| count == 5 * MIB / 4096));
    }

    #[test]
    fn what_is_of_many_small_mappings_is_copied() {
        let ranges = ranges();
        divide((ranges[0]..ranges[1]).step_by(2 << 20), 1 << 20);
        assert!(moved(ranges, BYTES).is_none_or(|count| count == 0));
    }

    #[test]
    fn what_cannot_be_moved_on_is_copied_whether_the_target_is_mapped_or_not() {
        for is_mapped in [true, false] {
            let [from, to] = ranges();
            // SAFETY: this test's own.
            unsafe {
                if !is_mapped {
                    syscall::call(number::MUNMAP, [to, BYTES, 0, 0, 0, 0]);
                }
                copy(from, to, BYTES);
            }
            // SAFETY: likewise; the source is unmapped.
            let seen = pages(to, BYTES).map(|page| unsafe { page.read() });
            assert!(seen.eq(1..=(BYTES / 4096) as u64));
        }
    }
}
