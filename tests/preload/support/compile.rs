//! Compiling the C and C++ programs that stand beside the tests.
//!
//! What is compiled is kept below the target directory under a name made of everything that went
//! into it, so that it is compiled again only when that has changed.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fs, process};

use super::library;

/// For programs and libraries alike. Without builtins, since the compiler would otherwise remove
/// pairs of malloc and free, which is what these programs are about.
const C_FLAGS: &[&str] =
    &["-std=gnu17", "-O1", "-g", "-Wall", "-Wextra", "-fno-builtin", "-pthread"];
const CXX_FLAGS: &[&str] = &["-std=c++17", "-O1", "-g", "-Wall", "-Wextra", "-pthread"];
const SHARED: &[&str] = &["-shared", "-fPIC"];

/// The directory of the sources.
pub(crate) fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("preload")
}

/// Compiles the program `c/<name>`.
pub(crate) fn c(name: &str) -> PathBuf {
    c_with(name, &[])
}

/// Compiles the program `c/<name>` with further arguments.
pub(crate) fn c_with(name: &str, arguments: &[&str]) -> PathBuf {
    c_by("cc", name, arguments)
}

/// Compiles the program `c/<name>` with this compiler and further arguments.
pub(crate) fn c_by(compiler: &str, name: &str, arguments: &[&str]) -> PathBuf {
    build(compiler, &sources().join("c").join(name), C_FLAGS, arguments)
}

/// Compiles the library `c/<name>`.
pub(crate) fn c_library(name: &str) -> PathBuf {
    c_library_with(name, &[])
}

/// Compiles the library `c/<name>` with further arguments.
pub(crate) fn c_library_with(name: &str, arguments: &[&str]) -> PathBuf {
    c_with(name, &[SHARED, arguments].concat())
}

/// Compiles the program `cxx/<name>`.
pub(crate) fn cxx(name: &str) -> PathBuf {
    cxx_with(name, &[])
}

/// Compiles the program `cxx/<name>` with further arguments.
pub(crate) fn cxx_with(name: &str, arguments: &[&str]) -> PathBuf {
    build("c++", &sources().join("cxx").join(name), CXX_FLAGS, arguments)
}

/// Compiles a source that stands elsewhere, with these arguments only.
pub(crate) fn file(compiler: &str, source: &Path, arguments: &[&str]) -> PathBuf {
    build(compiler, source, &[], arguments)
}

/// Everything that a source may include.
static HEADERS: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let paths = [
        sources().join("c/check.h"),
        sources().join("c/calls.h"),
        library::include_directory().join("freehold.h"),
    ];
    let read = |path: &PathBuf| fs::read(path).expect("headers can be read");
    paths.iter().flat_map(read).collect()
});

fn build(compiler: &str, source: &Path, flags: &[&str], arguments: &[&str]) -> PathBuf {
    let mut inputs = DefaultHasher::new();
    (compiler, flags, arguments).hash(&mut inputs);
    fs::read(source).expect("sources can be read").hash(&mut inputs);
    HEADERS.hash(&mut inputs);
    // A library that is linked in keeps its name when it is built again.
    for library in arguments.iter().filter(|argument| Path::new(argument).is_file()) {
        fs::read(library).expect("libraries can be read").hash(&mut inputs);
    }
    let stem = source.file_stem().unwrap_or_default().to_string_lossy();
    let directory = library::workshop().join("compiled");
    let product = directory.join(format!("{stem}-{:016x}", inputs.finish()));
    if !product.exists() {
        fs::create_dir_all(&directory).expect("a directory for what is compiled");
        compile(compiler, source, flags, arguments, &product);
    }
    product
}

/// Compiles to a file of this call's own, which then takes its name in one step: other tests may
/// be compiling the same.
fn compile(compiler: &str, source: &Path, flags: &[&str], arguments: &[&str], product: &Path) {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let draft = product.with_extension(format!("{}-{call}", process::id()));
    let output = Command::new(compiler)
        .args(flags)
        .arg("-I")
        .arg(library::include_directory())
        .arg("-I")
        .arg(sources().join("c"))
        .arg("-o")
        .arg(&draft)
        .arg(source)
        .args(arguments)
        .env("LC_ALL", "C")
        .output()
        .unwrap_or_else(|error| panic!("the tests need {compiler}: {error}"));
    assert!(
        output.status.success(),
        "{compiler} {}: {}\n{}",
        source.display(),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    fs::rename(&draft, product).expect("the product gets its name");
}
