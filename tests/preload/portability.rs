//! Other machines and other C libraries: aarch64 in an emulator, musl, and targets for which
//! Freehold cannot be built. What it needs of glibc is checked in `symbols`.

use std::path::Path;

use crate::support::child::{Child, Ended};
use crate::support::cross::Target;
use crate::support::{library, tools};

pub(crate) const AARCH64: Target = Target {
    triple: "aarch64-unknown-linux-gnu",
    compiler: "aarch64-linux-gnu-gcc",
    linker: "aarch64-linux-gnu-gcc",
    flags: "",
};

/// Programs that ask little of the C library and of the emulator, with their arguments.
const PROGRAMS: [(&str, &[&str]); 3] =
    [("threads.c", &[]), ("libc_results.c", &[]), ("fork_busy.c", &["4", "10"])];

/// Runs a program for aarch64 in an emulator.
///
/// Under a limit on address space: this emulator keeps a table of all that is mapped, to which a
/// reservation of a tebibyte is gigabytes.
fn emulated(
    emulator: &Path,
    options: &[&str],
    program: &Path,
    arguments: &[&str],
    preload: Option<&Path>,
) -> Ended {
    let limit = "ulimit -v 8388608 && exec \"$0\" -L /usr/aarch64-linux-gnu \"$@\"";
    let child = Child::new("sh").args(["-c", limit]).arg(emulator).args(options);
    let child = match preload {
        Some(library) => child.arg("-E").arg(format!("LD_PRELOAD={}", library.display())),
        None => child,
    };
    child.arg(program).args(arguments).run().succeeded()
}

#[test]
fn on_aarch64_c_programs_run_under_the_preloaded_library() {
    let Some(emulator) = tools::find("qemu-aarch64") else { return };
    if !AARCH64.is_there() {
        return;
    }
    let library = AARCH64.libraries().join("libfreehold.so");
    let run = |source: &str, arguments: &[&str]| {
        emulated(&emulator, &[], &AARCH64.c(source, &[]), arguments, Some(&library));
    };
    for (source, arguments) in PROGRAMS {
        run(source, arguments);
    }
    run("early.c", &[]);
    for case in
        ["sizes_beyond_ptrdiff_max", "every_alignment", "usable_size", "realloc_keeps_contents"]
    {
        run("conformance.c", &[case]);
    }
    for case in ["in_one_thread", "across_threads"] {
        run("contexts.c", &[case]);
    }
}

/// The emulator delivers signals between the blocks that it translates; so blocks are single
/// instructions here, as they are to a processor.
#[test]
fn on_aarch64_handlers_may_allocate_and_free_between_any_two_instructions() {
    let Some(emulator) = tools::find("qemu-aarch64") else { return };
    if !AARCH64.is_there() {
        return;
    }
    let library = AARCH64.libraries().join("libfreehold.so");
    let program = AARCH64.c("signals.c", &[]);
    let arguments = ["timer_signals_in_bursts", "12"];
    let ended = emulated(&emulator, &["-singlestep"], &program, &arguments, Some(&library));
    tools::say(&format!("{} signals", ended.number("handled")));
}

#[test]
fn on_aarch64_rust_programs_allocate_from_freehold() {
    let Some(emulator) = tools::find("qemu-aarch64") else { return };
    if AARCH64.is_there() {
        emulated(&emulator, &[], &AARCH64.program("freehold-global"), &[], None);
    }
}

/// Its libraries are linked with the C library as a shared one, where Rust would link it in.
const MUSL: Target = Target {
    triple: "x86_64-unknown-linux-musl",
    compiler: "musl-gcc",
    linker: "cc",
    flags: "-Ctarget-feature=-crt-static",
};

fn has_musl() -> bool {
    if cfg!(not(target_arch = "x86_64")) {
        tools::skip("musl-gcc compiles for the machine it runs on, and this is not x86-64");
        return false;
    }
    MUSL.is_there()
}

#[test]
fn with_musl_c_programs_run_under_the_preloaded_library() {
    if !has_musl() {
        return;
    }
    let library = MUSL.libraries().join("libfreehold.so");
    for (source, arguments) in PROGRAMS {
        Child::new(MUSL.c(source, &[])).args(arguments).preload(&library).run().succeeded();
    }
}

#[test]
fn a_program_for_musl_that_glibcs_preload_reaches_is_served() {
    if !has_musl() {
        return;
    }
    for (source, arguments) in PROGRAMS {
        Child::new(MUSL.c(source, &[])).args(arguments).freehold().run().succeeded();
    }
}

#[test]
fn with_musl_static_c_programs_have_freehold_inside() {
    if !has_musl() {
        return;
    }
    let archive = MUSL.libraries().join("libfreehold.a");
    let archive = archive.to_str().expect("a path in UTF-8");
    for (source, arguments) in PROGRAMS {
        let program = MUSL.c(source, &["-static", archive]);
        Child::new(program).args(arguments).run().succeeded();
    }
}

#[test]
fn with_musl_static_rust_programs_allocate_from_freehold() {
    if has_musl() {
        let ended = Child::new(MUSL.program("freehold-global")).run().succeeded();
        ended.check(ended.out() == "done\n", "it was to come to its end");
    }
}

#[test]
fn machines_of_32_bits_or_of_the_other_byte_order_are_refused_with_the_reason() {
    let Some(cargo) = tools::find("cargo") else { return };
    let targets = [
        "i686-unknown-linux-gnu",
        "s390x-unknown-linux-gnu",
        "aarch64_be-unknown-linux-gnu",
        "x86_64-unknown-linux-gnux32",
    ];
    for target in targets {
        let ended = Child::new(&cargo)
            .args(["check", "--locked", "--package", "freehold-capi", "--target", target])
            .arg("--target-dir")
            .arg(library::workshop().join("refused"))
            .dir(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")))
            .within(tools::BUILD_LIMIT)
            .run();
        ended.check(!ended.status.success(), "the build was to fail");
        let reason = format!(
            "Freehold is for Linux on x86-64 and aarch64, with pointers of 64 bits \
            and the lowest byte first; {target} is not that"
        );
        ended.check(ended.err().contains(&reason), "the reason was to be said");
        ended.check(!ended.err().contains("error[E"), "the compiler was not to be asked");
    }
}
