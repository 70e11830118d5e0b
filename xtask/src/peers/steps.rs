//! The steps that builds are made of: running programs with a log, copying trees, and loading the
//! result.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

/// Bytes at the end of a log that are shown when a step fails.
const SHOWN: usize = 2_000;

/// A file that collects what the programs of a build print.
pub(super) struct Log(PathBuf);

impl Log {
    /// The log of the build in this directory.
    pub(super) fn new(scratch: &Path) -> Self {
        Self(scratch.join("build.log"))
    }

    /// Runs a program to its end, which must be a good one.
    pub(super) fn run(&self, command: &mut Command) -> Result<(), String> {
        let words = format!("{command:?}");
        let failed = |reason: String| format!("{words}: {reason}");
        let output = File::options().create(true).append(true).open(&self.0);
        let output = output.map_err(|e| failed(e.to_string()))?;
        let errors = output.try_clone().map_err(|e| failed(e.to_string()))?;
        let status = command.stdin(Stdio::null()).stdout(output).stderr(errors).status();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(failed(format!("{status}\n{}", self.end()))),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    fn end(&self) -> String {
        let mut bytes = Vec::new();
        if let Ok(mut file) = File::open(&self.0) {
            // What cannot be read cannot be shown; the status was.
            let _ = file.read_to_end(&mut bytes);
        }
        let start = bytes.len().saturating_sub(SHOWN);
        String::from_utf8_lossy(&bytes[start..]).into_owned()
    }
}

/// Makes sure that these programs can be run.
pub(super) fn require(programs: &[&str]) -> Result<(), String> {
    let path = env::var_os("PATH").unwrap_or_default();
    let exists = |name: &&&str| env::split_paths(&path).any(|place| place.join(name).is_file());
    let missing: Vec<_> = programs.iter().filter(|name| !exists(name)).copied().collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!(
        "needs {}; on Debian and Ubuntu: apt install gcc g++ make cmake",
        missing.join(", ")
    ))
}

/// How many programs may run at once, as an argument.
pub(super) fn jobs() -> String {
    thread::available_parallelism().map_or(1, usize::from).to_string()
}

/// Copies a directory into another one, which may be there already.
pub(super) fn copy_tree(from: &Path, to: &Path) -> Result<(), String> {
    let copy = || -> io::Result<()> {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let target = to.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                copy_tree(&entry.path(), &target).map_err(io::Error::other)?;
            } else {
                fs::copy(entry.path(), target)?;
            }
        }
        Ok(())
    };
    copy().map_err(|error| format!("{}: {error}", from.display()))
}

/// Runs a program with the library preloaded, which shows its own memory map: the library must be
/// in it.
pub(super) fn prove_preloadable(library: &Path) -> Result<(), String> {
    let library = fs::canonicalize(library).map_err(|error| error.to_string())?;
    let mut cat = Command::new("cat");
    let output = cat.arg("/proc/self/maps").env("LD_PRELOAD", &library).output();
    let output = output.map_err(|error| format!("cat: {error}"))?;
    let maps = String::from_utf8_lossy(&output.stdout);
    if output.status.success() && maps.contains(&*library.to_string_lossy()) {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("cat with the library preloaded: {}\n{errors}", output.status))
}
