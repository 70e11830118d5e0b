//! `freehold explain`: where the resident memory of a process is.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use freehold_lab::counts::{Counts, CountsFile, VARIABLE};
use freehold_model::{Gap, MemoryReport};
use freehold_observe::TargetError;
use freehold_observe::explain::{Counted, explain as observed, largest};
use freehold_report::{explain, provenance};

use crate::advice;
use crate::args::parse_positive_seconds;
use crate::commands::diagnose::allocator_of;
use crate::counter::Counter;
use crate::exit::{Exit, Failure};
use crate::subject::{Subject, SubjectArgs};
use crate::ui::{self, Ui};

const EXAMPLES: &str = "\
Examples:
  freehold explain $(pgrep -n server)
  freehold explain --after 10 -- ./server --bench
  freehold explain --json 4242 | jq .parts

Resident memory by what it is for: in use, kept by threads, free in the allocator, its tables,
stacks, files; and by areas, from smaps. What the allocator knows of it is read from the tables of
Freehold, and from the notes and arenas of the C library, without stopping the process or calling
anything in it.

A command is started with a small library that asks its allocator from within, by a thread of its
own: the C library (mallinfo2), jemalloc (mallctl), tcmalloc (MallocExtension). It goes on to its
end. With --count its calls are counted as well, which tells what was not asked for, and what is in
use under any allocator. Both can be asked again meanwhile: freehold explain PID.";

/// How often it is looked whether the command still runs.
const STEP: Duration = Duration::from_millis(20);

/// Tell where the resident memory of a process is, and how much of the heap is free
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Explain {
    /// The process
    #[arg(required_unless_present = "command", conflicts_with = "command")]
    pid: Option<u32>,
    /// Look at the command after so long
    #[arg(long, value_name = "SECONDS", default_value = "2",
          value_parser = parse_positive_seconds, conflicts_with = "pid")]
    after: f64,
    /// Count the allocation calls of the command as well, which slows it down a little
    #[arg(long, conflicts_with = "pid")]
    count: bool,
    /// Start the command under this allocator: a name, or the path of a library
    #[arg(short, long, value_name = "ALLOCATOR", conflicts_with = "pid")]
    allocator: Option<String>,
    /// Where the standard output of the command goes: null, inherit, or a file
    #[arg(long, value_name = "WHERE", default_value = "null", conflicts_with = "pid")]
    output: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Start this command, and look at the process of it that has most in memory
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Explain {
    pub(crate) fn execute(self, ui: Ui) -> Result<Exit, Failure> {
        let json = self.json;
        let Some(pid) = self.pid else { return self.execute_command(ui) };
        show(&report(pid, counts_of(pid).as_ref())?, json, ui)?;
        Ok(Exit::Success)
    }

    fn execute_command(self, ui: Ui) -> Result<Exit, Failure> {
        let args = SubjectArgs::of(self.command, self.allocator, self.output);
        let counter = self.count.then(|| args.counter()).transpose()?;
        let asker = args.asker()?;
        let mut subject = args.begin(|command| {
            if let Some(counter) = &counter {
                counter.apply(command);
            }
            if let Ok(asker) = &asker {
                asker.apply(command);
            }
        })?;
        let after = Duration::from_secs_f64(self.after);
        if !wait(&mut subject, after) {
            return subject.end(ui);
        }
        if subject.has_ended() {
            let message = "the command has ended before it was looked at";
            return Err(Failure::new(Exit::Error, message).hint(advice::look_sooner()));
        }
        let counts = counter.as_ref().map(Counter::file);
        let report = report(largest(subject.pid()), counts).map(|mut report| {
            if let Err(reason) = asker {
                let what = format!("what allocators say within it: {reason}");
                report.missing.push(Gap::nowhere(&what));
            }
            report
        });
        let shown = report.and_then(|report| show(&report, self.json, ui));
        subject.end_after(shown, ui)
    }
}

/// Waits for this long, or until the command has ended; false after an interrupt.
fn wait(subject: &mut Subject, after: Duration) -> bool {
    let start = Instant::now();
    while start.elapsed() < after && !subject.has_ended() {
        if subject.pause(STEP.min(after.saturating_sub(start.elapsed()))).is_break() {
            return false;
        }
    }
    true
}

/// Where the memory of a process is, with what is known of its calls.
fn report(pid: u32, counts: Option<&CountsFile>) -> Result<MemoryReport, Failure> {
    let counted = counts.and_then(|file| counted(file, pid));
    observed(pid, allocator_of(pid), counted).map_err(|error| refused(pid, &error))
}

fn show(report: &MemoryReport, json: bool, ui: Ui) -> Result<(), Failure> {
    if json {
        return ui::print_json(report);
    }
    for line in provenance(&report.sources, &report.missing) {
        ui.note(&line);
    }
    ui::print(&explain(report))
}

fn refused(pid: u32, error: &TargetError) -> Failure {
    let failure = Failure::error(format!("process {pid}"), error);
    match error {
        TargetError::Refused(_) => failure.hint(advice::not_permitted()),
        TargetError::NotFound => failure,
    }
}

/// What the calls of a process came to so far.
fn counted(file: &CountsFile, pid: u32) -> Option<Counted> {
    let all = file.read().ok()?;
    // A number that is used again is that of the last one.
    let own: &Counts = all.iter().rfind(|own| own.pid == pid)?;
    let unasked = own.allocated.saturating_sub(own.requested);
    Some(Counted {
        live_bytes: own.live()?,
        rounding_share: (own.allocated > 0).then(|| unasked as f64 / own.allocated as f64),
    })
}

/// The file in which the calls of a process are counted, if they are.
fn counts_of(pid: u32) -> Option<CountsFile> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut variables = environment.split(|&byte| byte == 0);
    let value = |variable: &[u8]| {
        let path = variable.strip_prefix(VARIABLE.as_bytes())?.strip_prefix(b"=")?;
        Some(PathBuf::from(OsStr::from_bytes(path)))
    };
    let path = variables.find_map(value)?;
    Some(CountsFile { path })
}
