//! The few things that only the C library can do.

use core::ffi::{c_int, c_uint, c_void};

#[link(name = "c")]
unsafe extern "C" {
    pub(crate) fn pthread_key_create(
        key: *mut c_uint,
        destructor: Option<unsafe extern "C" fn(*mut c_void)>,
    ) -> c_int;
    pub(crate) fn pthread_setspecific(key: c_uint, value: *const c_void) -> c_int;
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
