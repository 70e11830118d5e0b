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

// Unoptimised parts of the core library refer to the personality of unwinding, which nothing here
// ever does. Weak and hidden: a program's own takes its place when the archive is linked into it.
core::arch::global_asm!(
    ".weak rust_eh_personality",
    ".hidden rust_eh_personality",
    ".pushsection .rodata.rust_eh_personality, \"a\", @progbits",
    "rust_eh_personality: .byte 0",
    ".popsection",
);
