//! What the tests of the heap share with its fuzzers.

pub(crate) use freehold_shadow::{Estate, Random, Thread, check, check_start, fill};
