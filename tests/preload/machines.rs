//! H12, H14, H17: what depends on the kernel or is the whole machine's setting, in virtual
//! machines: pages of 16 and 64 KiB, no overcommit, huge pages always and never. How the kernels
//! are come by, `docs/compatibility.md` says.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::portability::AARCH64;
use crate::support::child::Ended;
use crate::support::machine::{Kind, Machine, Outcomes};
use crate::support::{compile, library, tools};

const MIB: u64 = 1 << 20;

/// The modes of the library, with the word for each in the names of what is run.
const MODES: [(&str, &str); 3] = [
    ("usual", "FREEHOLD_HARDEN=0"),
    ("hardened", "FREEHOLD_HARDEN=1"),
    ("debugging", "FREEHOLD_DEBUG=default"),
];

/// Programs that check by themselves whether what they do works: these in every mode.
const IN_EVERY_MODE: &[(&str, &[&str])] =
    &[("fork_busy.c", &["3", "5"]), ("contexts.c", &["across_threads"])];

/// And these but for debugging mode, and the next in the usual mode alone, since emulation makes
/// them take long.
const BUT_FOR_DEBUGGING: &[(&str, &[&str])] =
    &[("conformance.c", &["every_alignment"]), ("conformance.c", &["realloc_keeps_contents"])];

const IN_USUAL_MODE: &[(&str, &[&str])] = &[
    ("threads.c", &[]),
    ("libc_results.c", &[]),
    ("conformance.c", &["sizes_beyond_ptrdiff_max"]),
    ("conformance.c", &["max_align_of_every_size"]),
    ("conformance.c", &["pages"]),
    ("conformance.c", &["calloc_of_used_memory"]),
    ("conformance.c", &["usable_size"]),
    ("extensions.c", &["trim_lowers_rss"]),
];

/// Cases of `limits.c`, for a limit of 64 MiB or more.
const LIMITS: &[&str] = &["small", "medium", "mebibytes", "one_size_after_another"];

const PAGES_OF_16_KIB: Kind = aarch64("arm64-16k");
const PAGES_OF_64_KIB: Kind = aarch64("arm64-64k");

/// The processor is one that has pages of every size.
const fn aarch64(kernel: &'static str) -> Kind {
    Kind {
        kernel,
        emulator: "qemu-system-aarch64",
        hardware: &["-machine", "virt", "-cpu", "neoverse-n1"],
        console: "ttyAMA0",
        compiler: AARCH64.compiler,
        loader: "/lib/ld-linux-aarch64.so.1",
    }
}

const X86_64: Kind = Kind {
    kernel: "cloud-amd64",
    emulator: "qemu-system-x86_64",
    hardware: &["-machine", "q35", "-cpu", "max"],
    console: "ttyS0",
    compiler: "cc",
    loader: "/lib64/ld-linux-x86-64.so.2",
};

/// The sizes of `footprint.c`, in its order.
const SIZES: [u32; 6] = [3 << 20, 200_000, 30_000, 6000, 700, 48];

/// What may stay when all was freed: what threads have at hand, and the tables for what was in use,
/// one part in so many.
const LEFT: u64 = 2 * MIB;
const TABLES_SHARE: u64 = 128;

const SIGSEGV: i32 = 11;

const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const LOOKS_FOR_HUGE_PAGES: &str =
    "/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs";
const OVERCOMMIT: &str = "/proc/sys/vm/overcommit_memory";
const COMMIT_LIMIT: &str = "/proc/sys/vm/overcommit_kbytes";

/// Where what is run comes from: for the machine that the tests run on, or for aarch64.
struct Programs {
    c: fn(&str) -> PathBuf,
    stress: PathBuf,
}

impl Programs {
    fn all_in_every_mode(&self, machine: &mut Machine) {
        for (mode, variable) in MODES {
            let lists = match mode {
                "usual" => &[IN_EVERY_MODE, BUT_FOR_DEBUGGING, IN_USUAL_MODE][..],
                "hardened" => &[IN_EVERY_MODE, BUT_FOR_DEBUGGING],
                _ => &[IN_EVERY_MODE],
            };
            for (source, words) in lists.iter().copied().flatten() {
                let name = format!("{mode}/programs/{source}/{}", words.join("-"));
                machine.run(&name, &[variable], &(self.c)(source), words);
            }
            self.stress(machine, mode, variable);
        }
    }

