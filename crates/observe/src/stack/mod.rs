//! Stacks of threads: `file` knows what is mapped, `image` a process' address space, `unwind`
//! follows return addresses, `symbol` gives them names, and `wait` tells what the names mean.

pub(crate) mod file;
pub(crate) mod image;
mod prologue;
pub(crate) mod symbol;
pub(crate) mod touch;
mod variable;
pub(crate) mod wait;
