//! H15, H16, H17, H33: what the kernel sees of a process under Freehold: its maps, its memory in a
//! control group, its huge pages, its core dump.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::child::{Child, Ended};
use crate::support::{compile, library, tools};

fn footprint(case: &str) -> Child {
    Child::new(compile::c("footprint.c")).arg(case).freehold()
}

/// The kernel's usual limit is 65,530; programs have maps of their own, and many threads.
const MOST_MAPS: u64 = 2000;

#[test]
fn sixty_four_threads_with_every_size_have_at_most_2000_maps() {
    let ended = footprint("maps").run().succeeded();
    let (full, sparse) = (ended.number("with threads"), ended.number("with holes"));
    tools::say(&format!("{full} maps, {sparse} with holes"));
    ended.check(full <= MOST_MAPS && sparse <= MOST_MAPS, "there were to be fewer maps");
}

/// KiB, pages of 4, that a program which prints a line may have written to more than without the
/// library: it is six.
const MOST_WRITTEN_TO: u64 = 8 * 4;

#[test]
fn a_program_that_prints_a_line_writes_to_eight_more_pages_at_most() {
    let least = |child: &dyn Fn() -> Child| {
        let runs = (0..5).map(|_| child().run().succeeded().number("written to"));
        runs.min().expect("five")
    };
    let without = least(&|| Child::new(compile::c("footprint.c")).arg("small"));
    let with = least(&|| footprint("small"));
    tools::say(&format!("{with} KiB are written to, {without} without the library"));
    assert!(with <= without + MOST_WRITTEN_TO, "{with} KiB instead of {without}");
}

#[test]
fn what_realloc_has_read_does_not_take_a_second_page_fault() {
    if !cfg!(target_arch = "x86_64") {
        return tools::skip("pages are touched before they are read on x86-64 only");
    }
    let ended = footprint("resized").run().succeeded();
    let (blocks, faults) = (ended.number("blocks"), ended.number("page faults"));
    tools::say(&format!("{faults} page faults in {blocks} blocks"));
    ended.check(faults < blocks / 4 * 3, "the pages were to be there");
}

#[test]
fn threads_that_only_free_large_buffers_leave_nothing_behind() {
    let ended = footprint("freers").run().succeeded();
    let (before, after) = (ended.number("before"), ended.number("after"));
    tools::say(&format!("{before} bytes after 100 threads, {after} after 400"));
    ended.check(after < before + (1 << 20), "each thread left something");
}

/// In the mode for huge pages that the machine is in, which is said.
#[test]
fn pages_between_blocks_in_use_go_back_when_memory_is_trimmed() {
    let ended = footprint("sparse").run().succeeded();
    let (full, trimmed) = (ended.number("full"), ended.number("trimmed"));
    let mode = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let mode = mode.unwrap_or_default();
    tools::say(&format!("{full} bytes, then {trimmed}; huge pages: {}", mode.trim()));
    ended.check(trimmed < full / 4 * 3, "what was freed was to go back");
}

/// A core dump holds what is in use, and none of the address space that is only reserved.
#[test]
fn a_core_dump_is_as_large_as_the_memory_in_use() {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if pattern.trim().contains(['|', '/']) {
        return tools::skip(&format!("core dumps go elsewhere: {}", pattern.trim()));
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let script = "ulimit -c unlimited && LD_PRELOAD=$0 exec \"$@\"";
    let ended = Child::new("sh")
        .args(["-c", script])
        .arg(library::shared())
        .arg(compile::c("footprint.c"))
        .arg("abort_with_64_mebibytes")
        .dir(scratch.path())
        .run();
    let ended = ended.aborted();
    let Some(core) = only_file(scratch.path()) else {
        return tools::skip("this system writes no core dumps");
    };
    let (core, resident) =
        (fs::metadata(core).expect("it is there").len(), ended.number("resident"));
    tools::say(&format!("a core dump of {core} bytes for {resident} that were resident"));
    ended.check(core < 2 * resident, "it was to be smaller");
    ended.check(core > 64 << 20, "it was to hold what was in use");
}

fn only_file(directory: &Path) -> Option<PathBuf> {
    let entry = fs::read_dir(directory).expect("it is there").next()?;
    Some(entry.expect("readable").path())
}

/// A control group of 256 MiB, for one test; it goes with the value.
struct Group {
    path: PathBuf,
}

const LIMIT: &str = "268435456";

impl Group {
    /// One in either version of the kernel's interface; `None`, with a word, where this user may
    /// have none.
    fn new() -> Option<Self> {
        let versions =
            [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        for (root, limit) in versions {
            let path = Path::new(root).join(format!("freehold-test-{}", std::process::id()));
            if fs::create_dir(&path).is_err() {
                continue;
            }
            let group = Self { path };
            if fs::write(group.path.join(limit), LIMIT).is_ok() {
                return Some(group);
            }
        }
        tools::skip("this user may make no control group");
        None
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.path);
    }
}

fn in_group(group: &Group, case: &str) -> Ended {
    let script = "echo $$ > \"$1/cgroup.procs\" && LD_PRELOAD=$0 exec \"$2\" \"$3\"";
    Child::new("sh")
        .args(["-c", script])
        .arg(library::shared())
        .arg(&group.path)
        .arg(compile::c("footprint.c"))
        .arg(case)
        .run()
}

#[test]
fn a_process_and_its_child_take_turns_at_most_of_a_control_groups_memory() {
    let Some(group) = Group::new() else { return };
    let ended = in_group(&group, "take_turns_with_a_child").succeeded();
    ended.check(ended.out() == "done\n", "nobody was to be killed");
}
