//! H29, H30: what the manual pages promise of results, alignments, errors and sizes.

use crate::support::child::Child;
use crate::support::compile;

fn conforms(case: &str) {
    Child::new(compile::c("conformance.c")).arg(case).freehold().run().succeeded();
}

#[test]
fn sizes_beyond_ptrdiff_max_are_refused_with_enomem() {
    conforms("sizes_beyond_ptrdiff_max");
}

#[test]
fn products_that_overflow_are_refused_with_enomem() {
    conforms("products_that_overflow");
}

#[test]
fn alignments_that_are_no_powers_of_two_are_refused_with_einval() {
    conforms("alignments_that_are_none");
}

#[test]
fn posix_memalign_returns_its_error_and_leaves_errno_alone() {
    conforms("posix_memalign_and_errno");
}

#[test]
fn every_object_of_size_0_is_a_different_one() {
    conforms("nothing_asked_for");
}

#[test]
fn realloc_to_size_0_frees() {
    conforms("realloc_to_nothing");
}

#[test]
fn free_leaves_errno_alone() {
    conforms("free_and_errno");
}

#[test]
fn alignments_up_to_8_mebibytes_are_kept() {
    conforms("every_alignment");
}

#[test]
fn every_size_is_aligned_for_any_type() {
    conforms("max_align_of_every_size");
}

#[test]
fn valloc_and_pvalloc_give_whole_pages() {
    conforms("pages");
}

#[test]
fn calloc_of_memory_that_was_used_is_zero() {
    conforms("calloc_of_used_memory");
}

#[test]
fn all_of_the_usable_size_can_be_used_and_is_kept_by_realloc() {
    conforms("usable_size");
}

#[test]
fn realloc_keeps_the_contents() {
    conforms("realloc_keeps_contents");
}
