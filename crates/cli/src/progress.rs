//! Showing how a benchmark goes on. It must not know how runs are made.

use std::time::Duration;

use freehold_lab::bench::Observer;
use freehold_lab::compare::{self, Comparison};
use freehold_lab::plan::Step;
use freehold_lab::{grid, reproduce};
use freehold_model::{
    Allocator, Failure, GridOutcome, GridPlan, GridRun, Outcome, PairsParams, Plan,
    ReproducedOutcome, ReproducedRun, Run, TrialOutcome,
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle as BarStyle};

use crate::advice;
use crate::ui::{ProgressStyle, Ui};

const WITH_TIME: &str = "{bar:24} {pos}/{len}, {eta} left: {msg}";

/// For those who know better than the bar how much time is left.
const WITHOUT_TIME: &str = "{bar:24} {pos}/{len}, {msg}";

/// A number of runs, as a bar that is redrawn or as a line for each.
struct Board {
    ui: Ui,
    style: ProgressStyle,
    bar: ProgressBar,
    done: usize,
}

impl Board {
    fn new(ui: Ui, total: usize, template: &str) -> Self {
        let style = ui.progress_style();
        let target = match style {
            ProgressStyle::Bar => ProgressDrawTarget::stderr(),
            ProgressStyle::None | ProgressStyle::Lines => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(total as u64), target);
        if let Ok(template) = BarStyle::with_template(template) {
            bar.set_style(template);
        }
        Self { ui, style, bar, done: 0 }
    }

    /// Takes note of a run that has ended, with what came of it.
    fn ended(&mut self, title: &str, result: &Result<String, &Failure>) {
        self.done += 1;
        self.bar.inc(1);
        let shown = match result {
            Ok(number) => number,
            Err(failure) => &failure.detail,
        };
        match self.style {
            ProgressStyle::Lines => {
                let (done, total) = (self.done, self.bar.length().unwrap_or_default());
                self.ui.note(&format!("{done}/{total} {title}: {shown}"));
            }
            // Failures stay on the screen when the bar is redrawn.
            ProgressStyle::Bar if result.is_err() => self.bar.println(format!("{title}: {shown}")),
            ProgressStyle::Bar | ProgressStyle::None => {}
        }
    }
}

/// Progress of a benchmark.
pub(crate) struct Progress<'a> {
    board: Board,
    plan: &'a Plan,
    allocators: &'a [Allocator],
}

impl<'a> Progress<'a> {
    pub(crate) fn new(ui: Ui, plan: &'a Plan, allocators: &'a [Allocator], total: usize) -> Self {
        Self { board: Board::new(ui, total, WITH_TIME), plan, allocators }
    }

    /// The bar itself, so that an interrupt can be noted without tearing it.
    pub(crate) fn bar(&self) -> ProgressBar {
        self.board.bar.clone()
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.board.bar.finish_and_clear();
    }

    fn title(&self, case: usize, allocator: usize) -> String {
        let PairsParams { pairs, max_bytes, .. } = self.plan.cases[case].params;
        let plural = if pairs == 1 { "" } else { "s" };
        format!("{pairs} pair{plural}, {max_bytes} B, {}", self.allocators[allocator].name)
    }
}

impl Observer for Progress<'_> {
    fn begins(&mut self, step: &Step) {
        self.board.bar.set_message(self.title(step.case, step.allocator));
    }

    fn ended(&mut self, run: &Run) {
        let result = match &run.outcome {
            Outcome::Measured(measured) => Ok(format!("{:.1} loops/s", measured.loops_per_second)),
            Outcome::Failed(failure) => Err(failure),
        };
        let title = self.title(run.case, run.allocator);
        self.board.ended(&title, &result);
    }
}

/// Progress of runs that differ in nothing but their allocators.
pub(crate) struct Rounds(Board);

impl Rounds {
    pub(crate) fn new(ui: Ui, total: usize) -> Self {
        Self(Board::new(ui, total, WITH_TIME))
    }

    /// The bar itself, so that an interrupt can be noted without tearing it.
    pub(crate) fn bar(&self) -> ProgressBar {
        self.0.bar.clone()
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.0.bar.finish_and_clear();
    }

    /// Takes note of a run that has ended, with what came of it.
    pub(crate) fn ended(&mut self, title: &str, result: &Result<String, &Failure>) {
        self.0.ended(title, result);
    }
}

/// Progress of a grid.
pub(crate) struct GridProgress<'a> {
    board: Board,
    plan: &'a GridPlan,
    allocators: &'a [Allocator],
}

impl<'a> GridProgress<'a> {
    pub(crate) fn new(ui: Ui, plan: &'a GridPlan, allocators: &'a [Allocator]) -> Self {
        let total = plan.cases.len() * allocators.len() * plan.rounds as usize;
        Self { board: Board::new(ui, total, WITHOUT_TIME), plan, allocators }
    }

    /// The bar itself, so that an interrupt can be noted without tearing it.
    pub(crate) fn bar(&self) -> ProgressBar {
        self.board.bar.clone()
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.board.bar.finish_and_clear();
    }

    fn title(&self, case: usize, allocator: usize) -> String {
        format!("{}, {}", self.plan.name(case), self.allocators[allocator].name)
    }
}

