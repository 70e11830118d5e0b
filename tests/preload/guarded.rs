//! Sampled guarding: each kind of misuse of a guarded object is found and explained, and programs
//! without mistakes run unharmed.

use crate::support::calls::Report;
use crate::support::child::{Child, Ended};
use crate::support::{compile, tools};

/// Runs a case of the program with every object that comes to the slow path guarded.
fn guarded(case: &str, size: usize) -> Ended {
    let program = Child::new(compile::c("guarded.c")).arg(case).arg(size.to_string());
    program.env("FREEHOLD_GUARD", "1").freehold().run()
}

#[test]
fn a_use_after_free_is_reported_with_all_three_stacks() {
    let ended = guarded("write_after_free", 96).crashed();
    let (object, thread) = (ended.value("object"), ended.value("thread"));
    let what = format!(
        "freehold: use after free: write: {object} is the start of the object of 96 bytes at \
         {object} "
    );
    Report::of(&ended)
        .says(&what)
        .shows("this write", &["write_to_it", "write_after_free"])
        .shows(&format!("allocated by thread {thread}"), &["allocate_it", "object_at"])
        .shows(&format!("freed by thread {thread}"), &["free_it", "write_after_free"]);
    let ended = guarded("read_after_free", 5000).crashed();
    Report::of(&ended)
        .says("freehold: use after free: read: ")
        .says(" is 2500 bytes into the object of 5000 bytes at ")
        .shows("this read", &["read_it", "read_after_free"])
        .shows("freed by", &["free_it", "read_after_free"]);
}

#[test]
fn the_threads_that_allocated_and_freed_are_named() {
    let ended = guarded("use_of_what_another_thread_freed", 48).crashed();
    let (thread, freer) = (ended.value("thread"), ended.value("freer"));
    ended.check(thread != freer, "they were to be different");
    Report::of(&ended)
        .says(" is 1 byte into the object of 48 bytes at ")
        .says(&format!(", thread {thread})"))
        .shows(&format!("allocated by thread {thread}"), &["allocate_it"])
        .shows(&format!("freed by thread {freer}"), &["free_it", "free_in_thread"]);
}

#[test]
fn an_overflow_is_reported_with_its_distance() {
    for size in [16, 96, 4096, 32768] {
        let ended = guarded("overflow", size).crashed();
        let object = ended.value("object");
        let words = format!(" is just behind the object of {size} bytes at {object}");
        Report::of(&ended)
            .says("freehold: overflow: write: ")
            .says(&words)
            .shows("this write", &["write_to_it", "overflow"])
            .shows("allocated by", &["allocate_it", "object_at", "overflow"]);
    }
    let ended = guarded("overflow_by_some", 96).crashed();
    Report::of(&ended)
        .says("freehold: overflow: read: ")
        .says(" is 47 bytes behind the object of 96 bytes");
}

#[test]
fn an_underflow_is_reported_with_its_distance() {
    for size in [1, 100, 5000] {
        let ended = guarded("underflow", size).crashed();
        Report::of(&ended)
            .says("freehold: underflow: write: ")
            .says(&format!(" is 1 byte before the object of {size} byte"))
            .shows("this write", &["write_to_it", "underflow"]);
    }
    let ended = guarded("underflow_by_some", 100).crashed();
    Report::of(&ended).says(" is 24 bytes before the object of 100 bytes");
}

#[test]
fn what_was_written_beside_an_object_is_reported_when_it_is_freed() {
    let ended = guarded("small_overflow", 100).aborted();
    Report::of(&ended)
        .says("freehold: free: overflow: up to 4 bytes behind the object of 100 bytes at ")
        .shows("this free", &["free_it", "small_overflow"])
        .shows("allocated by", &["allocate_it"]);
    let ended = guarded("small_underflow", 100).aborted();
    Report::of(&ended).says("freehold: free: underflow: up to 5 bytes before the object of 100 ");
}

#[test]
fn a_second_free_is_reported_with_the_first() {
    let ended = guarded("free_twice", 96).aborted();
    let object = ended.value("object");
    let words = format!("freehold: free: double free: {object} is the start of the object of 96 ");
    Report::of(&ended)
        .says(&words)
        .shows("this free", &["free_it", "free_twice"])
        .shows("allocated by", &["allocate_it"])
        .shows("freed by", &["free_it", "free_twice"]);
}

