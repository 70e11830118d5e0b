//! H8: frees of what is no object, and frees that come twice: refused by a report that names the
//! address, at the latest when the object comes back to its slab.

use crate::support::child::{Child, Ended};
use crate::support::{compile, seed};

const FREE: &str = "free";
const ALL: &[&str] = &[FREE, "realloc", "malloc_usable_size"];
const FREE_AND_REALLOC: &[&str] = &[FREE, "realloc"];

fn misuse(case: &str, function: &str) -> Ended {
    Child::new(compile::c("misuse.c")).arg(case).arg(function).freehold().run()
}

/// Each function that is passed the address reports it, with this to say of it, and aborts.
fn refused(case: &str, functions: &[&str], remark: &str) {
    for function in functions {
        let ended = misuse(case, function).aborted();
        let address = ended.value("address");
        let start = format!("freehold: {function}: {address} ");
        // A double free is told apart by its first words.
        let twice = format!("freehold: {function}: double free: {address}, ");
        let said = ended.err();
        ended.check(
            said.starts_with(&start) || said.starts_with(&twice),
            "the report was to name the function and the address",
        );
        ended.check(said.contains(remark), &format!("the report was to say {remark:?}"));
        ended.check(said.trim_end().ends_with("; aborting"), "the report was to be complete");
        ended.check(said.lines().count() == 1, "the report was to be one line");
        ended.check(!ended.out().contains("survived"), "it was to be refused at once");
    }
}

#[test]
fn an_address_on_the_stack_is_refused() {
    refused("stack", ALL, "it lies in the stack of the first thread");
}

#[test]
fn an_address_of_static_data_or_of_code_is_refused_with_the_name_of_its_file() {
    let program = compile::c("misuse.c");
    let remark = format!("it lies in {}", program.display());
    refused("data", ALL, &remark);
    refused("code", ALL, &remark);
}

#[test]
fn an_address_of_another_mapping_is_refused_even_if_it_cannot_be_read() {
    refused("mapping", ALL, "it lies in anonymous memory");
    refused("mapping_without_rights", ALL, "it lies in anonymous memory");
}

#[test]
fn a_number_that_is_no_address_is_refused() {
    refused("small_number", ALL, "nothing is mapped there");
    refused("not_an_address", ALL, "nothing is mapped there");
}

#[test]
fn an_address_inside_an_object_is_refused_with_the_objects_start() {
    for case in ["small", "medium", "large", "huge"] {
        let case = format!("inside_{case}");
        let object = |ended: &Ended| format!(" at {}: only", ended.value("object"));
        refused(&case, ALL, "bytes into the object of");
        let ended = misuse(&case, FREE).aborted();
        ended.check(ended.err().contains(&object(&ended)), "the object was to be named");
    }
}

#[test]
fn a_misaligned_address_is_refused() {
    refused("misaligned_small", ALL, " 1 bytes into the object of 112 bytes at ");
    refused("misaligned_large", ALL, " 8 bytes into the object of 1048576 bytes at ");
}

#[test]
fn memory_that_was_never_given_out_is_refused() {
    refused("never_given_out", ALL, "is not allocated");
}

#[test]
fn a_second_free_of_a_large_or_huge_object_is_refused_at_once() {
    refused("large_twice", ALL, "it was freed before");
    refused("huge_twice", ALL, "it was freed before");
}

#[test]
fn a_second_free_of_a_medium_object_is_refused_at_once() {
    refused("medium_twice", FREE_AND_REALLOC, "is free already");
}

#[test]
fn a_second_free_of_a_small_object_is_refused_at_once_among_a_threads_first_frees() {
    refused("small_twice", &[FREE], "in a slab of objects of 112 bytes of heap");
    refused("small_twice_interleaved", &[FREE], "is free already");
}

#[test]
fn a_free_where_no_object_of_the_slab_has_been_yet_is_refused() {
    refused("small_never_given_out", &[FREE], "is not allocated");
}

#[test]
fn an_object_of_no_bytes_cannot_be_written_to() {
    misuse("write_to_nothing", FREE).crashed();
}

#[test]
fn what_lies_before_the_first_object_cannot_be_written_to() {
    misuse("before_the_first", FREE).crashed();
    misuse("far_before_the_first", FREE).crashed();
}

#[test]
fn a_second_free_of_a_small_object_is_noticed_when_its_thread_ends() {
    let ended = misuse("small_twice_in_thread", FREE).aborted();
    let expected = format!("freehold: thread exit: double free: {}, ", ended.value("address"));
    ended.check(ended.err().starts_with(&expected), "the report was to name the object");
}

#[test]
fn second_frees_of_another_threads_small_objects_are_noticed_before_the_thread_is_gone() {
    let ended = misuse("small_twice_by_another_thread", FREE).aborted();
    ended.check(ended.err().starts_with("freehold: "), "there was to be a report");
    ended.check(!ended.out().contains("survived"), "it was to end before");
}

#[test]
fn what_malloc_finds_to_have_been_freed_twice_is_reported_as_it_makes_room() {
    let ended = misuse("small_twice_in_phases", FREE).aborted();
    ended.check(ended.err().starts_with("freehold: free: double free: "), "a report of a free");
    ended.check(!ended.out().contains("survived"), "before the program ends");
}

#[test]
fn a_medium_object_that_two_threads_have_at_hand_is_noticed_when_both_have_ended() {
    let ended = misuse("medium_twice_by_two_threads", FREE).aborted();
    let expected = format!("freehold: thread exit: double free: {}, ", ended.value("address"));
    ended.check(ended.err().starts_with(&expected), "the report was to name the object");
    ended.check(!ended.out().contains("survived"), "it was to end before");
}

/// Runs the program on random addresses.
fn fuzz(what: &str, count: u32) -> Ended {
    let seed = seed::any();
    Child::new(compile::c("misuse_fuzz.c"))
        .arg(what)
        .arg(count.to_string())
        .arg(seed.to_string())
        .freehold()
        .run()
        .succeeded()
}

#[test]
fn no_address_makes_malloc_usable_size_crash() {
    const COUNT: u32 = 300_000;
    let ended = fuzz("measure", COUNT);
    let (measured, refused) = (ended.number("measured"), ended.number("refused"));
    ended.check(measured + refused == u64::from(COUNT), "every address was to be asked for");
    ended.check(measured > 0 && refused > 0, "there were to be some of either kind");
}

#[test]
fn no_address_makes_free_crash_and_none_but_an_objects_start_is_accepted() {
    const COUNT: u32 = 1_000;
    let ended = fuzz("free", COUNT);
    ended.check(ended.number("refused") == u64::from(COUNT), "every address was to be refused");
}
