//! H5, H31, H36 in C++: the operators `new` and `delete`, exceptions, and objects whose
//! constructors and destructors allocate.

use crate::support::child::{Child, Ended};
use crate::support::compile;

const OPERATORS: &str = "operators.cpp";
const LIFETIMES: &str = "lifetimes.cpp";

fn operators(case: &str) {
    Child::new(compile::cxx(OPERATORS)).arg(case).freehold().run().succeeded();
}

fn lifetimes(case: &str, count: u32) -> Ended {
    let count = count.to_string();
    Child::new(compile::cxx(LIFETIMES)).arg(case).arg(count).freehold().run().succeeded()
}

#[test]
fn every_form_of_new_and_delete_is_freeholds() {
    operators("every_form");
}

#[test]
fn new_throws_or_returns_null_when_there_is_no_memory() {
    operators("no_memory");
}

#[test]
fn the_new_handler_is_asked_as_long_as_there_is_one() {
    operators("new_handler");
}

#[test]
fn new_that_does_not_throw_returns_null_where_the_handler_throws() {
    operators("throwing_handler");
}

/// What makes a library of a program.
const LIBRARY: &[&str] = &["-shared", "-fPIC"];

/// Runs cases of `operators.cpp`, as a library that a C program opens.
fn opened(further: &[&str]) {
    let library = compile::cxx_with(OPERATORS, &[LIBRARY, further].concat());
    for case in ["every_form", "no_memory", "new_handler", "throwing_handler"] {
        let opener = Child::new(compile::c("opener.c")).arg(&library).arg(case);
        opener.freehold().run().succeeded();
    }
}

#[test]
fn what_fails_in_a_cplusplus_library_that_a_c_program_opens_throws_there() {
    opened(&[]);
}

#[test]
fn what_fails_in_a_library_with_its_own_cplusplus_library_within_throws_there() {
    opened(&["-static-libstdc++", "-static-libgcc"]);
}

#[test]
fn where_nothing_can_be_thrown_the_reason_is_said() {
    let ended = Child::new(compile::c("operator_new.c")).freehold().run().aborted();
    ended.check(ended.err() == NOTHING_TO_THROW, "the reason was to be said");
}

/// What `operator_new.c` is to end with.
pub(crate) const NOTHING_TO_THROW: &str = "freehold: operator new: no memory for \
    9223372036854775807 bytes, and no C++ library to throw std::bad_alloc; aborting\n";

fn replaced(case: &str) {
    for further in [&[][..], &["-DARRAYS"]] {
        let program = compile::cxx_with("replaced.cpp", further);
        Child::new(program).arg(case).freehold().run().succeeded();
    }
}

#[test]
fn forms_of_delete_that_a_program_leaves_call_the_one_that_it_replaced() {
    replaced("deletes");
}

#[test]
fn forms_of_new_that_do_not_throw_call_the_one_that_a_program_replaced() {
    replaced("nothrow");
}

#[test]
fn new_and_delete_keep_to_a_malloc_of_the_programs_own() {
    let ended = Child::new(compile::cxx("own_malloc.cpp")).freehold().run().succeeded();
    ended.check(ended.out() == "done\n", "its memory was to end");
}

#[test]
fn wrong_sizes_and_mixed_forms_of_delete_do_no_harm() {
    operators("mismatches");
}

#[test]
fn objects_with_virtual_destructors_and_wide_alignments_come_and_go() {
    operators("objects");
}

#[test]
fn thread_locals_with_destructors_leave_nothing_behind() {
    lifetimes("thread_locals", 2_000);
}

#[test]
fn exceptions_cross_threads_and_outlive_them() {
    let ended = lifetimes("exceptions", 1_000);
    ended.check(ended.out() == "the bottom is reached: \n", "the exception was to arrive");
}

#[test]
fn statics_are_destroyed_while_detached_threads_go_on() {
    lifetimes("statics", 0);
}

#[test]
fn a_cplusplus_library_that_is_linked_statically_is_served_too() {
    const STATIC: &[&str] = &["-static-libstdc++", "-static-libgcc"];
    let run = |source, arguments: &[&str]| {
        let program = compile::cxx_with(source, STATIC);
        Child::new(program).args(arguments).freehold().run().succeeded();
    };
    for case in ["every_form", "no_memory", "new_handler", "objects"] {
        run(OPERATORS, &[case]);
    }
    for case in ["thread_locals", "exceptions", "statics"] {
        run(LIFETIMES, &[case, "100"]);
    }
}