impl grid::Observer for GridProgress<'_> {
    fn begins(&mut self, step: &Step, left: Option<Duration>) {
        let most = if self.plan.until.is_some() { "at most " } else { "" };
        let left = left.map(|left| format!("{most}{} left: ", minutes(left)));
        let title = self.title(step.case, step.allocator);
        self.board.bar.set_message(left.unwrap_or_default() + &title);
    }

    fn ended(&mut self, run: &GridRun) {
        let result = match &run.outcome {
            GridOutcome::Measured(measured) => {
                Ok(format!("{:.4} {}", measured.metric.value, measured.metric.unit))
            }
            GridOutcome::Failed(failure) => Err(failure),
        };
        let title = self.title(run.case, run.allocator);
        self.board.ended(&title, &result);
    }

    fn is_through(&mut self, round: u32, open: usize) {
        let to_come = open * self.allocators.len() * (self.plan.rounds - round - 1) as usize;
        self.board.bar.set_length((self.board.done + to_come) as u64);
        if self.plan.until.is_some() && self.board.style == ProgressStyle::Lines {
            self.board.ui.note(&format!("round {}: {open} cases need more", round + 1));
        }
    }
}

/// Progress of a reproduction.
pub(crate) struct ReproductionProgress<'a> {
    board: Board,
    plan: &'a reproduce::Plan,
    allocators: &'a [Allocator],
}

impl<'a> ReproductionProgress<'a> {
    pub(crate) fn new(
        ui: Ui,
        plan: &'a reproduce::Plan,
        allocators: &'a [Allocator],
        total: usize,
    ) -> Self {
        Self { board: Board::new(ui, total, WITH_TIME), plan, allocators }
    }

    /// The bar itself, so that an interrupt can be noted without tearing it.
    pub(crate) fn bar(&self) -> ProgressBar {
        self.board.bar.clone()
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.board.bar.finish_and_clear();
    }

    fn title(&self, case: usize, allocator: usize) -> String {
        format!("{}, {}", self.plan.cases[case].label, self.allocators[allocator].name)
    }
}

impl reproduce::Observer for ReproductionProgress<'_> {
    fn begins(&mut self, step: &Step) {
        self.board.bar.set_message(self.title(step.case, step.allocator));
    }

    fn ended(&mut self, run: &ReproducedRun) {
        let result = match &run.outcome {
            ReproducedOutcome::Measured(numbers) => Ok(format!("{:.4}", numbers.value())),
            ReproducedOutcome::Failed(failure) => Err(failure),
        };
        let title = self.title(run.case, run.allocator);
        self.board.ended(&title, &result);
    }
}

/// A time as people say it.
fn minutes(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..=99 => format!("{seconds} s"),
        seconds @ 100..=5999 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{:.1} h", seconds as f64 / 3600.0),
    }
}

/// Progress of a comparison.
pub(crate) struct CompareProgress<'a> {
    board: Board,
    comparison: &'a Comparison,
}

impl<'a> CompareProgress<'a> {
    pub(crate) fn new(ui: Ui, comparison: &'a Comparison) -> Self {
        let plan = &comparison.plan;
        let rounds = (plan.warmup + plan.repeat) as usize;
        let total = rounds * plan.cases.len() * comparison.allocators.len();
        Self { board: Board::new(ui, total, WITH_TIME), comparison }
    }

    /// The bar itself, so that an interrupt can be noted without tearing it.
    pub(crate) fn bar(&self) -> ProgressBar {
        self.board.bar.clone()
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.board.bar.finish_and_clear();
    }

    fn title(&self, step: &Step) -> String {
        let case = self.comparison.plan.case_name(step.case);
        let name = &self.comparison.allocators[step.allocator].name;
        if case.is_empty() { name.clone() } else { format!("{name}, {case}") }
    }
}

impl compare::Observer for CompareProgress<'_> {
    fn begins(&mut self, step: &Step, is_warmup: bool) {
        let title = self.title(step);
        let title = if is_warmup { format!("{title} (warm-up)") } else { title };
        self.board.bar.set_message(title);
    }

    fn ended(&mut self, step: &Step, outcome: &TrialOutcome) {
        let result = match outcome {
            TrialOutcome::Measured(run) => {
                let mib = run.peak_rss_bytes as f64 / f64::from(1 << 20);
                Ok(format!("{:.3} s, {mib:.1} MiB", run.wall_seconds))
            }
            TrialOutcome::Failed(failure) => Err(failure),
        };
        self.board.ended(&self.title(step), &result);
    }

    fn is_warm(&mut self, taken: Duration) {
        let plan = &self.comparison.plan;
        let rounds = f64::from(plan.repeat) / f64::from(plan.warmup);
        let expected = (plan.warmup > 0).then_some(taken.as_secs_f64() * rounds);
        let Board { bar, ui, .. } = &self.board;
        bar.suspend(|| ui.note(&advice::comparing(plan, expected)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_unit_that_people_would_use() {
        let times = [99, 100, 5999, 7200].map(|seconds| minutes(Duration::from_secs(seconds)));
        assert_eq!(times, ["99 s", "2 min", "100 min", "2.0 h"]);
    }
}
