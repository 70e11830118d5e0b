//! A virtual machine with a kernel and a page size other than this machine's, or with settings that
//! are the whole machine's: booted once, emulated in full, with a few programs and the library, and
//! stopped when it has run what it was told to.
//!
//! Kernels stand in `target/kernels`, where `cargo xtask kernels` puts those that Debian has.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::child::{Child, Ended};
use super::cpio::Archive;
use super::{compile, tools};

/// How long a machine may take, on a host that has other things to do: it takes a minute.
const TIME_LIMIT: Duration = Duration::from_secs(900);

/// How often a machine is booted at most, if its kernel crashes.
const BOOTS: usize = 3;

/// What a machine is made of.
pub(crate) struct Kind {
    /// The file of its kernel.
    pub(crate) kernel: &'static str,
    pub(crate) emulator: &'static str,
    /// The emulator's arguments for the hardware.
    pub(crate) hardware: &'static [&'static str],
    pub(crate) console: &'static str,
    /// The C compiler, which knows where the libraries are as well.
    pub(crate) compiler: &'static str,
    /// The loader, by the path that programs know.
    pub(crate) loader: &'static str,
}

/// Where a kernel stands, or would.
fn kernel(name: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is below the target's");
    target.join("kernels").join(name)
}

impl Kind {
    /// Whether such a machine can be had here; if not, says what is missing.
    pub(crate) fn is_there(&self) -> bool {
        let kernel = kernel(self.kernel);
        if tools::find(self.emulator).is_none() || tools::find(self.compiler).is_none() {
            return false;
        }
        if !kernel.is_file() {
            let place = kernel.display();
            tools::skip(&format!("there is no kernel {place} (see docs/compatibility.md)"));
        }
        kernel.is_file()
    }

    /// Boots such a machine with what is in the archive `files`.
    fn boot(&self, files: &Path) -> Ended {
        let console = self.console;
        Child::new(tools::find(self.emulator).expect("asked for before"))
            .args(self.hardware)
            .args(["-smp", "2", "-accel", "tcg,thread=multi", "-m", "1024"])
            .args(["-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio"])
            .args(["-append", &format!("console={console} quiet loglevel=1 panic=-1")])
            .arg("-kernel")
            .arg(kernel(self.kernel))
            .arg("-initrd")
            .arg(files)
            .within(TIME_LIMIT)
            .run()
            .succeeded()
    }
}

/// A machine that has not been booted yet.
pub(crate) struct Machine {
    kind: &'static Kind,
    plan: String,
    files: Archive,
    /// The programs that are in its files: their paths here and there.
    programs: BTreeMap<PathBuf, String>,
}

/// The library, where the machine has it.
const LIBRARY: &str = "/lib/libfreehold.so";

impl Machine {
    /// One with the C library, and this library.
    pub(crate) fn new(kind: &'static Kind, freehold: &Path) -> Self {
        let mut files = Archive::default();
        for directory in ["/dev", "/lib", "/lib64", "/proc", "/sys", "/tmp"] {
            files.directory(directory);
        }
        let read = |path: &Path| fs::read(path).expect("it can be read");
        let init = compile::c_by(kind.compiler, "machine_init.c", &["-static"]);
        files.file("/init", &read(&init));
        let loader = kind.loader.rsplit('/').next().unwrap_or_default();
        files.file(kind.loader, &read(&of_compiler(kind.compiler, loader)));
        for name in ["libc.so.6", "libgcc_s.so.1", "libm.so.6"] {
            files.file(&format!("/lib/{name}"), &read(&of_compiler(kind.compiler, name)));
        }
        files.file(LIBRARY, &read(freehold));
        Self { kind, plan: String::new(), files, programs: BTreeMap::new() }
    }

    /// Writes a setting of the kernel before what follows is run.
    pub(crate) fn set(&mut self, file: &str, value: &str) {
        let _ = writeln!(self.plan, "set {file} {value}");
    }

