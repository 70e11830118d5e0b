//! Freehold for other targets than the one that the tests are built for: built when a test asks for
//! it, if the machine has what that needs.

use std::path::PathBuf;

use super::child::Child;
use super::{compile, library, tools};

/// A target, and what building for it takes.
pub(crate) struct Target {
    pub(crate) triple: &'static str,
    /// The C compiler, which links libraries as well.
    pub(crate) compiler: &'static str,
    /// What links Rust's programs.
    pub(crate) linker: &'static str,
    /// For rustc, when libraries are built.
    pub(crate) flags: &'static str,
}

impl Target {
    /// Whether this machine can build for it; if not, says what is missing.
    pub(crate) fn is_there(&self) -> bool {
        let Some(rustc) = tools::find("rustc") else { return false };
        if tools::find(self.compiler).is_none() {
            return false;
        }
        let asked = ["--print", "target-libdir", "--target", self.triple];
        let said = Child::new(rustc).args(asked).run().succeeded().out();
        let has_library = PathBuf::from(said.trim()).is_dir();
        if !has_library {
            tools::skip(&format!("Rust's library is missing: rustup target add {}", self.triple));
        }
        has_library
    }

    /// The directory with `libfreehold.so` and `libfreehold.a`.
    pub(crate) fn libraries(&self) -> PathBuf {
        let release = ["--package", "freehold-capi", "--profile", "preload"];
        self.build(self.compiler, self.flags, &release).join("preload")
    }

    /// A program of this package.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        let what = ["--package", "freehold-tests", "--bin", name];
        self.build(self.linker, "", &what).join("debug").join(name)
    }

    fn build(&self, linker: &str, flags: &str, what: &[&str]) -> PathBuf {
        let made = library::workshop().join("cross");
        let variable = self.triple.to_uppercase().replace('-', "_");
        let cargo = tools::find("cargo").expect("who runs the tests has it");
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
        Child::new(cargo)
            .args(["build", "--locked", "--manifest-path", manifest])
            .args(["--target", self.triple, "--target-dir"])
            .arg(&made)
            .args(what)
            .env("RUSTFLAGS", flags)
            .env(&format!("CARGO_TARGET_{variable}_LINKER"), linker)
            .within(tools::BUILD_LIMIT)
            .run()
            .succeeded();
        made.join(self.triple)
    }

    /// Compiles the program `c/<name>` with further arguments.
    pub(crate) fn c(&self, name: &str, arguments: &[&str]) -> PathBuf {
        compile::c_by(self.compiler, name, arguments)
    }
}
