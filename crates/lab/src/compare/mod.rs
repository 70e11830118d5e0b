//! Comparing allocators on somebody's own program: round after round, until there is evidence
//! enough, a limit is reached, or somebody interrupts. It must not know how progress is shown or
//! where results go.

mod doubts;
mod recommend;
mod summary;
mod template;

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use freehold_model::{Allocator, ComparePlan, Trial, TrialOutcome};

use crate::bench::Stop;
use crate::plan::{self, Step};
use crate::random::Random;
use crate::statistics::{CLAIM_LEVEL, Looks, is_within};
use crate::trial::{Job, Setting, TrialRunner};

pub use doubts::{Doubt, doubts};
pub use summary::{HEADLINES, summarise};
pub use template::{List, filled, parameters, unmentioned};

/// Everything decided before the first run.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// What is to be run.
    pub plan: ComparePlan,
    /// The same, for each case.
    pub jobs: Vec<Job>,
    /// The allocators.
    pub allocators: Vec<Allocator>,
    /// What makes them live, for each case.
    pub settings: Vec<Vec<Setting>>,
    /// Index of the one that the others are compared with.
    pub reference: usize,
    /// Seed of the order.
    pub seed: u64,
    /// No round begins that would probably end after this time.
    pub time_limit: Option<Duration>,
}

/// Why a comparison ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// All rounds were made.
    Done,
    /// Fewer rounds were enough.
    Enough,
    /// The time was up.
    TimeUp,
    /// Somebody interrupted it.
    Interrupted,
    /// No allocator is left under which the program does not fail.
    AllFailed,
}

/// Somebody who is told how a comparison goes on.
pub trait Observer {
    /// A run begins, of a round from 0, or of a warm-up.
    fn begins(&mut self, step: &Step, is_warmup: bool);
    /// A run has ended.
    fn ended(&mut self, step: &Step, outcome: &TrialOutcome);
    /// All warm-ups were made, in this time.
    fn is_warm(&mut self, taken: Duration);
}

/// When to look at the results, and how sure to be.
pub fn looks(plan: &ComparePlan) -> Looks {
    let limit = plan.repeat as usize;
    match plan.until {
        Some(_) => Looks::repeated(limit, CLAIM_LEVEL),
        None => Looks::once(limit, CLAIM_LEVEL),
    }
}

/// A comparison under way.
struct Course<'a, O> {
    comparison: &'a Comparison,
    runner: &'a TrialRunner,
    stop: &'a Stop,
    observer: &'a mut O,
    random: Random,
    trials: Vec<Trial>,
    /// Cases that failed under an allocator: they are not tried again.
    failed: HashSet<(usize, usize)>,
}

/// Makes the runs, and returns those that count with the reason for which they ended.
pub fn run(
    comparison: &Comparison,
    runner: &TrialRunner,
    stop: &Stop,
    observer: &mut impl Observer,
) -> (Vec<Trial>, Ending) {
    let random = Random::new(comparison.seed);
    let (trials, failed) = (Vec::new(), HashSet::new());
    let mut course = Course { comparison, runner, stop, observer, random, trials, failed };
    let ending = course.go();
    (course.trials, ending)
}

impl<O: Observer> Course<'_, O> {
    fn go(&mut self) -> Ending {
        let start = Instant::now();
        let ComparePlan { warmup, repeat, until, .. } = self.comparison.plan;
        for number in 0..warmup {
            if let Err(ending) = self.round(number, true) {
                return ending;
            }
        }
        self.observer.is_warm(start.elapsed());
        let looks = looks(&self.comparison.plan);
        let mut longest = Duration::ZERO;
        for number in 0..repeat {
            let limit = self.comparison.time_limit;
            if limit.is_some_and(|limit| start.elapsed() + longest > limit) {
                return Ending::TimeUp;
            }
            let begun = Instant::now();
            if let Err(ending) = self.round(number, false) {
                return ending;
            }
            longest = longest.max(begun.elapsed());
            let is_due = looks.is_due(number as usize + 1);
            if is_due && until.is_some_and(|precision| self.is_precise(precision)) {
                return Ending::Enough;
            }
        }
        Ending::Done
    }

    fn round(&mut self, number: u32, is_warmup: bool) -> Result<(), Ending> {
        let allocators = self.comparison.allocators.len();
        let cases: Vec<usize> = (0..self.comparison.jobs.len()).collect();
        let steps = plan::round(number, &cases, allocators, &mut self.random);
        for step in steps {
            if self.stop.soon.load(Ordering::Relaxed) {
                return Err(Ending::Interrupted);
            }
            if self.failed.contains(&(step.case, step.allocator)) {
                continue;
            }
            self.step(&step, is_warmup)?;
        }
        let all = cases.len() * allocators;
        if self.failed.len() == all { Err(Ending::AllFailed) } else { Ok(()) }
    }

    fn step(&mut self, step: &Step, is_warmup: bool) -> Result<(), Ending> {
        self.observer.begins(step, is_warmup);
        let Step { case, allocator, round } = *step;
        let job = &self.comparison.jobs[case];
        let setting = &self.comparison.settings[case][allocator];
        let outcome = self.runner.run(job, setting, &self.stop.now);
        if self.stop.now.load(Ordering::Relaxed) {
            return Err(Ending::Interrupted);
        }
        self.observer.ended(step, &outcome);
        let has_failed = matches!(outcome, TrialOutcome::Failed(_));
        if has_failed {
            self.failed.insert((case, allocator));
        }
        if has_failed || !is_warmup {
            let round = (!is_warmup).then_some(round);
            self.trials.push(Trial { case, allocator, round, outcome });
        }
        Ok(())
    }

    /// Whether everything that a recommendation rests on is known well enough. What failed is not
    /// tried again, so its ratios will never be known better.
    fn is_precise(&self, precision: f64) -> bool {
        let Comparison { plan, allocators, reference, .. } = self.comparison;
        let summary = summarise(plan, allocators, *reference, &self.trials);
        let headlines = summary
            .cells
            .iter()
            .filter(|cell| !self.failed.contains(&(cell.case, cell.allocator)))
            .flat_map(|cell| HEADLINES.iter().filter_map(|name| cell.measures.get(*name)?.ratio));
        headlines.into_iter().all(|ratio| is_within(&ratio, precision))
    }
}