    fn stress(&self, machine: &mut Machine, name: &str, variable: &str) {
        machine.run(&format!("{name}/stress"), &[variable], &self.stress, &["6", "3", "1"]);
    }

    /// Where the kernel looks for what it can make a huge page of twenty times as often as usual.
    fn rest(&self, machine: &mut Machine, setting: &str) {
        machine.set(HUGE_PAGES, setting);
        machine.set(LOOKS_FOR_HUGE_PAGES, "500");
        let name = format!("{setting}/idle");
        machine.run(&name, &["LINGERING=8"], &(self.c)("idle.c"), &["lingering"]);
    }

    fn footprints(&self, machine: &mut Machine, setting: &str, mebibytes: &[u32]) {
        let footprint = (self.c)("footprint.c");
        machine.set(HUGE_PAGES, setting);
        machine.run(&format!("{setting}/sparse"), &[], &footprint, &["sparse"]);
        for mebibytes in mebibytes {
            let name = format!("{setting}/comes_and_goes/{mebibytes}");
            let variable = format!("MEBIBYTES={mebibytes}");
            machine.run(&name, &[&variable], &footprint, &["comes_and_goes"]);
        }
    }
}

/// What is run where pages are large.
fn boot_with_large_pages(kind: &'static Kind) -> Outcomes {
    let programs =
        Programs { c: |source| AARCH64.c(source, &[]), stress: AARCH64.program("freehold-stress") };
    let mut machine = Machine::new(kind, &AARCH64.libraries().join("libfreehold.so"));
    programs.all_in_every_mode(&mut machine);
    for size in ["40000", "65536", "300000"] {
        for case in ["one_byte_after", "twice", "written_when_free"] {
            let hardened = (programs.c)("hardened.c");
            machine.run(&format!("{case}/{size}"), &[MODES[1].1], &hardened, &[case, size]);
        }
    }
    for (mode, variable) in &MODES[..2] {
        for case in LIMITS {
            let name = format!("{mode}/limits/{case}");
            machine.run(
                &name,
                &[variable, "RLIMIT_AS=67108864"],
                &(programs.c)("limits.c"),
                &[case],
            );
        }
    }
    programs.footprints(&mut machine, "never", &[48]);
    programs.footprints(&mut machine, "always", &[48, 192]);
    machine.boot()
}

fn pages_of_16_kib() -> Option<&'static Outcomes> {
    static OUTCOMES: LazyLock<Outcomes> = LazyLock::new(|| boot_with_large_pages(&PAGES_OF_16_KIB));
    (AARCH64.is_there() && PAGES_OF_16_KIB.is_there()).then(|| &*OUTCOMES)
}

fn pages_of_64_kib() -> Option<&'static Outcomes> {
    static OUTCOMES: LazyLock<Outcomes> = LazyLock::new(|| boot_with_large_pages(&PAGES_OF_64_KIB));
    (AARCH64.is_there() && PAGES_OF_64_KIB.is_there()).then(|| &*OUTCOMES)
}

/// What is run where the settings are what matters.
fn settings() -> Option<&'static Outcomes> {
    static OUTCOMES: LazyLock<Outcomes> = LazyLock::new(boot_with_settings);
    if cfg!(not(target_arch = "x86_64")) {
        tools::skip("the programs of the tests are not for x86-64");
        return None;
    }
    X86_64.is_there().then(|| &*OUTCOMES)
}

