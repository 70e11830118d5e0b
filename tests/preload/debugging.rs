//! Debugging mode: each option finds what it is for and says so, and programs without mistakes run
//! unharmed.

use crate::support::calls::Report;
use crate::support::child::{Child, Ended};
use crate::support::{compile, library, tools};

fn debugged(case: &str, options: &str) -> Ended {
    let program = Child::new(compile::c("debugging.c")).arg(case);
    program.env("FREEHOLD_DEBUG", options).freehold().run()
}

#[test]
fn a_write_beside_an_object_is_reported_when_it_is_freed() {
    let ended = debugged("overflow", "default").aborted();
    let words = format!(
        "freehold: free: overflow: up to 1 byte behind the object of 100 bytes at {} written to",
        ended.value("object")
    );
    Report::of(&ended)
        .says(&words)
        .shows("this free", &["free_it", "overflow"])
        .shows("allocated by", &["allocate_it", "object_of", "overflow"]);
    let ended = debugged("underflow", "audit,guards").aborted();
    Report::of(&ended).says("underflow: up to 3 bytes before the object of 100 bytes");
    let ended = debugged("overflow_and_resize", "default").aborted();
    Report::of(&ended)
        .says("overflow: up to 8 bytes behind the object of 100 bytes")
        .shows("this free", &["overflow_and_resize"]);
}

#[test]
fn a_second_free_is_reported_with_the_first() {
    let ended = debugged("free_twice", "audit").aborted();
    Report::of(&ended)
        .says("freehold: free: double free: ")
        .shows("this free", &["free_it", "free_twice"])
        .shows("allocated by", &["allocate_it", "object_of"])
        .shows("freed by", &["free_it", "free_twice"]);
}

#[test]
fn a_report_waits_for_a_thread_that_has_the_loaders_lock_and_allocates() {
    let ended = debugged("free_twice_beside_the_loader", "guards").aborted();
    Report::of(&ended)
        .says("freehold: free: double free: ")
        .shows("this free", &["free_it", "free_twice_beside_the_loader"]);
}

#[test]
fn an_address_that_is_no_object_in_use_is_reported() {
    let ended = debugged("free_inside", "default").aborted();
    Report::of(&ended)
        .says(" is 16 bytes into the object of 100 bytes")
        .shows("allocated by", &["allocate_it", "object_of", "free_inside"]);
    for (case, function) in
        [("measure_after_free", "malloc_usable_size"), ("resize_after_free", "realloc")]
    {
        let ended = debugged(case, "default").aborted();
        Report::of(&ended)
            .says(&format!("freehold: {function}: use after free: "))
            .shows("freed by", &["free_it", case]);
    }
}

#[test]
fn a_write_to_freed_memory_is_reported_before_the_memory_is_used_again() {
    let ended = debugged("write_after_free", "default").aborted();
    let object = ended.value("object");
    Report::of(&ended)
        .says("freehold: free: write after free: 24 bytes into the object of 100 bytes")
        .says(&object)
        .shows("allocated by", &["allocate_it"])
        .shows("freed by", &["free_it", "write_after_free"]);
    let ended = debugged("write_after_free_and_trim", "patterns").aborted();
    Report::of(&ended).says("freehold: malloc_trim: write after free: 0 bytes into the object");
}

#[test]
fn without_an_option_its_mistake_is_not_found() {
    debugged("overflow", "audit,patterns").succeeded();
    debugged("write_after_free", "audit,guards").succeeded();
}

#[test]
fn a_firewall_ends_accesses_behind_objects_and_to_freed_ones() {
    let ended = debugged("behind_a_firewall", "firewall=5000").crashed();
    ended.check(ended.number("aligned") == 1, "the object was to be aligned");
    debugged("freed_behind_a_firewall", "firewall=4096").crashed();
    debugged("freed_behind_a_firewall", "firewall=5001,audit").succeeded();
}

#[test]
fn memory_is_filled_with_the_words_that_are_promised() {
    debugged("patterns", "default").succeeded();
}

#[test]
fn what_is_to_be_zero_is_and_memory_that_is_zero_already_is_not_written_to() {
    for options in ["audit", "guards", "firewall=4096", "firewall=1000,guards"] {
        debugged("cleared", options).succeeded();
    }
}

