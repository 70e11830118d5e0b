//! Showing how a benchmark goes on. It must not know how runs are made.

use freehold_lab::bench::Observer;
use freehold_lab::plan::Step;
use freehold_model::{Allocator, Outcome, PairsParams, Plan, Run};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle as BarStyle};

use crate::ui::{ProgressStyle, Ui};

const TEMPLATE: &str = "{bar:24} {pos}/{len}, {eta} left: {msg}";

/// Progress of a benchmark.
pub(crate) struct Progress<'a> {
    ui: Ui,
    style: ProgressStyle,
    bar: ProgressBar,
    plan: &'a Plan,
    allocators: &'a [Allocator],
    done: usize,
    total: usize,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(ui: Ui, plan: &'a Plan, allocators: &'a [Allocator], total: usize) -> Self {
        let style = ui.progress_style();
        let target = match style {
            ProgressStyle::Bar => ProgressDrawTarget::stderr(),
            ProgressStyle::None | ProgressStyle::Lines => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(total as u64), target);
        if let Ok(template) = BarStyle::with_template(TEMPLATE) {
            bar.set_style(template);
        }
        Self { ui, style, bar, plan, allocators, done: 0, total }
    }

    /// The bar itself, so that an interrupt can be noted without tearing it.
    pub(crate) fn bar(&self) -> ProgressBar {
        self.bar.clone()
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn title(&self, case: usize, allocator: usize) -> String {
        let PairsParams { pairs, max_bytes, .. } = self.plan.cases[case].params;
        let plural = if pairs == 1 { "" } else { "s" };
        format!("{pairs} pair{plural}, {max_bytes} B, {}", self.allocators[allocator].name)
    }
}

impl Observer for Progress<'_> {
    fn begins(&mut self, step: &Step) {
        self.bar.set_message(self.title(step.case, step.allocator));
    }

    fn ended(&mut self, run: &Run) {
        self.done += 1;
        self.bar.inc(1);
        let title = self.title(run.case, run.allocator);
        let result = match &run.outcome {
            Outcome::Measured(measured) => format!("{:.1} loops/s", measured.loops_per_second),
            Outcome::Failed(failure) => failure.detail.clone(),
        };
        let failed = matches!(run.outcome, Outcome::Failed(_));
        match self.style {
            ProgressStyle::Lines => {
                let (done, total) = (self.done, self.total);
                self.ui.note(&format!("{done}/{total} {title}: {result}"));
            }
            // Failures stay on the screen when the bar is redrawn.
            ProgressStyle::Bar if failed => self.bar.println(format!("{title}: {result}")),
            ProgressStyle::Bar | ProgressStyle::None => {}
        }
    }
}
