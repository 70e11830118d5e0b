//! H21: threads that are cancelled or jump away in the middle of work that allocates.

use crate::support::child::Child;
use crate::support::compile;

const THREADS: &str = "100";

fn cancel(case: &str) {
    Child::new(compile::c("cancel.c")).arg(case).arg(THREADS).freehold().run().succeeded();
}

#[test]
fn threads_cancelled_at_a_cancellation_point_hold_nobody_up() {
    cancel("deferred");
}

#[test]
fn threads_cancelled_between_allocations_hold_nobody_up() {
    cancel("asynchronous");
}

#[test]
fn threads_that_jump_out_of_their_work_can_go_on_allocating() {
    cancel("jumps");
}