#[test]
fn a_check_finds_what_is_damaged() {
    let ended = debugged("check", "default").succeeded();
    ended.check(ended.value("before") == "0", "there was to be nothing yet");
    ended.check(ended.value("after") == "2", "both were to be found");
    let said = ended.err();
    for words in ["freehold: check: overflow: up to 1 byte ", "write after free: 5 bytes into"] {
        ended.check(said.contains(words), words);
    }
    let ended = Child::new(compile::c("debugging.c")).arg("check").freehold().run().succeeded();
    ended.check(ended.value("after") == "-1", "without the mode nothing can be looked at");
}

#[test]
fn a_signal_asks_for_a_check() {
    let ended = debugged("check_by_signal", "default,check=10").succeeded();
    ended.check(ended.err().contains("freehold: check: 1 found"), "it was to be made");
    Report::of(&ended).says("freehold: check: overflow: ").shows("allocated by", &["allocate_it"]);
}

#[test]
fn about_one_in_so_many_allocations_fails_the_same_ones_for_a_seed() {
    let run = |options: &str| {
        let ended = debugged("failures", options).succeeded();
        (ended.number("failed"), ended.value("which"))
    };
    let (failed, which) = run("mtbf=100,seed=5");
    assert!((50..200).contains(&failed), "{failed} of 10000");
    assert_eq!(run("mtbf=100,seed=5").1, which);
    assert_ne!(run("mtbf=100,seed=6").1, which);
    assert_eq!(run("audit").0, 0);
}

#[test]
fn what_is_still_allocated_is_listed_by_who_allocated_it() {
    let ended = debugged("leaks", "audit,leaks").succeeded();
    Report::of(&ended)
        .says(" still allocated, reachable or not ")
        .shows("7000 bytes in 7 objects allocated", &["allocate_it", "lose", "leaks"]);
    ended.check(!ended.err().contains("5000 bytes"), "what was freed was not to be listed");
}

#[test]
fn what_there_is_and_what_there_is_not_is_said() {
    let ended = debugged("good_use", "help").succeeded();
    for option in ["audit", "patterns", "guards", "firewall=N", "mtbf=N", "leaks", "check=N"] {
        ended.check(ended.err().contains(&format!("  {option} ")), option);
    }
    let ended = debugged("good_use", "audit,gaurds").succeeded();
    ended.check(
        ended.err().contains("FREEHOLD_DEBUG is ignored, since \"gaurds\" in it is none of"),
        "the word was to be named",
    );
}

#[test]
fn under_a_limit_on_address_space_records_leave_most_of_it_to_the_program() {
    for mebibytes in [500_u64, 3000] {
        let script = format!("ulimit -v {} && LD_PRELOAD=$0 exec \"$@\"", mebibytes * 1024);
        let ended = Child::new("sh")
            .args(["-c", &script])
            .arg(library::shared())
            .arg(compile::c("debugging.c"))
            .arg("room")
            .env("FREEHOLD_DEBUG", "default")
            .run()
            .succeeded();
        ended.check(ended.number("mebibytes") > mebibytes / 4, "there was to be room");
    }
}

#[test]
fn programs_without_mistakes_run_unharmed() {
    for options in ["default", "firewall=8000", "audit", "default,firewall=1,check=10"] {
        let ended = debugged("good_use", options).succeeded();
        ended.check(ended.err().is_empty(), "there was nothing to be said");
        let program = Child::new(compile::c("libc_results.c")).env("FREEHOLD_DEBUG", options);
        program.freehold().run().succeeded();
    }
}

#[test]
fn python_runs_unharmed() {
    let Some(python) = tools::find("python3") else { return };
    let script = "import json, subprocess\n\
        data = [{str(i): [i] * (i % 50)} for i in range(2000)]\n\
        assert json.loads(json.dumps(data)) == data\n\
        subprocess.run(['true'], check=True)\n\
        print('done')\n";
    let ended = Child::new(python)
        .args(["-c", script])
        .env("PYTHONMALLOC", "malloc")
        .env("FREEHOLD_DEBUG", "default")
        .freehold()
        .run()
        .succeeded();
    ended.check(ended.out() == "done\n" && ended.err().is_empty(), "it was to do its work");
}
