//! `freehold bench`: the allocators of this machine, measured against each other.

mod cases;
mod experiment;
mod grid;
mod suites;

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use freehold_lab::FREEHOLD;
use freehold_lab::child::Runner;
use freehold_lab::plan::{Grid, expected_run_seconds, plan, schedule};
use freehold_model::{
    Allocator, BenchDocument, FailureKind, Length, Measured, Outcome, PairsParams, Plan, Run, Sizes,
};
use freehold_report::{Detail, csv, failures, markdown, text};

use self::experiment::Experiment;
pub(super) use self::experiment::caution;
use self::grid::GridOptions;
use super::pairs::{Defaults, PairsOptions};
use crate::args::{parse_positive_seconds, parse_seconds};
use crate::catalogue::Catalogue;
use crate::exit::{Exit, Failure};
use crate::provenance;
use crate::ui::{self, Ui};

const EXAMPLES: &str = "\
Examples:
  freehold bench                                    every allocator found, a few minutes
  freehold bench --quick                            the same, coarse, in a minute or two
  freehold bench --allocators freehold,jemalloc,./libmine.so --pairs 1,4 --sizes 256,4096
  freehold bench --seconds 3 --samples 400 --repeat 1   as long as in the article, per case
  freehold bench --json results.json && freehold report --details results.json
  freehold bench larson threadtest --threads 1,8 -a freehold,system     other harnesses
  freehold bench all --until 2% --time-limit 3600 --json all.json       every harness, an hour
  freehold bench --dry-run                          what would be run, and for how long

Without names the harness is pairs: one thread of each pair allocates a batch of blocks, the other
frees them. Each run is a process of its own, and counts only if it proves that its malloc and free
came from the allocator asked for. Within a round, the allocators take turns in random order.

The speed table has the shape of Table 1 of R. Weisner, \"How Memory Allocation Affects Performance
in Multithreaded Programs\" (Oracle, 2012); the memory table is that of its Table 2: 32 pairs,
maximum size 4096, every block written, a fixed number of loops, and resident memory read after
everything is freed.

Named harnesses, or the suites classic, modern and all of them, are measured as a grid: each with
every number of threads, every size and every allocator. Rounds go through all cases in random
order. With --until a case is measured no more once its ratios are known well enough; looks at the
results are few and share the risk of being wrong, so that no claim rests on looking often.
freehold workload --help lists the harnesses, freehold workload HARNESS --help what they take.

An interrupt stops after the current run, shows what was measured, and exits with 130.";

/// The grid of the article's first table, with 2 pairs for machines with few processors.
const PAIRS: [u32; 5] = [1, 2, 4, 16, 32];
const SIZES: [u32; 5] = [256, 1024, 4096, 16384, 65536];
const LENGTHS: Defaults = Defaults { seconds: 0.3, warmup: 0.1 };
const ROUNDS: u32 = 3;

/// The same, coarse: enough to see that everything works.
const QUICK_PAIRS: [u32; 2] = [1, 4];
const QUICK_SIZES: [u32; 2] = [256, 4096];
const QUICK_LENGTHS: Defaults = Defaults { seconds: 0.1, warmup: 0.05 };
const QUICK_ROUNDS: u32 = 2;

/// The article's second table. It does not say how many loops; this many let each pair recycle
/// its memory ten times.
const MEMORY_PAIRS: u32 = 32;
const QUICK_MEMORY_PAIRS: u32 = 8;
const MEMORY_SIZE: u32 = 4096;
const MEMORY_LOOPS_A_PAIR: u64 = 10;
const SETTLE_SECONDS: f64 = 1.0;

/// A table of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Loops per second
    Speed,
    /// Memory that stays after everything is freed
    Memory,
}

