//! `freehold record`: a command with its allocation calls recorded.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::{fs, io};

use clap::Args;
use freehold_lab::trace::{Tolerance, Trace, recording};
use freehold_model::RecordDocument;

use crate::exit::{Exit, Failure};
use crate::recorder::{Recorded, RecorderArgs, nothing_recorded, unreadable};
use crate::start::{self, CommandArgs};
use crate::ui::Ui;
use crate::{advice, ui};

const EXAMPLES: &str = "\
Examples:
  freehold record -- ./server --port 80
  freehold record -o app.trace -- python3 app.py
  freehold record --allocator jemalloc --limit 200M -- ./server
  freehold sizes freehold.trace              which sizes, how long they live, who frees them

Every call to malloc, free, calloc, realloc, the functions with an alignment and the C++ operators
is written to one file, by the command and by all processes that it starts: in which thread, in
which order, of which size. What the file holds when a process is killed can be read.

The summary goes to standard error, since standard output is the command's. Signals sent to
freehold are passed on to the command, and it ends as the command does: with its status, or by its
signal. It exits with 5 when the command cannot be recorded or was not, with 126 or 127 when it
cannot be executed or found, with 125 when anything else went wrong.

A process that runs already cannot be recorded: its calls are bound to its allocator when it
starts. What it does at the moment is shown by `freehold top`.";

/// Run a command and record its allocation calls
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Record {
    /// The trace to write; another trace is replaced
    #[arg(short, long, value_name = "FILE", default_value = "freehold.trace")]
    output: PathBuf,
    #[command(flatten)]
    recorder: RecorderArgs,
    /// Write what was recorded to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<String>,
    #[command(flatten)]
    what: CommandArgs,
}

impl Record {
    /// Runs and records the command. The status of a plain failure belongs to the command, so one
    /// of our own has another.
    pub(crate) fn execute(self, ui: Ui) -> Result<Exit, Failure> {
        self.attempt(ui).map_err(start::set_apart)
    }

    fn attempt(&self, ui: Ui) -> Result<Exit, Failure> {
        if let Some(path) = &self.json {
            ui::check_writable(path)?;
        }
        let recorded = self.recorder.record(&self.what.command, &self.output, |_| ())?;
        let document = self.document(&recorded)?;
        ui.tell(&freehold_report::recording(&document));
        if let Some(path) = &self.json {
            ui::save_json(path, &document)?;
        }
        if document.processes.is_empty() {
            return Err(nothing_recorded(&self.output));
        }
        Ok(start::ended_as(recorded.status))
    }

    fn document(&self, recorded: &Recorded) -> Result<RecordDocument, Failure> {
        let path = &self.output;
        let read = |error| unreadable(path, &error);
        let trace = Trace::open(path, Tolerance::None).map_err(read)?;
        if trace.had_no_space() {
            ui::warn(advice::no_space());
        }
        let size = fs::metadata(path).map(|data| data.len());
        let size = size.map_err(|error: io::Error| read(error.into()))?;
        Ok(RecordDocument {
            command: self.what.command.iter().map(|word| word.to_string_lossy().into()).collect(),
            exit_status: recorded.status.code(),
            signal: recorded.status.signal(),
            file: path.to_string_lossy().into_owned(),
            file_bytes: size,
            limit_bytes: trace.limit(),
            processes: recording(&trace).map_err(read)?,
        })
    }
}
