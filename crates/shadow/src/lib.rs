//! Sequences of operations on a heap, checked against a shadow of it.
//!
//! [`run`] makes any bytes a sequence: allocations, frees and resizes by several threads of a
//! program, which all are one thread here, so that a sequence always does the same. What the
//! allocator gives out is entered into a shadow heap, and the arena's own invariants are checked
//! after every operation. The fuzzer (`fuzz/`) feeds it what reaches new code, its stable twin
//! (`tests/twin.rs`) random bytes.
//!
//! [`Estate`], [`Thread`] and [`Random`] are also what the heap's own tests are written with.

mod contents;
mod estate;
mod input;
mod random;
mod run;
mod shadow;
mod thread;

pub use contents::{check, check_start, fill};
pub use estate::Estate;
pub use random::Random;
pub use run::run;
pub use thread::Thread;
