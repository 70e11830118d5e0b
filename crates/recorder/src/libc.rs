//! The few things that only the C library can do.

use core::ffi::{c_char, c_int, c_long, c_uint, c_void};

/// The pseudo-handle by which `dlsym(3)` searches behind the calling library.
pub(crate) const RTLD_NEXT: *mut c_void = core::ptr::without_provenance_mut(usize::MAX);

const CLOCK_MONOTONIC: c_int = 1;

/// What `dladdr(3)` finds out about an address.
#[repr(C)]
pub(crate) struct Found {
    pub(crate) file: *const c_char,
    pub(crate) base: *mut c_void,
    symbol: *const c_char,
    address: *mut c_void,
}

impl Found {
    pub(crate) const fn nothing() -> Self {
        use core::ptr::{null, null_mut};
        Self { file: null(), base: null_mut(), symbol: null(), address: null_mut() }
    }
}

#[repr(C)]
struct Time {
    seconds: i64,
    nanoseconds: c_long,
}

#[link(name = "c")]
unsafe extern "C" {
    pub(crate) fn dlsym(handle: *mut c_void, symbol: *const c_char) -> *mut c_void;
    pub(crate) fn dladdr(address: *const c_void, found: *mut Found) -> c_int;
    pub(crate) fn pthread_key_create(
        key: *mut c_uint,
        destructor: Option<unsafe extern "C" fn(*mut c_void)>,
    ) -> c_int;
    pub(crate) fn pthread_setspecific(key: c_uint, value: *const c_void) -> c_int;
    fn clock_gettime(clock: c_int, time: *mut Time) -> c_int;
    fn __errno_location() -> *mut c_int;

    /// Whether the process has one thread, as far as the C library knows; 0 once it has had more.
    #[link_name = "__libc_single_threaded"]
    static SINGLE_THREADED: core::sync::atomic::AtomicU8;
}

/// Whether the process has never had a second thread.
#[inline(always)]
pub(crate) fn is_single_threaded() -> bool {
    // SAFETY: a byte that the C library writes and anybody may read.
    unsafe { SINGLE_THREADED.load(core::sync::atomic::Ordering::Relaxed) != 0 }
}

/// The time since the system was started, in nanoseconds.
pub(crate) fn monotonic() -> u64 {
    let mut time = Time { seconds: 0, nanoseconds: 0 };
    // SAFETY: the time is written to a local variable.
    unsafe { clock_gettime(CLOCK_MONOTONIC, &raw mut time) };
    time.seconds as u64 * 1_000_000_000 + time.nanoseconds as u64
}

/// Sets `errno` to say that there is no memory.
pub(crate) fn set_out_of_memory() {
    const ENOMEM: c_int = 12;
    // SAFETY: the C library gives the address of the calling thread's errno.
    unsafe { __errno_location().write(ENOMEM) };
}
