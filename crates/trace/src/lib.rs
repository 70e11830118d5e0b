//! The format of traces: the calls to `malloc` and its family that a program made, as recorded; and
//! of the scripts by which they are made again.
//!
//! A trace is one file for a command and the processes that it started. [`mod@file`] says how the
//! file is laid out in blocks, [`record`] how the calls within a block are written and read, and
//! [`packed`] in how few bytes. The recorder writes from within a foreign program, so nothing here
//! allocates, panics on foreign data or needs the standard library. `docs/trace-format.md`
//! describes the format for other readers.
//!
//! [`counts`] is what calls come to, where neither they nor their order are needed; [`asked`], what
//! allocators answer when they are asked within a process.
//!
//! [`script`] is the form in which recorded calls are handed to the process that makes them again.
//!
//! This crate must not know who writes a trace, or why its calls are made again.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod asked;
mod bytes;
pub mod counts;
pub mod file;
pub mod packed;
pub mod record;
pub mod script;
