//! Making the runs: every allocator once a round, in random order, in child processes.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use freehold_model::{Allocator, Failure, ReplayOutcome, ReplayRound, ReplayRun, Touch};

use crate::bench::Stop;
use crate::child::{Runner, Task};
use crate::random::Random;

/// What each child is asked to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The script.
    pub script: PathBuf,
    /// How much of each block is written to.
    pub touch: Touch,
    /// Idle time before memory is read a second time at the end.
    pub settle_seconds: f64,
}

impl Job {
    /// The command-line arguments that ask for a run.
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments: Vec<String> = ["workload", "replay"].map(String::from).to_vec();
        arguments.push(format!("--touch={}", self.touch.as_str()));
        arguments.push(format!("--settle={}", self.settle_seconds));
        arguments.push(self.script.to_string_lossy().into_owned());
        arguments
    }
}

/// Makes runs of a job, and tells somebody about each.
pub struct Replayer<'a> {
    /// The job.
    pub job: &'a Job,
    /// The allocators.
    pub allocators: &'a [Allocator],
    /// How children are run.
    pub runner: &'a Runner,
    /// By which it is told to end.
    pub stop: &'a Stop,
}

/// The order of the runs: one of each allocator in each round, shuffled.
pub fn rounds(allocators: usize, repeat: u32, seed: u64) -> Vec<(u32, usize)> {
    let mut random = Random::new(seed);
    let mut steps = Vec::new();
    for round in 0..repeat {
        let mut order: Vec<usize> = (0..allocators).collect();
        random.shuffle(&mut order);
        steps.extend(order.into_iter().map(|allocator| (round, allocator)));
    }
    steps
}

impl Replayer<'_> {
    /// Makes the runs of `steps` in their order, and returns those that were made.
    pub fn run(
        &self,
        steps: &[(u32, usize)],
        mut ended: impl FnMut(&ReplayRound),
    ) -> Vec<ReplayRound> {
        let mut runs = Vec::with_capacity(steps.len());
        for &(round, allocator) in steps {
            if self.stop.soon.load(Ordering::Relaxed) {
                break;
            }
            let outcome = match self.once(&self.allocators[allocator]) {
                Ok(run) => ReplayOutcome::Measured(Box::new(run)),
                Err(failure) => ReplayOutcome::Failed(failure),
            };
            if self.stop.now.load(Ordering::Relaxed) {
                break;
            }
            let run = ReplayRound { allocator, round, outcome };
            ended(&run);
            runs.push(run);
        }
        runs
    }

    fn once(&self, allocator: &Allocator) -> Result<ReplayRun, Failure> {
        let task = Task::of(self.job.arguments());
        self.runner.measure(task, allocator, &self.stop.now, |run: &ReplayRun| &run.proof)
    }
}
