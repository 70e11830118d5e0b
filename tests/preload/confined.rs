//! H24, H27, H28, H34, H35: processes that may do little: sandboxes, no `/proc`, locked memory, few
//! processors, and kernels that do not know every system call.

use std::path::Path;

use crate::support::child::{Child, Ended};
use crate::support::{compile, library, tools};

fn confined(case: &str) -> Ended {
    Child::new(compile::c("confined.c")).arg(case).freehold().run().succeeded()
}

const EPERM: u32 = 1;
const ENOMEM: u32 = 12;
const EINVAL: u32 = 22;
const ENOSYS: u32 = 38;

#[test]
fn a_user_namespace_can_be_entered_because_there_is_no_thread_but_the_programs() {
    // Whether this system lets anybody do so at all.
    let Some(unshare) = tools::find("unshare") else { return };
    if !Child::new(unshare).args(["--user", "true"]).run().status.success() {
        return tools::skip("this system lets nobody enter a user namespace");
    }
    let ended = confined("user_namespace");
    ended.check(ended.number("error") == 0, "the namespace was to be entered");
}

#[test]
fn a_filter_that_leaves_memory_and_locks_to_the_process_does_not_stop_malloc() {
    let ended = confined("few_calls");
    ended.check(ended.out() == "done\n", "no other call was to be made");
}

#[test]
fn small_blocks_that_are_at_hand_are_had_without_any_system_call() {
    let ended = confined("strict");
    ended.check(ended.out() == "done\n", "no call was to be made");
}

#[test]
fn a_process_whose_memory_is_locked_holds_no_more_of_it_than_it_uses() {
    let ended = confined("locked");
    match ended.number("error") as u32 {
        0 => {
            let resident = ended.number("resident");
            ended.check(resident < 128 << 20, "what is reserved was not to become resident");
        }
        // Without the capability the whole reservation counts against the limit.
        EPERM | ENOMEM => tools::skip("this user may not lock memory without a limit"),
        error => ended.check(false, &format!("error {error} was not expected")),
    }
}

/// But for what is made usable ahead of what is in use, which the kernel makes resident at once.
#[test]
fn what_a_process_whose_memory_is_locked_has_freed_goes_back() {
    for hardened in ["0", "1"] {
        let program = Child::new(compile::c("confined.c")).arg("locked_and_freed");
        let ended = program.env("FREEHOLD_HARDEN", hardened).freehold().run().succeeded();
        if ended.number("error") != 0 {
            return tools::skip("this user may not lock memory without a limit");
        }
        if ended.number("advice") != 0 {
            return tools::skip("before Linux 5.18 locked memory cannot be given back");
        }
        let (full, freed) = (ended.number("full"), ended.number("freed"));
        tools::say(&format!("{full} bytes, then {freed}"));
        ended.check(freed < full / 2, "what was freed was to go back");
    }
}

#[test]
fn without_proc_everything_works() {
    let Some(unshare) = tools::find("unshare") else { return };
    let hidden = |program: &Path, arguments: &[&str]| {
        let script = "mount -t tmpfs none /proc && LD_PRELOAD=$0 exec \"$@\"";
        Child::new(&unshare)
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
            .arg(library::shared())
            .arg(program)
            .args(arguments)
            .run()
    };
    if !hidden(Path::new("true"), &[]).status.success() {
        return tools::skip("this system lets nobody hide /proc");
    }
    hidden(&compile::c("threads.c"), &[]).succeeded();
    hidden(&compile::c("fork_busy.c"), &["4", "5"]).succeeded();
    let refused = hidden(&compile::c("misuse.c"), &["data", "free"]).aborted();
    refused.check(refused.err().contains("freehold"), "the reason was to be said");
}

#[test]
fn a_process_bound_to_the_last_processor_is_served() {
    let Some(taskset) = tools::find("taskset") else { return };
    let last = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) - 1;
    let bound = |program: &str| {
        Child::new(&taskset).args(["--cpu-list", &last.to_string()]).arg(compile::c(program))
    };
    bound("threads.c").freehold().run().succeeded();
}

/// Runs the stress test's small relative where the kernel refuses a call with an error.
fn refused(call: i64, error: u32) {
    Child::new(compile::c("refuse.c"))
        .args([error.to_string(), call.to_string()])
        .arg(compile::c("fork_busy.c"))
        .args(["8", "10"])
        .freehold()
        .run()
        .succeeded();
}

#[test]
fn a_kernel_that_refuses_advice_about_memory_is_done_without() {
    for error in [EINVAL, ENOSYS, EPERM] {
        refused(libc::SYS_madvise, error);
    }
}

#[test]
fn a_kernel_that_refuses_to_move_memory_is_done_without() {
    for error in [EINVAL, ENOSYS, ENOMEM] {
        refused(libc::SYS_mremap, error);
    }
}

#[test]
fn a_kernel_that_tells_no_limits_and_no_processors_is_done_without() {
    for error in [EINVAL, ENOSYS, EPERM] {
        refused(libc::SYS_prlimit64, error);
        refused(libc::SYS_sched_getaffinity, error);
    }
}
