//! What the tests share: starting the command, and making what it is tried on.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::OnceLock;
use std::{env, fs};

use serde_json::Value;
use tempfile::TempDir;

/// Variables that would make a test depend on who runs it.
const SCRUBBED: [&str; 7] = [
    "CLICOLOR_FORCE",
    "FREEHOLD_PEERS",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "MALLOC_CONF",
    "NO_COLOR",
    "RUST_BACKTRACE",
];

/// The command, with a cache directory of the tests' own.
pub(crate) fn freehold() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_freehold"));
    for variable in SCRUBBED {
        command.env_remove(variable);
    }
    command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR")).stdin(Stdio::null());
    command
}

/// How the command ended, and what it wrote.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }
}

impl Ended {
    /// Insists on an exit status.
    #[track_caller]
    pub(crate) fn with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "out:\n{}\nerr:\n{}", self.out, self.err);
        self
    }
}

/// Runs the command with these arguments to its end.
#[track_caller]
pub(crate) fn run(arguments: &[&str]) -> Ended {
    freehold().args(arguments).output().expect("freehold can be started").into()
}

/// A JSON file or text.
#[track_caller]
pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in:\n{text}"))
}

#[track_caller]
pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn directory() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// The allocators found on this machine, as name and path.
pub(crate) fn found() -> &'static [(String, String)] {
    static FOUND: OnceLock<Vec<(String, String)>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let list = json(&run(&["allocators", "--json"]).with(0).out);
        let found = list["found"].as_array().expect("a list").iter();
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        found.map(|own| (text(&own["name"]), text(&own["library"]["path"]))).collect()
    })
}

/// The allocators that are libraries other than ours: the ones that a machine may lack.
pub(crate) fn other_libraries() -> Vec<(String, String)> {
    let others = found().iter().filter(|(name, _)| name != "freehold" && name != "system");
    let others: Vec<_> = others.cloned().collect();
    if others.is_empty() {
        skipped("no allocator library is installed");
    }
    others
}

/// Those of them that are installed where the loader finds a library by its name.
pub(crate) fn installed_libraries() -> Vec<(String, String)> {
    let libraries = other_libraries().into_iter();
    libraries.filter(|(_, path)| path.starts_with("/usr/") || path.starts_with("/lib")).collect()
}

/// What a name is without the version behind it.
pub(crate) fn family(name: &str) -> &str {
    let name = name.split('@').next().unwrap_or_default();
    match name.rsplit_once('-') {
        Some((family, number)) if number.parse::<u32>().is_ok() => family,
        _ => name,
    }
}

/// Says that a test, or a part of it, was not run.
pub(crate) fn skipped(reason: &str) {
    eprintln!("skipped: {reason}");
}

/// Compiles a C program or library; `None`, with a word on standard error, without a compiler
/// that can do it.
pub(crate) fn compiled(
    directory: &TempDir,
    name: &str,
    source: &str,
    flags: &[&str],
) -> Option<PathBuf> {
    let input = directory.path().join(format!("{name}.c"));
    fs::write(&input, source).expect("writable");
    built(directory, name, &input, flags)
}

/// The programs whose behaviour is known.
pub(crate) fn known_sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/known")
}

/// Compiles one of the programs whose behaviour is known.
pub(crate) fn known(directory: &TempDir, file: &str) -> Option<PathBuf> {
    let sources = known_sources();
    let name = file.split('.').next().expect("a name");
    let flags = ["-O2", "-g", "-pthread"];
    let program = built(directory, name, &sources.join(file), &flags);
    let compiles = || compiled(directory, "nothing", "int main(void) {}", &[]).is_some();
    assert!(program.is_some() || !compiles(), "{file} does not compile");
    program
}

/// Compiles one of the programs of these tests.
pub(crate) fn own_program(directory: &TempDir, name: &str) -> Option<PathBuf> {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/programs");
    let source = fs::read_to_string(programs.join(name).with_extension("c")).expect("it is there");
    let known = known_sources().to_string_lossy().into_owned();
    compiled(directory, name, &source, &["-O2", "-pthread", "-I", &known])
}

fn built(directory: &TempDir, name: &str, input: &Path, flags: &[&str]) -> Option<PathBuf> {
    let output = directory.path().join(name);
    let is_cpp = input.extension().is_some_and(|extension| extension == "cpp");
    let (variable, usual) = if is_cpp { ("CXX", "c++") } else { ("CC", "cc") };
    let compiler = env::var(variable).unwrap_or_else(|_| usual.to_owned());
    let built = Command::new(&compiler).arg("-o").arg(&output).arg(input).args(flags).output();
    match built {
        Ok(built) if built.status.success() => Some(output),
        Ok(built) => {
            skipped(&format!("{compiler} {flags:?}: {}", String::from_utf8_lossy(&built.stderr)));
            None
        }
        Err(error) => {
            skipped(&format!("no {compiler}: {error}"));
            None
        }
    }
}

/// A program that echoes a line when it is ready, and then waits.
pub(crate) struct Waiting {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Waiting {
    /// Starts the program, which must copy its input to its output as `cat` does, and waits
    /// until it is past its loader.
    pub(crate) fn start(command: &mut Command) -> Self {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("it can be started");
        let mut input = child.stdin.take().expect("piped");
        writeln!(input, "ready").expect("it reads");
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        output.read_line(&mut line).expect("it writes");
        assert_eq!(line, "ready\n");
        child.stdin = Some(input);
        Self { child, output }
    }

    /// Writes another line, and returns the answer.
    pub(crate) fn ask(&mut self) -> String {
        let input = self.child.stdin.as_mut().expect("it is kept until the end");
        writeln!(input, "and now").expect("it reads");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it writes");
        line
    }

    /// `cat` with this library preloaded.
    pub(crate) fn preloaded(library: &str) -> Self {
        Self::start(Command::new("cat").env("LD_PRELOAD", library))
    }

    pub(crate) fn pid(&self) -> String {
        self.child.id().to_string()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // Its input ends, and so does it.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Sends a signal to a process, which stays in the table until it is waited for.
pub(crate) fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status();
    assert!(sent.expect("kill exists").success());
}

/// Reads lines until one holds `wanted`, and returns it.
#[track_caller]
pub(crate) fn wait_for_line(reader: &mut impl BufRead, wanted: &str) -> String {
    let mut seen = String::new();
    loop {
        let mut line = String::new();
        let read = reader.read_line(&mut line).expect("readable");
        assert_ne!(read, 0, "no line with {wanted:?} in:\n{seen}");
        if line.contains(wanted) {
            return line;
        }
        seen.push_str(&line);
    }
}
