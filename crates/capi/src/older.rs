//! Older versions of glibc, and musl, for the shared library that was built with a newer glibc.
//!
//! glibc 2.34 took the functions for threads into the C library and gave them a new version, which
//! a library that is linked with it would need from then on. And musl, to which the loader of a
//! program for musl gives what was preloaded, has no `__register_atfork`. So the linker puts the
//! functions below in the place of these (`build.rs`), which find them weakly and by the version
//! that they have had from the start. `libfreehold.a` uses them directly: a program has the C
//! library that it is linked with.

use crate::errno::{EINVAL, ENOMEM};
use core::ffi::{c_int, c_uint, c_void};

type Destructor = unsafe extern "C" fn(*mut c_void);
type Handler = unsafe extern "C" fn();

const EAGAIN: c_int = 11;

/// The name and the version that a function has in every glibc for the architecture.
#[cfg(target_arch = "x86_64")]
macro_rules! first_version {
    ($name:literal) => {
        concat!($name, "@GLIBC_2.2.5")
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! first_version {
    ($name:literal) => {
        concat!($name, "@GLIBC_2.17")
    };
}

freehold_sys::weak_function! {
    /// Missing in a program without threads before glibc 2.34: what is loaded into it later does
    /// not count.
    fn key_create() -> Option<unsafe extern "C" fn(*mut c_uint, Option<Destructor>) -> c_int> =
        "freehold_key_create" in "freehold_slot_key_create",
        for first_version!("pthread_key_create");
}

freehold_sys::weak_function! {
    fn setspecific() -> Option<unsafe extern "C" fn(c_uint, *const c_void) -> c_int> =
        "freehold_setspecific" in "freehold_slot_setspecific",
        for first_version!("pthread_setspecific");
}

/// glibc's function to register fork handlers, which wants to know the library as well.
type RegisterAtfork =
    unsafe extern "C" fn(Option<Handler>, Option<Handler>, Option<Handler>, *mut c_void) -> c_int;

type Atfork = unsafe extern "C" fn(Option<Handler>, Option<Handler>, Option<Handler>) -> c_int;

freehold_sys::weak_function! {
    /// The C library's own, by the name that `--wrap` gives it. Only glibc has it.
    fn register_atfork() -> Option<RegisterAtfork> =
        "__real___register_atfork" in "freehold_slot_register_atfork";
}

freehold_sys::weak_function! {
    /// musl's.
    fn atfork() -> Option<Atfork> = "pthread_atfork" in "freehold_slot_atfork";
}

freehold_sys::stand_in! { "__wrap_pthread_key_create" = older_key_create; }
freehold_sys::stand_in! { "__wrap_pthread_setspecific" = older_setspecific; }
freehold_sys::stand_in! { "__wrap___register_atfork" = older_register_atfork; }

/// `pthread_key_create(3)`.
unsafe extern "C" fn older_key_create(key: *mut c_uint, destructor: Option<Destructor>) -> c_int {
    // SAFETY: the caller's promise.
    key_create().map_or(EAGAIN, |it| unsafe { it(key, destructor) })
}

/// `pthread_setspecific(3)`.
unsafe extern "C" fn older_setspecific(key: c_uint, value: *const c_void) -> c_int {
    // SAFETY: the caller's promise.
    setspecific().map_or(EINVAL, |it| unsafe { it(key, value) })
}

/// What `pthread_atfork(3)` of glibc calls.
unsafe extern "C" fn older_register_atfork(
    prepare: Option<Handler>,
    parent: Option<Handler>,
    child: Option<Handler>,
    library: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    let registered = register_atfork().map(|it| unsafe { it(prepare, parent, child, library) });
    // SAFETY: as above.
    let by_musl = || atfork().map_or(ENOMEM, |it| unsafe { it(prepare, parent, child) });
    registered.unwrap_or_else(by_musl)
}
