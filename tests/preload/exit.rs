//! H36: the end of a process while its threads are busy in malloc and free.

use crate::support::child::Child;
use crate::support::compile;

/// What the program is told to end with.
const STATUS: i32 = 3;

/// Ends in this way, and says so.
fn ends(way: &str, output: &str) {
    let ended = Child::new(compile::c("exit.c")).arg(way).freehold().run();
    ended.check(ended.status.code() == Some(STATUS), "it was to end with its own status");
    ended.check(ended.out() == output, &format!("it was to say {output:?}"));
    ended.check(ended.stderr.is_empty(), "nothing was to go wrong");
}

#[test]
fn return_from_main_runs_handlers_and_destructors_that_free_and_allocate() {
    ends("return", "at exit\ndestructor\n");
}

#[test]
fn exit_runs_handlers_and_destructors_that_free_and_allocate() {
    ends("exit", "at exit\ndestructor\n");
}

#[test]
fn quick_exit_runs_its_own_handlers() {
    ends("quick_exit", "at quick exit\n");
}

#[test]
fn an_immediate_exit_runs_nothing() {
    ends("_exit", "");
}

#[test]
fn a_thread_may_end_the_process_after_main_has_gone() {
    ends("thread", "at exit\ndestructor\n");
}
