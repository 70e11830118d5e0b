//! Raw system calls: no `errno`, no cancellation point, no libc.
//!
//! Source: the kernel's calling convention, `syscall(2)`; numbers from the kernel's tables for each
//! architecture.

use core::arch::asm;

/// System-call numbers of the architecture.
#[cfg(target_arch = "x86_64")]
pub mod number {
    #![expect(
        missing_docs,
        reason = "the names are the system calls' own; see section 2 of the manual"
    )]
    pub const WRITE: usize = 1;
    pub const MMAP: usize = 9;
    pub const MPROTECT: usize = 10;
    pub const MUNMAP: usize = 11;
    pub const RT_SIGACTION: usize = 13;
    pub const RT_SIGPROCMASK: usize = 14;
    pub const SCHED_YIELD: usize = 24;
    pub const MREMAP: usize = 25;
    pub const MINCORE: usize = 27;
    pub const MADVISE: usize = 28;
    pub const GETPID: usize = 39;
    pub const CLONE: usize = 56;
    pub const EXIT: usize = 60;
    pub const GETPPID: usize = 110;
    pub const PRCTL: usize = 157;
    pub const GETTID: usize = 186;
    pub const FUTEX: usize = 202;
    pub const SCHED_GETAFFINITY: usize = 204;
    pub const CLOCK_GETTIME: usize = 228;
    pub const TGKILL: usize = 234;
    pub const OPENAT: usize = 257;
    pub const READLINKAT: usize = 267;
    pub const READ: usize = 0;
    pub const CLOSE: usize = 3;
    pub const PRLIMIT64: usize = 302;
    pub const PROCESS_VM_READV: usize = 310;
    pub const GETRANDOM: usize = 318;
    pub const MEMBARRIER: usize = 324;
    pub const EXIT_GROUP: usize = 231;
    pub const UNSHARE: usize = 272;
    pub const SETNS: usize = 308;
}

/// System-call numbers of the architecture.
#[cfg(target_arch = "aarch64")]
pub mod number {
    #![expect(
        missing_docs,
        reason = "the names are the system calls' own; see section 2 of the manual"
    )]
    pub const OPENAT: usize = 56;
    pub const CLOSE: usize = 57;
    pub const READ: usize = 63;
    pub const READLINKAT: usize = 78;
    pub const WRITE: usize = 64;
    pub const EXIT: usize = 93;
    pub const EXIT_GROUP: usize = 94;
    pub const UNSHARE: usize = 97;
    pub const FUTEX: usize = 98;
    pub const CLOCK_GETTIME: usize = 113;
    pub const SCHED_GETAFFINITY: usize = 123;
    pub const SCHED_YIELD: usize = 124;
    pub const TGKILL: usize = 131;
    pub const RT_SIGACTION: usize = 134;
    pub const RT_SIGPROCMASK: usize = 135;
    pub const PRCTL: usize = 167;
    pub const GETPID: usize = 172;
    pub const GETPPID: usize = 173;
    pub const GETTID: usize = 178;
    pub const MUNMAP: usize = 215;
    pub const MREMAP: usize = 216;
    pub const CLONE: usize = 220;
    pub const MMAP: usize = 222;
    pub const MINCORE: usize = 232;
    pub const MPROTECT: usize = 226;
    pub const MADVISE: usize = 233;
    pub const PRLIMIT64: usize = 261;
    pub const GETRANDOM: usize = 278;
    pub const SETNS: usize = 268;
    pub const PROCESS_VM_READV: usize = 270;
    pub const MEMBARRIER: usize = 283;
}

/// Makes system call `number` and returns what the kernel returned: a value, or a negated error.
///
/// # Safety
/// The arguments are what that call asks for; pointers among them are valid for it.
#[inline]
pub unsafe fn call(number: usize, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let result: isize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: this is the kernel's convention on x86-64: number in rax, arguments in the registers
    // named, rcx and r11 overwritten. What the call does is the caller's responsibility.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: this is the kernel's convention on aarch64: number in x8, arguments in x0 to x5, the
    // result in x0. What the call does is the caller's responsibility.
    unsafe {
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a as isize => result,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack),
        );
    }
    result
}

/// Whether a kernel result is an error.
#[inline]
pub fn failed(result: isize) -> bool {
    (-4095..0).contains(&result)
}