/// Measure allocators against each other
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Bench {
    /// Harnesses, or suites of them: classic, modern, all [default: pairs]
    #[arg(value_name = "HARNESS|SUITE", conflicts_with_all = [
        "pairs", "skip", "no_memory_check", "allocations", "fixed_size", "min", "memset",
        "handoff", "depth", "samples", "warmup", "loops",
    ])]
    harnesses: Vec<String>,
    /// Allocators: names, or paths of libraries; by default, all that are found
    #[arg(short, long, value_name = "LIST", value_delimiter = ',')]
    allocators: Vec<String>,
    /// The one that the others are compared with; by default freehold, or else the first; in a
    /// grid the first
    #[arg(long, value_name = "ALLOCATOR")]
    reference: Option<String>,
    /// Numbers of pairs [default: 1,2,4,16,32]
    #[arg(long, value_name = "LIST", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pairs: Vec<u32>,
    /// Maximum sizes in bytes [default: 256,1024,4096,16384,65536]; in a grid, sizes of the
    /// harnesses that take one [default: that of the harness]
    #[arg(long, value_name = "LIST", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..))]
    sizes: Vec<u32>,
    /// How often each case is measured [default: 3; with --until at most 100]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: Option<u32>,
    /// A coarse benchmark of a minute or two, for continuous integration
    #[arg(long)]
    quick: bool,
    /// Leave a part out
    #[arg(long, value_name = "PART")]
    skip: Option<Part>,
    /// Idle time before memory is read again in the memory table [default: 1; in a grid, 0.2]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    settle: Option<f64>,
    /// End a run that takes longer than this [default: by its length; in a grid, 300]
    #[arg(long, value_name = "SECONDS", value_parser = parse_positive_seconds)]
    timeout: Option<f64>,
    /// Measure cases even if they may need more memory than is available
    #[arg(long)]
    no_memory_check: bool,
    /// Look for libraries in this directory first; may be given more than once
    #[arg(long, value_name = "DIRECTORY")]
    search: Vec<PathBuf>,
    /// Print what would be run, and run nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    grid: GridOptions,
    #[command(flatten)]
    options: PairsOptions,
    #[command(flatten)]
    output: Output,
}

/// Where results go besides the terminal.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
struct Output {
    /// Show every case under every allocator, with spreads and waiting times
    #[arg(long)]
    details: bool,
    /// Write everything that was measured, with its provenance, to this file; - prints it
    #[arg(long, value_name = "FILE")]
    json: Option<String>,
    /// Write the tables as Markdown to this file; - prints them
    #[arg(long, value_name = "FILE")]
    markdown: Option<String>,
    /// Write every number on a line of its own to this file; - prints them
    #[arg(long, value_name = "FILE")]
    csv: Option<String>,
}

impl Bench {
    pub(crate) fn execute(self, ui: Ui) -> Result<Exit, Failure> {
        if self.harnesses.iter().any(|name| name != suites::PAIRS) {
            return grid::execute(&self, ui);
        }
        let experiment = self.prepare()?;
        if self.dry_run {
            ui::print(&experiment.outline())?;
            return Ok(Exit::Success);
        }
        self.output.check()?;
        caution();
        let (document, is_interrupted) = experiment.perform(ui)?;
        self.output.publish(&document)?;
        let failed = |run: &Run| match &run.outcome {
            Outcome::Failed(failure) => Some(failure.kind),
            Outcome::Measured(_) => None,
        };
        let exit = verdict(document.runs.iter().filter_map(failed));
        Ok(if is_interrupted { Exit::Interrupted } else { exit })
    }

    fn prepare(&self) -> Result<Experiment, Failure> {
        let provenance = provenance::begin(self.options.seed)?;
        let allocators = self.chosen()?;
        let reference = reference(self.reference.as_deref(), &allocators)?;
        let machine = &provenance.machine;
        let available = (!self.no_memory_check).then_some(machine.memory_available_bytes);
        let huge = machine.huge_pages.enabled.as_deref() == Some("always");
        let repeat = self.repeat.unwrap_or(if self.quick { QUICK_ROUNDS } else { ROUNDS });
        let plan = plan(self.grid().cases(), repeat, available, huge);
        let steps = schedule(&plan, allocators.len(), self.options.seed);
        let program = env::current_exe()
            .map_err(|error| Failure::error("cannot find this executable", &error))?;
        let timeout = Duration::from_secs_f64(self.timeout.unwrap_or_else(|| longest(&plan)));
        let runner = Runner { program, timeout };
        Ok(Experiment { allocators, reference, plan, steps, runner, provenance })
    }

    fn chosen(&self) -> Result<Vec<Allocator>, Failure> {
        Catalogue::new(&self.search)?.to_preload(&self.allocators)
    }

