//! H1: forks of processes whose threads are busy in malloc and free.

use crate::support::child::Child;
use crate::support::{compile, library};

fn fork_busy(threads: u32, forks: u32) -> Child {
    Child::new(compile::c("fork_busy.c")).arg(threads.to_string()).arg(forks.to_string())
}

#[test]
fn children_and_grandchildren_of_a_busy_process_can_allocate_and_free_what_they_inherit() {
    fork_busy(8, 100).freehold().run().succeeded();
}

#[test]
fn a_process_of_256_threads_can_fork() {
    fork_busy(256, 5).freehold().run().succeeded();
}

#[test]
fn fork_handlers_registered_before_or_after_ours_may_allocate() {
    let (handlers, freehold) = (compile::c_library("fork_handlers.c"), library::shared());
    fork_busy(4, 30).preload(&handlers).preload(freehold).run().succeeded();
    fork_busy(4, 30).preload(freehold).preload(&handlers).run().succeeded();
}

#[test]
fn a_fork_in_the_middle_of_the_first_allocation_leaves_both_processes_whole() {
    let ended = Child::new(compile::c("threads.c"))
        .preload(&compile::c_library("fork_first.c"))
        .freehold()
        .run()
        .succeeded();
    ended.check(ended.value("forked") == "1", "the fork was to happen inside the set-up");
}

#[test]
fn a_busy_process_can_spawn_vfork_and_call_the_shell() {
    Child::new(compile::c("spawn.c")).arg("20").freehold().run().succeeded();
}
