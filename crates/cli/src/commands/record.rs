//! `freehold record`: a command with its allocation calls recorded.

mod running;

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

use clap::Args;
use freehold_lab::bench::Stop;
use freehold_lab::trace::{Tolerance, Trace, busiest, recording};
use freehold_model::{ProcessRecording, RecordDocument, RecordingCost};

use crate::attend::Attendant;
use crate::exit::{Exit, Failure};
use crate::recorder::{Recorded, RecorderArgs, file_bytes, nothing_recorded, unreadable};
use crate::start;
use crate::ui::Ui;
use crate::{advice, interrupt, ui};

const EXAMPLES: &str = "\
Examples:
  freehold record -- ./server --port 80
  freehold record -o app.trace -- python3 app.py
  freehold record -p 4711                    what was recorded of it until now
  freehold record --allocator jemalloc --limit 200M -- ./server
  freehold sizes freehold.trace              which sizes, how long they live, who frees them
  freehold replay freehold.trace             the same calls under other allocators

Every call to malloc, free, calloc, realloc, the functions with an alignment and the C++ operators
is written to one file, by the command and by all processes that it starts: in which thread, in
which order, of which size. What the file holds when a process is killed can be read.

What recording has cost is measured when the command has ended, by making some of its calls again
with and without, until it is interrupted. The summary goes to standard error, since standard
output is the command's. Signals sent to freehold are passed on to the command, and it ends as the
command does: with its status, or by its signal. It exits with 5 when the command cannot be recorded
or was not, with 126 or 127 when it cannot be executed or found, with 125 when anything else went
wrong.

With -p it shows what was recorded until now of a process that `record` has started and that goes
on. A process that runs without the recorder cannot be recorded: its calls are bound to its
allocator when it starts. What it does at the moment is shown by `freehold diagnose`.";

/// Fewer calls take no time that could be measured.
const FEWEST_CALLS: u64 = 20_000;

/// Run a command and record its allocation calls
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Record {
    /// The trace to write; another trace is replaced
    #[arg(short, long, value_name = "FILE", default_value = "freehold.trace")]
    output: PathBuf,
    /// Show what was recorded until now of this process, which `record` has started
    #[arg(short, long, value_name = "PID",
          conflicts_with_all = ["command", "output", "allocator", "limit", "no_overhead"])]
    pid: Option<u32>,
    #[command(flatten)]
    recorder: RecorderArgs,
    /// Do not measure what recording costs, which takes a second
    #[arg(long)]
    no_overhead: bool,
    /// Write what was recorded to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<String>,
    /// The command and its arguments
    #[arg(
        required_unless_present = "pid",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    command: Vec<OsString>,
}

impl Record {
    /// Runs and records the command. The status of a plain failure belongs to the command, so one
    /// of our own has another.
    pub(crate) fn execute(self, ui: Ui) -> Result<Exit, Failure> {
        match self.pid {
            Some(pid) => self.show(pid),
            None => self.attempt(ui).map_err(start::set_apart),
        }
    }

    /// Shows what has been recorded of a process until now.
    fn show(&self, pid: u32) -> Result<Exit, Failure> {
        let document = running::document(pid)?;
        if self.json.as_deref() != Some(ui::STANDARD_OUTPUT) {
            ui::print(&freehold_report::recording(&document))?;
        }
        self.json.as_ref().map_or(Ok(()), |path| ui::save_json(path, &document))?;
        Ok(Exit::Success)
    }

    fn attempt(&self, ui: Ui) -> Result<Exit, Failure> {
        if let Some(path) = &self.json {
            ui::check_writable(path)?;
        }
        let recorded =
            self.recorder.record(Attendant::begin()?, &self.command, &self.output, |_| ())?;
        // Signals are for us again.
        let stop = interrupt::listen(|| ())
            .map_err(|error| Failure::error("cannot listen for interrupts", &error))?;
        ui.note("the command has ended; reading the trace");
        let document = self.document(ui, &recorded, &stop)?;
        ui.tell(&freehold_report::recording(&document));
        if let Some(path) = &self.json {
            ui::save_json(path, &document)?;
        }
        if document.processes.is_empty() {
            return Err(nothing_recorded(&self.output));
        }
        Ok(start::ended_as(recorded.status))
    }

    fn document(
        &self,
        ui: Ui,
        recorded: &Recorded,
        stop: &Stop,
    ) -> Result<RecordDocument, Failure> {
        let path = &self.output;
        let read = |error| unreadable(path, &error);
        // What could not be sealed is as the command has left it, perhaps half-written.
        let tolerance = if recorded.is_sealed() { Tolerance::None } else { Tolerance::Salvage };
        let trace = Trace::open(path, tolerance).map_err(read)?;
        if trace.had_no_space() {
            ui::warn(advice::no_space());
        } else if trace.was_full() {
            ui::warn(advice::full());
        }
        let processes = recording(&trace).map_err(read)?;
        let cost = self.cost(ui, &trace, recorded, &processes, stop);
        Ok(RecordDocument {
            command: self.command.iter().map(|word| word.to_string_lossy().into()).collect(),
            exit_status: recorded.status.code(),
            signal: recorded.status.signal(),
            file: path.to_string_lossy().into_owned(),
            file_bytes: file_bytes(&trace, path)?,
            limit_bytes: trace.limit(),
            processes,
            absent_processes: trace.absent_processes(),
            cost,
        })
    }

    /// What recording has cost, if that can be measured: by the calls of the process that has made
    /// most of them.
    fn cost(
        &self,
        ui: Ui,
        trace: &Trace,
        recorded: &Recorded,
        processes: &[ProcessRecording],
        stop: &Stop,
    ) -> Option<RecordingCost> {
        let process = busiest(processes).filter(|_| !self.no_overhead)?;
        if process.calls.total() < FEWEST_CALLS {
            ui.note(advice::too_few_calls());
            return None;
        }
        let measured = self.recorder.cost(trace, process, &stop.soon);
        let mut cost = measured.inspect_err(|failure| ui::warn(&advice::no_cost(failure))).ok()?;
        let calls: u64 = processes.iter().map(|process| process.calls.total()).sum();
        let seconds = (cost.recorded_ns - cost.plain_ns) * calls as f64 / 1e9;
        let used = recorded.processor_seconds;
        // A command that does nothing but call has no larger share.
        let most = (1.0 - cost.plain_ns / cost.recorded_ns).max(0.0);
        cost.share = (used > 0.0).then(|| (seconds / used).clamp(0.0, most));
        Some(cost)
    }
}
