//! Tracing a process' system calls: `stop` is the kernel's interface, `tracer` follows all threads
//! of a process with it.

mod stop;
mod tracer;

pub(crate) use tracer::{Entered, Seer, Tracer};
