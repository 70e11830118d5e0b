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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Linux, System};
    use std::string::{String, ToString};

    /// Kilobytes of the mapping that begins at an address which are pages of its own.
    fn anonymous(address: usize) -> usize {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut lines = maps.lines().skip_while(|line| !line.starts_with(&hex(address)));
        let line = lines.find_map(|line| line.strip_prefix("Anonymous:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    fn hex(address: usize) -> String {
        std::format!("{address:x}-").to_string()
    }

    #[test]
    fn pages_that_are_touched_are_not_the_one_of_zeros_and_no_others_are() {
        if !cfg!(all(target_arch = "x86_64", not(miri))) {
            return;
        }
        let (system, page) = (Linux::new(), Linux::new().page_size());
        let bytes = 64 * page;
        let place = system.reserve(bytes, page).unwrap();
        // SAFETY: reserved just now, and this test's own.
        unsafe { assert!(system.commit(place, bytes)) };
        // SAFETY: committed.
        unsafe { core::ptr::with_exposed_provenance::<u8>(place).read_volatile() };
        assert_eq!(anonymous(place), 0);
        // From the end of one page to the start of the third one.
        // SAFETY: committed, and this test's own.
        unsafe { touch(place + 5 * page - 1, page + 2, page) };
        assert_eq!(anonymous(place), 3 * page / 1024);
        // SAFETY: as above.
        unsafe { touch(place + 10 * page, 0, page) };
        assert_eq!(anonymous(place), 3 * page / 1024);
    }
}
