//! Programs of the system that tests need. Where one is missing, the test is skipped, which is said
//! on standard error; with `FREEHOLD_REQUIRE_TOOLS` set, as in continuous integration, it fails.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;
use std::{env, io, thread};

/// The programs, and the packages of Debian in which they are.
const PACKAGES: &[(&str, &str)] = &[
    ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu, with libc6-dev-arm64-cross"),
    ("bash", "bash"),
    ("c++", "g++"),
    ("cargo", "cargo, or by rustup"),
    ("cc", "gcc"),
    ("g++", "g++"),
    ("gcc", "gcc"),
    ("git", "git"),
    ("javac", "default-jdk-headless"),
    ("musl-gcc", "musl-tools"),
    ("node", "nodejs"),
    ("objdump", "binutils"),
    ("perl", "perl"),
    ("python3", "python3, with libpython3.N-testsuite"),
    ("qemu-aarch64", "qemu-user"),
    ("qemu-system-aarch64", "qemu-system-arm"),
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("redis-benchmark", "redis-tools"),
    ("redis-cli", "redis-tools"),
    ("redis-server", "redis-server"),
    ("rustc", "rustc, or by rustup"),
    ("setpriv", "util-linux"),
    ("sort", "coreutils"),
    ("sqlite3", "sqlite3"),
    ("taskset", "util-linux"),
    ("unshare", "util-linux"),
    ("valgrind", "valgrind"),
];

/// How long building Freehold may take on a busy machine.
pub(crate) const BUILD_LIMIT: Duration = Duration::from_secs(600);

/// Finds a program; `None` says that the test is to be skipped.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let package = PACKAGES.iter().find(|(program, _)| *program == name);
    let (_, package) = package.unwrap_or_else(|| panic!("{name} is missing from the list"));
    let path = env::var_os("PATH").unwrap_or_default();
    let found =
        env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file());
    if found.is_none() {
        skip(&format!("{name} is not installed (Debian: {package})"));
    }
    found
}

/// Says that the running test is skipped, and why.
pub(crate) fn skip(reason: &str) {
    assert!(
        env::var_os("FREEHOLD_REQUIRE_TOOLS").is_none(),
        "FREEHOLD_REQUIRE_TOOLS is set, but {reason}"
    );
    say(&format!("skipped: {reason}"));
}

/// Says something about the running test that is to be seen even if it passes.
pub(crate) fn say(text: &str) {
    let thread = thread::current();
    let test = thread.name().unwrap_or("?");
    // Not by `eprintln!`, which the test harness keeps to itself. Nothing depends on being heard.
    let _ = writeln!(io::stderr(), "{test}: {text}");
}
