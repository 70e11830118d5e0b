//! Having the kernel put pages in place that a thread is about to read.

/// Writes to each page that some bytes are on, and changes nothing in them.
///
/// A page that was never written to is read as the one page of zeros that all such pages share. If
/// it is written to later it has to be replaced, which takes a second page fault, and, in a program
/// of several threads, an interrupt of all processors that it runs on. So this is for memory that
/// is read once and written to by others soon. It is done where a page is written to by an
/// instruction that reads it as well, and takes one fault for that: on x86-64.
///
/// # Safety
/// The bytes can be read and written to, and are the caller's alone. `page` is the size of a page,
/// a power of two.
#[inline]
pub unsafe fn touch(address: usize, bytes: usize, page: usize) {
    let mut place = address;
    while place < address + bytes {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: the caller's promise: one of its bytes, which stays as it is.
        unsafe {
            core::arch::asm!("or byte ptr [{place}], 0", place = in(reg) place, options(nostack));
        };
        place = (place | (page - 1)) + 1;
    }
}

#[cfg(all(test, target_arch = "x86_64", not(miri)))]
mod tests {
    use super::*;
    use crate::{Linux, System};
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    /// Says of a page that is mapped here and nowhere else, which that of zeros is not
    /// (`Documentation/admin-guide/mm/pagemap.rst` of the kernel).
    const EXCLUSIVE: u64 = 1 << 56;

    /// Which of so many pages are pages of their own.
    fn own_pages(address: usize, count: usize, page: usize) -> std::vec::Vec<usize> {
        let map = File::open("/proc/self/pagemap").unwrap();
        let is_own = |n: &usize| {
            let mut entry = [0; 8];
            map.read_exact_at(&mut entry, ((address / page + n) * 8) as u64).unwrap();
            u64::from_ne_bytes(entry) & EXCLUSIVE != 0
        };
        (0..count).filter(is_own).collect()
    }

    #[test]
    fn pages_that_are_touched_are_not_the_one_of_zeros_and_no_others_are() {
        let (system, page) = (Linux::new(), Linux::new().page_size());
        let place = system.reserve(64 * page, page).unwrap();
        // SAFETY: reserved just now, and this test's own.
        unsafe { assert!(system.commit(place, 64 * page)) };
        // SAFETY: committed.
        unsafe { core::ptr::with_exposed_provenance::<u8>(place).read_volatile() };
        assert_eq!(own_pages(place, 64, page), []);
        // From the end of one page to the start of the third one, and nothing of another.
        // SAFETY: committed, and this test's own.
        unsafe {
            touch(place + 5 * page - 1, page + 2, page);
            touch(place + 10 * page, 0, page);
        }
        assert_eq!(own_pages(place, 64, page), [4, 5, 6]);
    }
}
