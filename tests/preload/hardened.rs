//! Hardened mode (`FREEHOLD_HARDEN=1`): what it finds, and that programs which do nothing wrong
//! run under it as ever.

use std::time::Duration;

use crate::limits;
use crate::support::child::{Child, Ended};
use crate::support::compile;

/// Bytes of objects: the smallest, such as fill their slot and such as do not, small and medium
/// ones.
const SIZES: &[u32] = &[1, 8, 20, 24, 100, 1016, 1017, 4096, 20_000];

/// Objects that have pages of their own, and end with the last of them or before.
const LARGE: &[u32] = &[40_000, 65_536, 300_000, 2_000_000];

/// Those of them that are cleared when they are freed, up to 128 KiB.
const CLEARED: &[u32] = &[40_000, 65_536, 131_072];

/// Those that become inaccessible.
const INACCESSIBLE: &[u32] = &[131_073, 300_000, 2_000_000];

fn hardened(case: &str, size: u32) -> Ended {
    Child::new(compile::c("hardened.c"))
        .args([case, &size.to_string()])
        .env("FREEHOLD_HARDEN", "1")
        .freehold()
        .run()
}

/// The case is ended by a report by `function`, which begins with these words and names the object.
fn reported(case: &str, function: &str, words: &str, sizes: &[u32]) {
    for &size in sizes {
        let ended = hardened(case, size).aborted();
        let said = ended.err();
        let start = format!("freehold: {function}: {words}");
        ended.check(said.starts_with(&start), &format!("{size} bytes: it was to say {start:?}"));
        ended.check(said.contains(&ended.value("address")), "the object was to be named");
        ended.check(said.lines().count() == 1, "the report was to be one line");
    }
}

#[test]
fn a_write_behind_an_object_is_reported_when_it_is_freed_or_resized() {
    reported("one_byte_after", "free", "overflow: ", SIZES);
    reported("one_zero_after", "free", "overflow: ", SIZES);
    reported("one_byte_after_realloc", "realloc", "overflow: ", SIZES);
    reported("far_after", "free", "overflow: ", &[4096, 20_000, 40_000]);
    reported("one_byte_after", "free", "overflow: ", &[40_000, 300_000]);
}

#[test]
fn a_write_behind_the_last_object_is_reported_at_the_next_malloc_of_a_process_of_one_thread() {
    reported("after_the_last", "malloc", "overflow: ", SIZES);
}

#[test]
fn a_write_behind_the_pages_of_a_large_object_crashes() {
    hardened("one_byte_after", 65_536).crashed();
    hardened("far_after", 65_536).crashed();
}

#[test]
fn a_write_before_an_object_is_reported_when_it_is_freed() {
    for &size in SIZES {
        let ended = hardened("one_byte_before", size).aborted();
        // It is the one before in the slab that was run over.
        ended.check(ended.err().starts_with("freehold: free: underflow"), "it was to be reported");
    }
}

#[test]
fn a_second_free_is_reported_at_once() {
    let all = [SIZES, LARGE].concat();
    reported("twice", "free", "double free: ", &all);
    reported("twice_by_realloc", "realloc", "double free: ", &all);
    reported("asked_for_its_size_when_free", "malloc_usable_size", "double free: ", &all);
}

#[test]
fn a_second_free_is_reported_long_after_the_first_and_when_its_thread_is_gone() {
    for &size in &[SIZES, LARGE].concat() {
        for case in ["twice_later", "twice_in_two_threads"] {
            let ended = hardened(case, size).aborted();
            let said = ended.err();
            // A slab may have been released with the last of its objects.
            let known = said.contains("double free: ") || said.contains("is not allocated");
            ended.check(known && said.contains(&ended.value("address")), "it was to be reported");
        }
    }
}

#[test]
fn a_write_to_freed_memory_is_reported_when_the_memory_is_used_again() {
    reported("written_when_free", "malloc", "use after free: ", SIZES);
    // The free of another one has no room for this one any longer.
    reported("written_when_free", "free", "use after free: ", CLEARED);
    reported("written_when_free_and_used_again", "malloc", "use after free: ", CLEARED);
}

#[test]
fn the_largest_objects_cannot_be_touched_once_they_are_freed() {
    for &size in INACCESSIBLE {
        hardened("written_when_free", size).crashed();
        hardened("read_when_free", size).crashed();
    }
}

#[test]
fn what_freed_large_objects_keep_is_bounded_for_all_threads_together() {
    // Each of 16 threads frees half a mebibyte, and may keep twice as much by itself.
    let ended = hardened("kept_by_all", 120_000).succeeded();
    let grown = ended.number("grown");
    ended.check(grown >= 1 << 20, "some of it was to be kept");
    ended
        .check(grown <= 7 << 19, "no more than 1.5 MiB of it were to be kept, beside other things");
}

