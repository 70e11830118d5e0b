//! Staying loaded.
//!
//! Threads call this library as they end, and forks call its handlers; it may have a thread of its
//! own, and what it gave out may be in use anywhere. So the file that it is part of must never be
//! unmapped. Nobody unmaps a program, and `libfreehold.so` is linked so that it stays; but a plugin
//! with this library in it would go by `dlclose`. So the loader is asked to keep that.
//!
//! A constructor asks, since that is within the loader's own call, which may open libraries:
//! `malloc` may not, since the loader calls it while its tables are half made. Programs and
//! libraries that stay anyway pay nothing but a look at what the linker has written about the file.
//!
//! For glibc only: musl unmaps nothing. Sources: `dlopen(3)`, `dlsym(3)`, `dl_iterate_phdr(3)`,
//! `elf(5)`, and glibc's `elf.h` for the flags.

use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use freehold_sys::loader::{self, DT_NULL, Entry};

const DT_DEBUG: usize = 21;
const DT_FLAGS_1: usize = 0x6fff_fffb;
const DF_1_NODELETE: usize = 0x8;
const DF_1_PIE: usize = 0x0800_0000;
const RTLD_LAZY: c_int = 1;
const RTLD_NOLOAD: c_int = 4;
const RTLD_NODELETE: c_int = 0x1000;

freehold_sys::weak_variable! {
    /// The first entry of the file that this code is in. The linker defines it for that file alone;
    /// there is none in a program that is static as a whole.
    fn own_table() -> *const Entry = "_DYNAMIC" in "freehold_slot_dynamic";
}

type Dlopen = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;

freehold_sys::weak_function! {
    /// By which `dlopen` is found: linkers warn of a static program that refers to that, though it
    /// be weakly. glibc before 2.34 has both in a library of its own, as has who opens a plugin.
    fn dlsym() -> Option<unsafe extern "C" fn(*mut c_void, *const c_char) -> Option<Dlopen>> =
        "dlsym" in "freehold_slot_dlsym";
}

/// Has the file that this code is in stay where it is, if it would not. For a constructor.
pub(crate) fn arrange() {
    let table = own_table();
    // SAFETY: the linker's table, which has an end.
    if !table.is_null() && !unsafe { stays(table) } {
        keep(table);
    }
}

/// Whether a file is never unmapped: a program (which linkers give a place for debuggers), or a
/// library that says so.
///
/// # Safety
/// The table has an end.
unsafe fn stays(table: *const Entry) -> bool {
    let mut at = table;
    // SAFETY: the caller's promise.
    unsafe {
        while (*at).tag != DT_NULL {
            let flags = if (*at).tag == DT_FLAGS_1 { (*at).value } else { 0 };
            if (*at).tag == DT_DEBUG || flags & (DF_1_NODELETE | DF_1_PIE) != 0 {
                return true;
            }
            at = at.add(1);
        }
    }
    false
}

#[cold]
#[inline(never)]
fn keep(table: *const Entry) {
    // SAFETY: the function that the process has under that name is of the type. Null is for all
    // that the program has, and those that it was linked with.
    let dlopen = dlsym().and_then(|it| unsafe { it(ptr::null_mut(), c"dlopen".as_ptr()) });
    let Some(dlopen) = dlopen else { return };
    let mut name = ptr::null();
    loader::each_file(|file| {
        let is_own = file.table() == Some(table.addr());
        if is_own {
            name = file.name();
        }
        is_own
    });
    // SAFETY: a string, where it is not null. The program's own is empty.
    if name.is_null() || unsafe { *name } == 0 {
        return;
    }
    // What it returns is not closed, which alone would keep the file.
    // SAFETY: the loader's name of this file, which is there as long as the file is. Nothing is
    // loaded: it is there already.
    unsafe { dlopen(name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) };
}

#[cfg(test)]
mod tests {
    use super::*;

    const DT_NEEDED: usize = 1;
    const DF_1_NOW: usize = 1;

    fn says(entries: &[(usize, usize)]) -> bool {
        let end = (DT_NULL, 0);
        let all = entries.iter().chain([&end]).map(|&(tag, value)| Entry { tag, value });
        // SAFETY: the table ends with the entry that ends tables.
        unsafe { stays(all.collect::<std::vec::Vec<_>>().as_ptr()) }
    }

    #[test]
    fn programs_and_libraries_that_are_never_unmapped_are_told_from_others() {
        assert!(says(&[(DT_NEEDED, 1), (DT_FLAGS_1, DF_1_NOW | DF_1_NODELETE)]));
        assert!(says(&[(DT_NEEDED, 1), (DT_FLAGS_1, DF_1_NOW | DF_1_PIE)]));
        assert!(says(&[(DT_NEEDED, 1), (DT_DEBUG, 0)]));
        assert!(!says(&[(DT_NEEDED, 1), (DT_FLAGS_1, DF_1_NOW)]));
        assert!(!says(&[(DT_NEEDED, DF_1_NODELETE)]));
        assert!(!says(&[]));
    }

    #[test]
    fn this_test_is_a_program_and_stays() {
        let table = own_table();
        // SAFETY: the linker's table, which has an end.
        assert!(table.is_null() || unsafe { stays(table) });
    }
}
