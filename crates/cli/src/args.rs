//! The command line as a whole: the subcommands, and the options that all of them share.

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::commands::{
    allocators, bench, compare, completions, diagnose, diff, explain, lib, locks, record, replay,
    report, reproduce, run, sizes, syscalls, timeline, top, which, workload,
};
use crate::exit::{Exit, Failure};
use crate::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  freehold run -- python3 app.py        run a program under Freehold, and prove it
  LD_PRELOAD=$(freehold lib) ./server   the same by hand
  freehold which $(pgrep -n server)     which allocator does this process use?
  freehold allocators                   which allocators are on this machine?
  freehold compare -- python3 app.py    which of them is best for this program?
  freehold diff before.json after.json  what changed? with rules for continuous integration
  freehold bench                        measure them against each other
  freehold diagnose -- ./server         is the allocator the problem?
  freehold record -- ./server           record its allocation calls
  freehold replay freehold.trace        make them again under other allocators
  freehold sizes freehold.trace         which sizes, how long they live, who frees them
  freehold top -p $(pgrep -n server)    where does the time of each thread go?
  freehold locks -- ./server            which locks does it wait for, and who waits?

Exit status:
  0    success
  1    the tool, or a run that it made, failed
  2    the command line cannot be understood
  3    diff: a rule is broken
  4    diff: the measurements are too few or too noisy to tell whether a rule is broken
  5    the allocator is not live, not installed, not identified, or not an allocator
  125  run, record: the command could not be started or watched for another reason
  126  the command cannot be executed
  127  the command was not found
  130  ended by an interrupt; what was measured until then is shown
  run, record, sizes, and those that observe a command which they start otherwise end as it did:
with its status, or by its signal (128 + n in a shell)

Environment:
  NO_COLOR, CLICOLOR_FORCE   never or always use colours, unless --color says otherwise
  XDG_CACHE_HOME             where the library is laid out (else ~/.cache, else temporary files)
  FREEHOLD_PEERS             directories in which allocators are looked for, before others
  XDG_DATA_HOME              where more of them are (else ~/.local/share), in freehold/peers
  FREEHOLD_DEBUG_DIRS        directories of symbols, of libraries that have none";

/// A scalable memory allocator and its toolbox.
///
/// Runs programs under an allocator, tells which allocator a process uses, and measures
/// allocators against each other. This one file is all that is needed: it carries the Freehold
/// library within itself.
#[derive(Debug, Parser)]
#[command(name = "freehold", version, after_help = EXAMPLES, subcommand_required = true)]
#[command(arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every subcommand.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Global {
    /// Say nothing but results, warnings and errors
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: When,
    /// When to show progress: auto is on a terminal, always prints lines elsewhere
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) progress: When,
}

/// When to do something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    Auto,
    Always,
    Never,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(run::Run),
    Which(which::Which),
    Allocators(allocators::Allocators),
    Compare(Box<compare::Compare>),
    Diff(diff::Diff),
    Bench(Box<bench::Bench>),
    Reproduce(Box<reproduce::Reproduce>),
    Report(report::Report),
    Diagnose(diagnose::Diagnose),
    Explain(explain::Explain),
    Record(record::Record),
    Replay(replay::Replay),
    Sizes(sizes::Sizes),
    Top(top::Top),
    Locks(locks::Locks),
    Syscalls(syscalls::Syscalls),
    Timeline(timeline::Timeline),
    Lib(lib::Lib),
    Workload(workload::Workload),
    Completions(completions::Completions),
}

impl Command {
    pub(crate) fn run(self, ui: Ui) -> Result<Exit, Failure> {
        match self {
            Self::Run(run) => run.execute(ui),
            Self::Which(which) => which.execute(),
            Self::Allocators(allocators) => allocators.execute(),
            Self::Compare(compare) => compare.execute(ui),
            Self::Diff(diff) => diff.execute(),
            Self::Bench(bench) => bench.execute(ui),
            Self::Reproduce(reproduce) => reproduce.execute(ui),
            Self::Report(report) => report.execute(),
            Self::Diagnose(diagnose) => diagnose.execute(ui),
            Self::Explain(explain) => explain.execute(ui),
            Self::Record(record) => record.execute(ui),
            Self::Replay(replay) => replay.execute(ui),
            Self::Sizes(sizes) => sizes.execute(ui),
            Self::Top(top) => top.execute(ui),
            Self::Locks(locks) => locks.execute(ui),
            Self::Syscalls(syscalls) => syscalls.execute(ui),
            Self::Timeline(timeline) => timeline.execute(ui),
            Self::Lib(lib) => lib.execute(),
            Self::Workload(workload) => workload.execute(),
            Self::Completions(completions) => completions.execute(),
        }
    }
}

/// A hundred days: more than anybody waits, and far from what a clock cannot count.
const LONGEST_SECONDS: f64 = 8_640_000.0;

/// Reads a duration in seconds.
pub(crate) fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if (0.0..=LONGEST_SECONDS).contains(&seconds) {
        Ok(seconds)
    } else {
        Err(format!("must be from 0 to {LONGEST_SECONDS}"))
    }
}

/// Reads an amount of memory: a number of bytes, or of KiB, MiB or GiB with a letter behind it.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.trim_end_matches(['B', 'b']) {
        text if text.ends_with(['K', 'k']) => (&text[..text.len() - 1], 1 << 10),
        text if text.ends_with(['M', 'm']) => (&text[..text.len() - 1], 1 << 20),
        text if text.ends_with(['G', 'g']) => (&text[..text.len() - 1], 1 << 30),
        text => (text, 1),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    bytes.ok_or_else(|| "must be a number of bytes, such as 4096, 64K, 512M or 1G".to_owned())
}

/// Reads a duration in seconds that is not zero.
pub(crate) fn parse_positive_seconds(text: &str) -> Result<f64, String> {
    let seconds = parse_seconds(text)?;
    if seconds > 0.0 { Ok(seconds) } else { Err("must be more than 0".to_owned()) }
}

/// Reads a percentage, with or without its sign, as a share.
pub(crate) fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    let percent: f64 = number.parse().map_err(|_| "not a percentage, such as 2%".to_owned())?;
    if percent > 0.0 && percent <= 100.0 {
        Ok(percent / 100.0)
    } else {
        Err("must be more than 0 % and at most 100 %".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_of_the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn amounts_of_memory_may_have_a_unit() {
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert_eq!(parse_bytes("64K"), Ok(64 << 10));
        assert_eq!(parse_bytes("512mb"), Ok(512 << 20));
        assert_eq!(parse_bytes("1G"), Ok(1 << 30));
        for text in ["", "G", "-1", "1.5G", "99999999999G", "1T"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn seconds_are_finite_and_not_negative() {
        assert_eq!(parse_seconds("0.5"), Ok(0.5));
        assert_eq!(parse_seconds("0"), Ok(0.0));
        assert!(parse_seconds("-1").is_err());
        assert!(parse_seconds("inf").is_err());
        assert!(parse_seconds("NaN").is_err());
        assert!(parse_seconds("soon").is_err());
        assert!(parse_positive_seconds("0").is_err());
    }

    #[test]
    fn percentages_are_read_with_and_without_their_sign() {
        assert_eq!(parse_percent("2%"), Ok(0.02));
        assert_eq!(parse_percent("2 %"), Ok(0.02));
        assert_eq!(parse_percent("50"), Ok(0.5));
        assert!(parse_percent("0%").is_err());
        assert!(parse_percent("a lot").is_err());
    }
}
