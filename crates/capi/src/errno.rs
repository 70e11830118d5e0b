//! `errno`, which the C functions set when they fail, and otherwise leave alone.

use core::ffi::{c_int, c_void};
use core::ptr;

pub(crate) const ENOMEM: c_int = 12;
pub(crate) const EINVAL: c_int = 22;

unsafe extern "C" {
    #[cfg_attr(target_os = "linux", link_name = "__errno_location")]
    fn errno_location() -> *mut c_int;
}

/// Sets `errno`.
pub(crate) fn set(error: c_int) {
    // SAFETY: the C library gives the address of the calling thread's errno.
    unsafe { errno_location().write(error) };
}

/// The result of an allocation that may have failed, with `errno` set if it did.
pub(crate) fn checked(object: *mut u8) -> *mut c_void {
    if object.is_null() {
        return failed(ENOMEM);
    }
    object.cast()
}

/// Null, with `errno` set.
#[cold]
pub(crate) fn failed(error: c_int) -> *mut c_void {
    set(error);
    ptr::null_mut()
}
