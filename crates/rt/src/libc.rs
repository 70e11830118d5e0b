//! The few things that only the C library can do.

use core::ffi::{c_char, c_int, c_uint, c_void};

/// What the loader says of an image: the start of `dl_phdr_info`.
#[repr(C)]
pub(crate) struct PhdrInfo {
    /// What is added to its addresses.
    pub(crate) base: usize,
    /// Empty for the program's own.
    pub(crate) name: *const c_char,
    pub(crate) headers: *const ProgramHeader,
    pub(crate) count: u16,
}

/// `Elf64_Phdr`.
#[repr(C)]
pub(crate) struct ProgramHeader {
    pub(crate) kind: u32,
    flags: u32,
    offset: u64,
    pub(crate) address: usize,
    physical: u64,
    in_file: u64,
    /// Bytes in memory.
    pub(crate) size: usize,
    align: u64,
}

type Visitor = unsafe extern "C" fn(*mut PhdrInfo, usize, *mut c_void) -> c_int;

#[link(name = "c")]
unsafe extern "C" {
    pub(crate) fn pthread_key_create(
        key: *mut c_uint,
        destructor: Option<unsafe extern "C" fn(*mut c_void)>,
    ) -> c_int;
    pub(crate) fn pthread_setspecific(key: c_uint, value: *const c_void) -> c_int;
    /// Calls a function for each image of the process, the program's first, until one returns
    /// something else than 0. Source: `dl_iterate_phdr(3)`.
    pub(crate) fn dl_iterate_phdr(visitor: Option<Visitor>, data: *mut c_void) -> c_int;
    /// What `pthread_atfork` calls; that itself stands in a part of the C library that is linked
    /// statically, which this library cannot count on.
    #[cfg(target_env = "gnu")]
    pub(crate) fn __register_atfork(
        prepare: Option<unsafe extern "C" fn()>,
        parent: Option<unsafe extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
        library: *mut c_void,
    ) -> c_int;
    #[cfg(not(target_env = "gnu"))]
    pub(crate) fn pthread_atfork(
        prepare: Option<unsafe extern "C" fn()>,
        parent: Option<unsafe extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
    ) -> c_int;
}
