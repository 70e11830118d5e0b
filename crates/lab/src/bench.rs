//! Running a benchmark: one step after the other, until all are done or it is told to stop. It
//! must not know how progress is shown or where results go.

use std::sync::atomic::{AtomicBool, Ordering};

use freehold_model::{Allocator, Plan, Run};

use crate::child::Runner;
use crate::plan::Step;

/// How a benchmark is told to end before all runs are made.
#[derive(Debug, Default)]
pub struct Stop {
    /// After the current run.
    pub soon: AtomicBool,
    /// At once, throwing the current run away.
    pub now: AtomicBool,
}

/// Somebody who is told how a benchmark goes on.
pub trait Observer {
    /// A run begins.
    fn begins(&mut self, step: &Step);
    /// A run has ended.
    fn ended(&mut self, run: &Run);
}

/// Makes the runs of `steps` in their order, and returns those that were made. A run that fails
/// does not keep the others from being made.
pub fn run(
    plan: &Plan,
    allocators: &[Allocator],
    steps: &[Step],
    runner: &Runner,
    stop: &Stop,
    observer: &mut impl Observer,
) -> Vec<Run> {
    let mut runs = Vec::with_capacity(steps.len());
    for step in steps {
        if stop.soon.load(Ordering::Relaxed) {
            break;
        }
        observer.begins(step);
        let params = &plan.cases[step.case].params;
        let outcome = runner.run(params, &allocators[step.allocator], &stop.now);
        if stop.now.load(Ordering::Relaxed) {
            break;
        }
        let Step { case, allocator, round } = *step;
        let run = Run { case, allocator, round, outcome };
        observer.ended(&run);
        runs.push(run);
    }
    runs
}
