//! `freehold diagnose`: whether the allocator is the problem, and what is otherwise.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use freehold_lab::process;
use freehold_model::{Diagnosis, Linkage, Provider};
use freehold_observe::diagnose::Diagnose as Watching;
use freehold_report::{diagnosis, provenance};

use crate::args::parse_positive_seconds;
use crate::exit::{Exit, Failure};
use crate::subject::SubjectArgs;
use crate::ui::{self, Ui};

const EXAMPLES: &str = "\
Examples:
  freehold diagnose -- ./server --bench
  freehold diagnose --seconds 30 -p $(pgrep -n server)
  freehold diagnose --count -- ./server       who frees what others asked for?
  freehold diagnose --ask -- ./server         does jemalloc or tcmalloc hold memory?
  freehold diagnose --json -- ./batch | jq -r .cause

The verdict is one of: the allocator's locks, the allocator's own work, another lock, spinning,
false sharing, page faults, mapping, advice, growing memory, memory not given back, threads that
begin and end, too few processors, computing, nothing to do, not enough evidence. It says what it
rests on, and how sure it is.

A process that runs already is not stopped, and a command only before its first instruction, for a
moment; no root is needed for what you start yourself. Where performance events of user mode are
forbidden (kernel.perf_event_paranoid above 2, some containers), the verdict rests on counters and
waits alone, and is called less sure.";

/// Tell whether the allocator is the problem: waiting, work, memory, or none of them
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Diagnose {
    /// Observe for so long; without it until the process ends, or an interrupt
    #[arg(short = 'd', long, value_name = "SECONDS", value_parser = parse_positive_seconds)]
    seconds: Option<f64>,
    /// Count the allocation calls of the command as well, which slows it down a little: tells how
    /// much is freed by another thread than asked for it, and how much is in use
    #[arg(long, alias = "record", conflicts_with = "pid")]
    count: bool,
    /// Ask the allocator of the command as well, by a thread of its own within it: tells how much
    /// jemalloc and tcmalloc hold free
    #[arg(long, conflicts_with = "pid")]
    ask: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    subject: SubjectArgs,
}

impl Diagnose {
    pub(crate) fn execute(self, ui: Ui) -> Result<Exit, Failure> {
        let counter = self.count.then(|| self.subject.counter()).transpose()?;
        let asker = self.ask.then(|| self.subject.asker()).transpose()?;
        if let Some(Err(reason)) = &asker {
            ui.note(&format!("the allocator cannot be asked: {reason}"));
        }
        let (subject, held) = self.subject.begin_held(|command| {
            if let Some(counter) = &counter {
                counter.apply(command);
            }
            if let Some(Ok(asker)) = &asker {
                asker.apply(command);
            }
        })?;
        let pid = subject.pid();
        let mut watching = Watching::of(pid).map_err(|error| subject.refused(&error))?;
        drop(held);
        let mut allocator = None;
        let words = subject.command_line();
        let duration = self.seconds.map(Duration::from_secs_f64);
        let mut looks = 0_u32;
        watching.watch(duration, &mut |pause| {
            // At first the libraries may not be there yet.
            if looks.is_power_of_two() {
                allocator = allocator_of(pid).or(allocator.take());
            }
            looks += 1;
            subject.pause(pause)
        });
        let found = watching.diagnosis(counter.and_then(|counter| counter.counted()));
        // A process that was there before is known by the words that it was started with, unless
        // it has put a title in their place.
        let is_title = words.len() == 1 && words[0].contains(' ') && !subject.is_command();
        let can_compare = !found.cause.is_unknown() && !words.is_empty() && !is_title;
        let compare =
            can_compare.then(|| format!("freehold compare -- {}", ui::shell_words(&words)));
        let found = Diagnosis { subject: words, allocator, compare, ..found };
        let shown = if self.json {
            ui::print_json(&found)
        } else {
            for line in provenance(&found.sources, &[]) {
                ui.note(&line);
            }
            ui::print(&diagnosis(&found))
        };
        subject.end_after(shown, ui)
    }
}

/// How the recorder's file is named, whatever its version.
const RECORDER: &str = "libfreehold-recorder-";

/// What the C library's allocator is called.
const SYSTEM: &str = "system";

/// The allocator that serves a process, with its version.
pub(crate) fn allocator_of(pid: u32) -> Option<String> {
    let report = process::report(pid).ok()?;
    let first = report.live.into_iter().next()?;
    let name = Path::new(&first.path).file_name().unwrap_or_default();
    let is_recorder = name.to_string_lossy().starts_with(RECORDER);
    // The recorder passes calls on to the next that the loader finds, at last the C library.
    let serving = match behind(report.idle) {
        _ if !is_recorder => first,
        Some(next) => next,
        None => return Some(SYSTEM.to_owned()),
    };
    let family = serving.family?;
    Some(serving.version.map_or(family.clone(), |version| format!("{family} {version}")))
}

/// The first of these that the loader binds calls to.
fn behind(providers: Vec<Provider>) -> Option<Provider> {
    let place = |provider: &Provider| match provider.linkage {
        Linkage::Preloaded => 0,
        Linkage::Linked => 1,
        Linkage::CLibrary => 2,
        Linkage::Static | Linkage::OpenedLater => 3,
    };
    let bound = providers.into_iter().filter(|provider| place(provider) < 3);
    bound.min_by_key(place)
}
