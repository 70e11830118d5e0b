//! The asker: a library to preload, which asks the allocators of a process what they know of
//! themselves, whenever somebody outside wants to know.
//!
//! ```text
//!   thread       a thread of the process that waits for questions, and for nothing else
//!     allocators the public functions by which allocators tell their figures
//!     libc       the few things that only the C library can do
//! ```
//!
//! Question and answer stand in a file that the process has mapped (`freehold_trace::asked`). The
//! functions take the allocators' locks and walk their lists, so they are called by a thread like
//! any other, which the C library knows: never by a handler of a signal, and never by a thread that
//! may be within the allocator already. No call of the program's passes through this library, and
//! a process that is not told of a file runs as it would without.
#![no_std]

mod allocators;
mod libc;
pub mod thread;

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    freehold_sys::process::panicked("freehold asker", info)
}
