//! What is the matter with a program: what `freehold diagnose` says.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::evidence::{Cost, Gap, Source};
use crate::explain::HeapContents;
use crate::locks::{Frame, WaitRow};
use crate::schema::Document;

/// What a program's time, or memory, goes to first of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Threads wait for locks of the allocator.
    AllocatorContention,
    /// The allocator takes the processor.
    AllocatorCpu,
    /// Threads wait for another lock.
    OtherLock,
    /// Threads spin, or write one word all together.
    Spinning,
    /// Threads write different words of the same cache line.
    FalseSharing,
    /// Memory is touched for the first time again and again.
    PageFaults,
    /// Memory is mapped and unmapped again and again.
    MappingStorm,
    /// The system is told again and again that memory is not needed.
    AdviceStorm,
    /// Memory grows and grows.
    MemoryGrows,
    /// Most of the heap is free, and is not given back.
    MemoryHeld,
    /// Threads begin and end again and again.
    ThreadChurn,
    /// There are more threads that want to run than processors.
    Starved,
    /// The program computes.
    Computing,
    /// Threads wait for work, for time, or for input and output.
    Idle,
    /// It ended before anything could be seen.
    TooShort,
    /// It mostly waited, and was looked at too rarely to tell what for.
    TooFewLooks,
}

impl Cause {
    /// Whether too little was seen for any other verdict.
    pub fn is_unknown(self) -> bool {
        matches!(self, Self::TooShort | Self::TooFewLooks)
    }

    /// Whether another allocator may change something.
    pub fn may_be_allocators(self) -> bool {
        matches!(
            self,
            Self::AllocatorContention
                | Self::AllocatorCpu
                | Self::FalseSharing
                | Self::PageFaults
                | Self::MappingStorm
                | Self::AdviceStorm
                | Self::MemoryGrows
                | Self::MemoryHeld
        )
    }
}

/// How sure a verdict is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Something is missing, or there was little to see.
    Low,
    /// What decides is near where it would decide otherwise.
    Medium,
    /// It is far from there.
    High,
}

/// A function and its part of something.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Portion {
    /// The function.
    pub function: Frame,
    /// The part, from 0 to 1.
    pub share: f64,
}

/// What the calls to `malloc` and its family came to, where they were counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocationCalls {
    /// Objects given out.
    pub allocations: u64,
    /// Objects freed.
    pub frees: u64,
    /// Objects freed of those that were followed, one address in sixteen.
    pub followed: u64,
    /// Those of them that another thread had asked for.
    pub elsewhere: u64,
    /// Bytes that were asked for.
    pub requested_bytes: u64,
    /// Bytes that were given for that; 0 where the allocator does not tell.
    pub allocated_bytes: u64,
    /// Bytes that were in use at last; `None` where the allocator does not tell sizes.
    pub live_bytes: Option<u64>,
}

/// One address in so many is followed.
const FOLLOWED: f64 = 16.0;

/// From this part of the objects freed on, those that were followed stand for them.
const REPRESENTED: f64 = 0.5;

impl AllocationCalls {
    /// The part of the objects that another thread frees than asked for them; `None` where those
    /// that were followed do not stand for the others.
    pub fn elsewhere_share(&self) -> Option<f64> {
        let stand = self.followed > 0 && self.represented() >= REPRESENTED;
        stand.then(|| self.elsewhere as f64 / self.followed as f64)
    }

    /// The part of the objects freed that those which were followed stand for. Addresses are
    /// followed, not objects: where few are used again and again, it may be any.
    pub fn represented(&self) -> f64 {
        let ratio = self.followed as f64 * FOLLOWED / self.frees.max(1) as f64;
        ratio.min(ratio.max(1e-9).recip())
    }

    /// The part of the bytes given that nobody had asked for.
    pub fn waste_share(&self) -> Option<f64> {
        let asked = self.requested_bytes as f64 / self.allocated_bytes as f64;
        (self.allocated_bytes > 0).then_some(1.0 - asked)
    }
}

/// What is recorded all the time.
fn all() -> f64 {
    1.0
}

