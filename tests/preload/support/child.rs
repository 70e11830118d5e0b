//! Running a program to its end, with everything it wrote, under a time limit.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child as Process, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};
use std::{env, thread};

use rustix::process::{Pid, Signal, kill_process_group};

use super::library;

/// How long a program may take unless a test says otherwise: far more than any needs, since the
/// machine may be busy.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// What a program gets of this process's environment: what it needs to find things, and nothing
/// that cargo or the user has set for other purposes.
const INHERITED: &[&str] = &[
    "CARGO_HOME",
    "HOME",
    "JAVA_HOME",
    "LOGNAME",
    "PATH",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "TMPDIR",
    "USER",
];

/// The longest part of an output that is shown when a test fails.
const SHOWN: usize = 20_000;

/// A program to be run.
pub(crate) struct Child {
    command: Command,
    shown: String,
    input: Vec<u8>,
    preloads: Vec<OsString>,
    time_limit: Duration,
}

impl Child {
    /// A program without arguments, in a small environment of which the same comes out everywhere.
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(program.as_ref());
        command.env_clear().env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
        for name in INHERITED {
            if let Some(value) = env::var_os(name) {
                command.env(name, value);
            }
        }
        Self {
            command,
            shown: program.as_ref().to_string_lossy().into_owned(),
            input: Vec::new(),
            preloads: Vec::new(),
            time_limit: TIME_LIMIT,
        }
    }

    /// Adds an argument.
    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.shown += " ";
        self.shown += &argument.as_ref().to_string_lossy();
        self.command.arg(argument);
        self
    }

    /// Adds arguments.
    pub(crate) fn args<A: AsRef<OsStr>>(self, arguments: impl IntoIterator<Item = A>) -> Self {
        arguments.into_iter().fold(self, Self::arg)
    }

    /// Sets a variable.
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sets the working directory.
    pub(crate) fn dir(mut self, directory: &Path) -> Self {
        self.command.current_dir(directory);
        self
    }

    /// Sets the standard input.
    pub(crate) fn input(mut self, text: impl Into<Vec<u8>>) -> Self {
        self.input = text.into();
        self
    }

    /// Sets the time limit.
    pub(crate) fn within(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// Preloads a library, after those preloaded so far.
    pub(crate) fn preload(mut self, library: &Path) -> Self {
        self.preloads.push(library.into());
        self
    }

    /// Preloads Freehold.
    pub(crate) fn freehold(self) -> Self {
        self.preload(library::shared())
    }

    /// Starts the program, without waiting for anything.
    pub(crate) fn start(mut self) -> Running {
        if !self.preloads.is_empty() {
            self.command.env("LD_PRELOAD", self.preloads.join(OsStr::new(":")));
        }
        self.command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let started = Instant::now();
        let mut process = self
            .command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", self.shown));
        let mut stdin = process.stdin.take().expect("a pipe");
        let input = self.input;
        // A program need not read its input to the end; that is for the test to judge.
        thread::spawn(move || stdin.write_all(&input));
        Running {
            shown: self.shown,
            stdout: read_all(process.stdout.take().expect("a pipe")),
            stderr: read_all(process.stderr.take().expect("a pipe")),
            process,
            started,
            time_limit: self.time_limit,
        }
    }

    /// Runs the program to its end.
    pub(crate) fn run(self) -> Ended {
        self.start().wait()
    }
}

/// Reads in a thread of its own: a program that fills one pipe while we wait at the other would
/// wait for ever.
fn read_all(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut all = Vec::new();
        // What came before an error is as good as anything.
        let _ = pipe.read_to_end(&mut all);
        // The receiver is gone when the test has failed already.
        let _ = sender.send(all);
    });
    receiver
}

/// A program that was started. It does not outlive this value.
pub(crate) struct Running {
    process: Process,
    shown: String,
    stdout: Receiver<Vec<u8>>,
    stderr: Receiver<Vec<u8>>,
    started: Instant,
    time_limit: Duration,
}

