//! The format of traces: the calls to `malloc` and its family that a program made, as recorded.
//!
//! A trace is one file for a command and the processes that it started. [`mod@file`] says how the
//! file is laid out in blocks, [`record`] how the calls within a block are written and read. The
//! recorder writes from within a foreign program, so nothing here allocates, panics on foreign data
//! or needs the standard library. `docs/trace-format.md` describes the format for other readers.
//!
//! This crate must not know who writes a trace or what is made of it.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod bytes;
pub mod file;
pub mod record;
