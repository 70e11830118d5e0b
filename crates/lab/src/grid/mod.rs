//! Running a grid: round after round through all cases, until there is evidence enough, the time is
//! up, or somebody interrupts. It must not know how progress is shown or where results go.

mod doubts;
mod merge;
mod pace;
mod summary;

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use freehold_model::{Allocator, GridOutcome, GridPlan, GridRun, GridSummary, Shard};

use crate::bench::Stop;
use crate::child::Runner;
use crate::plan::{self, Step};
use crate::random::Random;
use crate::statistics::{CLAIM_LEVEL, Looks, is_within};

pub use doubts::{Doubt, doubts};
pub use merge::{Unmergeable, merge};
pub use summary::summarise;

use self::pace::Pace;

/// Everything decided before the first run.
#[derive(Debug)]
pub struct Grid {
    /// What is to be run.
    pub plan: GridPlan,
    /// The allocators.
    pub allocators: Vec<Allocator>,
    /// Index of the one that the others are compared with.
    pub reference: usize,
    /// Seed of the order.
    pub seed: u64,
}

/// Why a grid ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// All rounds were made, or fewer were enough.
    Done,
    /// The time was up.
    TimeUp,
    /// Somebody interrupted it.
    Interrupted,
}

/// Somebody who is told how a grid goes on.
pub trait Observer {
    /// A run begins. `left` is how long all runs may take from now on, where that can be told.
    fn begins(&mut self, step: &Step, left: Option<Duration>);
    /// A run has ended.
    fn ended(&mut self, run: &GridRun);
    /// A round has ended, after which this many cases need more.
    fn is_through(&mut self, round: u32, open: usize);
}

/// When to look at the results, and how sure to be.
pub fn looks(plan: &GridPlan) -> Looks {
    let limit = plan.rounds as usize;
    match plan.until {
        Some(_) => Looks::repeated(limit, CLAIM_LEVEL),
        None => Looks::once(limit, CLAIM_LEVEL),
    }
}

/// The cases that belong to a shard: every so many, so that each has some of every harness. A case
/// stays whole, because what is compared must be measured on one machine.
pub fn shard<T>(cases: Vec<T>, shard: Shard) -> Vec<T> {
    let first = shard.number.saturating_sub(1) as usize;
    cases.into_iter().skip(first).step_by(shard.of.max(1) as usize).collect()
}

/// A grid under way.
struct Course<'a, O> {
    grid: &'a Grid,
    runner: &'a Runner,
    stop: &'a Stop,
    observer: &'a mut O,
    start: Instant,
    random: Random,
    pace: Pace,
    runs: Vec<GridRun>,
    /// Cases that need more rounds.
    open: Vec<usize>,
    /// Cases that failed under an allocator: they are not tried again.
    failed: HashSet<(usize, usize)>,
}

/// Makes the runs, and returns them with the reason for which they ended.
pub fn run(
    grid: &Grid,
    runner: &Runner,
    stop: &Stop,
    observer: &mut impl Observer,
) -> (Vec<GridRun>, Ending) {
    let mut course = Course {
        grid,
        runner,
        stop,
        observer,
        start: Instant::now(),
        random: Random::new(grid.seed),
        pace: Pace::default(),
        runs: Vec::new(),
        open: (0..grid.plan.cases.len()).collect(),
        failed: HashSet::new(),
    };
    let ending = course.go();
    (course.runs, ending)
}

