//! `freehold reproduce`: a published table or figure, made again on this machine.

use std::env;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use clap::Args;
use freehold_lab::child::Runner;
use freehold_lab::plan::Step;
use freehold_lab::reproduce::plan::{Case, Experiment, Plan, Scale};
use freehold_lab::reproduce::{self, Evidence, Watcher, perform, steps};
use freehold_lab::{launch, surroundings};
use freehold_model::{
    Allocator, Provenance, ReproducedOutcome, ReproducedRun, Reproduction, TopRow,
};
use freehold_observe::top::{By, Top};
use freehold_report::{reproduction_markdown, reproduction_text};

use super::bench::caution;
use crate::args::parse_positive_seconds;
use crate::catalogue::Catalogue;
use crate::exit::{Exit, Failure};
use crate::progress::ReproductionProgress;
use crate::ui::{self, Ui};
use crate::{advice, interrupt, provenance, suggest};

const EXAMPLES: &str = "\
Examples:
  freehold reproduce --list
  freehold reproduce oracle-table1                            some minutes, all allocators found
  freehold reproduce oracle-table1 --quick -a freehold,model:serial
  freehold reproduce gove-chunksize --repeat 5 --json gove.json
  freehold reproduce oracle-figure13 --dry-run

The models of the allocators that the publication compared, and Freehold, are measured beside every
other allocator that is found, or those given with -a. Each claim of the publication is then judged:
it holds if every round says so, and does not if every round contradicts it.

Exit status: that of freehold bench. A claim that does not hold is a result, not a failure.";

/// Defaults.
const ROUNDS: u32 = 3;
const SECONDS: f64 = 0.5;
const QUICK_SECONDS: f64 = 0.05;

/// The share of the available memory that a run may be expected to fill.
const MEMORY_SHARE: f64 = 0.7;

/// How long a run may take: a minute, and so many times what is expected.
const PATIENCE: f64 = 20.0;

/// Make a published table or figure again, its numbers beside ours, and judge its claims
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Reproduce {
    /// The table or figure
    #[arg(value_name = "TABLE|FIGURE", required_unless_present = "list")]
    name: Option<String>,
    /// List all tables and figures
    #[arg(long)]
    list: bool,
    /// Measure these allocators, by name or path, instead of all that belong to it
    #[arg(short, long, value_name = "LIST", value_delimiter = ',')]
    allocators: Vec<String>,
    /// How often everything is measured under each allocator [default: 3, or 1 with --quick]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeat: Option<u32>,
    /// Measured time of a run, where its length is a time [default: 0.5, or 0.05 with --quick]
    #[arg(long, value_name = "SECONDS", value_parser = parse_positive_seconds)]
    seconds: Option<f64>,
    /// Only see that everything works
    #[arg(long)]
    quick: bool,
    /// Look for libraries in this directory first; may be given more than once
    #[arg(long, value_name = "DIRECTORY")]
    search: Vec<PathBuf>,
    /// Seed of the order of runs
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print what would be run, and run nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Write everything that was measured, with its provenance, to this file; - prints it
    #[arg(long, value_name = "FILE")]
    json: Option<String>,
    /// Write the result as Markdown to this file; - prints it
    #[arg(long, value_name = "FILE")]
    markdown: Option<String>,
}

impl Reproduce {
    pub(crate) fn execute(self, ui: Ui) -> Result<Exit, Failure> {
        let Some(name) = self.name.as_deref().filter(|_| !self.list) else {
            ui::print(&listing())?;
            return Ok(Exit::Success);
        };
        let experiment = reproduce::find(name).ok_or_else(|| unknown(name))?;
        let attempt = self.prepare(experiment)?;
        if self.dry_run {
            ui::print(&attempt.outline())?;
            return Ok(Exit::Success);
        }
        for path in self.json.iter().chain(&self.markdown) {
            ui::check_writable(path)?;
        }
        caution();
        let document = attempt.perform(ui)?;
        self.publish(&document)?;
        Ok(if document.complete { verdict(&document) } else { Exit::Interrupted })
    }

