//! `freehold compare`: the user's own program under each allocator, and which to choose.

mod calls;
mod output;
mod preparation;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use freehold_lab::compare::{Ending, List, doubts, run, summarise};
use freehold_lab::trial::{adopt_orphans, can_see_children};
use freehold_model::{CompareDocument, Trial, TrialOutcome};

use self::output::Output;
use self::preparation::Prepared;
use crate::args::{parse_percent, parse_positive_seconds, parse_seconds};
use crate::exit::{Exit, Failure};
use crate::progress::CompareProgress;
use crate::ui::Ui;
use crate::{advice, interrupt, provenance, ui};

const EXAMPLES: &str = "\
Examples:
  freehold compare -- python3 app.py
  freehold compare -a system,freehold,jemalloc,./libmine.so --repeat 20 -- ./batch input.dat
  freehold compare --until 2% --time-limit 600 -- ./batch input.dat
  freehold compare -L threads=1,4,16 -- ./batch --threads {threads}
  freehold compare --load 'redis-benchmark -q -n 100000' --port 6379 -- redis-server --save ''
  freehold compare --syscalls -a system,freehold -- ./batch input.dat
  freehold compare --json results.json -- ./batch && freehold diff before.json results.json

Every round runs the command once under each allocator, in random order, and a difference is
claimed only where it shows within the rounds at 99 % confidence. Each run counts only if the
allocator was seen live in it. With --until there are few looks at the results, fixed beforehand,
so that looking does not find what is not there.

With --load the command is a server: once its port answers, or --ready succeeds, the load is run,
and its time is what is measured. The server is then given --settle seconds, in which memory may
come back, and is sent SIGTERM.

An interrupt stops after the current run, shows what was measured, and exits with 130.";

/// Rounds where nothing was said, and the most where the precision decides.
const ROUNDS: u32 = 10;
const MOST_ROUNDS: u32 = 100;

/// Measure your own program under each allocator, and say which to choose
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Compare {
    /// Allocators: names, or paths of libraries; by default, all that are found
    #[arg(short, long, value_name = "LIST", value_delimiter = ',')]
    allocators: Vec<String>,
    /// The one that the others are compared with; by default the one that the command has now
    #[arg(long, value_name = "ALLOCATOR")]
    reference: Option<String>,
    /// Look for libraries in this directory first; may be given more than once
    #[arg(long, value_name = "DIRECTORY")]
    search: Vec<PathBuf>,
    #[command(flatten)]
    rounds: Rounds,
    #[command(flatten)]
    around: Around,
    #[command(flatten)]
    server: Server,
    #[command(flatten)]
    output: Output,
    /// The command and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    command: Vec<OsString>,
}

/// How much is measured.
#[derive(Debug, Args)]
#[command(next_help_heading = "Rounds")]
struct Rounds {
    /// How many rounds [default: 10; with --until at most 100]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: Option<u32>,
    /// Stop as soon as every interval of time and peak memory is within this percentage of its
    /// estimate
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    until: Option<f64>,
    /// Rounds before those that count
    #[arg(short, long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(..=1000))]
    warmup: u32,
    /// Begin no round that would probably end after this time
    #[arg(long, value_name = "SECONDS", value_parser = parse_positive_seconds)]
    time_limit: Option<f64>,
    /// End a run that takes longer than this
    #[arg(long, value_name = "SECONDS", default_value_t = 3600.0,
          value_parser = parse_positive_seconds)]
    timeout: f64,
    /// How much memory weighs beside time in the recommendation: 1 for as much, 0 for nothing
    #[arg(long, value_name = "WEIGHT", default_value_t = 0.5, value_parser = parse_weight)]
    memory_weight: f64,
    /// Seed of the order of runs
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// What is run around the command, and with what.
#[derive(Debug, Args)]
#[command(next_help_heading = "Runs")]
struct Around {
    /// Let {NAME} in the command, --load, --ready, --prepare and --cleanup stand for each of these
    /// in turn; may be given more than once, for all combinations
    #[arg(short = 'L', long = "parameter-list", value_name = "NAME=A,B,...",
          value_parser = parse_list)]
    lists: Vec<List>,
    /// Run this by the shell before each run; it is not measured
    #[arg(long, value_name = "SHELL COMMAND")]
    prepare: Option<String>,
    /// Run this by the shell after each run
    #[arg(long, value_name = "SHELL COMMAND")]
    cleanup: Option<String>,
    /// Let the command read this file; by default it reads nothing
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Let runs count that end with a status other than 0: any, or those in the list
    #[arg(short, long, value_name = "STATUSES", num_args = 0..=1, require_equals = true,
          value_delimiter = ',', default_missing_value = "any")]
    ignore_failure: Option<Vec<String>>,
    /// Show what the command writes, instead of throwing it away
    #[arg(long)]
    show_output: bool,
    /// Run the command once more under each allocator and count its system calls, where that is
    /// permitted: a slow run, of which nothing else is used
    #[arg(long, conflicts_with = "input")]
    syscalls: bool,
    /// Print what would be run, and run nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
}

