//! H5: the ends of threads. What they leave behind does not grow, whatever their destructors do.

use crate::support::child::Child;
use crate::support::compile;

fn thread_exit(case: &str, count: u32) {
    Child::new(compile::c("thread_exit.c"))
        .arg(case)
        .arg(count.to_string())
        .freehold()
        .run()
        .succeeded();
}

#[test]
fn destructors_may_allocate_in_every_round() {
    thread_exit("destructors_that_allocate", 5_000);
}

#[test]
fn destructors_may_allocate_when_there_are_more_keys_than_a_thread_has_room_for() {
    thread_exit("many_keys", 3_000);
}

#[test]
fn threads_that_come_and_go_leave_nothing_behind() {
    thread_exit("many_threads", 20_000);
}

#[test]
fn blocks_that_outlive_their_thread_are_used_again() {
    thread_exit("blocks_that_outlive_their_thread", 5_000);
}
