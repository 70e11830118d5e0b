//! The recorder: a library to preload, which writes down the calls to `malloc` and its family, and
//! to the C++ operators, and passes them on to the allocator behind it.
//!
//! ```text
//!   calls      malloc, free, operator new …: the symbols that programs are bound to
//!     next     the allocator behind: what the dynamic loader finds after this library
//!     writer   one record a call, into the thread's chunk; the path that is to be short
//!       thread   what a thread has at hand: its place in the trace, its clock
//!       clock    the order of calls across threads
//!     counting where only numbers are wanted: what a thread counts instead of writing records
//!       process  the trace itself: attaching to it, taking blocks of it; forks
//! ```
//!
//! The trace is a file, mapped and shared (`freehold_trace`): what has been written stays when the
//! program is killed. A process that is not told of a trace, or cannot map it, is not recorded and
//! runs as it would without. Nothing here allocates but while the next allocator is looked for,
//! when a small store within the library answers.
#![no_std]

pub mod calls;
mod clock;
mod counting;
mod libc;
mod next;
mod process;
mod store;
mod thread;
mod writer;

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    freehold_sys::process::panicked("freehold recorder", info)
}

// Exceptions that C++ throws out of `new` pass through frames of this library.
freehold_sys::pass_exceptions!();
