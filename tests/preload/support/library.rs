//! The library under test: built once, by the crate that carries it, and laid out as a file.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::{env, fs};

use super::child::Child;
use super::tools;

/// A directory of this package's own below the target directory, kept from run to run.
pub(crate) fn workshop() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("preload")
}

/// libfreehold.so.
pub(crate) fn shared() -> &'static Path {
    static PATH: LazyLock<PathBuf> = LazyLock::new(|| {
        freehold_embed::FREEHOLD
            .lay_out_in(&workshop().join("library"))
            .expect("the library is laid out")
    });
    &PATH
}

/// libfreehold.so as its developers build it, with debug assertions: built when a test asks for it.
pub(crate) fn checked() -> &'static Path {
    static PATH: LazyLock<PathBuf> =
        LazyLock::new(|| built("freehold-capi").join("libfreehold.so"));
    &PATH
}

/// A plugin in Rust with Freehold in it, as its developers build it.
pub(crate) fn plugin() -> PathBuf {
    built("freehold-plugin").join("libfreehold_plugin.so")
}

/// Builds a package as those do who change it, and returns the directory with what was made.
fn built(package: &str) -> PathBuf {
    let made = workshop().join("checked");
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
    Child::new(tools::find("cargo").expect("who runs the tests has it"))
        .args(["build", "--locked", "--package", package, "--manifest-path", manifest])
        .arg("--target-dir")
        .arg(&made)
        .within(tools::BUILD_LIMIT)
        .run()
        .succeeded();
    made.join("debug")
}

/// libfreehold.a: what the build of libfreehold.so left beside it.
pub(crate) fn archive() -> PathBuf {
    let test = env::current_exe().expect("a test has a path");
    let profile = test.ancestors().nth(2).expect("it stands in <profile>/deps");
    let builds = fs::read_dir(profile.join("build")).expect("embedding the library was a build");
    let is_embedding = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().starts_with("freehold-embed-")
    };
    let of_embedding = builds.flatten().map(|entry| entry.path()).filter(is_embedding);
    // There is one for each way in which the workspace was ever built: the right one has made the
    // very library that this test carries.
    of_embedding
        .flat_map(|build| fs::read_dir(build.join("out/target")).into_iter().flatten())
        .flatten()
        .map(|triple| triple.path().join("preload"))
        .find(|made| {
            fs::read(made.join("libfreehold.so"))
                .is_ok_and(|it| it == freehold_embed::FREEHOLD.bytes)
        })
        .expect("the build that made the library is still there")
        .join("libfreehold.a")
}

/// `freehold.h`'s directory.
pub(crate) fn include_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/capi/include")
}
