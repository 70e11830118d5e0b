//! `freehold workload`: one run of a harness in this very process, under whatever allocator it
//! was started with. The benchmark starts itself again with this subcommand.

mod described;
mod record;
mod replay;

pub(super) use record::params;

use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, Subcommand};
use freehold_model as model;
use freehold_model::{Length, PairsParams, PairsRun, Waiting};
use freehold_workloads::harness::Harness;
use freehold_workloads::settings::Settings;
use freehold_workloads::{harnesses, pairs};
use rustix::process::{Signal, set_parent_process_death_signal};

pub(crate) use self::replay::TouchArg;

use self::replay::Replay;
use super::pairs::{Defaults, PairsOptions};
use crate::args::parse_seconds;
use crate::exit::{Exit, Failure};
use crate::ui;

const EXAMPLES: &str = "\
Examples:
  freehold workload pairs --pairs 4 --max 4096 --samples 5 --seconds 3
  LD_PRELOAD=./libmine.so freehold workload pairs --pairs 32 --max 4096 --memset --loops 320
  freehold run -- freehold workload larson --threads 8 --min 10 --max 100
  freehold workload threadtest --threads 4 --verify
  freehold workload t-test1 --help           what its parameters mean, and where it comes from";

const DEFAULTS: Defaults = Defaults { seconds: 3.0, warmup: 0.0 };

/// Run a harness in this process, under the allocator it was started with, and print JSON
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Workload {
    #[command(subcommand)]
    choice: Choice,
}

/// What is to be run.
#[derive(Debug)]
struct Choice {
    task: Task,
    dies_with_parent: bool,
}

/// A harness and what it is asked to do.
#[derive(Debug)]
enum Task {
    Pairs(Pairs),
    Replay(Replay),
    Described(&'static Harness, Settings),
}

const PAIRS: &str = "pairs";
const REPLAY: &str = "replay";
const DIE_WITH_PARENT: &str = "die-with-parent";

/// One thread of each pair allocates, the other frees
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Pairs {
    /// Pairs of threads
    #[arg(long = "pairs", value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    count: u32,
    /// The maximum size in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 4096,
          value_parser = clap::value_parser!(u32).range(1..))]
    max: u32,
    #[command(flatten)]
    options: PairsOptions,
    /// After everything is freed, stay idle for this long before memory is read again
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, value_parser = parse_seconds)]
    settle: f64,
    /// Fill every block, and check what is in it before it is freed; times mean nothing
    #[arg(long)]
    verify: bool,
    /// Count blocks that share a cache line with another thread's; times mean nothing
    #[arg(long)]
    false_sharing: bool,
}

/// The option of every harness that makes it end when the process that started it ends.
fn die_with_parent() -> Arg {
    Arg::new(DIE_WITH_PARENT).long(DIE_WITH_PARENT).action(ArgAction::SetTrue).hide(true)
}

impl Subcommand for Choice {
    fn augment_subcommands(command: Command) -> Command {
        let pairs = Pairs::augment_args(Command::new(PAIRS)).arg(die_with_parent());
        let replay = Replay::augment_args(Command::new(REPLAY)).hide(true).arg(die_with_parent());
        let harnesses = harnesses::all().map(described::command);
        command.subcommand(pairs).subcommand(replay).subcommands(harnesses)
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        name == PAIRS || name == REPLAY || harnesses::find(name).is_some()
    }
}

impl FromArgMatches for Choice {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let chosen = matches.subcommand();
        let (name, matches) = chosen.ok_or(clap::Error::new(ErrorKind::MissingSubcommand))?;
        let task = match harnesses::find(name) {
            Some(harness) => Task::Described(harness, described::settings(harness, matches)),
            None if name == REPLAY => Task::Replay(Replay::from_arg_matches(matches)?),
            None => Task::Pairs(Pairs::from_arg_matches(matches)?),
        };
        Ok(Self { task, dies_with_parent: matches.get_flag(DIE_WITH_PARENT) })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Workload {
    pub(crate) fn execute(self) -> Result<Exit, Failure> {
        if self.choice.dies_with_parent {
            set_parent_process_death_signal(Some(Signal::KILL))
                .map_err(|error| Failure::error("cannot follow the parent process", &error))?;
        }
        match self.choice.task {
            Task::Pairs(pairs) => pairs.execute(),
            Task::Replay(replay) => replay.execute(),
            Task::Described(harness, settings) => described::execute(harness, &settings),
        }
    }
}

impl Pairs {
    fn execute(&self) -> Result<Exit, Failure> {
        let params = self.params();
        let checks = (self.verify, self.false_sharing);
        let outcome = pairs::run(&config(&params, checks))
            .map_err(|error| Failure::error("workload pairs", &error))?;
        ui::print_json(&result(params, &outcome)?)?;
        Ok(Exit::Success)
    }

