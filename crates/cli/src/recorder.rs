//! Running a command with its allocation calls recorded, and reading traces. It must not know what
//! is made of a trace.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use std::{env, fs, io};

use clap::Args;
use freehold_lab::child::Runner;
use freehold_lab::replay::{self, Job, Pair};
use freehold_lab::trace::{Draft, LEAST_LIMIT, Tolerance, Trace, TraceError, recording};
use freehold_lab::{launch, machine};
use freehold_model::{Allocator, ProcessRecording, RecordingCost, Touch};

use crate::args::parse_bytes;
use crate::attend::Attendant;
use crate::catalogue::Catalogue;
use crate::exit::{Exit, Failure};
use crate::{advice, start, ui};

/// The variable by which the recorder finds the trace.
const VARIABLE: &str = freehold_lab::trace::VARIABLE;

/// How a command is recorded.
#[derive(Debug, Args)]
#[command(next_help_heading = "Recording")]
pub(crate) struct RecorderArgs {
    /// The allocator that serves the calls: a name, or the path of a library; by default, the one
    /// that the command has anyway
    #[arg(short, long, value_name = "ALLOCATOR")]
    pub(crate) allocator: Option<String>,
    /// The most that the trace may take; as it fills, a share of the objects is recorded
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = parse_limit)]
    pub(crate) limit: u64,
}

fn parse_limit(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text)?;
    if bytes < LEAST_LIMIT { Err("must be at least 1M".to_owned()) } else { Ok(bytes) }
}

/// A command that was recorded.
pub(crate) struct Recorded {
    /// How it ended.
    pub(crate) status: ExitStatus,
    /// Processor time that it and what it started have used.
    pub(crate) processor_seconds: f64,
    /// The trace, locked until it has been read.
    _draft: Draft,
    sealed: Option<File>,
}

impl Recorded {
    /// Whether the trace could be sealed.
    pub(crate) fn is_sealed(&self) -> bool {
        self.sealed.is_some()
    }
}

impl RecorderArgs {
    /// Runs a command to its end and records it into the trace at `path`, with `adjust` applied to
    /// it before it is started. Whoever makes a directory for the trace needs the attendant before
    /// that, so that no signal keeps the directory from being taken away.
    pub(crate) fn record(
        &self,
        mut attendant: Attendant,
        command: &[OsString],
        path: &Path,
        adjust: impl FnOnce(&mut Command),
    ) -> Result<Recorded, Failure> {
        let (name, arguments) = command
            .split_first()
            .ok_or_else(|| Failure::new(Exit::Usage, "no command is given"))?;
        let mut armed = Armed::new(name, self.allocator.as_deref(), path, self.limit)?;
        if let Some(bytes) = armed.draft.shortened() {
            ui::warn(&advice::short_files(bytes));
        }
        let mut prepared = Command::new(name);
        prepared.args(arguments);
        armed.apply(&mut prepared);
        adjust(&mut prepared);
        let before = machine::children_seconds();
        if let Some(signal) = attendant.called_off() {
            let message = "called off before the command was started";
            return Err(Failure::new(Exit::Signal(signal), message));
        }
        let mut child = prepared.spawn().map_err(|error| start::not_started(name, &error))?;
        armed.draft.keep();
        let status = attendant.wait(&mut child)?;
        let processor_seconds = machine::children_seconds() - before;
        let sealed = match armed.draft.seal() {
            Ok(sealed) => Some(sealed),
            // What was recorded is there nevertheless, and the command has ended as it has.
            Err(error @ TraceError::Read(_)) => {
                ui::warn(&advice::unsealed(path, &error));
                None
            }
            Err(error) => return Err(unreadable(path, &error)),
        };
        let Armed { draft, .. } = armed;
        Ok(Recorded { status, processor_seconds, _draft: draft, sealed })
    }
}

/// A recorder that is ready for a command.
pub(crate) struct Armed {
    draft: Draft,
    preload: OsString,
}

impl Armed {
    /// Makes a trace at `path`, of at most `limit` bytes, for the command of this name and for the
    /// allocator that is to serve it, if that is another than it has anyway.
    pub(crate) fn new(
        name: &OsStr,
        allocator: Option<&str>,
        path: &Path,
        limit: u64,
    ) -> Result<Self, Failure> {
        let preload = preloaded(name, allocator)?;
        let draft = Draft::create(path, limit).map_err(|error| {
            let failure = Failure::error(format!("cannot write {}", path.display()), &error);
            let is_busy = error.kind() == io::ErrorKind::ResourceBusy;
            if is_busy { failure.hint(advice::another_trace()) } else { failure }
        })?;
        Ok(Self { draft, preload })
    }

    /// Makes a command record its calls.
    pub(crate) fn apply(&self, command: &mut Command) {
        command.env(launch::PRELOAD, &self.preload).env(VARIABLE, &self.draft.path);
    }
}

impl RecorderArgs {
    /// Measures what recording adds to the calls of a process, by making some of them again, until
    /// somebody sets `give_up`.
    pub(crate) fn cost(
        &self,
        trace: &Trace,
        process: &ProcessRecording,
        give_up: &AtomicBool,
    ) -> Result<RecordingCost, Failure> {
        let catalogue = Catalogue::new(&[])?;
        let behind = match &self.allocator {
            Some(name) => catalogue.get(name)?,
            None => catalogue.serving(&process.allocator)?,
        };
        let (directory, scratch) = scratch()?;
        let script = directory.path().join("script");
        let written = replay::write(trace, process, Some(CALLS_AGAIN), &script);
        written.map_err(|error| Failure::error("cannot plan calls", &error))?;
        let job = Job { script, touch: Touch::First, settle_seconds: 0.0 };
        let pair = Pair {
            recorder: &catalogue.recorder()?,
            behind: &behind,
            scratch: &scratch,
            limit: self.limit,
        };
        replay::cost(&job, &pair, &runner(LONGEST_COST)?, give_up)
            .map_err(|failure| Failure::new(Exit::Error, failure.detail))
    }
}

