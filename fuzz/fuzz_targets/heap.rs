//! Sequences of operations on a heap, which reach ever more of its code. What they do and what is
//! checked is `crates/shadow`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| freehold_shadow::run(bytes));
