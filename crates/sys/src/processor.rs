//! Which processor a thread is running on.
//!
//! Owns nothing. The C library knows, from memory that it shares with the kernel, or asks the
//! kernel's code in the process (the vDSO, which x86-64 has unless it is switched off at boot). On
//! other architectures it may have to make a system call, which a filter may not let through: it is
//! not asked there. Where there is no such C library nobody knows.

#[cfg(all(target_arch = "x86_64", target_env = "gnu", not(target_feature = "crt-static")))]
crate::weak_function! {
    /// glibc's or musl's, by the version that glibc's has had from the start.
    fn sched_getcpu() -> Option<unsafe extern "C" fn() -> core::ffi::c_int> =
        "freehold_sched_getcpu" in "freehold_slot_sched_getcpu",
        for "sched_getcpu@GLIBC_2.6";
}

#[cfg(all(target_arch = "x86_64", any(not(target_env = "gnu"), target_feature = "crt-static")))]
crate::weak_function! {
    /// The C library's.
    fn sched_getcpu() -> Option<unsafe extern "C" fn() -> core::ffi::c_int> =
        "sched_getcpu" in "freehold_slot_sched_getcpu";
}

/// The number of the processor, if it can be told.
#[inline]
pub(crate) fn number() -> Option<usize> {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: it takes nothing, may be called from anywhere, and sets `errno` only where the
        // kernel does not know.
        let number = unsafe { sched_getcpu()?() };
        usize::try_from(number).ok()
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_processor_is_one_that_the_machine_has() {
        let number = number().unwrap();
        let path = std::format!("/sys/devices/system/cpu/cpu{number}");
        assert!(std::path::Path::new(&path).exists(), "processor {number}");
    }
}
