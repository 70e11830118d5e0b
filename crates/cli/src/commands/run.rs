//! `freehold run`: a command under an allocator, with proof that the allocator was live.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

use clap::Args;
use freehold_lab::Witness;
use freehold_lab::launch::{self, Suspect};
use freehold_model::{Allocator, RunReport, Verdict};
use freehold_report::verdict;

use crate::attend::Attendant;
use crate::catalogue::Catalogue;
use crate::exit::{Exit, Failure};
use crate::start::{self, CommandArgs};
use crate::ui::Ui;
use crate::{advice, ui};

const EXAMPLES: &str = "\
Examples:
  freehold run -- ./server --port 80
  freehold run --allocator jemalloc -- python3 app.py
  freehold run --allocator ./libmine.so -- ./server
  freehold run --dry-run -- ./server            print what would be run

The command is started with LD_PRELOAD, which its own children inherit. Whether the allocator is
really live is read from the memory map of the process, and said on standard error; when the
command ends before it can be looked at, its dynamic loader is asked instead.

Signals sent to freehold are passed on to the command. It ends as the command does: with its
status, or by its signal. It exits with 5 when the allocator cannot be live in the command (then
nothing is run), or was not; with 126 or 127 when the command cannot be
executed or found; with 125 when anything else went wrong.";

/// Run a command under an allocator, and prove that the allocator is live
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Run {
    /// The allocator: a name, or the path of a library
    #[arg(short, long, value_name = "ALLOCATOR", default_value = "freehold")]
    allocator: String,
    /// Run the command even where the allocator cannot be live, and end as it does
    #[arg(long)]
    force: bool,
    /// Print the command line that would be run, and run nothing
    #[arg(short = 'n', long = "dry-run")]
    is_rehearsal: bool,
    /// Write what was proved, and how the command ended, to this file
    #[arg(long, value_name = "FILE")]
    json: Option<String>,
    #[command(flatten)]
    what: CommandArgs,
}

impl Run {
    /// Runs the command. The status of a plain failure belongs to the command, so one of our own
    /// has another.
    pub(crate) fn execute(self, ui: Ui) -> Result<Exit, Failure> {
        self.attempt(ui).map_err(start::set_apart)
    }

    fn attempt(&self, ui: Ui) -> Result<Exit, Failure> {
        let allocator = Catalogue::new(&[])?.get(&self.allocator)?;
        let preload = launch::preload_value(&allocator)
            .map_err(|error| Failure::new(Exit::NotLive, error.to_string()))?;
        let program = launch::resolve(&self.what.command[0])
            .ok_or_else(|| start::not_found(&self.what.command[0]))?;
        if self.is_rehearsal {
            ui::print_raw(&format!("{}\n", shell_line(preload.as_ref(), &self.what.command)))?;
            return Ok(Exit::Success);
        }
        let obstacle = launch::obstacle(&program, &allocator);
        if let Some(reason) = obstacle.as_ref().filter(|_| !self.force) {
            return Err(Failure::new(Exit::NotLive, reason).hint(advice::not_live()));
        }
        if let Some(path) = &self.json {
            ui::check_writable(path)?;
        }

        let mut command = Command::new(&self.what.command[0]);
        command.args(&self.what.command[1..]);
        if let Some(preload) = preload {
            command.env(launch::PRELOAD, preload);
        }
        // Before the start, so that no signal falls between.
        let attendant = Attendant::begin()?;
        let mut child =
            command.spawn().map_err(|error| start::not_started(&self.what.command[0], &error))?;
        let suspect = Suspect::new(child.id(), &program, &allocator);
        let name = described(&allocator);
        let witness = Witness::start(suspect, obstacle, move |found| tell(ui, &name, found))
            .map_err(|error| Failure::error("cannot watch the command", &error))?;
        let status = attendant.wait(&mut child)?;
        let verdict = witness.conclude();
        self.conclude(allocator, &verdict, status)
    }

    /// Reports, and decides how to end.
    fn conclude(
        &self,
        allocator: Allocator,
        verdict: &Verdict,
        status: ExitStatus,
    ) -> Result<Exit, Failure> {
        let reason = match verdict {
            Verdict::NotLive { reason } => Some(reason.clone()),
            _ => None,
        };
        if let Some(path) = &self.json {
            let report = RunReport {
                allocator,
                command: self
                    .what
                    .command
                    .iter()
                    .map(|word| word.to_string_lossy().into())
                    .collect(),
                verdict: verdict.clone(),
                exit_status: status.code(),
                signal: status.signal(),
            };
            ui::save_json(path, &report)?;
        }
        match reason {
            Some(reason) if !self.force => {
                let message = format!("the command ended ({status}), but {reason}");
                Err(Failure::new(Exit::NotLive, message).hint(advice::not_live()))
            }
            _ => Ok(start::ended_as(status)),
        }
    }
}

/// Says what was found out; a failure is said at the end, with what to do about it.
fn tell(ui: Ui, name: &str, found: &Verdict) {
    if found.is_live() {
        ui.note(&verdict(name, found));
    } else {
        ui::warn(&verdict(name, found));
    }
}

fn described(allocator: &Allocator) -> String {
    match &allocator.version {
        Some(version) => format!("{} {version}", allocator.name),
        None => allocator.name.clone(),
    }
}

/// A line that does the same in a shell.
fn shell_line(preload: Option<&OsString>, command: &[OsString]) -> String {
    let assignment = preload
        .map(|value| format!("{}={}", launch::PRELOAD, ui::quoted(&value.to_string_lossy())));
    let words = command.iter().map(|word| ui::quoted(&word.to_string_lossy()));
    assignment.into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_only_where_a_shell_needs_it() {
        let words = ["echo", "a b", "it's", ""].map(OsString::from);
        assert_eq!(
            shell_line(Some(&OsString::from("/x/lib.so")), &words),
            "LD_PRELOAD=/x/lib.so echo 'a b' 'it'\\''s' ''"
        );
    }
}
