//! `freehold workload replay`: recorded calls made again in this very process.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use freehold_model as model;
use freehold_model::{ReplayCalls, ReplayRun};
use freehold_workloads::replay::{self, Config, Outcome};

use super::record;
use crate::args::parse_seconds;
use crate::exit::{Exit, Failure};
use crate::ui;

/// How much of each block is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TouchArg {
    /// Nothing: memory is reserved, and not used
    None,
    /// A byte of each page, so that it is resident
    First,
    /// Every byte
    All,
}

impl From<TouchArg> for model::Touch {
    fn from(touch: TouchArg) -> Self {
        match touch {
            TouchArg::None => Self::None,
            TouchArg::First => Self::First,
            TouchArg::All => Self::All,
        }
    }
}

impl From<TouchArg> for replay::Touch {
    fn from(touch: TouchArg) -> Self {
        match touch {
            TouchArg::None => Self::None,
            TouchArg::First => Self::First,
            TouchArg::All => Self::All,
        }
    }
}

/// Make recorded calls again, as `freehold replay` asks for it
#[derive(Debug, Args)]
pub(super) struct Replay {
    /// The script that `freehold replay` has made of a trace
    script: PathBuf,
    /// How much of each block is written to
    #[arg(long, value_name = "WHAT", default_value = "first")]
    touch: TouchArg,
    /// After the last call, stay idle for this long before memory is read again
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, value_parser = parse_seconds)]
    settle: f64,
}

impl Replay {
    pub(super) fn execute(&self) -> Result<Exit, Failure> {
        let config =
            Config { touch: self.touch.into(), settle: Duration::from_secs_f64(self.settle) };
        let outcome = replay::run(&self.script, &config)
            .map_err(|error| Failure::error("workload replay", &error))?;
        ui::print_json(&result(&outcome)?)?;
        Ok(Exit::Success)
    }
}

fn result(outcome: &Outcome) -> Result<ReplayRun, Failure> {
    let calls = outcome.calls;
    Ok(ReplayRun {
        proof: record::proof()?,
        calls: ReplayCalls {
            malloc: calls.malloc,
            calloc: calls.calloc,
            realloc: calls.realloc,
            aligned: calls.aligned,
            free: calls.free,
            free_null: calls.free_null,
        },
        threads: outcome.threads,
        elapsed_seconds: outcome.elapsed.as_secs_f64(),
        waited_seconds: outcome.waited.as_secs_f64(),
        peak_live_bytes: outcome.peak_live_bytes,
        end_live_bytes: outcome.end_live_bytes,
        before: record::resident(outcome.before),
        peak_anonymous_bytes: outcome.peak_bytes,
        end: record::resident(outcome.end),
        settled: outcome.settled.map(record::resident),
        harness_bytes: outcome.harness_bytes,
        timeline: outcome.timeline.iter().map(record::reading).collect(),
        usage: record::used(outcome.usage),
    })
}
