//! `freehold workload`: one run of a harness in this very process, under whatever allocator it
//! was started with. The benchmark starts itself again with this subcommand.

use std::time::Duration;

use clap::{Args, Subcommand};
use freehold_model as model;
use freehold_model::{Length, Memory, PairsParams, PairsRun, Proof, Waiting};
use freehold_workloads::{identity, pairs, resident, usage};
use rustix::process::{Signal, set_parent_process_death_signal};

use super::pairs::{Defaults, PairsOptions};
use crate::args::parse_seconds;
use crate::exit::{Exit, Failure};
use crate::ui;

const EXAMPLES: &str = "\
Examples:
  freehold workload pairs --pairs 4 --max 4096 --samples 5 --seconds 3
  LD_PRELOAD=./libmine.so freehold workload pairs --pairs 32 --max 4096 --memset --loops 320
  freehold run -- freehold workload pairs --pairs 1 --max 256";

const DEFAULTS: Defaults = Defaults { seconds: 3.0, warmup: 0.0 };

/// Run a harness in this process, under the allocator it was started with, and print JSON
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Workload {
    #[command(subcommand)]
    harness: Harness,
}

/// A harness.
#[derive(Debug, Subcommand)]
enum Harness {
    Pairs(Pairs),
}

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
    /// End when the process that started this one ends
    #[arg(long, hide = true)]
    die_with_parent: bool,
}

impl Workload {
    pub(crate) fn execute(self) -> Result<Exit, Failure> {
        match self.harness {
            Harness::Pairs(pairs) => pairs.execute(),
        }
    }
}

impl Pairs {
    fn execute(&self) -> Result<Exit, Failure> {
        if self.die_with_parent {
            set_parent_process_death_signal(Some(Signal::KILL))
                .map_err(|error| Failure::error("cannot follow the parent process", &error))?;
        }
        let params = self.params();
        let outcome = pairs::run(&config(&params))
            .map_err(|error| Failure::error("workload pairs", &error))?;
        let providers = identity::providers()
            .ok_or_else(|| Failure::new(Exit::Error, "the loader does not know its own malloc"))?;
        ui::print_json(&result(params, &outcome, &providers))?;
        Ok(Exit::Success)
    }

    fn params(&self) -> PairsParams {
        self.options.params(self.count, self.max, self.settle, DEFAULTS)
    }
}

fn config(params: &PairsParams) -> pairs::Config {
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
    }
}

fn result(
    params: PairsParams,
    outcome: &pairs::Outcome,
    providers: &identity::Providers,
) -> PairsRun {
    let elapsed_seconds = outcome.elapsed.as_secs_f64();
    PairsRun {
        params,
        proof: proof(providers),
        loops: outcome.loops,
        elapsed_seconds,
        loops_per_second: outcome.loops / elapsed_seconds,
        warmup_seconds: outcome.warmup.as_secs_f64(),
        samples: outcome.samples.iter().map(sample).collect(),
        waiting: Waiting {
            allocating_share: outcome.allocating_wait,
            freeing_share: outcome.freeing_wait,
        },
        memory: Memory {
            before: memory(outcome.before),
            peak_rss_bytes: outcome.peaks.rss_bytes,
            peak_virtual_bytes: outcome.peaks.virtual_bytes,
            peak_live_bytes: outcome.peak_live_bytes,
            harness_bytes: outcome.harness_bytes,
            freed: memory(outcome.freed),
            settled: outcome.settled.map(memory),
        },
        usage: used(outcome.usage),
    }
}

fn proof(providers: &identity::Providers) -> Proof {
    Proof {
        malloc_object: providers.malloc.to_string_lossy().into_owned(),
        free_object: providers.free.to_string_lossy().into_owned(),
        mapped_objects: providers
            .mapped
            .iter()
            .map(|path| path.to_string_lossy().into_owned())
            .collect(),
    }
}

fn sample(sample: &pairs::Sample) -> model::Sample {
    model::Sample {
        end_seconds: sample.end.as_secs_f64(),
        loops: sample.loops,
        rss_bytes: sample.rss_bytes,
    }
}

fn memory(resident: resident::Resident) -> model::Resident {
    model::Resident {
        rss_bytes: resident.rss_bytes,
        anonymous_bytes: resident.anonymous_bytes,
        lazy_free_bytes: resident.lazy_free_bytes,
        huge_bytes: resident.huge_bytes,
        swap_bytes: resident.swap_bytes,
    }
}

fn used(usage: usage::Usage) -> model::Usage {
    model::Usage {
        user_seconds: usage.user_seconds,
        system_seconds: usage.system_seconds,
        minor_faults: usage.minor_faults,
        voluntary_switches: usage.voluntary_switches,
        involuntary_switches: usage.involuntary_switches,
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
        let Harness::Pairs(pairs) = workload.harness;
        assert!(pairs.die_with_parent);
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
