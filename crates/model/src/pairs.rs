//! The `pairs` harness: what it was asked to do, and what one run of it measured.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::harness::FalseSharing;
use crate::schema::Document;

/// How the size of a block is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sizes {
    /// Uniform over `min_bytes .. min_bytes + max_bytes`, as `rand() % max + 8` is.
    Random,
    /// Always `max_bytes`.
    Fixed,
}

/// How a thread waits for its partner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Handoff {
    /// Looks again and again, and never enters the kernel.
    Spin,
    /// Looks some hundreds of times, then gives up the processor between looks.
    Yield,
    /// Looks some hundreds of times, then sleeps in the kernel until woken.
    Futex,
}

impl Handoff {
    /// The name used on the command line and in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Spin => "spin",
            Self::Yield => "yield",
            Self::Futex => "futex",
        }
    }
}

/// When a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "until")]
pub enum Length {
    /// After a number of samples of equal length, measured after a warm-up.
    Samples {
        /// How many samples.
        count: u32,
        /// The length of one.
        seconds: f64,
        /// Time before the first that is not measured, at least.
        warmup_seconds: f64,
    },
    /// After a number of loops, summed over the pairs; nothing is left out as warm-up.
    Loops {
        /// How many loops at least.
        total: u64,
    },
}

/// What a run of `pairs` is asked to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairsParams {
    /// Pairs of one allocating and one freeing thread.
    pub pairs: u32,
    /// The smallest block.
    pub min_bytes: u32,
    /// The width of the range of sizes (random), or the size (fixed).
    pub max_bytes: u32,
    /// How sizes are chosen.
    pub sizes: Sizes,
    /// Blocks in a batch: a loop is this many `malloc` and as many `free`.
    pub allocations: u32,
    /// Whether each block is written from end to end.
    pub memset: bool,
    /// How a thread waits for its partner.
    pub handoff: Handoff,
    /// Batches that may be in flight between two partners.
    pub depth: u32,
    /// Seed of the sizes.
    pub seed: u64,
    /// When the run ends.
    pub length: Length,
    /// Idle time between the two readings of memory after everything is freed.
    pub settle_seconds: f64,
}

impl PairsParams {
    /// Each by its name, in words.
    pub(crate) fn by_name(&self) -> BTreeMap<String, String> {
        let Self { min_bytes, max_bytes, sizes, allocations, memset, handoff, .. } = self;
        let length = match self.length {
            Length::Samples { count, seconds, warmup_seconds } => {
                format!("{count} samples of {seconds} s after {warmup_seconds} s")
            }
            Length::Loops { total } => format!("{total} loops"),
        };
        let sizes = match sizes {
            Sizes::Random => format!("from {min_bytes}"),
            Sizes::Fixed => format!("{max_bytes} each"),
        };
        let named = [
            ("sizes", sizes),
            ("allocations", allocations.to_string()),
            ("memset", memset.to_string()),
            ("handoff", handoff.as_str().to_owned()),
            ("depth", self.depth.to_string()),
            ("seed", self.seed.to_string()),
            ("length", length),
            ("settle", self.settle_seconds.to_string()),
        ];
        named.map(|(name, value)| (name.to_owned(), value)).into()
    }

    /// The mean size of a block.
    pub fn mean_bytes(&self) -> u64 {
        match self.sizes {
            Sizes::Random => u64::from(self.min_bytes) + u64::from(self.max_bytes) / 2,
            Sizes::Fixed => u64::from(self.max_bytes),
        }
    }

    /// The most blocks that can be alive at once.
    pub fn blocks_in_flight(&self) -> u64 {
        u64::from(self.pairs) * u64::from(self.depth) * u64::from(self.allocations)
    }
}

/// Which objects serve the allocation calls of a process, as the process itself found out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// The file that holds the `malloc` which calls are bound to.
    pub malloc_object: String,
    /// The same for `free`.
    pub free_object: String,
    /// Every file mapped with execute permission, from the process's memory map.
    pub mapped_objects: Vec<String>,
}

/// A reading in the middle of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// When the sample ended, from the start of the measurement.
    pub end_seconds: f64,
    /// Loops done during the sample.
    pub loops: f64,
    /// Resident memory at its end.
    pub rss_bytes: u64,
}

/// Time spent waiting for the partner, as a share of the time of the threads concerned.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// Allocating threads, waiting for an empty slot.
    pub allocating_share: f64,
    /// Freeing threads, waiting for a full slot.
    pub freeing_share: f64,
}

/// Resident memory at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resident {
    /// All of it.
    pub rss_bytes: u64,
    /// The anonymous part: heap, stacks and the harness's own arrays.
    pub anonymous_bytes: u64,
    /// The part given back lazily (`MADV_FREE`): still counted, taken only under pressure.
    pub lazy_free_bytes: u64,
    /// The part in transparent huge pages.
    pub huge_bytes: u64,
    /// Swapped out, so not resident although held.
    pub swap_bytes: u64,
}

/// Memory when a measurement ended, and nothing had been freed after it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Bytes requested and not yet freed.
    pub live_bytes: u64,
    /// Address space.
    pub virtual_bytes: u64,
    /// Resident memory.
    #[serde(flatten)]
    pub resident: Resident,
}

/// What a run cost in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Before the first measured call: program, threads and the harness's arrays.
    pub before: Resident,
    /// The high-water mark of the process.
    pub peak_rss_bytes: u64,
    /// The most address space it held.
    pub peak_virtual_bytes: u64,
    /// The most bytes requested and not yet freed, sampled every few milliseconds.
    pub peak_live_bytes: u64,
    /// When the measurement ended; absent in what was stored before this was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
    /// Mapped by the harness itself; part of every reading.
    pub harness_bytes: u64,
    /// At once after everything was freed, threads alive.
    pub freed: Resident,
    /// The same after the settle time, threads alive and idle; absent without a settle time.
    pub settled: Option<Resident>,
}

/// What the process used while it was measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time in the program.
    pub user_seconds: f64,
    /// Processor time in the kernel on its behalf.
    pub system_seconds: f64,
    /// Page faults that needed no disk.
    pub minor_faults: u64,
    /// Context switches that the process asked for.
    pub voluntary_switches: u64,
    /// Context switches forced on it.
    pub involuntary_switches: u64,
}

/// What one run of `pairs` measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairsRun {
    /// What it was asked to do.
    pub params: PairsParams,
    /// Which objects served the calls.
    pub proof: Proof,
    /// Loops during the measurement, in parts where one was under way at either end.
    pub loops: f64,
    /// The length of the measurement.
    pub elapsed_seconds: f64,
    /// The quotient of the two.
    pub loops_per_second: f64,
    /// The time before the measurement: longer than asked for where memory was not yet recycled.
    pub warmup_seconds: f64,
    /// The series.
    pub samples: Vec<Sample>,
    /// Waiting for partners.
    pub waiting: Waiting,
    /// Memory.
    pub memory: Memory,
    /// Processor time and faults.
    pub usage: Usage,
    /// Blocks of which the contents were checked, if that was asked for: none was found wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_blocks: Option<u64>,
    /// Blocks on shared cache lines, if they were to be counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub false_sharing: Option<FalseSharing>,
}

impl Document for PairsRun {
    const KIND: &'static str = "pairs_run";
}