impl Running {
    /// Waits until the program, and everything it started, has ended. Past the time limit all of
    /// it is killed, and the test fails.
    pub(crate) fn wait(mut self) -> Ended {
        let deadline = self.started + self.time_limit;
        // The pipes end when the last process that has them has ended.
        let left = || deadline.saturating_duration_since(Instant::now());
        let stdout = self.stdout.recv_timeout(left());
        let stderr = self.stderr.recv_timeout(left());
        let status = self.wait_until(deadline).expect("a child can be waited for");
        let (Ok(stdout), Ok(stderr), Some(status)) = (stdout, stderr, status) else {
            self.fail_late(status);
        };
        Ended { shown: self.shown.clone(), status, stdout, stderr }
    }

    fn wait_until(&mut self, deadline: Instant) -> io::Result<Option<ExitStatus>> {
        let mut pause = Duration::from_micros(100);
        loop {
            let status = self.process.try_wait()?;
            if status.is_some() || Instant::now() >= deadline {
                return Ok(status);
            }
            thread::sleep(pause);
            pause = (2 * pause).min(Duration::from_millis(20));
        }
    }

    fn fail_late(&mut self, status: Option<ExitStatus>) -> ! {
        self.kill();
        let rest = Duration::from_secs(5);
        let stdout = self.stdout.recv_timeout(rest).unwrap_or_default();
        let stderr = self.stderr.recv_timeout(rest).unwrap_or_default();
        let state = match status {
            None => "was still running".to_owned(),
            Some(status) => format!("had ended ({status}) and left processes behind"),
        };
        panic!("{} {state} after {:?}\n{}", self.shown, self.time_limit, both(&stdout, &stderr));
    }

    fn kill(&mut self) {
        if let Some(group) = Pid::from_raw(self.process.id().cast_signed()) {
            // There may be nobody left.
            let _ = kill_process_group(group, Signal::KILL);
        }
        // Only what is killed is waited for, so this ends.
        let _ = self.process.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(None)) {
            self.kill();
        }
    }
}

/// A program that has ended.
pub(crate) struct Ended {
    pub(crate) shown: String,
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl Ended {
    /// The standard output as text.
    pub(crate) fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// The standard error as text.
    pub(crate) fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Fails the test unless the program ended well.
    #[track_caller]
    pub(crate) fn succeeded(self) -> Self {
        self.has_succeeded();
        self
    }

    /// The same for a program that was asked about before.
    #[track_caller]
    pub(crate) fn has_succeeded(&self) {
        self.check(self.status.success(), "it was to succeed");
    }

    /// Fails the test unless the program was ended by SIGABRT.
    #[track_caller]
    pub(crate) fn aborted(self) -> Self {
        const SIGABRT: i32 = 6;
        self.check(self.status.signal() == Some(SIGABRT), "it was to abort");
        self
    }

    /// Fails the test unless the program was ended by SIGSEGV.
    #[track_caller]
    pub(crate) fn crashed(self) -> Self {
        const SIGSEGV: i32 = 11;
        self.check(self.status.signal() == Some(SIGSEGV), "it was to crash");
        self
    }

    /// Fails the test, and shows everything about the program, unless `holds`.
    #[track_caller]
    pub(crate) fn check(&self, holds: bool, what: &str) {
        assert!(
            holds,
            "{what}\n{} ended: {}\n{}",
            self.shown,
            self.status,
            both(&self.stdout, &self.stderr)
        );
    }

    /// The value of the line `name: value` in the output.
    #[track_caller]
    pub(crate) fn value(&self, name: &str) -> String {
        let output = self.out();
        let line = output.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        self.check(line.is_some(), &format!("it was to say \"{name}: …\""));
        line.unwrap_or_default().to_owned()
    }

    /// The number in the line `name: number` in the output.
    #[track_caller]
    pub(crate) fn number(&self, name: &str) -> u64 {
        let value = self.value(name);
        let number = value.split(' ').next().and_then(|it| it.parse().ok());
        self.check(number.is_some(), &format!("\"{name}\" was to be a number"));
        number.unwrap_or_default()
    }
}

fn both(stdout: &[u8], stderr: &[u8]) -> String {
    let tail = |bytes: &[u8]| {
        let from = bytes.len().saturating_sub(SHOWN);
        String::from_utf8_lossy(&bytes[from..]).into_owned()
    };
    format!("--- output\n{}\n--- errors\n{}", tail(stdout), tail(stderr))
}