#[test]
fn an_address_that_is_not_the_objects_is_reported() {
    let ended = guarded("free_inside", 96).aborted();
    Report::of(&ended)
        .says(" is 32 bytes into the object of 96 bytes at ")
        .shows("this free", &["free_it", "free_inside"]);
    for (case, function) in
        [("resize_after_free", "realloc"), ("measure_after_free", "malloc_usable_size")]
    {
        let ended = guarded(case, 96).aborted();
        Report::of(&ended)
            .says(&format!("freehold: {function}: use after free: "))
            .shows("freed by", &["free_it", case]);
    }
}

#[test]
fn misuse_in_the_child_of_a_fork_is_reported_and_leaves_the_parent_alone() {
    let ended = guarded("use_after_free_in_child", 96).succeeded();
    Report::of(&ended).says("freehold: use after free: write: ").shows("freed by", &["free_it"]);
}

#[test]
fn misuse_in_the_child_of_a_process_that_was_about_to_report_is_reported() {
    let ended = guarded("use_after_free_in_child_of_a_report", 96).succeeded();
    ended.check(ended.number("signal") == 11, "the child was to crash");
    Report::of(&ended).says("freehold: use after free: write: ").shows("freed by", &["free_it"]);
}

#[test]
fn a_handler_of_the_programs_own_gets_the_signal_instead() {
    let ended = guarded("own_handler", 96).succeeded();
    ended.check(ended.value("caught") == ended.value("object"), "it was to get the address");
    ended.check(ended.err().is_empty(), "there was to be no report");
}

#[test]
fn a_handler_that_passes_the_signal_on_gets_it_first() {
    let ended = guarded("own_handler_that_passes_on", 96).crashed();
    ended.check(ended.value("caught") == ended.value("object"), "it was to get the address");
    Report::of(&ended).says("freehold: use after free: write: ");
}

#[test]
fn other_crashes_are_what_they_would_be() {
    for case in ["other_crash", "signal_that_was_sent"] {
        let ended = guarded(case, 96).crashed();
        ended.check(ended.err().is_empty(), "there was to be no report");
    }
    guarded("ignored_signal", 96).succeeded();
}

#[test]
fn without_the_setting_there_is_no_handler_and_no_pool() {
    // The slots' rooms.
    const POOL: u64 = 256 * 32 * 1024;
    let traces = |value: Option<&str>| {
        let program = Child::new(compile::c("guarded.c")).arg("traces").freehold();
        let program = match value {
            Some(value) => program.env("FREEHOLD_GUARD", value),
            None => program,
        };
        let ended = program.run().succeeded();
        (ended.number("handler"), ended.number("size"))
    };
    let off = traces(None);
    assert_eq!(off.0, 0);
    for value in ["", "0", "off", "nonsense"] {
        let (handler, size) = traces(Some(value));
        assert!(handler == 0 && size.abs_diff(off.1) < POOL / 4, "{value:?}: {size}, {off:?}");
    }
    for value in ["on", "1000", "1000000000000"] {
        let on = traces(Some(value));
        assert!(on.0 == 1 && on.1 > off.1 + POOL, "{value}: {on:?}, off {off:?}");
    }
}

#[test]
fn a_value_that_is_none_is_said() {
    let ended = Child::new(compile::c("guarded.c"))
        .arg("traces")
        .env("FREEHOLD_GUARD", "often")
        .freehold()
        .run()
        .succeeded();
    let words =
        "freehold: FREEHOLD_GUARD=often is none of: off; on; a number N, to guard about one";
    ended.check(ended.err().starts_with(words), "it was to say what there is");
}

#[test]
fn programs_without_mistakes_run_unharmed() {
    for one_in in ["1", "50"] {
        let good = |program: &str| Child::new(compile::c(program)).env("FREEHOLD_GUARD", one_in);
        let ended = good("guarded.c").arg("good_use").freehold().run().succeeded();
        ended.check(ended.number("exact") > 100, "some objects were to be guarded");
        good("libc_results.c").freehold().run().succeeded();
    }
}

#[test]
fn python_runs_unharmed() {
    let Some(python) = tools::find("python3") else { return };
    let script = "import json, threading\n\
        data = [{str(i): [i] * (i % 50)} for i in range(20000)]\n\
        def work(): assert json.loads(json.dumps(data)) == data\n\
        threads = [threading.Thread(target=work) for _ in range(4)]\n\
        [t.start() for t in threads]\n\
        [t.join() for t in threads]\n\
        print('done')\n";
    let ended = Child::new(python)
        .args(["-c", script])
        .env("PYTHONMALLOC", "malloc")
        .env("FREEHOLD_GUARD", "100")
        .freehold()
        .run()
        .succeeded();
    ended.check(ended.out() == "done\n" && ended.err().is_empty(), "it was to do its work");
}