    fn grid(&self) -> Grid {
        let pick = |given: &[u32], usual: &[u32], quick: &[u32]| {
            let preset = if self.quick { quick } else { usual };
            let mut list = if given.is_empty() { preset.to_vec() } else { given.to_vec() };
            grid::distinct(&mut list);
            list
        };
        let lengths = if self.quick { QUICK_LENGTHS } else { LENGTHS };
        let pairs = pick(&self.pairs, &PAIRS, &QUICK_PAIRS);
        let sizes = pick(&self.sizes, &SIZES, &QUICK_SIZES);
        let is_wanted = |part| self.skip != Some(part);
        Grid {
            pairs: if is_wanted(Part::Speed) { pairs } else { Vec::new() },
            max_bytes: sizes,
            template: self.options.params(1, 1, 0.0, lengths),
            retention: is_wanted(Part::Memory).then(|| self.memory_case(lengths)),
        }
    }

    fn memory_case(&self, lengths: Defaults) -> PairsParams {
        let pairs = if self.quick { QUICK_MEMORY_PAIRS } else { MEMORY_PAIRS };
        let total = MEMORY_LOOPS_A_PAIR * u64::from(pairs);
        PairsParams {
            memset: true,
            sizes: Sizes::Random,
            length: Length::Loops { total },
            ..self.options.params(
                pairs,
                MEMORY_SIZE,
                self.settle.unwrap_or(SETTLE_SECONDS),
                lengths,
            )
        }
    }
}

impl Output {
    fn files(&self) -> impl Iterator<Item = &String> {
        self.json.iter().chain(&self.markdown).chain(&self.csv)
    }

    fn takes_standard_output(&self) -> bool {
        self.files().any(|path| path == ui::STANDARD_OUTPUT)
    }

    fn detail(&self) -> Detail {
        if self.details { Detail::Full } else { Detail::Summary }
    }

    /// Makes sure before the first run that results will find their place.
    fn check(&self) -> Result<(), Failure> {
        let files: Vec<_> = self.files().map(String::as_str).collect();
        ui::check_places(&files)
    }

    /// Shows and stores results. What goes to standard output for machines goes there alone.
    fn publish(&self, document: &BenchDocument) -> Result<(), Failure> {
        if !self.takes_standard_output() {
            ui::print(&text(document, self.detail()))?;
        }
        for warning in document.warnings.iter().chain(&failures(document)) {
            ui::warn(warning);
        }
        if let Some(path) = &self.json {
            ui::save_json(path, document)?;
        }
        if let Some(path) = &self.markdown {
            ui::save(path, &markdown(document, self.detail()))?;
        }
        if let Some(path) = &self.csv {
            ui::save(path, &csv(&document.series()))?;
        }
        Ok(())
    }
}

/// The index of the allocator that the others are compared with: the one of this name, or else
/// Freehold, or else the first.
pub(super) fn reference(name: Option<&str>, allocators: &[Allocator]) -> Result<usize, Failure> {
    match name {
        None => Ok(named(FREEHOLD, allocators).unwrap_or(0)),
        Some(name) => named(name, allocators),
    }
}

/// The index of the allocator of this name.
fn named(name: &str, allocators: &[Allocator]) -> Result<usize, Failure> {
    allocators.iter().position(|own| own.name == name).ok_or_else(|| {
        let message = format!("the reference \"{name}\" is not among the allocators");
        let names: Vec<_> = allocators.iter().map(|own| own.name.as_str()).collect();
        Failure::new(Exit::Usage, message).hint(format!("they are {}", names.join(", ")))
    })
}

/// How long the longest run may take when nothing else was said: ten times what is expected, and
/// a minute for allocators that are much slower than others.
fn longest(plan: &Plan) -> f64 {
    let expected = plan.cases.iter().map(|case| expected_run_seconds(&case.params));
    60.0 + 10.0 * expected.fold(0.0, f64::max)
}

/// How a complete measurement ends: failures of runs are failures of the whole.
pub(super) fn verdict(failures: impl Iterator<Item = FailureKind>) -> Exit {
    let kinds: Vec<_> = failures.collect();
    if kinds.contains(&FailureKind::NotLive) {
        Exit::NotLive
    } else if kinds.is_empty() {
        Exit::Success
    } else {
        Exit::Error
    }
}
