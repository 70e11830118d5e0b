//! What threads wait for, and where they do: what `freehold locks` shows.

use serde::{Deserialize, Serialize};

use crate::evidence::{Cost, Gap, Source};
use crate::schema::Document;

/// A function in a stack.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Frame {
    /// The function; its address where it has no name.
    pub function: String,
    /// The file that holds its code.
    pub module: String,
    /// The source file.
    pub file: Option<String>,
    /// The line in it.
    pub line: Option<u32>,
}

/// What kind of thing is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitKind {
    /// A lock within `malloc`, `free` and their kin.
    AllocatorLock,
    /// A lock of the program or of a library.
    Lock,
    /// A condition variable: somebody has to have work.
    Condition,
    /// The end of a thread.
    Join,
    /// A semaphore.
    Semaphore,
    /// Others that have to arrive.
    Barrier,
    /// Being told to go on.
    Park,
    /// A futex that no known function waits for.
    Other,
}

impl WaitKind {
    /// Whether somebody else held what was waited for. Everything else is a thread that has
    /// nothing to do.
    pub fn is_contention(self) -> bool {
        matches!(self, Self::AllocatorLock | Self::Lock)
    }
}

/// Where a lock was waited for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WaitSite {
    /// The first function outside of locks, of the C library and of the allocator.
    pub caller: Frame,
    /// Time waited, in seconds, of all threads.
    pub seconds: f64,
    /// The stack, innermost first.
    pub stack: Vec<Frame>,
}

/// Something that was waited for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaitRow {
    /// What kind of thing it is.
    pub kind: WaitKind,
    /// Its name: a symbol, an arena, or an address.
    pub name: String,
    /// The source file that declares it, where debug information tells.
    pub file: Option<String>,
    /// The line in it.
    pub line: Option<u32>,
    /// How often it was waited for: an estimate.
    pub waits: f64,
    /// Time waited, in seconds, of all threads.
    pub seconds: f64,
    /// The longest wait that was seen, in seconds: it may have been longer.
    pub longest_seconds: f64,
    /// How often it was seen to be waited for.
    pub looks: u64,
    /// Where, most time first.
    pub sites: Vec<WaitSite>,
}

impl WaitRow {
    /// The mean wait, in seconds.
    pub fn mean_seconds(&self) -> f64 {
        if self.waits > 0.0 { self.seconds / self.waits } else { 0.0 }
    }
}

/// Time asleep in a system call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SleepRow {
    /// The system call.
    pub call: String,
    /// Time asleep, in seconds, of all threads.
    pub seconds: f64,
}

/// What all threads waited for while they were observed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LocksReport {
    /// How long was observed.
    pub seconds: f64,
    /// The time of all threads, in seconds.
    pub thread_seconds: f64,
    /// LCK of all threads as `freehold top` has it, in seconds.
    pub lck_seconds: f64,
    /// Everything that was waited for, most time first.
    pub waits: Vec<WaitRow>,
    /// Words that threads spun for, or wrote all together, most time first. This is time on a
    /// processor, none of which is in `waits`.
    pub spins: Vec<WaitRow>,
    /// Samples of running threads that tell of spinning; `None` where they may not be taken.
    pub samples: Option<u64>,
    /// System calls that threads slept in, most time first.
    pub sleeps: Vec<SleepRow>,
    /// Time blocked in page faults, in seconds.
    pub fault_seconds: f64,
    /// Looks whose stack could not be had.
    pub without_stack: u64,
    /// Where the numbers come from.
    pub sources: Vec<Source>,
    /// What could not be had.
    pub missing: Vec<Gap>,
    /// What observing cost.
    pub cost: Cost,
}

impl LocksReport {
    /// Time waited for this kind of thing.
    pub fn seconds_in(&self, kind: WaitKind) -> f64 {
        let rows = self.waits.iter().filter(|row| row.kind == kind);
        rows.fold(0.0, |sum, row| sum + row.seconds)
    }
}

impl Document for LocksReport {
    const KIND: &'static str = "locks";
}
