//! H22: stacks that are switched between malloc and free, and children in the parent's memory.

use crate::support::child::Child;
use crate::support::compile;

fn contexts(case: &str) {
    Child::new(compile::c("contexts.c")).arg(case).freehold().run().succeeded();
}

#[test]
fn coroutines_of_one_thread_keep_their_blocks_apart() {
    contexts("in_one_thread");
}

#[test]
fn a_coroutine_may_go_on_in_another_thread_than_it_allocated_in() {
    contexts("across_threads");
}

#[test]
fn a_child_that_shares_its_parents_memory_may_allocate() {
    contexts("child_in_the_same_memory");
}
