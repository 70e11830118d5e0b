//! `libfreehold.a`: linked into programs, with the C library beside it or inside.

use std::path::PathBuf;

use crate::cxx::NOTHING_TO_THROW;
use crate::support::child::Child;
use crate::support::{compile, library};

/// How a program is compiled: [`compile::c_with`] or [`compile::cxx_with`].
type Compile = fn(&str, &[&str]) -> PathBuf;

/// Links the archive into the program. Nothing is preloaded: the programs themselves check that
/// malloc is Freehold's.
fn with_the_archive(compile: Compile, source: &str, further: &[&str]) -> PathBuf {
    let archive = library::archive();
    let archive = archive.to_str().expect("a path in UTF-8");
    compile(source, &[&[archive], further].concat())
}

fn run(compile: Compile, source: &str, further: &[&str], arguments: &[&str]) {
    let program = with_the_archive(compile, source, further);
    Child::new(program).args(arguments).run().succeeded();
}

fn linked(source: &str, further: &[&str], arguments: &[&str]) {
    run(compile::c_with, source, further, arguments);
}

fn linked_cxx(source: &str, further: &[&str], arguments: &[&str]) {
    run(compile::cxx_with, source, further, arguments);
}

const STATIC: &[&str] = &["-static"];

#[test]
fn a_program_with_the_archive_has_freehold_before_any_constructor() {
    linked("early.c", &[], &[]);
}

#[test]
fn a_program_with_the_archive_has_it_in_all_threads() {
    linked("threads.c", &[], &[]);
    linked("thread_exit.c", &[], &["destructors_that_allocate", "1000"]);
}

#[test]
fn a_program_with_the_archive_can_fork_while_its_threads_are_busy() {
    linked("fork_busy.c", &[], &["4", "20"]);
}

#[test]
fn a_program_with_the_archive_gets_the_c_librarys_results_from_it() {
    linked("libc_results.c", &[], &[]);
}

#[test]
fn a_cplusplus_program_with_the_archive_has_all_operators_from_it() {
    for case in ["every_form", "no_memory", "new_handler"] {
        linked_cxx("operators.cpp", &[], &[case]);
    }
    linked_cxx("lifetimes.cpp", &[], &["exceptions", "100"]);
}

#[test]
fn a_cplusplus_program_with_the_archive_returns_null_where_a_handler_throws() {
    linked_cxx("operators.cpp", &[], &["throwing_handler"]);
}

#[test]
fn a_program_with_a_static_cplusplus_library_that_it_hardly_uses_throws_bad_alloc() {
    const WAYS: [&[&str]; 3] = [STATIC, &["-static-pie"], &["-static-libstdc++", "-static-libgcc"]];
    for further in WAYS {
        linked_cxx("bad_alloc.cpp", further, &[]);
    }
}

#[test]
fn a_c_program_with_the_archive_needs_no_cplusplus_library_and_hears_why_nothing_is_thrown() {
    for further in [&[][..], STATIC] {
        let program = with_the_archive(compile::c_with, "operator_new.c", further);
        let ended = Child::new(program).run().aborted();
        ended.check(ended.err() == NOTHING_TO_THROW, "the reason was to be said");
    }
}

#[test]
fn a_program_that_is_static_as_a_whole_has_freehold_in_all_threads() {
    linked("threads.c", STATIC, &[]);
    linked("thread_exit.c", STATIC, &["destructors_that_allocate", "1000"]);
}

#[test]
fn a_program_that_is_static_as_a_whole_can_fork_while_its_threads_are_busy() {
    linked("fork_busy.c", STATIC, &["4", "20"]);
}

#[test]
fn a_program_that_is_static_as_a_whole_conforms() {
    for case in ["sizes_beyond_ptrdiff_max", "every_alignment", "usable_size", "pages"] {
        linked("conformance.c", STATIC, &[case]);
    }
}

#[test]
fn a_cplusplus_program_that_is_static_as_a_whole_has_all_operators_from_freehold() {
    for case in ["every_form", "no_memory", "new_handler"] {
        linked_cxx("operators.cpp", STATIC, &[case]);
    }
    linked_cxx("lifetimes.cpp", STATIC, &["exceptions", "100"]);
}
