//! Freehold as a C library. The symbols of `malloc.rs`, `posix.rs`, `extend.rs`, `cxx.rs`,
//! `namespace.rs` and `control.rs` are the only ones exported; `tests` compares them with the list
//! in `symbols.txt`.
//!
//! Errors are those of the manual pages of glibc's functions: `malloc(3)`, `posix_memalign(3)`,
//! `malloc_usable_size(3)`, `mallinfo(3)`, `malloc_info(3)`, `malloc_trim(3)`, `mallopt(3)`.

#![no_std]

pub mod control;
pub mod cxx;
mod errno;
pub mod extend;
pub mod malloc;
pub mod namespace;
#[cfg(target_env = "gnu")]
mod older;
pub mod posix;

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    freehold_sys::process::panicked("freehold", info)
}

// Exceptions that C++ throws out of `new` pass through frames of this library.
freehold_sys::pass_exceptions!();
