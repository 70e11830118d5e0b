//! What the loader says of the files of which the process is made.
//!
//! Owns nothing. Allocates nothing; the loader's lock is held while files are looked at. Sources:
//! `dl_iterate_phdr(3)`, `elf(5)`.

use core::ffi::{c_char, c_int, c_void};
use core::ops::Range;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;

/// The end of a file's table for the loader.
pub const DT_NULL: usize = 0;

/// A program or library in memory: the beginning of `struct dl_phdr_info`.
#[repr(C)]
pub struct File {
    base: usize,
    name: *const c_char,
    headers: *const Header,
    count: u16,
}

/// `Elf64_Phdr`.
#[repr(C)]
struct Header {
    kind: u32,
    flags: u32,
    offset: usize,
    address: usize,
    physical: usize,
    size_in_file: usize,
    /// Bytes in memory.
    size: usize,
    align: usize,
}

/// What the linker tells the loader of a file, in a table that ends with [`DT_NULL`]: `Elf64_Dyn`.
#[repr(C)]
pub struct Entry {
    /// What is told, `DT_…`.
    pub tag: usize,
    /// A number, or an address or the distance of one from the file's base.
    pub value: usize,
}

type Visitor = unsafe extern "C" fn(*mut File, usize, *mut c_void) -> c_int;

unsafe extern "C" {
    fn dl_iterate_phdr(visitor: Option<Visitor>, data: *mut c_void) -> c_int;
}

/// Shows each file of the process to `look`, the program first, until that returns whether it has
/// seen enough.
pub fn each_file<F: FnMut(&File) -> bool>(mut look: F) {
    unsafe extern "C" fn visit<F: FnMut(&File) -> bool>(
        file: *mut File,
        _: usize,
        look: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader's description of a file, which is there while it is looked at, and the
        // function that was passed with this one, which nobody else has meanwhile.
        let (file, look) = unsafe { (&*file, &mut *look.cast::<F>()) };
        look(file).into()
    }
    // SAFETY: the function is of the kind asked for, and what it is given outlives the call.
    unsafe { dl_iterate_phdr(Some(visit::<F>), (&raw mut look).cast()) };
}

impl File {
    /// What is added to addresses that are written in the file.
    #[must_use]
    pub fn base(&self) -> usize {
        self.base
    }

    /// The path that it was loaded from: a string that is there as long as the file. Empty for the
    /// program itself; null perhaps.
    #[must_use]
    pub fn name(&self) -> *const c_char {
        self.name
    }

    /// The parts that are in memory.
    pub fn parts(&self) -> impl Iterator<Item = Range<usize>> {
        self.headers().filter(|it| it.kind == PT_LOAD).map(|it| {
            let start = self.base.wrapping_add(it.address);
            start..start.wrapping_add(it.size)
        })
    }

    /// Whether one of [`parts`](Self::parts) has this address.
    #[must_use]
    pub fn contains(&self, address: usize) -> bool {
        self.parts().any(|part| part.contains(&address))
    }

    /// The address of the first [`Entry`] of the table for the loader.
    #[must_use]
    pub fn table(&self) -> Option<usize> {
        self.address_of(PT_DYNAMIC)
    }

    /// The address of the index of the table of frames: `.eh_frame_hdr`.
    #[must_use]
    pub fn frames(&self) -> Option<usize> {
        self.address_of(PT_GNU_EH_FRAME)
    }

    fn address_of(&self, kind: u32) -> Option<usize> {
        let header = self.headers().find(|it| it.kind == kind)?;
        Some(self.base.wrapping_add(header.address))
    }

    fn headers(&self) -> impl Iterator<Item = &Header> {
        let count = if self.headers.is_null() { 0 } else { self.count.into() };
        // SAFETY: the program headers of a loaded file, which stay while the loader's lock is held,
        // and none where there are none.
        (0..count).map(|index| unsafe { &*self.headers.add(index) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn the_program_is_first_and_has_this_code() {
        let code = the_program_is_first_and_has_this_code as fn() as usize;
        let mut has_it = Vec::new();
        each_file(|file| {
            has_it.push(file.contains(code));
            false
        });
        assert!(has_it[0] && has_it[1..].iter().all(|it| !it), "{has_it:?}");
    }

    #[test]
    fn who_has_seen_enough_is_shown_no_more() {
        let mut seen = 0;
        each_file(|_| {
            seen += 1;
            seen == 2
        });
        assert!(seen <= 2);
    }

    #[test]
    fn tables_are_within_the_parts_of_their_file_and_have_an_end() {
        let mut entries = 0;
        each_file(|file| {
            assert!(file.frames().is_none_or(|it| file.contains(it)));
            if let Some(table) = file.table() {
                assert!(file.contains(table));
                let mut at = core::ptr::with_exposed_provenance::<Entry>(table);
                // SAFETY: the loader's table of a loaded file, up to its end.
                while unsafe { (*at).tag } != DT_NULL {
                    entries += 1;
                    // SAFETY: this was not the last one.
                    at = unsafe { at.add(1) };
                }
            }
            false
        });
        assert!(entries > 0 || cfg!(target_feature = "crt-static"));
    }
}
