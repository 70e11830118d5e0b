//! Facts about this process and this thread, and the way to end it.

use crate::syscall::{self, number};
use core::fmt::Write as _;

/// The directory of the process, where a path is taken relative to a descriptor.
pub(crate) const AT_FDCWD: usize = -100_isize as usize;

/// The kernel's number of the calling thread.
pub fn thread_id() -> u32 {
    // SAFETY: takes no arguments and cannot fail.
    unsafe { syscall::call(number::GETTID, [0; 6]) as u32 }
}

/// The kernel's number of this process.
pub fn process_id() -> u32 {
    // SAFETY: takes no arguments and cannot fail.
    unsafe { syscall::call(number::GETPID, [0; 6]) as u32 }
}

/// The kernel's number of the process that started this one, or has taken it over.
pub fn parent_id() -> u32 {
    // SAFETY: takes no arguments and cannot fail.
    unsafe { syscall::call(number::GETPPID, [0; 6]) as u32 }
}

/// `unshare(2)`: leaves what `flags` say to share no longer. On failure the error's number.
pub fn unshare(flags: i32) -> Result<(), i32> {
    // SAFETY: takes no pointers; what the process shares is the caller's business.
    outcome(unsafe { syscall::call(number::UNSHARE, [flags as usize, 0, 0, 0, 0, 0]) })
}

/// `setns(2)`: enters the namespace that a descriptor stands for. On failure the error's number.
pub fn enter_namespace(descriptor: i32, kind: i32) -> Result<(), i32> {
    let arguments = [descriptor as usize, kind as usize, 0, 0, 0, 0];
    // SAFETY: takes no pointers.
    outcome(unsafe { syscall::call(number::SETNS, arguments) })
}

fn outcome(returned: isize) -> Result<(), i32> {
    if syscall::failed(returned) { Err(-returned as i32) } else { Ok(()) }
}

/// Says on standard error that `library` has found itself in a state that cannot be, and ends the
/// process: what a panic amounts to in a library that has no standard library.
pub fn panicked(library: &str, info: &core::panic::PanicInfo) -> ! {
    let mut message = crate::stderr::Message::new();
    // Writing to a fixed buffer cannot fail.
    let _ = writeln!(message, "{library}: internal error: {info}; aborting");
    drop(message);
    abort()
}

/// Reads where a symbolic link leads into `target`; returns how many bytes that is, at most as many
/// as there is room for.
pub fn read_link(link: &core::ffi::CStr, target: &mut [u8]) -> usize {
    // SAFETY: the path is a C string, and the kernel writes at most as much as there is room for.
    let n = unsafe {
        syscall::call(
            number::READLINKAT,
            [AT_FDCWD, link.as_ptr() as usize, target.as_mut_ptr() as usize, target.len(), 0, 0],
        )
    };
    if syscall::failed(n) { 0 } else { n as usize }
}

/// Ends the process by SIGABRT, as `abort(3)` does, without running anything of libc's: a handler
/// of the program's own still sees the signal first.
pub fn abort() -> ! {
    const SIGABRT: usize = 6;
    const SIG_UNBLOCK: usize = 1;
    let only_abort = 1_u64 << (SIGABRT - 1);
    // SAFETY: the mask is 8 bytes, as the call is told; the signal goes to this very thread.
    unsafe {
        syscall::call(
            number::RT_SIGPROCMASK,
            [SIG_UNBLOCK, &raw const only_abort as usize, 0, 8, 0, 0],
        );
        syscall::call(
            number::TGKILL,
            [process_id() as usize, thread_id() as usize, SIGABRT, 0, 0, 0],
        );
    }
    loop {
        // SAFETY: ends the process. 134 is what a shell reports for SIGABRT.
        unsafe { syscall::call(number::EXIT_GROUP, [134, 0, 0, 0, 0, 0]) };
    }
}

/// A file opened for reading with raw system calls.
pub struct File(usize);

impl File {
    /// Opens `path`, which ends in a zero byte.
    pub fn open(path: &core::ffi::CStr) -> Option<Self> {
        const O_CLOEXEC: usize = 0o2_000_000;
        // SAFETY: the path is a C string; the other arguments are numbers.
        let fd = unsafe {
            syscall::call(number::OPENAT, [AT_FDCWD, path.as_ptr() as usize, O_CLOEXEC, 0, 0, 0])
        };
        (!syscall::failed(fd)).then_some(Self(fd as usize))
    }

    /// Reads into `buffer`; returns how many bytes came, 0 at the end of the file or on an error.
    pub fn read(&self, buffer: &mut [u8]) -> usize {
        // SAFETY: the kernel writes at most `buffer.len()` bytes to the buffer.
        let n = unsafe {
            syscall::call(
                number::READ,
                [self.0, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0],
            )
        };
        if syscall::failed(n) { 0 } else { n as usize }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours and is not used after this.
        unsafe { syscall::call(number::CLOSE, [self.0, 0, 0, 0, 0, 0]) };
    }
}
