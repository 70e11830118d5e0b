//! The malloc tests of other projects, as they are, under Freehold. Their sources are not part of
//! this repository: glibc's come from Debian's package of its sources, the allocators' from the
//! packages that `cargo xtask peers` builds them from. `docs/compatibility.md` says which do not
//! apply, and why.

use std::path::{Path, PathBuf};
use std::{env, fs};

use serde_json::Value;

use crate::support::child::Child;
use crate::support::{compile, library, tools};

/// The tests of glibc that are about what any malloc does.
const GLIBC: [&str; 25] = [
    "tst-calloc",
    "tst-free-errno",
    "tst-mallinfo2",
    "tst-malloc",
    "tst-malloc-check",
    "tst-malloc-fork-deadlock",
    "tst-malloc-tcache-leak",
    "tst-malloc-thread-exit",
    "tst-malloc-too-large",
    "tst-malloc_info",
    "tst-mallocfork",
    "tst-mallocfork2",
    "tst-mallocfork3",
    "tst-mallopt",
    "tst-memalign",
    "tst-mxfast",
    "tst-obstack",
    "tst-posix_memalign",
    "tst-pvalloc",
    "tst-pvalloc-fortify",
    "tst-realloc",
    "tst-reallocarray",
    "tst-tcfree3",
    "tst-trim1",
    "tst-valloc",
];

/// glibc's sources, as Debian's package glibc-source has them.
fn glibc_sources() -> Option<PathBuf> {
    let files = fs::read_dir("/usr/src/glibc").into_iter().flatten().flatten();
    let archive = files.map(|file| file.path()).find(|path| {
        path.to_str().is_some_and(|path| path.contains("/glibc-2.") && path.ends_with(".tar.xz"))
    });
    if archive.is_none() {
        tools::skip("the sources of glibc are not installed (Debian: glibc-source)");
    }
    archive
}

#[test]
fn the_malloc_tests_of_glibc_pass() {
    let Some(archive) = glibc_sources() else { return };
    let built = library::workshop().join("glibc");
    Child::new(compile::sources().join("others/glibc.sh"))
        .arg(archive)
        .arg(&built)
        .args(GLIBC)
        .within(tools::BUILD_LIMIT)
        .run()
        .succeeded();
    for test in GLIBC {
        Child::new(built.join(test)).dir(&built).freehold().run().succeeded();
    }
}

/// The tests of libc-test that are about memory, by their paths in its sources.
const LIBC_TEST: [&str; 8] = [
    "src/functional/pthread_cancel.c",
    "src/functional/pthread_tsd.c",
    "src/functional/tls_init.c",
    "src/regression/malloc-0.c",
    "src/regression/malloc-brk-fail.c",
    "src/regression/malloc-oom.c",
    "src/regression/pthread_create-oom.c",
    "src/regression/setenv-oom.c",
];

#[test]
fn the_malloc_tests_of_libc_test_pass() {
    let Some(sources) = env::var_os("FREEHOLD_LIBC_TEST").map(PathBuf::from) else {
        // No package has them, so that they are nobody's to require.
        return tools::say("skipped: FREEHOLD_LIBC_TEST names no sources of libc-test");
    };
    let common = sources.join("src/common");
    let headers = format!("-I{}", common.display());
    let names = ["fdfill", "memfill", "print", "rand", "setrlim", "utf8", "vmfill"];
    let shared = names.map(|name| common.join(name).with_extension("c").display().to_string());
    let options = ["-w", "-pthread", "-D_GNU_SOURCE", &headers].map(str::to_owned);
    let arguments: Vec<_> = options.iter().chain(&shared).map(String::as_str).collect();
    for test in LIBC_TEST {
        let program = compile::file("cc", &sources.join(test), &arguments);
        Child::new(program).freehold().run().succeeded();
    }
}

/// Where cargo keeps the sources of a package that peers are built from.
fn sources_of_peer(package: &str) -> Option<PathBuf> {
    let cargo = tools::find("cargo")?;
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../peers/Cargo.toml");
    let ended = Child::new(cargo)
        .args(["metadata", "--locked", "--format-version", "1", "--manifest-path"])
        .arg(manifest)
        .run();
    if !ended.status.success() {
        tools::skip("the sources of the peers cannot be had (cargo xtask peers)");
        return None;
    }
    let metadata: Value = serde_json::from_slice(&ended.stdout).expect("cargo writes JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let found = packages.iter().find(|own| own["name"] == package).expect("it is a peer's");
    let manifest = Path::new(found["manifest_path"].as_str().expect("a path"));
    manifest.parent().map(Path::to_path_buf)
}

#[test]
fn the_stress_test_of_mimalloc_passes() {
    let Some(package) = sources_of_peer("libmimalloc-sys2") else { return };
    let mimalloc = package.join("c_src/mimalloc3");
    let headers = format!("-I{}", mimalloc.join("include").display());
    let source = mimalloc.join("test/test-stress.c");
    let program = compile::file("cc", &source, &["-DUSE_STD_MALLOC", "-w", "-pthread", &headers]);
    // Threads, load of each in per cent, rounds.
    Child::new(program).args(["16", "20", "10"]).freehold().run().succeeded();
}