impl<O: Observer> Course<'_, O> {
    fn go(&mut self) -> Ending {
        let GridPlan { rounds, until, .. } = self.grid.plan;
        let looks = looks(&self.grid.plan);
        for round in 0..rounds {
            if let Err(ending) = self.round(round) {
                return ending;
            }
            if let Some(precision) = until.filter(|_| looks.is_due(round as usize + 1)) {
                self.close(precision);
            }
            self.observer.is_through(round, self.open.len());
            if self.open.is_empty() {
                break;
            }
        }
        Ending::Done
    }

    fn round(&mut self, round: u32) -> Result<(), Ending> {
        let allocators = self.grid.allocators.len();
        let steps = plan::round(round, &self.open, allocators, &mut self.random);
        for (done, block) in steps.chunks(allocators).enumerate() {
            let ahead = &steps[done * allocators..];
            self.check_time(block)?;
            for (at, step) in block.iter().enumerate() {
                if self.stop.soon.load(Ordering::Relaxed) {
                    return Err(Ending::Interrupted);
                }
                if !self.failed.contains(&(step.case, step.allocator)) {
                    self.step(step, &ahead[at..])?;
                }
            }
        }
        Ok(())
    }

    /// Ends the grid if the runs of this case would probably not end within the limit.
    fn check_time(&self, block: &[Step]) -> Result<(), Ending> {
        let Some(limit) = self.grid.plan.time_limit_seconds else { return Ok(()) };
        let needed = self.pace.expected(block).map_or(0.0, |needed| needed.as_secs_f64());
        let ends = self.start.elapsed().as_secs_f64() + needed;
        if ends > limit { Err(Ending::TimeUp) } else { Ok(()) }
    }

    fn step(&mut self, step: &Step, ahead: &[Step]) -> Result<(), Ending> {
        self.observer.begins(step, self.left(ahead));
        let Step { case, allocator, round } = *step;
        let begun = Instant::now();
        let own = &self.grid.plan.cases[case];
        let library = &self.grid.allocators[allocator];
        let outcome = self.runner.run_harness(own, library, &self.stop.now);
        if self.stop.now.load(Ordering::Relaxed) {
            return Err(Ending::Interrupted);
        }
        let taken = begun.elapsed();
        self.pace.note(step, taken);
        if matches!(outcome, GridOutcome::Failed(_)) {
            self.failed.insert((case, allocator));
        }
        let seconds = taken.as_secs_f64();
        let run = GridRun { part: 0, case, allocator, round, seconds, outcome };
        self.observer.ended(&run);
        self.runs.push(run);
        Ok(())
    }

    /// How long it takes at most from here on.
    fn left(&self, ahead: &[Step]) -> Option<Duration> {
        let of_round = self.pace.expected(ahead)?;
        let rounds_after = self.grid.plan.rounds - ahead.first()?.round - 1;
        let allocators = 0..self.grid.allocators.len();
        let all: Vec<Step> = (self.open.iter())
            .flat_map(|&case| {
                allocators.clone().map(move |allocator| Step { case, allocator, round: 0 })
            })
            .filter(|step| !self.failed.contains(&(step.case, step.allocator)))
            .collect();
        let left = of_round + self.pace.expected(&all)? * rounds_after;
        let limit = self
            .grid
            .plan
            .time_limit_seconds
            .map(|limit| Duration::from_secs_f64(limit).saturating_sub(self.start.elapsed()));
        Some(limit.map_or(left, |limit| left.min(limit)))
    }

    /// Closes the cases of which all ratios are known well enough.
    fn close(&mut self, precision: f64) {
        let Grid { plan, allocators, reference, .. } = self.grid;
        let summary = summarise(plan, allocators.len(), *reference, &self.runs);
        self.open.retain(|&case| !is_precise(&summary, case, precision));
    }
}

