//! A benchmark from the moment when everything is decided. It must not know the command line.

use std::env;
use std::fmt::Write as _;

use freehold_lab::bench::run;
use freehold_lab::child::{Runner, arguments};
use freehold_lab::plan::{Step, expected_seconds};
use freehold_lab::{concerns, launch, summarise};
use freehold_model::{Allocator, BenchDocument, Plan, Provenance, Run};

use crate::exit::Failure;
use crate::progress::Progress;
use crate::ui::Ui;
use crate::{advice, interrupt, provenance, ui};

/// Everything decided before the first run.
pub(super) struct Experiment {
    pub(super) allocators: Vec<Allocator>,
    pub(super) reference: usize,
    pub(super) plan: Plan,
    pub(super) steps: Vec<Step>,
    pub(super) runner: Runner,
    pub(super) provenance: Provenance,
}

impl Experiment {
    /// What would be run, one command line for each case and the order of the allocators.
    pub(super) fn outline(&self) -> String {
        let minutes = self.minutes();
        let names: Vec<_> = self.allocators.iter().map(|own| own.name.as_str()).collect();
        let mut outline = format!(
            "{} runs of about {minutes:.1} minutes in all, of each case under {}, {} times:\n",
            self.steps.len(),
            names.join(", "),
            self.plan.repeat
        );
        for (index, case) in self.plan.cases.iter().enumerate() {
            let skipped = self.plan.skipped.iter().find(|skipped| skipped.case == index);
            let remark = skipped.map(|skipped| format!("  # left out: {}", skipped.reason));
            let words = arguments(&case.params).join(" ");
            // Writing to a string cannot fail.
            let _ = writeln!(outline, "  freehold {words}{}", remark.unwrap_or_default());
        }
        outline
    }

    fn minutes(&self) -> f64 {
        expected_seconds(&self.plan, &self.steps) / 60.0
    }

    /// Makes the runs, and tells whether they were interrupted.
    pub(super) fn perform(mut self, ui: Ui) -> Result<(BenchDocument, bool), Failure> {
        let mut progress = Progress::new(ui, &self.plan, &self.allocators, self.steps.len());
        let bar = progress.bar();
        let stop = interrupt::listen(move || bar.suspend(|| ui.note(advice::stopping())))
            .map_err(|error| Failure::error("cannot listen for interrupts", &error))?;
        ui.note(&advice::beginning(self.steps.len(), self.minutes()));
        let Self { plan, allocators, steps, runner, .. } = &self;
        let runs = run(plan, allocators, steps, runner, &stop, &mut progress);
        progress.finish();
        provenance::end(&mut self.provenance);
        let is_complete = runs.len() == self.steps.len();
        Ok((self.document(runs, is_complete), !is_complete))
    }

    fn document(self, runs: Vec<Run>, complete: bool) -> BenchDocument {
        let Self { allocators, reference, plan, provenance, .. } = self;
        let summary = summarise(&plan, allocators.len(), reference, &runs);
        let warnings = concerns(&plan, &summary, &provenance);
        let warnings =
            warnings.iter().map(|concern| advice::concern(concern, &plan, &allocators)).collect();
        BenchDocument { complete, provenance, allocators, plan, summary, warnings, runs }
    }
}

/// Says what may spoil the numbers and is known before they are measured.
pub(in crate::commands) fn caution() {
    if cfg!(debug_assertions) {
        ui::warn(advice::debug_build());
    }
    if let Ok(value) = env::var(launch::PRELOAD) {
        ui::warn(&advice::preload_replaced(&value));
    }
}
