//! H7: memory that crosses between a program under Freehold and a plugin loaded with
//! `RTLD_DEEPBIND`, which has the C library's malloc.

use crate::support::child::{Child, Ended};
use crate::support::compile;

fn deepbind(case: &str) -> Ended {
    let plugin = compile::c_library("plugin.c");
    Child::new(compile::c("deepbind.c")).arg(case).arg(plugin).freehold().run()
}

/// How often it was said that memory was given back to where it came from.
fn notices(ended: &Ended) -> usize {
    ended.err().matches("came from the C library's own malloc").count()
}

#[test]
fn memory_of_the_c_librarys_own_malloc_is_given_back_there_and_that_is_said_once() {
    let ended = deepbind("from_plugin_freed").succeeded();
    ended.check(notices(&ended) == 1, "it was to be said once");
}

#[test]
fn memory_of_the_c_librarys_own_malloc_has_a_usable_size() {
    deepbind("from_plugin_measured").succeeded();
}

#[test]
fn memory_of_the_c_librarys_own_malloc_can_be_resized() {
    let ended = deepbind("from_plugin_resized").succeeded();
    ended.check(notices(&ended) == 1, "it was to be said once");
}

#[test]
fn large_memory_of_the_c_librarys_own_malloc_is_known_too() {
    let ended = deepbind("large_from_plugin_freed").succeeded();
    ended.check(notices(&ended) == 1, "it was to be said once");
}

#[test]
fn memory_of_the_c_librarys_arenas_for_threads_is_known_too() {
    let ended = deepbind("from_thread_of_plugin_freed").succeeded();
    ended.check(notices(&ended) == 1, "it was to be said once");
}

#[test]
fn our_memory_is_refused_by_the_c_librarys_own_free() {
    let ended = deepbind("to_plugin").aborted();
    ended.check(ended.err().starts_with("free(): invalid"), "the C library was to refuse it");
    ended.check(!ended.out().contains("survived"), "nothing was to be corrupted");
}

#[test]
fn a_plugin_in_a_namespace_of_its_own_keeps_its_own_malloc() {
    let plugin = compile::c_library("plugin.c");
    Child::new(compile::c("namespace.c")).arg(plugin).freehold().run().succeeded();
}