/// The numbers that a verdict rests on. Times are of all threads together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// How long was observed.
    pub seconds: f64,
    /// The time of all threads.
    pub thread_seconds: f64,
    /// Processors that the program may use.
    pub cpus: u32,
    /// On a processor, in the program.
    pub user_seconds: f64,
    /// On a processor, in the kernel.
    pub system_seconds: f64,
    /// On a processor, of threads that began and ended without being seen, as far as that is known.
    #[serde(default)]
    pub unseen_seconds: f64,
    /// Runnable, without a processor.
    pub starved_seconds: f64,
    /// Blocked in page faults.
    pub fault_seconds: f64,
    /// Waiting for locks of the allocator.
    pub allocator_lock_seconds: f64,
    /// Waiting for other locks.
    pub other_lock_seconds: f64,
    /// How often all threads were looked at.
    #[serde(default)]
    pub rounds: u64,
    /// Looks at threads that waited for a futex.
    pub looks: u64,
    /// Samples of running threads; `None` where they may not be taken.
    pub samples: Option<u64>,
    /// The part of the samples that is in the allocator.
    pub allocator_cpu_share: f64,
    /// The part of the page faults that is in the allocator.
    pub allocator_fault_share: f64,
    /// The part of the samples that touches words which threads write all together.
    pub atomic_share: f64,
    /// What of that is at locks which threads also sleep for.
    #[serde(default)]
    pub awaited_share: f64,
    /// The part of the samples that touches locks of the allocator which threads also sleep for.
    #[serde(default)]
    pub allocator_awaited_share: f64,
    /// The part of the samples that touches different words of a line in turns.
    pub false_sharing_share: f64,
    /// Page faults without a disk, a second.
    pub faults_per_second: f64,
    /// The part of the time in which mappings and threads begun were recorded; they are taken to be
    /// as many in the rest.
    #[serde(default = "all")]
    pub recorded_share: f64,
    /// Anonymous mappings made, a second.
    pub mappings_per_second: f64,
    /// Calls of functions that ask the system for memory, a second, counted in windows.
    pub calls_per_second: BTreeMap<String, f64>,
    /// Threads begun, a second, of this process and of its descendants.
    pub threads_per_second: f64,
    /// Those of them that are the first of a process.
    #[serde(default)]
    pub processes_per_second: f64,
    /// Threads begun after others had ended, as many as these, a second.
    #[serde(default)]
    pub successors_per_second: f64,
    /// Whether the process stood at the end, stopped by a signal or a debugger.
    #[serde(default)]
    pub is_stopped: bool,
    /// What the calls to `malloc` and its family came to, where they were counted.
    pub counted: Option<AllocationCalls>,
    /// Resident memory, in bytes, at equal distances of time.
    pub resident_bytes: Vec<u64>,
    /// What the heaps of the C library, or of Freehold, held when they were last read.
    pub heap: Option<HeapContents>,
    /// The function with most time of its own.
    pub hottest: Option<Portion>,
    /// The function of the program with most page faults.
    pub faulting: Option<Portion>,
}

impl Findings {
    /// Time on a processor.
    pub fn cpu_seconds(&self) -> f64 {
        self.user_seconds + self.system_seconds
    }

    /// Time in which threads ran, or wanted to.
    pub fn wanted_seconds(&self) -> f64 {
        self.cpu_seconds() + self.starved_seconds
    }

    /// Time in which threads had something to do, or were kept from it.
    pub fn busy_seconds(&self) -> f64 {
        self.cpu_seconds()
            + self.starved_seconds
            + self.fault_seconds
            + self.allocator_lock_seconds
            + self.other_lock_seconds
    }

    /// A part of the time in which threads had something to do.
    pub fn of_busy(&self, seconds: f64) -> f64 {
        let busy = self.busy_seconds();
        if busy > 0.0 { seconds / busy } else { 0.0 }
    }

    /// A part of the time in which threads had something to do and did not wait for a processor.
    pub fn of_unstarved(&self, seconds: f64) -> f64 {
        let unstarved = self.busy_seconds() - self.starved_seconds;
        if unstarved > 0.0 { seconds / unstarved } else { 0.0 }
    }
}

/// One of the numbers that tell what the allocator costs a program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Charge {
    /// What it is of; never another word for the same.
    pub name: String,
    /// The number; `None` where it could not be had.
    pub value: Option<f64>,
    /// What it is in: `share`, from 0 to 1; `per_second`; or `bytes`.
    pub unit: String,
    /// A sentence that says it.
    pub words: String,
    /// What it was read from; `None` where it could not be had.
    pub source: Option<String>,
    /// How precise it is.
    pub precision: Option<String>,
    /// The setting that would allow it, where it could not be had.
    pub remedy: Option<String>,
}

/// What is the matter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// What was observed: a command line.
    pub subject: Vec<String>,
    /// The allocator that serves it.
    pub allocator: Option<String>,
    /// What it comes to.
    pub cause: Cause,
    /// How sure that is.
    pub confidence: Confidence,
    /// The verdict in words.
    pub summary: String,
    /// What the allocator costs: always the same numbers in the same order.
    #[serde(default)]
    pub charges: Vec<Charge>,
    /// What it rests on, in words.
    pub evidence: Vec<String>,
    /// What another allocator would likely change, in words.
    pub switching: String,
    /// The command that would measure it.
    pub compare: Option<String>,
    /// The numbers.
    pub findings: Findings,
    /// The locks that were waited for most.
    pub locks: Vec<WaitRow>,
    /// The words that were spun for, or written all together, most.
    pub spins: Vec<WaitRow>,
    /// Where the numbers come from.
    pub sources: Vec<Source>,
    /// What could not be had.
    pub missing: Vec<Gap>,
    /// What observing cost.
    pub cost: Cost,
}

impl Document for Diagnosis {
    const KIND: &'static str = "diagnosis";
}