#[test]
fn what_threads_have_kept_that_a_forked_child_has_not_leaves_room_for_what_it_frees() {
    let ended = hardened("kept_in_child", 60_000).succeeded();
    ended.check(ended.number("faults") < 500, "not each object was to be new memory");
}

#[test]
fn memory_is_clear_when_it_was_freed_and_when_it_is_given_out() {
    for &size in &[SIZES, CLEARED].concat() {
        hardened("cleared", size).succeeded();
    }
    for &size in &[SIZES, LARGE].concat() {
        hardened("clear_at_first", size).succeeded();
    }
}

#[test]
fn freed_memory_is_not_given_out_by_the_next_malloc() {
    for &size in &[SIZES, LARGE].concat() {
        hardened("not_reused_at_once", size).succeeded();
    }
}

#[test]
fn objects_are_given_out_in_another_order_in_every_run() {
    let (a, b) = (hardened("order", 100).succeeded(), hardened("order", 100).succeeded());
    a.check(a.out() != b.out(), "two runs were to differ");
    a.check(a.number("same") < 100, "what comes next was not to be foreseen");
}

#[test]
fn what_stands_behind_objects_differs_from_run_to_run_and_from_place_to_place() {
    let (a, b) = (hardened("secrets", 24).succeeded(), hardened("secrets", 24).succeeded());
    let mut words: Vec<_> = a.out().split_whitespace().map(str::to_owned).collect();
    words.extend(b.out().split_whitespace().map(str::to_owned));
    words.sort_unstable();
    words.dedup();
    a.check(words.len() == 16, "16 words were to be different");
}

#[test]
fn an_object_has_as_many_bytes_as_were_asked_for_however_it_was_made() {
    hardened("all_usable", 0).succeeded();
}

#[test]
fn the_setting_is_on_or_off_and_what_is_neither_is_named_and_ignored() {
    let secrets = |value: &str| {
        Child::new(compile::c("hardened.c"))
            .args(["secrets", "24"])
            .env("FREEHOLD_HARDEN", value)
            .freehold()
            .run()
            .succeeded()
    };
    let named = "freehold: FREEHOLD_HARDEN is neither 0 nor 1, and is ignored\n";
    for (value, is_on, said) in
        [("on", true, ""), ("off", false, ""), ("", false, ""), ("yes", false, named)]
    {
        let ended = secrets(value);
        ended.check(ended.err() == said, "what is said is to depend on the value");
        let nothing_behind = ended.out().starts_with("0 0 ");
        ended.check(nothing_behind != is_on, "what stands behind objects is to depend on it");
    }
}

#[test]
fn threads_forks_and_signals_work() {
    let run = |program: &str, arguments: &[&str]| {
        Child::new(compile::c(program))
            .args(arguments)
            .env("FREEHOLD_HARDEN", "1")
            .freehold()
            .run()
            .succeeded();
    };
    run("fork_busy.c", &["8", "50"]);
    run("threads.c", &[]);
    run("spawn.c", &["5"]);
    run("libc_results.c", &[]);
}

#[test]
fn stress_with_8_threads() {
    const SECONDS: u64 = 3;
    let ended = Child::new(env!("CARGO_BIN_EXE_freehold-stress"))
        .args([8, SECONDS, 1].map(|it| it.to_string()))
        .env("FREEHOLD_HARDEN", "1")
        .freehold()
        .within(Duration::from_secs(SECONDS) + Duration::from_secs(120))
        .run()
        .succeeded();
    for done in ["operations", "forks", "freed elsewhere", "resized"] {
        ended.check(ended.number(done) > 0, &format!("{done} was not to be 0"));
    }
}

/// In hardened mode, on a kernel that has no guard markers.
fn hardened_without_markers(case: &str) -> Ended {
    let words = limits::without_markers();
    Child::new(&words[0])
        .args(&words[1..])
        .arg(compile::c("hardened.c"))
        .arg(case)
        .env("FREEHOLD_HARDEN", "1")
        .freehold()
        .run()
}

#[test]
fn what_has_no_bytes_is_freed_where_no_more_pages_can_be_made_inaccessible() {
    hardened("of_no_bytes", 24).succeeded();
    hardened_without_markers("of_no_bytes").succeeded();
}

#[test]
fn a_write_to_a_large_object_that_was_freed_crashes_however_many_have_come_and_gone() {
    hardened("after_many_others", 24).crashed();
    hardened_without_markers("after_many_others").crashed();
}
