//! A file that several processes have mapped and write to. Source: `mmap(2)`, `madvise(2)`.

use crate::process::AT_FDCWD;
use crate::syscall::{self, failed, number};
use core::ffi::CStr;

const PROT_READ_WRITE: usize = 3;
const MAP_SHARED: usize = 1;
const O_RDWR: usize = 2;
const O_CLOEXEC: usize = 0o2_000_000;
const MADV_WIPEONFORK: usize = 18;
const MADV_POPULATE_WRITE: usize = 23;
const EINVAL: isize = -22;

/// Maps the first `bytes` of the file at `path` to be read and written, here and by whoever else
/// has mapped it. The file must be as long: beyond its end the mapping cannot be touched.
pub fn map(path: &CStr, bytes: usize) -> Option<usize> {
    // SAFETY: the path is a C string; the other arguments are numbers.
    let fd = unsafe {
        syscall::call(
            number::OPENAT,
            [AT_FDCWD, path.as_ptr() as usize, O_RDWR | O_CLOEXEC, 0, 0, 0],
        )
    };
    if failed(fd) {
        return None;
    }
    // SAFETY: a new mapping at a place of the kernel's choice disturbs nothing.
    let at = unsafe {
        syscall::call(number::MMAP, [0, bytes, PROT_READ_WRITE, MAP_SHARED, fd as usize, 0])
    };
    // SAFETY: the descriptor is ours; a mapping does not need it.
    unsafe { syscall::call(number::CLOSE, [fd as usize, 0, 0, 0, 0, 0]) };
    (!failed(at)).then_some(at as usize)
}

/// Makes sure that a range of a mapped file can be written to, which fails when the file system has
/// no room for it. Kernels before 5.14 cannot tell, and are believed.
///
/// # Safety
/// The range is mapped, to be written.
pub unsafe fn populate(at: usize, bytes: usize) -> bool {
    // SAFETY: the caller's promise; pages that are made present disturb nothing.
    let result =
        unsafe { syscall::call(number::MADVISE, [at, bytes, MADV_POPULATE_WRITE, 0, 0, 0]) };
    !failed(result) || result == EINVAL
}

/// Makes a range of private anonymous pages all zero in children of this process, however they are
/// forked. Tells whether it could be done: Linux 4.14 can.
///
/// # Safety
/// The range is the caller's, who expects zeros in children.
pub unsafe fn wipe_on_fork(at: usize, bytes: usize) -> bool {
    // SAFETY: the caller's promise.
    let result = unsafe { syscall::call(number::MADVISE, [at, bytes, MADV_WIPEONFORK, 0, 0, 0]) };
    !failed(result)
}