    fn prepare(&self, experiment: &'static Experiment) -> Result<Attempt, Failure> {
        let provenance = provenance::begin(self.seed)?;
        let allocators = self.chosen(experiment)?;
        let available = provenance.machine.memory_available_bytes as f64 * MEMORY_SHARE;
        let usual = if self.quick { QUICK_SECONDS } else { SECONDS };
        let scale = Scale {
            cpus: provenance.machine.cpus_usable,
            available_bytes: available as u64,
            seconds: self.seconds.unwrap_or(usual),
            is_quick: self.quick,
        };
        let plan = experiment.plan(&scale);
        let rounds = self.repeat.unwrap_or(if self.quick { 1 } else { ROUNDS });
        let steps = steps(&plan, &allocators, rounds, self.seed);
        Ok(Attempt { experiment, scale, plan, rounds, allocators, steps, provenance })
    }

    /// The models that belong to the experiment, Freehold, and whatever else is found.
    fn chosen(&self, experiment: &Experiment) -> Result<Vec<Allocator>, Failure> {
        let catalogue = Catalogue::new(&self.search)?;
        let chosen = if self.allocators.is_empty() {
            let models: Vec<_> = experiment.models.iter().map(|&name| name.to_owned()).collect();
            let mut all = catalogue.get_all(&models)?;
            all.extend(catalogue.representative()?);
            all
        } else {
            catalogue.get_all(&self.allocators)?
        };
        for allocator in &chosen {
            launch::preload_value(allocator)
                .map_err(|error| Failure::new(Exit::NotLive, error.to_string()))?;
        }
        Ok(chosen)
    }

    fn publish(&self, document: &Reproduction) -> Result<(), Failure> {
        let files = || self.json.iter().chain(&self.markdown);
        if !files().any(|path| path == ui::STANDARD_OUTPUT) {
            ui::print(&reproduction_text(document))?;
        }
        for warning in &document.warnings {
            ui::warn(warning);
        }
        if let Some(path) = &self.json {
            ui::save_json(path, document)?;
        }
        if let Some(path) = &self.markdown {
            ui::save(path, &reproduction_markdown(document))?;
        }
        Ok(())
    }
}

/// Every experiment and what it is.
fn listing() -> String {
    let width = reproduce::all().map(|it| it.name.len()).max().unwrap_or_default();
    let lines = reproduce::all().map(|it| format!("{:width$}  {}\n", it.name, it.title));
    lines.collect()
}

fn unknown(name: &str) -> Failure {
    let failure = Failure::new(Exit::Usage, format!("there is no table or figure \"{name}\""));
    match suggest::closest(name, reproduce::all().map(|it| it.name)) {
        Some(close) => failure.hint(format!("did you mean \"{close}\"?")),
        None => failure.hint("freehold reproduce --list names them all"),
    }
}

/// Everything decided before the first run.
struct Attempt {
    experiment: &'static Experiment,
    scale: Scale,
    plan: Plan,
    rounds: u32,
    allocators: Vec<Allocator>,
    steps: Vec<Step>,
    provenance: Provenance,
}

impl Attempt {
    fn minutes(&self) -> f64 {
        let seconds = self.steps.iter().map(|step| self.plan.cases[step.case].seconds);
        seconds.sum::<f64>() / 60.0
    }

    /// What would be run: a command line for each case, and the allocators.
    fn outline(&self) -> String {
        let names: Vec<_> = self.allocators.iter().map(|own| own.name.as_str()).collect();
        let mut outline = format!(
            "{} runs, about {:.1} minutes, under {}\n",
            self.steps.len(),
            self.minutes(),
            names.join(", ")
        );
        for sentence in &self.plan.scaled {
            // Writing to a string cannot fail.
            let _ = writeln!(outline, "  {sentence}");
        }
        for case in &self.plan.cases {
            let record = case.record();
            let variables =
                record.environment.iter().map(|(name, value)| format!("{name}={value} "));
            let words = record.arguments.join(" ");
            let _ = writeln!(outline, "  {}freehold {words}", variables.collect::<String>());
        }
        outline
    }

