//! A benchmark of any harnesses over threads and sizes: its options, and what they come to.

use std::collections::HashSet;
use std::env;
use std::fmt::Write as _;
use std::hash::Hash;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use freehold_lab::child::{Runner, case_arguments};
use freehold_lab::grid::{self, Ending, Grid, shard, summarise};
use freehold_model::{
    GridDocument, GridOutcome, GridPart, GridPlan, GridRun, Measured, Provenance, Shard,
};
use freehold_report::{csv, grid_failures, grid_markdown, grid_text};
use freehold_workloads::harness::Harness;

use super::cases::{Assignment, Axes};
use super::{Bench, Output, experiment, suites};
use crate::args::{parse_percent, parse_positive_seconds};
use crate::exit::{Exit, Failure};
use crate::progress::GridProgress;
use crate::ui::{self, Ui};
use crate::{advice, interrupt, provenance};

/// Rounds, and the most of them where fewer may be enough.
const ROUNDS: u32 = 3;
const MOST_ROUNDS: u32 = 100;
const QUICK_ROUNDS: u32 = 2;

/// For harnesses that run for a time: how long.
const SECONDS: f64 = 1.0;
const QUICK_SECONDS: f64 = 0.1;

/// Idle time before memory is read again.
const SETTLE_SECONDS: f64 = 0.2;
const QUICK_SETTLE_SECONDS: f64 = 0.05;

/// How long a run may take: some harnesses do a fixed amount of work, which a slow allocator may
/// take long for.
const TIMEOUT_SECONDS: f64 = 300.0;

/// Options of grids alone.
#[derive(Debug, Args)]
#[command(next_help_heading = "Harnesses and suites")]
pub(super) struct GridOptions {
    /// Numbers of threads [default: 1, the processors, and four times as many]
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "harnesses",
          value_parser = clap::value_parser!(u64).range(1..=256))]
    threads: Vec<u64>,
    /// Set a parameter of a harness, or of all that have it; may be given more than once
    #[arg(long, value_name = "[HARNESS:]NAME=VALUE", requires = "harnesses",
          value_parser = Assignment::parse)]
    set: Vec<Assignment>,
    /// Measure a case until its ratios of speed and peak memory are known this well: the interval
    /// of each reaches no further than this percentage around its estimate
    #[arg(long, value_name = "PERCENT", requires = "harnesses", value_parser = parse_percent)]
    until: Option<f64>,
    /// Begin no runs that would probably end after this time
    #[arg(long, value_name = "SECONDS", requires = "harnesses",
          value_parser = parse_positive_seconds)]
    time_limit: Option<f64>,
    /// Measure one part of the grid only, so that several machines can share it; see report
    #[arg(long, value_name = "K/N", requires = "harnesses", value_parser = parse_shard)]
    shard: Option<Shard>,
}

/// Reads which part of how many.
fn parse_shard(text: &str) -> Result<Shard, String> {
    let parts = text.split_once('/').and_then(|(number, of)| {
        Some(Shard { number: number.parse().ok()?, of: of.parse().ok()? })
    });
    let is_one = |shard: &Shard| (1..=shard.of).contains(&shard.number);
    parts.filter(is_one).ok_or_else(|| "must be K/N with K from 1 to N, such as 3/8".to_owned())
}

/// Everything decided before the first run.
struct GridExperiment {
    grid: Grid,
    runner: Runner,
    provenance: Provenance,
    shard: Option<Shard>,
}

/// Runs a grid, or says what would be run.
pub(super) fn execute(bench: &Bench, ui: Ui) -> Result<Exit, Failure> {
    let experiment = prepare(bench)?;
    if bench.dry_run {
        ui::print(&experiment.outline())?;
        return Ok(Exit::Success);
    }
    bench.output.check()?;
    experiment::caution();
    let (document, ending) = experiment.perform(ui)?;
    publish(&bench.output, &document)?;
    Ok(if ending == Ending::Interrupted { Exit::Interrupted } else { verdict(&document) })
}

fn prepare(bench: &Bench) -> Result<GridExperiment, Failure> {
    let provenance = provenance::begin(bench.options.seed)?;
    let allocators = bench.chosen()?;
    let reference = match &bench.reference {
        Some(name) => super::named(name, &allocators)?,
        None => 0,
    };
    let harnesses = suites::chosen(&bench.harnesses)?;
    let plan = plan(bench, &harnesses, provenance.machine.cpus_usable)?;
    let program: PathBuf = env::current_exe()
        .map_err(|error| Failure::error("cannot find this executable", &error))?;
    let timeout = Duration::from_secs_f64(bench.timeout.unwrap_or(TIMEOUT_SECONDS));
    let grid = Grid { plan, allocators, reference, seed: bench.options.seed };
    let runner = Runner { program, timeout };
    Ok(GridExperiment { grid, runner, provenance, shard: bench.grid.shard })
}

