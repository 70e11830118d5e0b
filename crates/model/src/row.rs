//! A run as one flat line, for engines that ask many files: no line needs another to be understood.

use serde::{Deserialize, Serialize};

use crate::bench::FailureKind;
use crate::grid::{GridDocument, GridOutcome, GridRun};
use crate::harness::{Better, HarnessRun};
use crate::schema::Document;

/// A run of a grid with everything that tells it from others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GridRow {
    /// When its part was begun, in UTC.
    pub started: String,
    /// The version of the toolbox.
    pub tool_version: String,
    /// Operating system and release of the kernel.
    pub kernel: String,
    /// The instruction set.
    pub architecture: String,
    /// The processor, in its own words.
    pub cpu: Option<String>,
    /// Processors that the runs could use.
    pub cpus: u32,
    /// Installed memory.
    pub memory_total_bytes: u64,
    /// Seed of the order of runs and of the sizes.
    pub seed: u64,
    /// Which part of a larger grid it is from.
    pub shard: Option<u32>,
    /// How many parts there are of it.
    pub shards: Option<u32>,
    /// The name of the allocator in its document.
    pub allocator: String,
    /// Which known allocator it is.
    pub family: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// SHA-256 of its library.
    pub sha256: String,
    /// Whether the others are compared with it.
    pub is_reference: bool,
    /// The harness.
    pub harness: String,
    /// Its threads.
    pub threads: u64,
    /// The size that is varied.
    pub size: Option<u64>,
    /// The round: runs of one document, case and round pair.
    pub round: u32,
    /// How long the whole run took.
    pub seconds: f64,
    /// Why there are no numbers.
    pub failure: Option<FailureKind>,
    /// The numbers.
    #[serde(flatten)]
    pub numbers: RowNumbers,
}

/// The numbers of a run; none of one that failed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RowNumbers {
    /// What the harness is about.
    pub metric: Option<String>,
    /// Its unit.
    pub unit: Option<String>,
    /// Which of two values is the better one.
    pub better: Option<Better>,
    /// Its value.
    pub value: Option<f64>,
    /// Processor time in the program.
    pub user_seconds: Option<f64>,
    /// Processor time in the kernel on its behalf.
    pub system_seconds: Option<f64>,
    /// The most bytes requested and not yet freed.
    pub peak_live_bytes: Option<u64>,
    /// The most resident memory.
    pub peak_rss_bytes: Option<u64>,
    /// The same once everything was freed.
    pub freed_rss_bytes: Option<u64>,
    /// The same some idle time after that.
    pub settled_rss_bytes: Option<u64>,
    /// Page faults that needed no disk.
    pub minor_faults: Option<u64>,
    /// Context switches for waiting.
    pub voluntary_switches: Option<u64>,
    /// Context switches forced on it.
    pub involuntary_switches: Option<u64>,
}

impl Document for GridRow {
    const KIND: &'static str = "grid_row";
}

impl From<&HarnessRun> for RowNumbers {
    fn from(run: &HarnessRun) -> Self {
        let HarnessRun { metric, memory, usage, .. } = run;
        Self {
            metric: Some(metric.name.clone()),
            unit: Some(metric.unit.clone()),
            better: Some(metric.better),
            value: Some(metric.value),
            user_seconds: Some(usage.user_seconds),
            system_seconds: Some(usage.system_seconds),
            peak_live_bytes: Some(memory.peak_live_bytes),
            peak_rss_bytes: Some(memory.peak_rss_bytes),
            freed_rss_bytes: Some(memory.freed.rss_bytes),
            settled_rss_bytes: memory.settled.map(|settled| settled.rss_bytes),
            minor_faults: Some(usage.minor_faults),
            voluntary_switches: Some(usage.voluntary_switches),
            involuntary_switches: Some(usage.involuntary_switches),
        }
    }
}

impl GridDocument {
    /// Every run as a line of its own.
    pub fn rows(&self) -> impl Iterator<Item = GridRow> {
        self.runs.iter().map(|run| self.row(run))
    }

    fn row(&self, run: &GridRun) -> GridRow {
        let part = &self.parts[run.part];
        let (provenance, machine) = (&part.provenance, &part.provenance.machine);
        let (case, allocator) = (&self.plan.cases[run.case], &self.allocators[run.allocator]);
        let (failure, numbers) = match &run.outcome {
            GridOutcome::Measured(measured) => (None, RowNumbers::from(&**measured)),
            GridOutcome::Failed(failure) => (Some(failure.kind), RowNumbers::default()),
        };
        GridRow {
            started: provenance.started.clone(),
            tool_version: provenance.tool_version.clone(),
            kernel: machine.kernel.clone(),
            architecture: machine.architecture.clone(),
            cpu: machine.cpu.clone(),
            cpus: machine.cpus_usable,
            memory_total_bytes: machine.memory_total_bytes,
            seed: provenance.seed,
            shard: part.shard.map(|shard| shard.number),
            shards: part.shard.map(|shard| shard.of),
            allocator: allocator.name.clone(),
            family: allocator.family.clone(),
            version: allocator.version.clone(),
            sha256: allocator.library.sha256.clone(),
            is_reference: run.allocator == self.summary.reference,
            harness: case.harness.clone(),
            threads: case.threads,
            size: case.size,
            round: run.round,
            seconds: run.seconds,
            failure,
            numbers,
        }
    }
}
