//! Freehold as a C library. The symbols of `malloc.rs`, `posix.rs`, `extend.rs`, `cxx.rs` and
//! `control.rs` are the only ones exported; `tests` compares them with the list in `symbols.txt`.
//!
//! Errors are those of the manual pages of glibc's functions: `malloc(3)`, `posix_memalign(3)`,
//! `malloc_usable_size(3)`, `mallinfo(3)`, `malloc_info(3)`, `malloc_trim(3)`, `mallopt(3)`.

#![no_std]

pub mod control;
pub mod cxx;
mod errno;
pub mod extend;
pub mod malloc;
pub mod posix;

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    use core::fmt::Write;
    let mut message = freehold_sys::stderr::Message::new();
    // Writing to a fixed buffer cannot fail.
    let _ = writeln!(message, "freehold: internal error: {info}; aborting");
    drop(message);
    freehold_sys::process::abort()
}

// Exceptions that C++ throws out of `new` pass through frames of this library, and the unwinder
// asks for the personality of each. There is nothing to clean up, so it says to go on. Weak and
// hidden: a program's own takes its place when the archive is linked into it.
core::arch::global_asm!(
    ".weak rust_eh_personality",
    ".hidden rust_eh_personality",
    ".pushsection .text.rust_eh_personality, \"ax\", @progbits",
    ".type rust_eh_personality, @function",
    "rust_eh_personality:",
    #[cfg(target_arch = "x86_64")]
    "mov eax, {go_on}",
    #[cfg(target_arch = "aarch64")]
    "mov w0, {go_on}",
    "ret",
    ".size rust_eh_personality, . - rust_eh_personality",
    ".popsection",
    // `_URC_CONTINUE_UNWIND` of the unwinding ABI.
    go_on = const 8,
);
