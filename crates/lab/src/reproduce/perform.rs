//! Making the runs of an experiment, one after the other.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use freehold_model::{
    Allocator, HarnessRun, Numbers, PairsRun, ReproducedOutcome, ReproducedRun, TopRow,
};

use crate::bench::Stop;
use crate::child::{Runner, Task};
use crate::plan::Step;
use crate::random::Random;
use crate::reproduce::plan::{Case, Plan, Work};
use crate::touch::touch;

/// The order of the runs. A round goes through all cases in random order, and through all
/// allocators of a case in random order.
pub fn steps(plan: &Plan, allocators: &[Allocator], rounds: u32, seed: u64) -> Vec<Step> {
    let mut random = Random::new(seed);
    let mut steps = Vec::new();
    for round in 0..rounds {
        let mut cases: Vec<usize> = (0..plan.cases.len()).collect();
        random.shuffle(&mut cases);
        for case in cases {
            let is_under = |index: &usize| plan.cases[case].is_under(&allocators[*index].name);
            let mut order: Vec<usize> = (0..allocators.len()).filter(is_under).collect();
            random.shuffle(&mut order);
            steps.extend(order.into_iter().map(|allocator| Step { case, allocator, round }));
        }
    }
    steps
}

/// Somebody who watches where the time of a process' threads goes. What it needs for that is not
/// the laboratory's business.
pub trait Watcher: Sync {
    /// Watches the process from a moment on for so long, or until it ends.
    fn watch(&self, pid: u32, after: Duration, length: Duration) -> Vec<TopRow>;
}

/// Somebody who is told how it goes on.
pub trait Observer {
    /// A run begins.
    fn begins(&mut self, step: &Step);
    /// A run has ended.
    fn ended(&mut self, run: &ReproducedRun);
}

/// Makes the runs, and returns those that were made.
pub fn perform(
    plan: &Plan,
    allocators: &[Allocator],
    steps: &[Step],
    runner: &Runner,
    watcher: &dyn Watcher,
    stop: &Stop,
    observer: &mut impl Observer,
) -> Vec<ReproducedRun> {
    let mut runs = Vec::with_capacity(steps.len());
    for step in steps {
        if stop.soon.load(Ordering::Relaxed) {
            break;
        }
        observer.begins(step);
        let case = &plan.cases[step.case];
        touch(case.touched_bytes);
        let (outcome, threads) = one(case, &allocators[step.allocator], runner, watcher, stop);
        if stop.now.load(Ordering::Relaxed) {
            break;
        }
        let Step { case, allocator, round } = *step;
        let run = ReproducedRun { case, allocator, round, outcome, threads };
        observer.ended(&run);
        runs.push(run);
    }
    runs
}

fn one(
    case: &Case,
    allocator: &Allocator,
    runner: &Runner,
    watcher: &dyn Watcher,
    stop: &Stop,
) -> (ReproducedOutcome, Option<Vec<TopRow>>) {
    let watched = Mutex::new(None);
    let outcome = std::thread::scope(|scope| {
        let started = |pid: u32| {
            if let Some((after, length)) = case.watched {
                let watched = &watched;
                scope.spawn(move || {
                    let rows = watcher.watch(pid, after, length);
                    *watched.lock().unwrap_or_else(PoisonError::into_inner) = Some(rows);
                });
            }
        };
        let environment =
            case.environment.iter().map(|(name, it)| (name.clone(), it.into())).collect();
        let task = Task { arguments: case.arguments(), environment, started: &started };
        let numbers = match case.work {
            Work::Pairs(_) => runner
                .measure(task, allocator, &stop.now, |run: &PairsRun| &run.proof)
                .map(|run| Numbers::Pairs(Box::new(run))),
            Work::Harness(..) => runner
                .measure(task, allocator, &stop.now, |run: &HarnessRun| &run.proof)
                .map(|run| Numbers::Harness(Box::new(run))),
        };
        match numbers {
            Ok(numbers) => ReproducedOutcome::Measured(numbers),
            Err(failure) => ReproducedOutcome::Failed(failure),
        }
    });
    (outcome, watched.into_inner().unwrap_or_else(PoisonError::into_inner))
}
