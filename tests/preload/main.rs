//! libfreehold under programs: hostile ones, written for these tests, and real ones.

mod archive;
mod blowup;
mod cancel;
mod conformance;
mod contexts;
mod cxx;
mod early;
mod exit;
mod extensions;
mod fast_path;
mod foreign;
mod fork;
mod global;
mod libc_results;
mod limits;
mod loading;
mod misuse;
mod real;
mod signals;
mod stress;
mod support;
mod symbols;
mod thread_exit;
