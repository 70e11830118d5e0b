//! Sleeping until a word changes. It must not know what the word means.

use std::ptr;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps while `word` holds `value`, or for `time`; may return early.
pub(crate) fn wait(word: &AtomicU32, value: u32, time: Option<Duration>) {
    let time = time.map(|time| libc::timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    });
    // SAFETY: the address is that of a live, aligned 32-bit word; the time is null, which means for
    // ever, or lives as long as the call.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            value,
            time.as_ref().map_or(ptr::null(), ptr::from_ref),
        )
    };
}

/// Wakes every thread that sleeps on `word`.
pub(crate) fn wake_all(word: &AtomicU32) {
    // SAFETY: the address is that of a live, aligned 32-bit word.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            i32::MAX,
        )
    };
}
