//! H2, H3, H13: the first calls of a process, which come before any constructor, and from inside
//! functions that other libraries have replaced.

use std::fs;

use crate::support::child::Child;
use crate::support::{compile, library};

fn early() -> Child {
    Child::new(compile::c("early.c")).freehold()
}

#[test]
fn malloc_works_in_resolvers_preinit_functions_and_first_constructors() {
    early().run().succeeded();
}

#[test]
fn early_calls_work_when_all_symbols_are_bound_at_the_start() {
    early().env("LD_BIND_NOW", "1").run().succeeded();
}

#[test]
fn early_calls_work_while_the_loader_reports_on_everything() {
    let directory = tempfile::tempdir().expect("a directory");
    let report = directory.path().join("report");
    early().env("LD_DEBUG", "all").env("LD_DEBUG_OUTPUT", &report).run().succeeded();
    let reports = fs::read_dir(directory.path()).expect("readable").count();
    assert!(reports > 0, "the loader was to report");
}

#[test]
fn early_calls_work_when_the_library_is_linked_rather_than_preloaded() {
    let directory = tempfile::tempdir().expect("a directory");
    std::os::unix::fs::symlink(library::shared(), directory.path().join("libfreehold.so.0"))
        .expect("the library by its soname");
    let shared = library::shared().to_str().expect("a path in UTF-8");
    let program = compile::c_with("early.c", &[shared]);
    Child::new(program).env("LD_LIBRARY_PATH", directory.path()).run().succeeded();
}

#[test]
fn the_loader_can_list_what_a_preloaded_program_needs() {
    let listed = early().env("LD_TRACE_LOADED_OBJECTS", "1").run().succeeded();
    let name = library::shared().file_name().expect("a file").to_string_lossy().into_owned();
    listed.check(listed.out().contains(&name), "the library was to be listed");
}

/// A library that allocates inside `mmap`, `getenv`, `pthread_key_create` and others.
fn under_a_meddler(program: &str, meddler_first: bool) {
    let (meddler, freehold) = (compile::c_library("meddler.c"), library::shared());
    let child = Child::new(compile::c(program));
    let child = if meddler_first {
        child.preload(&meddler).preload(freehold)
    } else {
        child.preload(freehold).preload(&meddler)
    };
    child.run().succeeded();
}

#[test]
fn replaced_functions_that_allocate_do_not_disturb_the_first_calls() {
    under_a_meddler("early.c", true);
    under_a_meddler("early.c", false);
}

#[test]
fn replaced_functions_that_allocate_do_not_disturb_threads() {
    under_a_meddler("threads.c", true);
    under_a_meddler("threads.c", false);
}

#[test]
fn restartable_sequences_may_be_registered_or_not() {
    for value in ["0", "1"] {
        let tunable = format!("glibc.pthread.rseq={value}");
        let child = Child::new(compile::c("threads.c")).env("GLIBC_TUNABLES", tunable);
        child.freehold().run().succeeded();
    }
}
