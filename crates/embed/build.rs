//! Builds the libraries for the program that carries them.
//!
//! They are built by a cargo of its own, with the profile in which they are released: a debug build
//! of the tools, a lint run or a coverage run still carries the libraries that users get.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The crates that the libraries are made of, in the order of their arrows.
const SOURCES: [&str; 11] = [
    "sys", "sync", "heap", "rt", "freehold", "cxx", "capi", "classic", "trace", "recorder", "asker",
];

/// Each library's package, its file, and the variable that tells the crate where it is.
const LIBRARIES: [[&str; 3]; 8] = [
    ["freehold-capi", "libfreehold.so", "FREEHOLD_LIBRARY"],
    ["freehold-recorder", "libfreehold_recorder.so", "FREEHOLD_RECORDER"],
    ["freehold-asker", "libfreehold_asker.so", "FREEHOLD_ASKER"],
    ["freehold-model-serial", "libfreehold_model_serial.so", "FREEHOLD_MODEL_SERIAL"],
    ["freehold-model-mtmalloc", "libfreehold_model_mtmalloc.so", "FREEHOLD_MODEL_MTMALLOC"],
    [
        "freehold-model-mtmalloc-exclusive",
        "libfreehold_model_mtmalloc_exclusive.so",
        "FREEHOLD_MODEL_MTMALLOC_EXCLUSIVE",
    ],
    ["freehold-model-private", "libfreehold_model_private.so", "FREEHOLD_MODEL_PRIVATE"],
    ["freehold-model-ownership", "libfreehold_model_ownership.so", "FREEHOLD_MODEL_OWNERSHIP"],
];

const PROFILE: &str = "preload";

/// Variables by which an outer cargo, a linter or a coverage tool would change how the library is
/// compiled.
const SCRUBBED: [&str; 8] = [
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_TARGET_DIR",
    "CLIPPY_ARGS",
    "LLVM_PROFILE_FILE",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_WRAPPER",
    "RUSTDOCFLAGS",
    "RUSTFLAGS",
];

/// Beginnings of the names of further such variables, and endings that are spared: a linker for
/// another architecture is needed to build at all.
const SCRUBBED_PREFIXES: [&str; 3] = ["CARGO_BUILD_", "CARGO_PROFILE_", "CARGO_TARGET_"];
const SPARED_SUFFIXES: [&str; 2] = ["_LINKER", "_AR"];

fn main() {
    let root = variable("CARGO_MANIFEST_DIR").join("../..");
    for crate_name in SOURCES {
        watch(&root.join("crates").join(crate_name));
    }
    watch(&root.join("Cargo.toml"));
    watch(&root.join("Cargo.lock"));

    let out = variable("OUT_DIR");
    let built = build(&root, &out.join("target"));
    for [_, file, variable] in LIBRARIES {
        let (built, library) = (built.join(file), out.join(file));
        if let Err(error) = fs::copy(&built, &library) {
            panic!("cannot copy {} to {}: {error}", built.display(), library.display());
        }
        println!("cargo::rustc-env={variable}={}", library.display());
    }
}

/// Builds the libraries and returns the directory that they are in.
fn build(root: &Path, target_dir: &Path) -> PathBuf {
    let target = env::var("TARGET").expect("cargo tells build scripts the target");
    let mut cargo = Command::new(variable("CARGO"));
    cargo
        .args(["build", "--locked", "--profile", PROFILE])
        .args(LIBRARIES.iter().flat_map(|[package, ..]| ["--package", package]))
        .args(["--target", &target])
        .arg("--manifest-path")
        .arg(root.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target_dir);
    for (name, _) in env::vars_os() {
        if is_scrubbed(&name.to_string_lossy()) {
            cargo.env_remove(name);
        }
    }
    let status = cargo.status().expect("cargo can be run");
    assert!(status.success(), "building the libraries ended with {status}");
    target_dir.join(target).join(PROFILE)
}

fn is_scrubbed(name: &str) -> bool {
    let is_spared = SPARED_SUFFIXES.iter().any(|suffix| name.ends_with(suffix));
    SCRUBBED.contains(&name)
        || (SCRUBBED_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) && !is_spared)
}

fn watch(path: &Path) {
    println!("cargo::rerun-if-changed={}", path.display());
}

fn variable(name: &str) -> PathBuf {
    let value = env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name} for build scripts"));
    PathBuf::from(value)
}
