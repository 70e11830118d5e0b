//! What the parts share: the command, a program that allocates, and libraries for it.

use crate::metadata;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program that works for some tens of milliseconds, a good part of them in malloc and free.
const WORK: &str = r"
#include <stdlib.h>
#include <string.h>
int main(void) {
    unsigned long sum = 0;
    for (int round = 0; round < 4000; round++) {
        char *blocks[50];
        for (int i = 0; i < 50; i++) memset(blocks[i] = malloc(16 + 40 * i), round, 16 + 40 * i);
        for (int i = 0; i < 50; i++) { sum += blocks[i][i]; free(blocks[i]); }
    }
    return sum == 1;
}
";

/// A library that serves malloc by forwarding it to the C library, after waiting for a moment.
const FORWARD: &str = r"
#include <stddef.h>
void *__libc_malloc(size_t size);
void __libc_free(void *block);
void *malloc(size_t size) {
    for (volatile int i = 0; i < DELAY; i++) {}
    return __libc_malloc(size);
}
void free(void *block) { __libc_free(block); }
";

/// The command, and a place for what is compiled.
pub(super) struct Bench {
    freehold: PathBuf,
    place: PathBuf,
    /// The program.
    pub(super) work: String,
}

impl Bench {
    /// Builds the command and the program.
    pub(super) fn set_up() -> Result<Self, String> {
        let workspace = metadata::read(false);
        let target = metadata::target(&workspace);
        let place = target.join("comparisons");
        fs::create_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        let mut build = Command::new(cargo);
        finish(build.args(["build", "--release", "--locked", "-p", "freehold-cli"]))?;
        let freehold = target.join("release/freehold");
        let mut bench = Self { freehold, place, work: String::new() };
        bench.work = bench.compile("work", WORK, &["-O1", "-fno-builtin"])?;
        Ok(bench)
    }

    /// A library that waits for so many turns of a loop in each malloc.
    pub(super) fn library(&self, name: &str, delay: u32) -> Result<String, String> {
        let define = format!("-DDELAY={delay}");
        self.compile(name, FORWARD, &["-O1", "-shared", "-fPIC", "-fno-builtin-malloc", &define])
    }

    fn compile(&self, name: &str, source: &str, flags: &[&str]) -> Result<String, String> {
        let (input, output) = (self.place.join(format!("{name}.c")), self.place.join(name));
        fs::write(&input, source).map_err(|error| format!("{}: {error}", input.display()))?;
        finish(Command::new("cc").args(flags).arg("-o").arg(&output).arg(&input))?;
        Ok(output.to_string_lossy().into_owned())
    }

    /// The library of Freehold, under this name.
    pub(super) fn copy_of_freehold(&self, name: &str) -> Result<String, String> {
        let path = self.place.join(name);
        finish(Command::new(&self.freehold).arg("lib").arg("--output").arg(&path))?;
        Ok(path.to_string_lossy().into_owned())
    }

    /// What a comparison with these arguments finds.
    pub(super) fn compare(&self, arguments: &[&str]) -> Result<Value, String> {
        let mut command = Command::new(&self.freehold);
        command.args(["compare", "--quiet", "--json", "-"]).args(arguments);
        let output = command.stderr(Stdio::null()).output();
        let output = output.map_err(|error| format!("{command:?}: {error}"))?;
        serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("{command:?}: {}: {error}", output.status))
    }
}

/// Runs a command to its end, which must be a good one.
fn finish(command: &mut Command) -> Result<(), String> {
    match command.stdin(Stdio::null()).stdout(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}")),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}

/// What the summary of a comparison says of a measure of one of its allocators.
pub(super) fn measure<'a>(found: &'a Value, allocator: usize, name: &str) -> &'a Value {
    let cells = found["summary"]["cells"].as_array().into_iter().flatten();
    let cell = cells.into_iter().find(|cell| cell["allocator"] == allocator);
    cell.map_or(&Value::Null, |cell| &cell["measures"][name])
}

/// A path as an argument that lists two of them.
pub(super) fn list(first: &str, second: &str) -> String {
    format!("{first},{second}")
}

/// Whether a program is there.
pub(super) fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|place| Path::new(&place).join(program).is_file())
}
