//! What was recorded of a command's allocation calls, and what that says of sizes and lifetimes.

use serde::{Deserialize, Serialize};

use crate::schema::Document;
use crate::summary::Interval;

/// Calls by function. Where a share of the objects was recorded, an estimate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceCalls {
    /// `malloc`.
    pub malloc: u64,
    /// `calloc`.
    pub calloc: u64,
    /// `realloc` and `reallocarray`.
    pub realloc: u64,
    /// `aligned_alloc`, `posix_memalign`, `memalign`, `valloc`, `pvalloc`, and `operator new` with
    /// an alignment.
    pub aligned: u64,
    /// `operator new` without one.
    pub new: u64,
    /// `free` of an object.
    pub free: u64,
    /// `operator delete` of an object.
    pub delete: u64,
    /// `free` or `operator delete` of null.
    pub free_null: u64,
    /// Calls that were to allocate and returned null.
    pub failed: u64,
}

impl TraceCalls {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.allocations() + self.realloc + self.frees() + self.free_null + self.failed
    }

    /// Calls that gave out an object, `realloc` aside.
    pub fn allocations(&self) -> u64 {
        self.malloc + self.calloc + self.aligned + self.new
    }

    /// Calls that freed an object, `realloc` aside.
    pub fn frees(&self) -> u64 {
        self.free + self.delete
    }
}

/// Some objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// The bytes that were asked for.
    pub bytes: u64,
    /// How many objects they are.
    pub objects: u64,
}

/// The moment when most bytes were alive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Peak {
    /// The bytes that were asked for and not yet freed.
    pub bytes: u64,
    /// How many objects they were.
    pub objects: u64,
    /// When it was, since the process was first recorded.
    pub seconds: f64,
}

/// What was recorded of a process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessRecording {
    /// Its number within the trace.
    pub process: u32,
    /// The kernel's number of it.
    pub pid: u32,
    /// The process within the trace that it is a copy of, unless it has executed a program since.
    pub forked_from: Option<u32>,
    /// The file of its program.
    pub program: String,
    /// Its arguments, the name of the program first.
    pub command: Vec<String>,
    /// The file of the allocator that served its calls.
    pub allocator: String,
    /// When it was first recorded, since recording began.
    pub began_seconds: f64,
    /// From then until its last call.
    pub seconds: f64,
    /// Threads that made calls.
    pub threads: u32,
    /// Calls that are in the trace.
    pub recorded_calls: u64,
    /// Calls that were made: the same, or an estimate where a share was recorded.
    pub calls: TraceCalls,
    /// Bytes asked for, all calls together.
    pub requested_bytes: u64,
    /// When most bytes were alive.
    pub peak: Peak,
    /// What was alive at the end.
    pub remaining: Amount,
    /// Objects freed by another thread than the one that they were given to.
    pub freed_elsewhere: u64,
    /// Objects freed that were not seen being given out.
    pub freed_unknown: u64,
    /// Calls made within another, which are not recorded.
    pub nested: u64,
    /// Calls that there was no room for.
    pub lost: u64,
    /// Until when every call was recorded; `None` if that is the end.
    pub exact_seconds: Option<f64>,
}

/// What recording cost, measured by making the recorded calls again with and without it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordingCost {
    /// How many calls were made again.
    pub calls: u64,
    /// Processor time a call, without.
    pub plain_ns: f64,
    /// Processor time a call, with.
    pub recorded_ns: f64,
    /// How many times as long the calls took.
    pub ratio: Interval,
    /// The share of the command's processor time that recording was, for all its calls.
    pub share: Option<f64>,
}

/// What `freehold record --json` writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordDocument {
    /// The command.
    pub command: Vec<String>,
    /// Its exit status, unless it ended by a signal.
    pub exit_status: Option<i32>,
    /// The signal that it ended by.
    pub signal: Option<i32>,
    /// The trace.
    pub file: String,
    /// The size of the trace.
    pub file_bytes: u64,
    /// What its size was limited to.
    pub limit_bytes: u64,
    /// What was recorded.
    pub processes: Vec<ProcessRecording>,
    /// Processes of which nothing was, since there was no room for it.
    #[serde(default)]
    pub absent_processes: u64,
    /// What that cost, if it was measured.
    #[serde(default)]
    pub cost: Option<RecordingCost>,
}

impl Document for RecordDocument {
    const KIND: &'static str = "record";
}

/// A bin of a histogram by powers of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bin {
    /// The least value in it: 0, or a power of two. The values are below the next one.
    pub least: u64,
    /// How many values there are.
    pub count: u64,
}

/// A histogram in steps of one width.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinearHistogram {
    /// Where it begins.
    pub lower: u64,
    /// Where it ends.
    pub upper: u64,
    /// How wide a bin is.
    pub step: u64,
    /// How many values are below the lower bound.
    pub below: u64,
    /// How many are in each bin.
    pub bins: Vec<u64>,
    /// How many are at the upper bound or above.
    pub above: u64,
}

/// How often a size was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeCount {
    /// The size.
    pub size: u64,
    /// How often.
    pub count: u64,
}

/// Some of the objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// How many they are.
    pub objects: u64,
    /// The bytes that were asked for.
    pub bytes: u64,
}

/// What became of the objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fates {
    /// Freed by the thread that they were given to.
    pub freed_here: Share,
    /// Freed by another thread.
    pub freed_elsewhere: Share,
    /// Not freed.
    pub never_freed: Share,
    /// Not followed to their end, because a share was recorded from some time on.
    pub unknown: Share,
}

/// What `freehold sizes --json` writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SizesDocument {
    /// The process.
    pub process: ProcessRecording,
    /// How often memory was asked for, `realloc` included.
    pub requests: u64,
    /// How much.
    pub requested_bytes: u64,
    /// The sizes, by powers of two. Bins without any are left out.
    pub powers: Vec<Bin>,
    /// The sizes, in steps.
    pub linear: LinearHistogram,
    /// Every size.
    pub sizes: Vec<SizeCount>,
    /// How long objects lived until they were freed, in nanoseconds, by powers of two.
    pub lifetimes: Vec<Bin>,
    /// What became of the objects.
    pub fates: Fates,
}

impl Document for SizesDocument {
    const KIND: &'static str = "sizes";
}
