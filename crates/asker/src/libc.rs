//! The few things that only the C library can do. Functions are looked up as they are needed, so
//! that none has to be there, or to be of a certain version, for a process to start.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem;
use core::ptr;

/// The handle by which `dlsym(3)` searches everything in the order of the loader.
pub(crate) const EVERYWHERE: *mut c_void = ptr::null_mut();

#[link(name = "c")]
unsafe extern "C" {
    fn dlsym(handle: *mut c_void, symbol: *const c_char) -> *mut c_void;
    fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
}

/// The C library of GNU, if the process runs with it.
pub(crate) fn gnu() -> Option<*mut c_void> {
    const LAZY: c_int = 1;
    const ONLY_IF_LOADED: c_int = 4;
    // SAFETY: the name is a C string, and nothing is loaded by this. The handle is kept: the
    // library never goes.
    let handle = unsafe { dlopen(c"libc.so.6".as_ptr(), LAZY | ONLY_IF_LOADED) };
    (!handle.is_null()).then_some(handle)
}

/// The address that a symbol has there; null where it has none.
pub(crate) fn address(handle: *mut c_void, symbol: &CStr) -> *mut c_void {
    // SAFETY: the handle is one of these two, the symbol a C string.
    unsafe { dlsym(handle, symbol.as_ptr()) }
}

/// The function of this name, if there is one.
///
/// # Safety
/// `F` is the type of a pointer to a function, and all functions of this name have it.
pub(crate) unsafe fn function<F>(handle: *mut c_void, symbol: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>(), "a pointer to a function") };
    let address = address(handle, symbol);
    // SAFETY: it is not null, and of the size of a function's address; the rest is the caller's
    // promise.
    (!address.is_null()).then(|| unsafe { mem::transmute_copy::<*mut c_void, F>(&address) })
}
