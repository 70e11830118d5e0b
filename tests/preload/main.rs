//! libfreehold under programs: hostile ones, written for these tests, and real ones.

mod cancel;
mod conformance;
mod contexts;
mod cxx;
mod early;
mod exit;
mod extensions;
mod fork;
mod global;
mod libc_results;
mod real;
mod signals;
mod stress;
mod support;
mod thread_exit;