/// How a server is driven.
#[derive(Debug, Args)]
#[command(next_help_heading = "Servers")]
struct Server {
    /// The command is a server: run this by the shell once it is ready, and measure how long it
    /// takes
    #[arg(long, value_name = "SHELL COMMAND")]
    load: Option<String>,
    /// The server is ready when this port of this machine answers
    #[arg(long, value_name = "PORT", requires = "load",
          value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// The server is ready when this succeeds
    #[arg(long, value_name = "SHELL COMMAND", requires = "load")]
    ready: Option<String>,
    /// Idle time after the load, in which memory may come back
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = parse_seconds)]
    settle: f64,
}

impl Compare {
    pub(crate) fn execute(self, ui: Ui) -> Result<Exit, Failure> {
        let prepared = self.prepare()?;
        if self.around.dry_run {
            ui::print(&prepared.outline())?;
            return Ok(Exit::Success);
        }
        self.output.check()?;
        if let Err(error) = adopt_orphans() {
            ui::warn(&advice::no_orphans(&error));
        }
        if !can_see_children() {
            ui::warn(advice::no_children());
        }
        let (document, ending) = perform(prepared, self.around.syscalls, ui)?;
        self.output.publish(&document)?;
        Ok(match ending {
            Ending::Interrupted => Exit::Interrupted,
            _ => verdict(&document.trials),
        })
    }
}

/// Makes the runs, and what they amount to.
fn perform(
    prepared: Prepared,
    counts_calls: bool,
    ui: Ui,
) -> Result<(CompareDocument, Ending), Failure> {
    let Prepared { comparison, runner, mut provenance, redactor } = prepared;
    let mut progress = CompareProgress::new(ui, &comparison);
    let bar = progress.bar();
    let stop = interrupt::listen(move || bar.suspend(|| ui.note(advice::stopping())))
        .map_err(|error| Failure::error("cannot listen for interrupts", &error))?;
    let (mut trials, ending) = run(&comparison, &runner, &stop, &mut progress);
    progress.finish();
    let (system_calls, uncounted) = if counts_calls && ending != Ending::Interrupted {
        calls::count(&comparison, &runner, &trials, &stop, ui)?
    } else {
        Default::default()
    };
    provenance::end(&mut provenance);
    provenance.command_line = redactor.words(&provenance.command_line);
    let (plan, allocators) =
        (preparation::redacted(&comparison.plan, &redactor), comparison.allocators);
    preparation::redact_failures(&mut trials, &redactor);
    let summary = summarise(&comparison.plan, &allocators, comparison.reference, &trials);
    let complete = matches!(ending, Ending::Done | Ending::Enough);
    let warnings = Vec::new();
    let mut document = CompareDocument {
        complete,
        provenance,
        allocators,
        plan,
        summary,
        warnings,
        system_calls,
        trials,
    };
    let found = doubts(&document);
    document.warnings =
        found.iter().map(|doubt| advice::compare_doubt(doubt, &document.plan)).collect();
    document.warnings.extend(uncounted);
    document.warnings.extend(advice::compare_ending(ending));
    Ok((document, ending))
}

/// How a comparison ends: failures of runs are failures of the comparison.
fn verdict(trials: &[Trial]) -> Exit {
    super::bench::verdict(trials.iter().filter_map(|trial| match &trial.outcome {
        TrialOutcome::Failed(failure) => Some(failure.kind),
        TrialOutcome::Measured(_) => None,
    }))
}

fn parse_weight(text: &str) -> Result<f64, String> {
    let weight: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=100.0).contains(&weight) { Ok(weight) } else { Err("must be from 0 to 100".into()) }
}

fn parse_list(text: &str) -> Result<List, String> {
    let (name, values) = text.split_once('=').ok_or("write it as NAME=A,B,...")?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || !name.chars().all(is_name) {
        return Err("a name consists of letters, digits, - and _".to_owned());
    }
    Ok((name.to_owned(), values.split(',').map(str::to_owned).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_a_name_and_values() {
        let values = vec!["1".to_owned(), "8".to_owned()];
        assert_eq!(parse_list("t=1,8"), Ok(("t".to_owned(), values)));
        assert!(parse_list("t").is_err());
        assert!(parse_list("=1").is_err());
        assert!(parse_list("a b=1").is_err());
    }

    #[test]
    fn weights_are_neither_negative_nor_absurd() {
        assert_eq!(parse_weight("0.5"), Ok(0.5));
        assert!(parse_weight("-1").is_err());
        assert!(parse_weight("NaN").is_err());
    }
}
