//! H1, H23: forks of processes whose threads are busy in malloc and free, and of daemons.
//!
//! `FREEHOLD_FORKS` is how often a crowd of a thousand threads forks: once each, unless it is set.

use std::time::Duration;
use std::{env, fs};

use crate::support::child::{Child, Ended};
use crate::support::{compile, library, tools};

/// How long a fork of a process of a thousand threads may take on a busy machine.
const PATIENCE: Duration = Duration::from_millis(500);

fn fork_busy(threads: u32, forks: u32) -> Child {
    Child::new(compile::c("fork_busy.c")).arg(threads.to_string()).arg(forks.to_string())
}

#[test]
fn children_and_grandchildren_of_a_busy_process_can_allocate_and_free_what_they_inherit() {
    fork_busy(8, 100).freehold().run().succeeded();
}

#[test]
fn a_process_of_256_threads_can_fork() {
    fork_busy(256, 5).freehold().run().succeeded();
}

#[test]
fn fork_handlers_registered_before_or_after_ours_may_allocate() {
    let (handlers, freehold) = (compile::c_library("fork_handlers.c"), library::shared());
    for harden in ["0", "1"] {
        let busy = || fork_busy(4, 30).env("FREEHOLD_HARDEN", harden);
        busy().preload(&handlers).preload(freehold).run().succeeded();
        busy().preload(freehold).preload(&handlers).run().succeeded();
    }
}

#[test]
fn a_fork_in_the_middle_of_the_first_allocation_leaves_both_processes_whole() {
    let ended = Child::new(compile::c("threads.c"))
        .preload(&compile::c_library("fork_first.c"))
        .freehold()
        .run()
        .succeeded();
    ended.check(ended.value("forked") == "1", "the fork was to happen inside the set-up");
}

#[test]
fn a_fork_does_not_wait_for_a_flush_that_waits_for_a_thread_that_allocates() {
    for (name, value) in
        [("FREEHOLD_HARDEN", "0"), ("FREEHOLD_HARDEN", "1"), ("FREEHOLD_DEBUG", "on")]
    {
        Child::new(compile::c("fork_streams.c")).env(name, value).freehold().run().succeeded();
    }
}

#[test]
fn a_fork_does_not_wait_for_who_waits_for_a_thread_that_has_the_loaders_lock_and_opens_a_stream() {
    for (name, value) in [("FREEHOLD_DEBUG", "audit"), ("FREEHOLD_GUARD", "1")] {
        Child::new(compile::c("fork_loader.c")).env(name, value).freehold().run().succeeded();
    }
}

#[test]
fn a_busy_process_can_spawn_vfork_and_call_the_shell() {
    Child::new(compile::c("spawn.c")).arg("20").freehold().run().succeeded();
}

#[test]
fn all_of_1000_threads_can_fork_at_once() {
    const THREADS: u32 = 1000;
    let forks = env::var("FREEHOLD_FORKS").map_or(THREADS, |text| {
        text.parse().unwrap_or_else(|_| panic!("FREEHOLD_FORKS={text} is not a number"))
    });
    Child::new(compile::c("fork_crowd.c"))
        .args([THREADS, forks].map(|it| it.to_string()))
        .freehold()
        .within(PATIENCE * forks)
        .run()
        .succeeded();
}

#[test]
fn a_daemon_has_no_thread_that_it_did_not_start() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file");
    // The pipes of a daemon end with it, and so this waits for it.
    Child::new(compile::c("daemon.c")).arg(&file).freehold().run().succeeded();
    assert_eq!(fs::read_to_string(file).ok().as_deref(), Some("done"));
}

/// A process that forks before instructions of the library to which one of its threads comes.
fn fork_anywhere(case: &str, seconds: &str, harden: &str) -> Ended {
    Child::new(compile::c("fork_anywhere.c"))
        .args([case, seconds])
        // Who starts it blocks all signals, and the trap is one.
        .env("FREEHOLD_BACKGROUND", "0")
        .env("FREEHOLD_HARDEN", harden)
        .freehold()
        .run()
        .succeeded()
}

/// Fails unless children go on that are forked before the instructions of a thread in this case.
fn children_go_on(case: &str) {
    const FEWEST: u64 = 100;
    if !cfg!(target_arch = "x86_64") {
        return tools::skip("only on x86-64 a program can stop itself before each instruction");
    }
    for (harden, seconds) in [("0", "3"), ("1", "1")] {
        let ended = fork_anywhere(case, seconds, harden);
        let (places, forks) = (ended.number("places"), ended.number("forks"));
        tools::say(&format!("{forks} forks, {places} of them before instructions of the library"));
        ended.check(places > FEWEST, "there were to be many forks");
    }
}

mod the_child_of_a_fork_before_any_instruction_of_another_thread_goes_on {
    use super::children_go_on;

    #[test]
    fn where_small_objects_come_and_go() {
        children_go_on("small");
    }

    #[test]
    fn where_medium_objects_come_and_go() {
        children_go_on("medium");
    }

    #[test]
    fn where_runs_come_and_go() {
        children_go_on("runs");
    }

    #[test]
    fn where_small_objects_are_handed_over() {
        children_go_on("small_handed_over");
    }

    #[test]
    fn where_larger_objects_are_handed_over() {
        children_go_on("large_handed_over");
    }

    #[test]
    fn where_many_objects_come_and_all_go() {
        children_go_on("phases");
    }

    #[test]
    fn where_objects_are_resized_aligned_zeroed_and_memory_is_trimmed() {
        children_go_on("resized");
    }

    #[test]
    fn where_the_thread_allocates_for_the_first_time() {
        children_go_on("thread_begins");
    }

    #[test]
    fn where_the_thread_ends() {
        children_go_on("thread_ends");
    }
}
