//! The options of the `pairs` harness, shared by those who plan runs of it and the child that
//! makes one.

use clap::{Args, ValueEnum};
use freehold_model::{Handoff, Length, PairsParams, Sizes};

use crate::args::{parse_positive_seconds, parse_seconds};

/// The most of anything that could be asked for without being a slip of the finger.
const MOST: i64 = 1_000_000;

/// How a thread waits for its partner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HandoffArg {
    /// Look again and again, never entering the kernel: for when every thread has a processor
    Spin,
    /// Look some hundreds of times, then yield the processor between looks
    Yield,
    /// Look some hundreds of times, then sleep until woken
    Futex,
}

impl From<HandoffArg> for Handoff {
    fn from(handoff: HandoffArg) -> Self {
        match handoff {
            HandoffArg::Spin => Self::Spin,
            HandoffArg::Yield => Self::Yield,
            HandoffArg::Futex => Self::Futex,
        }
    }
}

/// Options that say how pairs work.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Harness")]
pub(crate) struct PairsOptions {
    /// Blocks in a batch: a loop is this many malloc and as many free
    #[arg(long, value_name = "N", default_value_t = 5000,
          value_parser = clap::value_parser!(u32).range(1..=MOST))]
    allocations: u32,
    /// Always allocate the maximum size, instead of a random one
    #[arg(long)]
    fixed_size: bool,
    /// The least random size in bytes: sizes are MIN + a random number below the maximum
    #[arg(long, value_name = "BYTES", default_value_t = 8)]
    min: u32,
    /// Write every block from end to end
    #[arg(long)]
    memset: bool,
    /// How a thread waits for its partner
    #[arg(long, value_name = "HOW", default_value = "yield")]
    handoff: HandoffArg,
    /// Batches that may be in flight between two partners
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    depth: u32,
    /// Samples in a run
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "loops",
          value_parser = clap::value_parser!(u32).range(1..=MOST))]
    samples: u32,
    /// Length of a sample [default: 0.3 for bench, 3 for workload]
    #[arg(long, value_name = "SECONDS", conflicts_with = "loops",
          value_parser = parse_positive_seconds)]
    pub(crate) seconds: Option<f64>,
    /// Time before the first sample; up to five times longer, until every slot was used once
    /// [default: 0.1 for bench, 0 for workload]
    #[arg(long, value_name = "SECONDS", conflicts_with = "loops", value_parser = parse_seconds)]
    warmup: Option<f64>,
    /// End a run after this many loops of all pairs together, instead of after a time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    loops: Option<u64>,
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

/// Lengths where none were given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Defaults {
    pub(crate) seconds: f64,
    pub(crate) warmup: f64,
}

impl PairsOptions {
    /// The parameters that these options mean.
    pub(crate) fn params(&self, pairs: u32, max: u32, settle: f64, or: Defaults) -> PairsParams {
        let length = match self.loops {
            Some(total) => Length::Loops { total },
            None => Length::Samples {
                count: self.samples,
                seconds: self.seconds.unwrap_or(or.seconds),
                warmup_seconds: self.warmup.unwrap_or(or.warmup),
            },
        };
        PairsParams {
            pairs,
            min_bytes: self.min,
            max_bytes: max,
            sizes: if self.fixed_size { Sizes::Fixed } else { Sizes::Random },
            allocations: self.allocations,
            memset: self.memset,
            handoff: self.handoff.into(),
            depth: self.depth,
            seed: self.seed,
            length,
            settle_seconds: settle,
        }
    }
}