/// How many calls are made again to know what recording costs: a second or two in all.
const CALLS_AGAIN: u64 = 2_000_000;

/// How long one run of that may take.
const LONGEST_COST: Duration = Duration::from_secs(60);

/// How children of this very program are run.
pub(crate) fn runner(timeout: Duration) -> Result<Runner, Failure> {
    let program = env::current_exe()
        .map_err(|error| Failure::error("cannot find this executable", &error))?;
    Ok(Runner { program, timeout })
}

/// What is to be preloaded for a command of this name to be recorded, or counted, with the
/// allocator that is to serve it, if that is another than it has anyway.
pub(crate) fn preloaded(name: &OsStr, allocator: Option<&str>) -> Result<OsString, Failure> {
    let catalogue = Catalogue::new(&[])?;
    let recorder = catalogue.recorder()?;
    let behind = allocator.map(|name| catalogue.get(name)).transpose()?;
    let program = launch::resolve(name).ok_or_else(|| start::not_found(name))?;
    for allocator in [Some(&recorder), behind.as_ref()].into_iter().flatten() {
        if let Some(reason) = launch::obstacle(&program, allocator) {
            return Err(Failure::new(Exit::NotLive, reason));
        }
    }
    preload(&recorder, behind.as_ref())
}

/// The recorder, then the allocator behind it, then whatever is preloaded already.
fn preload(recorder: &Allocator, behind: Option<&Allocator>) -> Result<OsString, Failure> {
    let list = match behind {
        Some(allocator) => launch::preload_value(allocator)
            .map_err(|error| Failure::new(Exit::NotLive, error.to_string()))?,
        None => env::var_os(launch::PRELOAD),
    };
    let list = list.as_deref().unwrap_or(OsStr::new(""));
    Ok(launch::before(&recorder.library.path, list))
}

/// Which trace to read, and how.
#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// The process, by its number in the trace; by default, the one with the most calls
    #[arg(long, value_name = "N")]
    pub(crate) process: Option<u32>,
    /// Use what can be read of a damaged trace
    #[arg(long)]
    pub(crate) salvage: bool,
}

impl TraceArgs {
    /// Opens a trace.
    pub(crate) fn open(&self, path: &Path) -> Result<Trace, Failure> {
        let tolerance = if self.salvage { Tolerance::Salvage } else { Tolerance::None };
        let trace = Trace::open(path, tolerance).map_err(|error| unreadable(path, &error))?;
        let damage = trace.damage();
        if let Some(first) = damage.first() {
            ui::warn(&advice::salvaged(damage.len(), first));
        }
        if !trace.is_sealed() {
            ui::warn(advice::not_sealed());
        }
        Ok(trace)
    }

    /// What was recorded of the process that is meant.
    pub(crate) fn choose(&self, trace: &Trace, path: &Path) -> Result<ProcessRecording, Failure> {
        let read = |error| unreadable(path, &error);
        if let Some(number) = self.process {
            let named =
                trace.process(number).and_then(|_| freehold_lab::trace::totals(trace, number));
            return named.map_err(read);
        }
        let all = recording(trace).map_err(read)?;
        let chosen = freehold_lab::trace::busiest(&all).cloned();
        chosen.ok_or_else(|| nothing_recorded(path))
    }
}

/// The kernel's unit of what a file takes on the disk.
const SECTOR: u64 = 512;

/// What a trace takes on the disk. One that is not sealed has its full size from the beginning,
/// most of which is a hole.
pub(crate) fn file_bytes(trace: &Trace, path: &Path) -> Result<u64, Failure> {
    let data = fs::metadata(path).map_err(|error| unreadable(path, &error.into()))?;
    Ok(if trace.is_sealed() { data.len() } else { data.blocks() * SECTOR })
}

/// A trace could not be used.
pub(crate) fn unreadable(path: &Path, error: &TraceError) -> Failure {
    let exit = match error {
        TraceError::NoProcess { .. } => Exit::Usage,
        _ => Exit::Error,
    };
    let failure = Failure::new(exit, format!("{}: {error}", path.display()));
    match error {
        TraceError::Damaged(_) => failure.hint(advice::salvage()),
        TraceError::NotATrace => failure.hint(advice::make_a_trace()),
        _ => failure,
    }
}

/// A trace has no process in it.
pub(crate) fn nothing_recorded(path: &Path) -> Failure {
    let message = format!("{}: nothing was recorded", path.display());
    Failure::new(Exit::NotLive, message).hint(advice::nothing_recorded())
}

/// The path of a new trace in a directory that goes when it is dropped.
pub(crate) fn scratch() -> Result<(tempfile::TempDir, PathBuf), Failure> {
    let directory = tempfile::Builder::new().prefix("freehold-").tempdir();
    let directory =
        directory.map_err(|error| Failure::error("cannot make a temporary directory", &error))?;
    let path = directory.path().join("freehold.trace");
    Ok((directory, path))
}
