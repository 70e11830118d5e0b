//! H14: the end of memory, under limits on address space (`ulimit -v`) and on data (`ulimit -d`).

use std::ffi::OsString;

use crate::support::child::{Child, Ended};
use crate::support::{compile, library};

#[derive(Clone, Copy)]
enum Limit {
    AddressSpace,
    Data,
}

/// Runs a case of the program under a limit, which is set in the shell that becomes the program.
fn limits(case: &str, limit: Limit, mebibytes: u32) -> Ended {
    limits_in_mode(case, limit, mebibytes, "0")
}

fn limits_in_mode(case: &str, limit: Limit, mebibytes: u32, hardened: &str) -> Ended {
    let program = [compile::c("limits.c").into_os_string(), case.into()];
    run_under(limit, mebibytes, hardened, &program)
}

/// The same on a kernel that has no guard markers, as if it were older than 6.13.
fn limits_without_markers(case: &str, limit: Limit, mebibytes: u32, hardened: &str) -> Ended {
    let program = [compile::c("limits.c").into_os_string(), case.into()];
    run_under(limit, mebibytes, hardened, &[&without_markers(), &program[..]].concat())
}

/// The words that make a program run where the kernel knows no guard markers.
pub(crate) fn without_markers() -> Vec<OsString> {
    const EINVAL: i32 = 22;
    const MADV_GUARD_INSTALL: i32 = 102;
    let advice = format!("{}:{MADV_GUARD_INSTALL}", libc::SYS_madvise);
    vec![compile::c("refuse.c").into(), EINVAL.to_string().into(), advice.into()]
}

fn run_under(limit: Limit, mebibytes: u32, hardened: &str, words: &[OsString]) -> Ended {
    let option = match limit {
        Limit::AddressSpace => "v",
        Limit::Data => "d",
    };
    let script = format!("ulimit -{option} {} && LD_PRELOAD=$0 exec \"$@\"", mebibytes * 1024);
    Child::new("sh")
        .args(["-c", &script])
        .arg(library::shared())
        .args(words)
        .env("FREEHOLD_HARDEN", hardened)
        .run()
        .succeeded()
}

fn under_both_limits(case: &str) {
    for mebibytes in [16, 64, 512] {
        limits(case, Limit::AddressSpace, mebibytes);
        limits(case, Limit::Data, mebibytes);
    }
}

/// The cases once more in hardened mode.
pub(crate) fn are_kept_in_hardened_mode() {
    for case in ["small", "medium", "mebibytes", "one_size_after_another", "threads"] {
        limits_in_mode(case, Limit::AddressSpace, 16, "1");
        limits_in_mode(case, Limit::AddressSpace, 64, "1");
        limits_in_mode(case, Limit::Data, 64, "1");
    }
    for mebibytes in 5..32 {
        let ended = limits_in_mode("hardly_anything", Limit::AddressSpace, mebibytes, "1");
        ended.check(ended.number("blocks") >= 10, "small sizes were to be had");
    }
    // Where not even the tables fit, the least is that nothing aborts.
    for mebibytes in 1..5 {
        limits_in_mode("hardly_anything", Limit::Data, mebibytes, "1");
    }
}

/// 64 threads and their stacks have room beside the allocator.
fn many_threads_have_room(hardened: &str) {
    limits_in_mode("many_threads", Limit::AddressSpace, 512, hardened);
}

#[test]
fn under_a_limit_of_512_mib_there_is_room_for_300_threads() {
    many_threads_have_room("0");
    many_threads_have_room("1");
}

#[test]
fn small_objects_fail_with_enomem_at_a_limit_and_can_be_had_again() {
    under_both_limits("small");
}

#[test]
fn medium_objects_fail_with_enomem_at_a_limit_and_can_be_had_again() {
    under_both_limits("medium");
}

#[test]
fn large_objects_fail_with_enomem_at_a_limit_and_can_be_had_again() {
    under_both_limits("mebibytes");
}

#[test]
fn what_one_size_has_taken_up_another_can_have_after_it() {
    under_both_limits("one_size_after_another");
}

#[test]
fn threads_that_take_all_memory_from_each_other_leave_it_usable() {
    under_both_limits("threads");
}

#[test]
fn buffers_grow_after_the_program_has_allowed_itself_less_address_space_than_it_has() {
    // As much as nobody needs, to begin with.
    limits("own_limit", Limit::AddressSpace, 3 << 20).succeeded();
}

#[test]
fn a_small_address_space_is_used_as_far_as_it_goes() {
    for mebibytes in 4..32 {
        let ended = limits("hardly_anything", Limit::AddressSpace, mebibytes);
        ended.check(ended.number("blocks") >= 10, "small sizes were to be had");
    }
}

#[test]
fn a_small_limit_on_data_is_used_as_far_as_it_goes() {
    for mebibytes in 5..32 {
        let ended = limits("hardly_anything", Limit::Data, mebibytes);
        ended.check(ended.number("blocks") >= 10, "small sizes were to be had");
    }
    // Where not even the tables fit, the least is that nothing aborts.
    for mebibytes in 1..5 {
        limits("hardly_anything", Limit::Data, mebibytes);
    }
}

#[test]
fn where_rights_are_taken_by_dividing_mappings_memory_ends_with_enomem_and_can_be_had_again() {
    for hardened in ["0", "1"] {
        for case in ["small", "medium", "mebibytes", "one_size_after_another", "threads"] {
            limits_without_markers(case, Limit::AddressSpace, 64, hardened);
            limits_without_markers(case, Limit::Data, 64, hardened);
        }
    }
}
