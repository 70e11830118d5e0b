//! H10: the C library's functions that return memory which the program frees.

use crate::support::child::Child;
use crate::support::compile;

#[test]
fn whatever_the_c_library_returns_is_freeholds_and_can_be_freed() {
    Child::new(compile::c("libc_results.c")).freehold().run().succeeded();
}
