//! H20: signal handlers that allocate.

use crate::support::child::{Child, Ended};
use crate::support::compile;

fn signals(case: &str) -> Ended {
    Child::new(compile::c("signals.c")).arg(case).arg("2").freehold().run().succeeded()
}

#[test]
fn handlers_may_allocate_resize_and_free_while_all_threads_are_in_malloc() {
    let ended = signals("timer_signals");
    ended.check(ended.number("handled") > 100, "there were to be many signals");
}

#[test]
fn handlers_may_allocate_while_what_a_thread_has_at_hand_runs_out_and_is_filled_again() {
    let ended = signals("timer_signals_in_bursts");
    ended.check(ended.number("handled") > 100, "there were to be many signals");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn handlers_may_allocate_and_free_before_each_instruction_of_malloc_and_free() {
    let ended = signals("every_instruction");
    ended.check(ended.number("handled") > 10_000, "there were to be many signals");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn what_a_handler_frees_while_half_a_magazine_is_set_aside_is_given_out_once() {
    let ended = signals("what_waits");
    ended.check(ended.number("handled") > 10_000, "there were to be many signals");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn hardly_anything_is_lost_that_handlers_free_before_any_instruction_of_the_only_thread() {
    let ended = signals("scattered");
    ended.check(ended.number("handled") > 100_000, "there were to be many signals");
}

#[test]
fn what_handlers_free_is_freed_in_the_end() {
    let ended = signals("frees_in_handlers");
    ended.check(ended.number("handled") > 100, "there were to be many signals");
}

#[test]
fn a_handler_of_a_crash_in_the_program_may_allocate() {
    signals("crash_in_program");
}

#[test]
fn a_handler_of_a_crash_inside_the_allocator_may_allocate() {
    let ended = signals("crash_in_realloc");
    ended.check(ended.number("handled") == 1, "the handler was to be reached");
}

#[test]
fn memory_that_is_written_to_after_its_free_does_not_mislead_malloc() {
    signals("written_after_free");
}

/// Handlers come before any instruction of calls: of a size, with a setting.
#[cfg(target_arch = "x86_64")]
fn stepped(case: &str, size: u32, (name, value): (&str, &str)) {
    let program = Child::new(compile::c("stepped.c")).args([case, &size.to_string()]);
    let ended = program.env(name, value).freehold().run().succeeded();
    ended.check(ended.number("handled") > 50, "there were to be many signals");
}

#[cfg(target_arch = "x86_64")]
const HARDENED: (&str, &str) = ("FREEHOLD_HARDEN", "1");

#[test]
#[cfg(target_arch = "x86_64")]
fn handlers_may_allocate_and_free_in_a_threads_first_call_and_as_it_ends() {
    for setting in [HARDENED, ("FREEHOLD_HARDEN", "0")] {
        for size in [24, 1100] {
            stepped("first_call", size, setting);
            stepped("thread_end", size, setting);
        }
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_handler_may_free_an_object_for_which_there_is_no_room_before_any_instruction() {
    stepped("one_free", 24, HARDENED);
    stepped("a_free_in_a_fork", 24, HARDENED);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_handler_may_fork_before_any_instruction_of_malloc_in_hardened_mode() {
    stepped("a_fork", 24, HARDENED);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_handler_may_free_and_resize_while_guarded_objects_come_and_go() {
    for case in ["a_guarded_free", "a_guarded_free_in_realloc", "a_realloc_in_realloc"] {
        stepped(case, 24, ("FREEHOLD_GUARD", "1"));
    }
}