    fn perform(mut self, ui: Ui) -> Result<Reproduction, Failure> {
        let total = self.steps.len();
        let mut progress = ReproductionProgress::new(ui, &self.plan, &self.allocators, total);
        let bar = progress.bar();
        let stop = interrupt::listen(move || bar.suspend(|| ui.note(advice::stopping())))
            .map_err(|error| Failure::error("cannot listen for interrupts", &error))?;
        ui.note(&advice::beginning(self.steps.len(), self.minutes()));
        let longest = self.plan.cases.iter().map(|case| case.seconds).fold(0.0, f64::max);
        let runner = Runner {
            program: env::current_exe()
                .map_err(|error| Failure::error("cannot find this executable", &error))?,
            timeout: Duration::from_secs_f64(60.0 + PATIENCE * longest),
        };
        let (plan, allocators, steps) = (&self.plan, &self.allocators, &self.steps);
        let runs = perform(plan, allocators, steps, &runner, &Threads, &stop, &mut progress);
        progress.finish();
        provenance::end(&mut self.provenance);
        let is_complete = runs.len() == self.steps.len();
        Ok(self.document(runs, is_complete))
    }

    fn document(self, runs: Vec<ReproducedRun>, complete: bool) -> Reproduction {
        let Self { experiment, scale, plan, rounds, allocators, provenance, .. } = self;
        let evidence =
            Evidence { plan: &plan, scale: &scale, allocators: &allocators, runs: &runs };
        let (panels, claims) = (experiment.panels(&evidence), experiment.claims(&evidence));
        let warnings = warnings(rounds, &provenance, &evidence);
        Reproduction {
            complete,
            name: experiment.name.to_owned(),
            title: experiment.title.to_owned(),
            source: experiment.source.to_owned(),
            method: experiment.method.to_owned(),
            scaled: plan.scaled.clone(),
            panels,
            claims,
            warnings,
            cases: plan.cases.iter().map(Case::record).collect(),
            provenance,
            runs,
            allocators,
        }
    }
}

/// What a reader has to know before trusting a number.
fn warnings(rounds: u32, provenance: &Provenance, evidence: &Evidence<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    if rounds == 1 {
        warnings.push(advice::one_round());
    }
    warnings.extend(surroundings(provenance).iter().map(advice::surroundings));
    for run in evidence.runs {
        if let ReproducedOutcome::Failed(failure) = &run.outcome {
            let name = &evidence.allocators[run.allocator].name;
            let label = &evidence.plan.cases[run.case].label;
            let text = format!("{label}, {name}: {}", failure.detail);
            if !warnings.contains(&text) {
                warnings.push(text);
            }
        }
    }
    warnings
}

/// How a complete reproduction ends.
fn verdict(document: &Reproduction) -> Exit {
    super::bench::verdict(document.runs.iter().filter_map(|run| match &run.outcome {
        ReproducedOutcome::Failed(failure) => Some(failure.kind),
        ReproducedOutcome::Measured(_) => None,
    }))
}

/// Watches threads from outside.
struct Threads;

impl Watcher for Threads {
    fn watch(&self, pid: u32, after: Duration, length: Duration) -> Vec<TopRow> {
        thread::sleep(after);
        let Ok(mut top) = Top::without_counts(pid, By::Thread) else { return Vec::new() };
        let mut pause = |time| {
            thread::sleep(time);
            ControlFlow::Continue(())
        };
        top.interval(length, &mut pause).0.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_experiment_is_listed_with_what_it_is() {
        let listing = listing();
        assert_eq!(listing.lines().count(), reproduce::all().count());
        assert!(listing.contains("oracle-table1 "), "{listing}");
    }

    #[test]
    fn a_mistyped_name_is_answered_by_a_suggestion() {
        let hint = unknown("oracle-tabel1").hint;
        assert_eq!(hint.as_deref(), Some("did you mean \"oracle-table1\"?"));
    }

    #[test]
    fn every_experiment_has_models_that_this_program_carries() {
        let carried = freehold_embed::MODELS.map(|(name, _)| format!("model:{name}"));
        for experiment in reproduce::all() {
            for model in experiment.models {
                assert!(carried.iter().any(|name| name == model), "{}: {model}", experiment.name);
            }
        }
    }
}
