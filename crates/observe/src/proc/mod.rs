//! What the kernel shows of a process below `/proc`: one file for each format, parsers of text and
//! nothing more, but for `pagemap`, `task` and `tree`, which read.

pub(crate) mod maps;
pub(crate) mod pagemap;
pub(crate) mod schedstat;
pub(crate) mod smaps;
pub(crate) mod stat;
pub(crate) mod status;
pub(crate) mod syscall;
pub(crate) mod task;
pub(crate) mod tree;
