//! `freehold record -p`: what has been recorded until now of a process that runs. That is possible
//! of one that `record` has started; of any other this says why it is not, and what is.

use std::path::{Path, PathBuf};

use freehold_lab::process;
use freehold_lab::trace::{self, Trace};
use freehold_model::{ProcessReport, RecordDocument};

use crate::advice;
use crate::commands::which::cannot_look;
use crate::exit::{Exit, Failure};
use crate::recorder::{TraceArgs, file_bytes, unreadable};

/// What has been recorded of the process.
pub(super) fn document(pid: u32) -> Result<RecordDocument, Failure> {
    let report = process::report(pid).map_err(|error| cannot_look(pid, &error))?;
    let command = process::command(pid).map_err(|error| cannot_look(pid, &error))?;
    let variable = process::variable(pid, trace::VARIABLE);
    let path = variable.map_err(|error| cannot_look(pid, &error))?.map(PathBuf::from);
    let Some(path) = path.filter(|path| path.is_file()) else {
        return Err(not_recorded(&report, &command));
    };
    // A call may be written down while this is read.
    let trace = TraceArgs { process: None, salvage: true }.open(&path)?;
    let mut document = of(&trace, pid, &path)?;
    if document.processes.is_empty() {
        return Err(not_recorded(&report, &command));
    }
    document.command = command;
    Ok(document)
}

fn of(trace: &Trace, pid: u32, path: &Path) -> Result<RecordDocument, Failure> {
    let read = |error| unreadable(path, &error);
    // Of several programs that it has executed, each is a process of the trace.
    let numbers = trace.processes().filter(|(_, process)| process.pid == pid);
    let processes: Result<_, _> =
        numbers.map(|(number, _)| trace::totals(trace, number).map_err(read)).collect();
    Ok(RecordDocument {
        command: Vec::new(),
        exit_status: None,
        signal: None,
        file: path.to_string_lossy().into_owned(),
        file_bytes: file_bytes(trace, path)?,
        limit_bytes: trace.limit(),
        processes: processes?,
        // Of which process they are is not known.
        absent_processes: 0,
        cost: None,
    })
}

fn not_recorded(report: &ProcessReport, command: &[String]) -> Failure {
    let pid = report.pid;
    let bound = report.live.first().map_or("an allocator", |provider| provider.path.as_str());
    let message = format!(
        "process {pid} was not started by freehold record: its calls are bound to {bound}, and \
         cannot be recorded any more"
    );
    Failure::new(Exit::NotLive, message).hint(advice::record_from_the_start(pid, command))
}