    fn params(&self) -> PairsParams {
        self.options.params(self.count, self.max, self.settle, DEFAULTS)
    }
}

fn config(params: &PairsParams, (verify, false_sharing): (bool, bool)) -> pairs::Config {
    pairs::Config {
        pairs: params.pairs,
        min: params.min_bytes,
        max: params.max_bytes,
        sizes: match params.sizes {
            model::Sizes::Random => pairs::Sizes::Random,
            model::Sizes::Fixed => pairs::Sizes::Fixed,
        },
        allocations: params.allocations,
        memset: params.memset,
        handoff: match params.handoff {
            model::Handoff::Spin => freehold_workloads::Handoff::Spin,
            model::Handoff::Yield => freehold_workloads::Handoff::Yield,
            model::Handoff::Futex => freehold_workloads::Handoff::Futex,
        },
        depth: params.depth,
        seed: params.seed,
        length: match params.length {
            Length::Samples { count, seconds, warmup_seconds } => pairs::Length::Samples {
                count,
                each: Duration::from_secs_f64(seconds),
                warmup: Duration::from_secs_f64(warmup_seconds),
            },
            Length::Loops { total } => pairs::Length::Loops(total),
        },
        settle: Duration::from_secs_f64(params.settle_seconds),
        verify,
        false_sharing,
    }
}

fn result(params: PairsParams, outcome: &pairs::Outcome) -> Result<PairsRun, Failure> {
    let elapsed_seconds = outcome.elapsed.as_secs_f64();
    Ok(PairsRun {
        params,
        proof: record::proof()?,
        loops: outcome.loops,
        elapsed_seconds,
        loops_per_second: outcome.loops / elapsed_seconds,
        warmup_seconds: outcome.warmup.as_secs_f64(),
        samples: outcome.samples.iter().map(sample).collect(),
        waiting: Waiting {
            allocating_share: outcome.allocating_wait,
            freeing_share: outcome.freeing_wait,
        },
        memory: record::memory(&outcome.memory, outcome.live),
        usage: record::used(outcome.usage),
        verified_blocks: outcome.verified_blocks,
        false_sharing: outcome.false_sharing.map(record::false_sharing),
    })
}

fn sample(sample: &pairs::Sample) -> model::Sample {
    model::Sample {
        end_seconds: sample.end.as_secs_f64(),
        loops: sample.loops,
        rss_bytes: sample.rss_bytes,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use freehold_lab::child::{FOLLOW_PARENT, arguments};
    use freehold_model::{Handoff, Sizes};

    use super::*;
    use crate::args::{Cli, Command};

    /// What a child understands when the laboratory asks for `params`.
    fn understood(params: &PairsParams) -> PairsParams {
        let mut words = arguments(params);
        words.insert(0, "freehold".to_owned());
        words.push(FOLLOW_PARENT.to_owned());
        let Command::Workload(workload) = Cli::parse_from(words).command else {
            panic!("not the workload subcommand")
        };
        assert!(workload.choice.dies_with_parent);
        let Task::Pairs(pairs) = workload.choice.task else { panic!("not the harness") };
        pairs.params()
    }

    #[test]
    fn a_child_understands_exactly_what_the_laboratory_asks_for() {
        let params = PairsParams {
            pairs: 32,
            min_bytes: 16,
            max_bytes: 65536,
            sizes: Sizes::Fixed,
            allocations: 123,
            memset: true,
            handoff: Handoff::Futex,
            depth: 3,
            seed: u64::MAX,
            length: Length::Samples { count: 4, seconds: 0.25, warmup_seconds: 0.125 },
            settle_seconds: 1.5,
        };
        assert_eq!(understood(&params), params);
        let fixed = PairsParams {
            sizes: Sizes::Random,
            memset: false,
            handoff: Handoff::Spin,
            length: Length::Loops { total: 77 },
            ..params
        };
        assert_eq!(understood(&fixed), fixed);
    }
}