fn plan(bench: &Bench, harnesses: &[&'static Harness], cpus: u32) -> Result<GridPlan, Failure> {
    let options = &bench.grid;
    let (mut cases, mut left_out) = axes(bench, cpus).cases(harnesses)?;
    if options.threads.is_empty() {
        // Nobody asked for them.
        left_out.clear();
    }
    if cases.is_empty() {
        let failure = Failure::new(Exit::Usage, "there is nothing to measure");
        return Err(failure.hint(left_out.join("; ")));
    }
    if let Some(wanted) = options.shard {
        cases = shard(cases, wanted);
    }
    let rounds = match (options.until, bench.quick) {
        (Some(_), _) => MOST_ROUNDS,
        (None, true) => QUICK_ROUNDS,
        (None, false) => ROUNDS,
    };
    Ok(GridPlan {
        cases,
        left_out,
        rounds: bench.repeat.unwrap_or(rounds),
        until: options.until,
        time_limit_seconds: options.time_limit,
    })
}

/// Leaves out what is there already: a case that is there twice is measured twice, and shown so.
pub(super) fn distinct<T: Copy + Eq + Hash>(list: &mut Vec<T>) {
    let mut seen = HashSet::new();
    list.retain(|item| seen.insert(*item));
}

fn axes(bench: &Bench, cpus: u32) -> Axes {
    let cpus = u64::from(cpus.clamp(1, 64));
    let mut threads = match (&bench.grid.threads, bench.quick) {
        (given, _) if !given.is_empty() => given.clone(),
        (_, true) => vec![1, cpus],
        (_, false) => vec![1, cpus, 4 * cpus],
    };
    distinct(&mut threads);
    let mut sizes: Vec<u64> = bench.sizes.iter().copied().map(u64::from).collect();
    distinct(&mut sizes);
    let (seconds, settle) =
        if bench.quick { (QUICK_SECONDS, QUICK_SETTLE_SECONDS) } else { (SECONDS, SETTLE_SECONDS) };
    Axes {
        threads,
        sizes,
        usual: vec![
            Assignment::general("seconds", bench.options.seconds.unwrap_or(seconds)),
            Assignment::general("settle", bench.settle.unwrap_or(settle)),
            Assignment::general("seed", bench.options.seed),
        ],
        asked: bench.grid.set.clone(),
    }
}

impl GridExperiment {
    /// What would be run, one command line for each case.
    fn outline(&self) -> String {
        let Grid { plan, allocators, .. } = &self.grid;
        let names: Vec<_> = allocators.iter().map(|own| own.name.as_str()).collect();
        let most = if plan.until.is_some() { "at most " } else { "" };
        let mut outline = format!(
            "{} cases, each under {}, {most}{} times:\n",
            plan.cases.len(),
            names.join(", "),
            plan.rounds
        );
        for case in &plan.cases {
            // Writing to a string cannot fail.
            let _ = writeln!(outline, "  freehold {}", case_arguments(case).join(" "));
        }
        for sentence in &plan.left_out {
            let _ = writeln!(outline, "  # left out: {sentence}");
        }
        outline
    }

    /// Makes the runs, and tells why they ended.
    fn perform(mut self, ui: Ui) -> Result<(GridDocument, Ending), Failure> {
        let Self { grid, runner, .. } = &self;
        let mut progress = GridProgress::new(ui, &grid.plan, &grid.allocators);
        let bar = progress.bar();
        let stop = interrupt::listen(move || bar.suspend(|| ui.note(advice::stopping())))
            .map_err(|error| Failure::error("cannot listen for interrupts", &error))?;
        ui.note(&advice::beginning_grid(&grid.plan, grid.allocators.len()));
        let (runs, ending) = grid::run(grid, runner, &stop, &mut progress);
        progress.finish();
        provenance::end(&mut self.provenance);
        Ok((self.document(runs, ending), ending))
    }

    fn document(self, runs: Vec<GridRun>, ending: Ending) -> GridDocument {
        let Self { grid: Grid { plan, allocators, reference, .. }, provenance, shard, .. } = self;
        let summary = summarise(&plan, allocators.len(), reference, &runs);
        let complete = ending == Ending::Done;
        let parts = vec![GridPart { provenance, complete, shard }];
        let warnings = advice::grid_ending(ending).map(str::to_owned).into_iter().collect();
        let mut document =
            GridDocument { complete, parts, allocators, plan, summary, warnings, runs };
        let doubts = grid::doubts(&document);
        let doubts: Vec<_> =
            doubts.iter().map(|doubt| advice::grid_doubt(doubt, &document)).collect();
        document.warnings.extend(doubts);
        document
    }
}

/// Shows and stores results. What goes to standard output for machines goes there alone.
fn publish(output: &Output, document: &GridDocument) -> Result<(), Failure> {
    if !output.takes_standard_output() {
        ui::print(&grid_text(document, output.detail()))?;
    }
    for warning in document.warnings.iter().chain(&grid_failures(document)) {
        ui::warn(warning);
    }
    if let Some(path) = &output.json {
        ui::save_json(path, document)?;
    }
    if let Some(path) = &output.markdown {
        ui::save(path, &grid_markdown(document, output.detail()))?;
    }
    if let Some(path) = &output.csv {
        ui::save(path, &csv(&document.series()))?;
    }
    Ok(())
}

/// How a grid ends that was not interrupted: failures of runs are failures of the benchmark.
fn verdict(document: &GridDocument) -> Exit {
    super::verdict(document.runs.iter().filter_map(|run| match &run.outcome {
        GridOutcome::Failed(failure) => Some(failure.kind),
        GridOutcome::Measured(_) => None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_twice_is_measured_once() {
        let mut threads = vec![1, 2, 1, 2, 4];
        distinct(&mut threads);
        assert_eq!(threads, [1, 2, 4]);
    }

    #[test]
    fn a_shard_is_one_of_those_that_there_are() {
        assert_eq!(parse_shard("3/8"), Ok(Shard { number: 3, of: 8 }));
        assert_eq!(parse_shard("1/1"), Ok(Shard { number: 1, of: 1 }));
        for text in ["0/8", "9/8", "3", "a/b", "1/0", ""] {
            assert!(parse_shard(text).is_err(), "{text}");
        }
    }
}
