//! The functions by which a process enters a namespace. Some namespaces can only be entered by a
//! process of one thread, so Freehold's own must end before; the kernel's call is all that the C
//! library's functions make.

use crate::errno;
use core::ffi::c_int;
use freehold_rt::slow;
use freehold_sys::process;

/// `unshare(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn unshare(flags: c_int) -> c_int {
    slow::end_background_thread();
    result(process::unshare(flags))
}

/// `setns(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn setns(descriptor: c_int, kind: c_int) -> c_int {
    slow::end_background_thread();
    result(process::enter_namespace(descriptor, kind))
}

fn result(entered: Result<(), c_int>) -> c_int {
    match entered {
        Ok(()) => 0,
        Err(error) => {
            errno::set(error);
            -1
        }
    }
}