fn boot_with_settings() -> Outcomes {
    let programs =
        Programs { c: compile::c, stress: Path::new(env!("CARGO_BIN_EXE_freehold-stress")).into() };
    let mut machine = Machine::new(&X86_64, library::shared());
    for setting in ["always", "never"] {
        programs.footprints(&mut machine, setting, &[48, 192]);
        programs.stress(&mut machine, setting, MODES[0].1);
        programs.rest(&mut machine, setting);
    }
    machine.set(OVERCOMMIT, "2");
    // Every fork needs as much again as is committed, half a gigabyte under stress, and each of the
    // six threads may be in one: this is enough for all of them.
    machine.set(COMMIT_LIMIT, "4000000");
    programs.all_in_every_mode(&mut machine);
    machine.set(COMMIT_LIMIT, "130000");
    let limits = (programs.c)("limits.c");
    for (mode, variable) in &MODES[..2] {
        for case in LIMITS {
            machine.run(&format!("{mode}/limits/{case}"), &[variable], &limits, &[case]);
        }
        machine.run(&format!("{mode}/forks"), &[variable], &limits, &["forks"]);
    }
    machine.run("usual/limits/threads", &[], &limits, &["threads"]);
    machine.run("debugging/limits", &[MODES[2].1], &limits, &["hardly_anything"]);
    machine.boot()
}

fn promises_are_kept_in_every_mode(machine: &Outcomes) {
    for (mode, _) in MODES {
        machine.starting(&format!("{mode}/programs")).for_each(Ended::has_succeeded);
    }
}

fn contents_are_kept_under_stress(machine: &Outcomes, names: &[&str]) {
    for name in names {
        let ended = machine.of(&format!("{name}/stress"));
        ended.has_succeeded();
        ended.check(ended.value("malloc") == "Freehold", "Freehold was to serve it");
        for done in ["operations", "freed elsewhere", "resized", "threads"] {
            ended.check(ended.number(done) > 0, &format!("{done} was not to be 0"));
        }
        tools::say(&format!("{name}: {} operations", ended.number("operations")));
    }
}

fn memory_ends_with_enomem_and_can_be_had_again(machine: &Outcomes) {
    for mode in ["usual", "hardened"] {
        machine.starting(&format!("{mode}/limits")).for_each(Ended::has_succeeded);
    }
}

/// What is in use at a time may leave behind a few mebibytes, the first of a size and all others.
fn what_is_freed_goes_back(machine: &Outcomes, setting: &str) {
    let sparse = machine.of(&format!("{setting}/sparse"));
    sparse.has_succeeded();
    let (full, trimmed) = (sparse.number("full"), sparse.number("trimmed"));
    tools::say(&format!("{setting}, sparse: {full} bytes, then {trimmed}"));
    sparse.check(trimmed < full / 4 * 3, "what was freed was to go back");
    for ended in machine.starting(&format!("{setting}/comes_and_goes")) {
        ended.has_succeeded();
        let at_start = ended.number("3145728 before");
        for size in SIZES.iter().take(ended.number("sizes") as usize) {
            let with = ended.number(&format!("{size} with"));
            let after = ended.number(&format!("{size} after"));
            let huge = ended.number(&format!("{size} huge"));
            tools::say(&format!(
                "{setting}, {size}: {at_start} bytes, {with} ({huge} in huge pages), then {after}"
            ));
            ended.check(with > at_start + 40 * MIB, "it was to be in use");
            let left = LEFT + with / TABLES_SHARE;
            ended.check(after < at_start + left, "what was freed was to go back");
        }
    }
}

#[test]
fn with_pages_of_16_kib_calls_keep_their_promises_in_every_mode() {
    let Some(machine) = pages_of_16_kib() else { return };
    assert_eq!(machine.page_size, 16 << 10);
    promises_are_kept_in_every_mode(machine);
    memory_ends_with_enomem_and_can_be_had_again(machine);
}

#[test]
fn with_pages_of_64_kib_calls_keep_their_promises_in_every_mode() {
    let Some(machine) = pages_of_64_kib() else { return };
    assert_eq!(machine.page_size, 64 << 10);
    promises_are_kept_in_every_mode(machine);
    memory_ends_with_enomem_and_can_be_had_again(machine);
}

#[test]
fn with_pages_of_16_kib_contents_are_kept_under_stress_in_every_mode() {
    let Some(machine) = pages_of_16_kib() else { return };
    contents_are_kept_under_stress(machine, &["usual", "hardened", "debugging"]);
}

#[test]
fn with_pages_of_64_kib_contents_are_kept_under_stress_in_every_mode() {
    let Some(machine) = pages_of_64_kib() else { return };
    contents_are_kept_under_stress(machine, &["usual", "hardened", "debugging"]);
}