/// Whether all ratios of a case are known this well. What failed is not tried again, so its ratios
/// will never be known better.
fn is_precise(summary: &GridSummary, case: usize, precision: f64) -> bool {
    let own = summary.cells.iter().filter(|cell| cell.case == case && cell.failed == 0);
    let mut ratios = own.flat_map(|cell| [cell.gain, cell.peak_ratio].into_iter().flatten());
    ratios.all(|ratio| is_within(&ratio, precision))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use freehold_model::{Better, Failure, FailureKind};

    use super::summary::tests::{case, runs};
    use super::*;
    use crate::fixtures::library;

    /// Counts what it is told, and interrupts when it was told enough.
    struct Watcher<'a> {
        stop: &'a Stop,
        steps: Vec<Step>,
        rounds: u32,
        most: usize,
    }

    impl Observer for Watcher<'_> {
        fn begins(&mut self, step: &Step, _: Option<Duration>) {
            self.steps.push(*step);
        }

        fn ended(&mut self, _: &GridRun) {
            self.stop.soon.store(self.steps.len() >= self.most, Ordering::Relaxed);
        }

        fn is_through(&mut self, _: u32, _: usize) {
            self.rounds += 1;
        }
    }

    /// Runs a grid of two cases under two allocators with a shell in the place of the children.
    fn ran(plan: GridPlan, most: usize) -> (Vec<Step>, u32, Vec<GridRun>, Ending) {
        let stop = Stop::default();
        let mut watcher = Watcher { stop: &stop, steps: Vec::new(), rounds: 0, most };
        let allocators = vec![library("a"), library("b")];
        let grid = Grid { plan, allocators, reference: 0, seed: 1 };
        let runner = Runner { program: "/bin/false".into(), timeout: Duration::from_secs(60) };
        let (runs, ending) = run(&grid, &runner, &stop, &mut watcher);
        (watcher.steps, watcher.rounds, runs, ending)
    }

    fn plan() -> GridPlan {
        let cases = vec![case("x", 1), case("x", 2)];
        GridPlan { cases, rounds: 3, ..GridPlan::default() }
    }

    #[test]
    fn a_case_is_precise_when_its_rounds_agree_and_another_may_still_be_open() {
        let plan = GridPlan { until: Some(0.02), rounds: 100, ..plan() };
        let time = (Better::Lower, "seconds");
        let noisy: Vec<f64> = (0..12).map(|round| 1.0 + f64::from(round % 4) / 2.0).collect();
        let mut all = runs(0, time, &[&[1.0; 12], &[1.5; 12]]);
        all.extend(runs(1, time, &[&[1.0; 12], &noisy]));
        let summary = summarise(&plan, 2, 0, &all);
        assert!(is_precise(&summary, 0, 0.02));
        assert!(!is_precise(&summary, 1, 0.02));
        assert!(is_precise(&summary, 1, 1.0));
        // What has failed will never be known better.
        let failure = Failure { kind: FailureKind::Crashed, detail: String::new() };
        let outcome = GridOutcome::Failed(failure);
        all.push(GridRun { part: 0, case: 1, allocator: 1, round: 12, seconds: 1.0, outcome });
        assert!(is_precise(&summarise(&plan, 2, 0, &all), 1, 0.02));
    }

    #[test]
    fn what_fails_once_is_not_tried_again() {
        let (steps, rounds, runs, ending) = ran(plan(), usize::MAX);
        assert_eq!((steps.len(), rounds, runs.len()), (4, 3, 4));
        assert_eq!(ending, Ending::Done);
    }

    #[test]
    fn an_interrupt_keeps_the_runs_that_were_made() {
        let (steps, rounds, runs, ending) = ran(plan(), 2);
        assert_eq!((steps.len(), rounds, runs.len()), (2, 0, 2));
        assert_eq!(ending, Ending::Interrupted);
    }

    #[test]
    fn nothing_is_begun_when_the_time_is_up() {
        let plan = GridPlan { time_limit_seconds: Some(0.0), ..plan() };
        let (steps, _, runs, ending) = ran(plan, usize::MAX);
        assert_eq!((steps.len(), runs.len()), (0, 0));
        assert_eq!(ending, Ending::TimeUp);
    }

    #[test]
    fn shards_share_out_every_case_once_and_evenly() {
        for of in 1..9 {
            let parts: Vec<Vec<u32>> =
                (1..=of).map(|number| shard((0..20).collect(), Shard { number, of })).collect();
            let sizes = parts.iter().map(Vec::len);
            assert!(sizes.clone().max().unwrap_or(0) - sizes.min().unwrap_or(0) <= 1);
            let mut all = parts.concat();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..20), "{of} shards");
        }
    }
}
