//! `freehold which`: which allocator a process uses.

use std::path::Path;
use std::process::Command;

use crate::support::{Waiting, compiled, directory, family, found, installed_libraries, json, run};

/// A program that echoes its first line and waits for the end of its input, as `cat` does.
const ECHO: &str = r"
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    char line[100];
    char *volatile block = malloc(100);
    if (!fgets(line, sizeof line, stdin)) return 1;
    fputs(line, stdout);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {}
    free(block);
}
";

/// The note that Freehold carries, with a version that no release has.
const NOTE: &str = r#"
__asm__(".pushsection .note.freehold, \"a\", %note\n"
        ".balign 4\n .long 9, 6, 1\n .asciz \"Freehold\"\n .balign 4\n .asciz \"9.8.7\"\n"
        ".balign 4\n .popsection\n");
"#;

/// A library that serves malloc by forwarding it, and that nobody knows.
const UNKNOWN: &str = r"
#include <stddef.h>
void *__libc_malloc(size_t size);
void __libc_free(void *block);
void *malloc(size_t size) { return __libc_malloc(size); }
void free(void *block) { __libc_free(block); }
";

#[test]
fn every_found_allocator_is_recognised_in_a_process_that_preloads_it() {
    for (name, path) in found().iter().filter(|(name, _)| name != "system") {
        let process = Waiting::preloaded(path);
        let report = json(&run(&["which", "--json", &process.pid()]).with(0).out);
        let live = &report["live"][0];
        assert_eq!(live["family"], family(name));
        assert_eq!(live["linkage"], "preloaded");
        assert_eq!(live["path"], path.as_str());
        // A number tells one file from another of the same kind, and not what it is.
        let expected = if name.contains('@') { name } else { family(name) };
        run(&["which", "--expect", expected, &process.pid()]).with(0);
        run(&["which", "--expect", path, &process.pid()]).with(0);
        run(&["which", "--expect", "system", &process.pid()]).with(5);
    }
}

#[test]
fn a_plain_process_is_served_by_the_c_library() {
    let process = Waiting::start(Command::new("cat").env_remove("LD_PRELOAD"));
    let seen = run(&["which", &process.pid()]).with(0);
    assert!(seen.out.starts_with("system "), "{}", seen.out);
    assert!(seen.out.contains("the C library's own"), "{}", seen.out);
    run(&["which", "--expect", "glibc", &process.pid()]).with(0);
    run(&["which", "--expect", "freehold", &process.pid()]).with(5);
}

/// Has the loader look for a library where it is: some lie where it would not look by itself.
fn loader_path(library: &str) -> String {
    let directory = Path::new(library).parent().expect("a path of a file");
    format!("-Wl,-rpath={}", directory.display())
}

#[test]
fn an_allocator_that_a_program_was_linked_with_is_called_linked() {
    let directory = directory();
    for (name, path) in installed_libraries() {
        let found_there = loader_path(&path);
        let flags = ["-Wl,--no-as-needed", &found_there, &path];
        let Some(program) = compiled(&directory, &format!("linked-{name}"), ECHO, &flags) else {
            return;
        };
        let process = Waiting::start(Command::new(program).env_remove("LD_PRELOAD"));
        let report = json(&run(&["which", "--json", &process.pid()]).with(0).out);
        assert_eq!(report["live"][0]["family"], family(&name));
        assert_eq!(report["live"][0]["linkage"], "linked");
    }
}

#[test]
fn a_preload_that_comes_first_leaves_the_linked_allocator_unused() {
    let directory = directory();
    let others = installed_libraries();
    let [(linked, path), (preloaded, preload), ..] = others.as_slice() else {
        return;
    };
    let found_there = loader_path(path);
    let flags = ["-Wl,--no-as-needed", &found_there, path];
    let Some(program) = compiled(&directory, "both", ECHO, &flags) else { return };
    let process = Waiting::start(Command::new(program).env("LD_PRELOAD", preload));
    let report = json(&run(&["which", "--json", &process.pid()]).with(0).out);
    assert_eq!(report["live"][0]["family"], family(preloaded));
    assert_eq!(report["idle"][0]["family"], family(linked));
}

#[test]
fn freehold_within_an_executable_is_recognised_by_its_note() {
    let directory = directory();
    let source = format!("{NOTE}{ECHO}");
    let Some(program) = compiled(&directory, "noted", &source, &[]) else { return };
    let process = Waiting::start(Command::new(program).env_remove("LD_PRELOAD"));
    let seen = run(&["which", &process.pid()]).with(0);
    assert!(seen.out.starts_with("freehold 9.8.7, static in the executable\n"), "{}", seen.out);
    assert!(seen.out.contains("besides  system"), "{}", seen.out);
}

#[test]
fn a_static_executable_is_told_by_its_symbols_and_not_guessed_without_them() {
    let directory = directory();
    let Some(program) = compiled(&directory, "static", ECHO, &["-static"]) else { return };
    let process = Waiting::start(&mut Command::new(program));
    let seen = run(&["which", &process.pid()]).with(0);
    assert!(seen.out.starts_with("system"), "{}", seen.out);
    assert!(seen.out.contains("static in the executable"), "{}", seen.out);

    let Some(stripped) = compiled(&directory, "stripped", ECHO, &["-static", "-s"]) else {
        return;
    };
    let process = Waiting::start(&mut Command::new(stripped));
    let seen = run(&["which", &process.pid()]).with(5);
    assert!(seen.out.starts_with("unknown allocator"), "{}", seen.out);
}

#[test]
fn an_allocator_that_nobody_knows_is_named_by_its_path_and_exits_with_5() {
    let directory = directory();
    let flags = ["-shared", "-fPIC"];
    let Some(library) = compiled(&directory, "libunknown.so", UNKNOWN, &flags) else { return };
    let process = Waiting::preloaded(&library.to_string_lossy());
    let seen = run(&["which", &process.pid()]).with(5);
    assert!(seen.out.starts_with("unknown allocator, preloaded\n"), "{}", seen.out);
    assert!(seen.out.contains("libunknown.so"), "{}", seen.out);
}

#[test]
fn a_library_opened_while_the_program_runs_serves_nothing() {
    let directory = directory();
    let source = ECHO.replace(
        "int main(void) {",
        "#include <dlfcn.h>\nint main(int n, char **words) { dlopen(words[1], RTLD_NOW);",
    );
    let Some(program) = compiled(&directory, "opens", &source, &["-ldl"]) else { return };
    // Others refuse to be opened late: they need more thread-local storage than is left.
    let freehold = &found()[0].1;
    let process = Waiting::start(Command::new(program).arg(freehold).env_remove("LD_PRELOAD"));
    let report = json(&run(&["which", "--json", &process.pid()]).with(0).out);
    assert_eq!(report["live"][0]["family"], "system");
    assert_eq!(report["idle"][0]["family"], "freehold");
    assert_eq!(report["idle"][0]["linkage"], "opened_later");
}

#[test]
fn a_process_that_does_not_exist_is_an_error() {
    let ended = run(&["which", "4294967295"]).with(1);
    assert!(ended.err.contains("no such process"), "{}", ended.err);
}

#[test]
fn an_expected_allocator_must_be_a_known_one() {
    let ended = run(&["which", "--expect", "jemaloc", "1"]).with(2);
    assert!(ended.err.contains("did you mean \"jemalloc\"?"), "{}", ended.err);
}