    /// Runs a program under the library: with variables `NAME=value`, of which `RLIMIT_AS` and
    /// `RLIMIT_DATA` are limits, and with arguments. The name is what its outcome is asked for by.
    pub(crate) fn run(&mut self, name: &str, variables: &[&str], program: &Path, words: &[&str]) {
        let path = self.programs.entry(program.to_owned()).or_insert_with(|| {
            let path = format!("/{}", program.file_name().unwrap_or_default().to_string_lossy());
            self.files.file(&path, &fs::read(program).expect("it can be read"));
            path
        });
        let _ = write!(self.plan, "run {name} LD_PRELOAD={LIBRARY}");
        for word in variables.iter().copied().chain([path.as_str()]).chain(words.iter().copied()) {
            let _ = write!(self.plan, " {word}");
        }
        self.plan.push('\n');
    }

    /// Boots it, and waits until it stops. One machine runs at a time.
    pub(crate) fn boot(mut self) -> Outcomes {
        static TURN: Mutex<()> = Mutex::new(());
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        self.files.file("/plan", self.plan.as_bytes());
        let scratch = tempfile::tempdir().expect("a directory");
        let files = scratch.path().join("files.cpio");
        fs::write(&files, self.files.finish()).expect("there is room for the machine's files");
        for _ in 1..BOOTS {
            let ended = self.kind.boot(&files);
            if !has_crashed(&ended) {
                return Outcomes::read(&ended);
            }
            tools::say("the machine's kernel has crashed, and is booted again");
        }
        Outcomes::read(&self.kind.boot(&files))
    }
}

/// Whether the kernel has met a fault of its own. On a host with much to do the emulator lets a
/// kernel that changes its own code be seen in the middle of it, now and then.
fn has_crashed(machine: &Ended) -> bool {
    machine.out().contains("Kernel panic - not syncing: Fatal exception")
}

fn of_compiler(compiler: &str, file: &str) -> PathBuf {
    let asked = Child::new(compiler).arg(format!("-print-file-name={file}")).run().succeeded();
    PathBuf::from(asked.out().trim())
}

/// What a machine has reported.
pub(crate) struct Outcomes {
    /// The version of its kernel.
    pub(crate) release: String,
    pub(crate) page_size: u64,
    runs: BTreeMap<String, Ended>,
}

impl Outcomes {
    /// Reads what came over the console, as `c/machine_init.c` describes it.
    fn read(machine: &Ended) -> Self {
        let mut rest = machine.stdout.as_slice();
        let mut all = Self { release: String::new(), page_size: 0, runs: BTreeMap::new() };
        loop {
            let end = rest.iter().position(|&c| c == b'\n');
            machine.check(end.is_some(), "the machine was to come to its end");
            let (line, after) = rest.split_at(end.unwrap_or_default() + 1);
            rest = after;
            let line = String::from_utf8_lossy(line);
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["==", "end"] => return all,
                ["==", "machine", release, page_size] => {
                    release.clone_into(&mut all.release);
                    all.page_size = page_size.parse().expect("a number");
                }
                ["==", "set", ref what @ ..] => {
                    machine.check(what.last() == Some(&"done"), "settings were to be made");
                }
                ["==", "run", name, status, out, err] => {
                    let number = |word: &str| word.parse().expect("a number");
                    let (out, err): (usize, usize) = (number(out), number(err));
                    machine.check(rest.len() >= out + err, "all output was to come");
                    let (stdout, after) = rest.split_at(out);
                    let (stderr, after) = after.split_at(err);
                    rest = after;
                    let ended = Ended {
                        shown: format!("{name} on Linux {}", all.release),
                        status: ExitStatus::from_raw(status.parse().expect("a number")),
                        stdout: stdout.to_vec(),
                        stderr: stderr.to_vec(),
                    };
                    let former = all.runs.insert(name.to_owned(), ended);
                    assert!(former.is_none(), "{name} stands in the plan twice");
                }
                // What the firmware, or a kernel in distress, has to say.
                _ => {}
            }
        }
    }

    /// The outcome of what was run under this name.
    #[track_caller]
    pub(crate) fn of(&self, name: &str) -> &Ended {
        self.runs.get(name).unwrap_or_else(|| panic!("nothing was run as {name}"))
    }

    /// All that was run under a name that starts so, of which there is some.
    #[track_caller]
    pub(crate) fn starting<'a>(&'a self, start: &'a str) -> impl Iterator<Item = &'a Ended> {
        assert!(self.runs.keys().any(|name| name.starts_with(start)), "nothing is {start}…");
        self.runs.iter().filter(move |(name, _)| name.starts_with(start)).map(|(_, ended)| ended)
    }
}