#[test]
fn with_pages_of_16_kib_what_is_freed_goes_back_whether_pages_are_huge_or_not() {
    let Some(machine) = pages_of_16_kib() else { return };
    what_is_freed_goes_back(machine, "always");
    what_is_freed_goes_back(machine, "never");
}

#[test]
fn with_pages_of_64_kib_what_is_freed_goes_back_whether_pages_are_huge_or_not() {
    let Some(machine) = pages_of_64_kib() else { return };
    what_is_freed_goes_back(machine, "always");
    what_is_freed_goes_back(machine, "never");
}

/// What is noticed whatever the size of pages: the object is followed by something to look at.
fn what_free_sees_is_reported(machine: &Outcomes) {
    for (case, words) in [("one_byte_after/40000", "overflow: "), ("twice/65536", "double free: ")]
    {
        let ended = machine.of(case);
        ended.check(ended.err().starts_with(&format!("freehold: free: {words}")), "a report");
    }
    // Found by who has no room for it any longer, or takes it again.
    let ended = machine.of("written_when_free/65536");
    ended.check(ended.err().contains(": use after free: "), "a report");
}

#[test]
fn with_pages_of_16_kib_large_objects_are_fenced_in_hardened_mode() {
    let Some(machine) = pages_of_16_kib() else { return };
    what_free_sees_is_reported(machine);
    for case in ["one_byte_after/65536", "written_when_free/300000"] {
        let ended = machine.of(case);
        ended.check(ended.status.signal() == Some(SIGSEGV), "it was to crash");
    }
}

#[test]
fn with_pages_of_64_kib_nothing_is_fenced_and_the_rest_is_reported_all_the_same() {
    let Some(machine) = pages_of_64_kib() else { return };
    what_free_sees_is_reported(machine);
    for case in ["one_byte_after/65536", "written_when_free/300000"] {
        machine.of(case).has_succeeded();
    }
}

#[test]
fn what_is_freed_goes_back_where_huge_pages_are_everywhere() {
    let Some(machine) = settings() else { return };
    what_is_freed_goes_back(machine, "always");
}

#[test]
fn what_is_freed_goes_back_where_there_are_no_huge_pages() {
    let Some(machine) = settings() else { return };
    what_is_freed_goes_back(machine, "never");
}

#[test]
fn what_is_freed_stays_away_where_the_kernel_makes_huge_pages_of_what_is_left() {
    let Some(machine) = settings() else { return };
    for setting in ["always", "never"] {
        machine.of(&format!("{setting}/idle")).has_succeeded();
    }
}

#[test]
fn a_small_process_has_no_huge_page_where_they_are_everywhere() {
    let Some(machine) = settings() else { return };
    let of_small = |setting| {
        let ended = machine.of(&format!("{setting}/comes_and_goes/48"));
        ended.number("3145728 before")
    };
    let (always, never) = (of_small("always"), of_small("never"));
    tools::say(&format!("{always} bytes resident, {never} where there are no huge pages"));
    assert!(always < never + MIB, "{always} {never}");
}

#[test]
fn contents_are_kept_under_stress_whatever_the_setting_of_huge_pages() {
    let Some(machine) = settings() else { return };
    contents_are_kept_under_stress(machine, &["always", "never"]);
}

#[test]
fn without_overcommit_calls_keep_their_promises_in_every_mode() {
    let Some(machine) = settings() else { return };
    promises_are_kept_in_every_mode(machine);
    contents_are_kept_under_stress(machine, &["usual", "hardened", "debugging"]);
}

#[test]
fn without_overcommit_memory_ends_with_enomem_and_can_be_had_again() {
    let Some(machine) = settings() else { return };
    memory_ends_with_enomem_and_can_be_had_again(machine);
    machine.of("debugging/limits").has_succeeded();
}

#[test]
fn without_overcommit_a_fork_that_finds_no_memory_fails_and_harms_nobody() {
    let Some(machine) = settings() else { return };
    for mode in ["usual", "hardened"] {
        machine.of(&format!("{mode}/forks")).has_succeeded();
    }
}
