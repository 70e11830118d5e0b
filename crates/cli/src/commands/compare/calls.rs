//! One more run under each allocator, in which system calls are counted.

use std::env;
use std::sync::atomic::Ordering;

use freehold_lab::bench::Stop;
use freehold_lab::compare::Comparison;
use freehold_lab::trial::TrialRunner;
use freehold_model::{CountedCalls, Trial, TrialOutcome};

use crate::advice;
use crate::exit::Failure;
use crate::ui::Ui;

/// Counts the calls of everything that gave numbers, and says in sentences where it could not.
pub(super) fn count(
    comparison: &Comparison,
    runner: &TrialRunner,
    trials: &[Trial],
    stop: &Stop,
    ui: Ui,
) -> Result<(Vec<CountedCalls>, Vec<String>), Failure> {
    let tracer = env::current_exe()
        .map_err(|error| Failure::error("cannot find this executable", &error))?;
    let (mut counted, mut failed) = (Vec::new(), Vec::new());
    for (case, job) in comparison.jobs.iter().enumerate() {
        for (allocator, own) in comparison.allocators.iter().enumerate() {
            let gave_numbers = |trial: &Trial| {
                (trial.case, trial.allocator) == (case, allocator)
                    && matches!(trial.outcome, TrialOutcome::Measured(_))
            };
            if stop.soon.load(Ordering::Relaxed) || !trials.iter().any(gave_numbers) {
                continue;
            }
            ui.note(&advice::counting_calls(&own.name));
            let setting = &comparison.settings[case][allocator];
            match runner.count_calls(&tracer, job, setting, &stop.now) {
                Ok(calls) => counted.push(CountedCalls { case, allocator, calls }),
                Err(failure) => failed.push(advice::calls_not_counted(&own.name, &failure.detail)),
            }
        }
    }
    Ok((counted, failed))
}
