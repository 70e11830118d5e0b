//! H23: memory goes back while every thread sleeps, by a thread that is there no longer than that
//! takes, and that the program does not notice.

use crate::support::child::Child;
use crate::support::{compile, tools};

fn program(case: &str) -> Child {
    Child::new(compile::c("idle.c")).arg(case).freehold()
}

#[test]
fn memory_returns_while_all_threads_sleep_and_the_helper_ends() {
    program("memory returns").run().succeeded();
}

#[test]
fn what_sleeping_threads_have_at_hand_returns_as_well() {
    if program("at hand").run().succeeded().out() == "no barrier\n" {
        tools::skip("membarrier(2) is not to be had here");
    }
}

#[test]
fn threads_that_do_little_now_and_then_keep_what_that_takes() {
    program("lingering").run().succeeded();
}

#[test]
fn pages_between_objects_in_use_return_as_well() {
    program("scattered").run().succeeded();
}

#[test]
fn the_environment_can_forbid_a_thread_of_the_librarys_own() {
    for value in ["0", "off"] {
        program("forbidden").env("FREEHOLD_BACKGROUND", value).run().succeeded();
    }
}

#[test]
fn a_process_of_one_thread_stays_one() {
    program("one thread").run().succeeded();
}

#[test]
fn a_process_whose_other_threads_have_ended_has_one_soon() {
    program("after all others").run().succeeded();
}

#[test]
fn what_only_a_process_of_one_thread_can_do_it_can_do_when_its_other_threads_have_ended() {
    program("entering").run().succeeded();
}

#[test]
fn signals_to_the_process_never_reach_the_librarys_thread() {
    program("signals").run().succeeded();
}

#[test]
fn a_forked_child_has_no_such_thread_until_it_needs_its_own() {
    program("children").run().succeeded();
}

#[test]
fn the_program_ends_with_its_last_thread() {
    program("end").run().succeeded();
}
