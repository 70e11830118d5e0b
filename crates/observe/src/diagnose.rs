//! `freehold diagnose`: locks, samples and memory of a process, observed together, and what they
//! come to.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::time::Duration;

use freehold_model::{
    AllocationCalls, Diagnosis, Findings, Frame, Gap, HeapContents, LocksReport, Portion, Source,
    WaitKind, WaitRow,
};

use crate::access::SAMPLES;
use crate::charges::charges;
use crate::explain::heap_contents;
use crate::locks::Locks;
use crate::memory::resident_bytes;
use crate::proc::stat;
use crate::profile::{Counting, Profile, Profiled};
use crate::recorded::Event;
use crate::target::TargetError;
use crate::words::{self, share};
use crate::{clock, verdict};

/// How often memory is read.
const MEMORY_NS: u64 = 100_000_000;

/// How much has to be resident for heaps to be read, how often they are, and how many times as long
/// as that takes of a processor is waited before it is done again; four times that after the second
/// reading, nine times after the third, and so on, up to a most.
const HEAP_BYTES: u64 = 16 << 20;
const HEAP_NS: u64 = 500_000_000;
const HEAP_PATIENCE: u64 = 8;
const HEAP_PATIENCE_MOST: u64 = 400;

/// How much of a processor it may take to read them for it to be done at the end in any case.
const HEAP_LAST_NS: u64 = 1_000_000_000;

/// Points of memory that are kept. When there are as many, every second one is dropped.
const MOST_POINTS: usize = 256;

/// Locks that are listed.
const LOCKS: usize = 5;

/// Observes a process.
pub struct Diagnose {
    pid: u32,
    is_stopped: bool,
    locks: Locks,
    memory: Memory,
}

impl Diagnose {
    /// Begins to observe a process.
    pub fn of(pid: u32) -> Result<Self, TargetError> {
        let locks = Locks::counting(pid, Counting::Calls)?;
        Ok(Self { pid, is_stopped: false, locks, memory: Memory::default() })
    }

    /// Observes for this long, or until nothing is left to observe, or `pause`, which waits for
    /// the given time, says that it is enough.
    pub fn watch(
        &mut self,
        duration: Option<Duration>,
        pause: &mut dyn FnMut(Duration) -> ControlFlow<()>,
    ) {
        let Self { locks, memory, .. } = self;
        locks.watch(duration, &mut |processes, time| {
            memory.look(processes);
            pause(time)
        });
        memory.look_last();
        let stat = fs::read(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        let stat = String::from_utf8_lossy(&stat);
        self.is_stopped = stat::parse(&stat).is_some_and(|stat| matches!(stat.state, 'T' | 't'));
    }

    /// What it comes to, with what is known besides of the calls to the allocator.
    pub fn diagnosis(&self, counted: Option<AllocationCalls>) -> Diagnosis {
        let report = self.locks.report();
        let profiled = self.locks.profile().ok().map(Profile::profiled);
        let findings = Findings { counted, ..self.findings(&report, profiled.as_ref()) };
        let (cause, confidence) = verdict::judge(&findings);
        let mut locks = report.waits;
        locks.retain(|row| row.kind.is_contention());
        locks.truncate(LOCKS);
        let mut spins = report.spins;
        spins.truncate(LOCKS);
        let sees_waits = self.locks.sees_waits();
        let mut diagnosis = Diagnosis {
            charges: charges(&findings, sees_waits),
            subject: Vec::new(),
            allocator: None,
            cause,
            confidence,
            summary: String::new(),
            evidence: words::evidence(&findings, &locks, &spins),
            switching: words::switching(cause).to_owned(),
            compare: None,
            findings,
            locks,
            spins,
            sources: report.sources,
            missing: report.missing,
            cost: report.cost,
        };
        diagnosis.summary = words::summary(&diagnosis);
        self.tell_sources(&mut diagnosis);
        diagnosis
    }

    fn findings(&self, report: &LocksReport, profiled: Option<&Profiled>) -> Findings {
        let total = self.locks.total();
        let per_second =
            |count: f64| if report.seconds > 0.0 { count / report.seconds } else { 0.0 };
        let mut findings = Findings {
            seconds: report.seconds,
            thread_seconds: report.thread_seconds,
            cpus: std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32),
            user_seconds: total.shares.usr,
            system_seconds: total.shares.sys,
            unseen_seconds: total.unseen_seconds,
            starved_seconds: total.shares.lat,
            fault_seconds: report.fault_seconds,
            allocator_lock_seconds: report.seconds_in(WaitKind::AllocatorLock),
            other_lock_seconds: report.seconds_in(WaitKind::Lock),
            // Looks that see nothing are none.
            rounds: self.locks.sees_waits().map_or(0, |()| self.locks.looks()),
            looks: report.waits.iter().map(|row| row.looks).sum(),
            faults_per_second: per_second(total.minor_faults as f64),
            resident_bytes: self.memory.points.clone(),
            heap: self.memory.heap,
            is_stopped: self.is_stopped,
            ..Findings::default()
        };
        if let Some(profiled) = profiled {
            let totals = profiled.totals;
            findings.samples = Some(totals.samples);
            findings.allocator_cpu_share = profiled.allocator_share;
            findings.allocator_fault_share = profiled.allocator_faults;
            findings.atomic_share = profiled.atomic_share;
            let (all, awaited) = spun(report, false);
            findings.awaited_share = profiled.atomic_share * share(awaited, all);
            let (_, awaited) = spun(report, true);
            findings.allocator_awaited_share = share(awaited, findings.user_seconds).min(1.0);
            findings.false_sharing_share = profiled.false_share;
            let rate = |event| profiled.recorded.rate(event);
            findings.mappings_per_second = rate(Event::Mapping);
            findings.threads_per_second = rate(Event::Thread);
            findings.processes_per_second = rate(Event::Process);
            findings.successors_per_second = rate(Event::Successor);
            findings.recorded_share = profiled.recorded.share();
            findings.calls_per_second = calls(profiled);
            findings.hottest = profiled.hottest.clone().map(portion);
            findings.faulting = profiled.faulting.clone().map(portion);
        }
        findings
    }

    fn tell_sources(&self, diagnosis: &mut Diagnosis) {
        match self.locks.profile() {
            Ok(_) => diagnosis.sources.push(Source::new(
                "shares of processor time and page faults, threads begun, mappings",
                "perf events of user mode",
                "1/sqrt(samples); counts exact where recorded all the time, but for lost records",
            )),
            Err(reason) => diagnosis.missing.push(Gap::allowed_by(
                &format!("samples of running code and of page faults ({reason})"),
                SAMPLES,
            )),
        }
        let unknown = diagnosis.charges.iter().filter(|charge| charge.value.is_none());
        diagnosis.missing.extend(
            unknown.map(|charge| Gap { what: charge.words.clone(), remedy: charge.remedy.clone() }),
        );
        if diagnosis.findings.counted.is_some() {
            diagnosis.sources.push(Source::new(
                "calls to the allocator, bytes in use",
                "counted in each call",
                "exact, but for the last 64 calls of a thread",
            ));
            diagnosis.sources.push(Source::new(
                "objects freed by another thread",
                "one address in 16, followed",
                "1/sqrt(objects followed), and what these do not stand for",
            ));
        }
        if diagnosis.findings.heap.is_some() {
            diagnosis.sources.push(Source::new(
                "memory in use, and free in heaps",
                "the C library's notes before each block, Freehold's tables, or what the allocator \
                 answers within the process",
                "a moment's, near the end",
            ));
        }
        diagnosis.sources.push(Source::new(
            "resident memory",
            "statm",
            "exact, ten times a second",
        ));
    }
}

fn portion((function, share): (Frame, f64)) -> Portion {
    Portion { function, share }
}

/// The time spun for words of the allocator, or for others, and what of it is at locks which
/// threads also sleep for.
fn spun(report: &LocksReport, is_allocators: bool) -> (f64, f64) {
    let is_own = |row: &&WaitRow| (row.kind == WaitKind::AllocatorLock) == is_allocators;
    let is_awaited = |spin: &&WaitRow| {
        let same = |row: &WaitRow| (&row.name, &row.file) == (&spin.name, &spin.file);
        report.waits.iter().filter(is_own).any(|row| row.kind.is_contention() && same(row))
    };
    let seconds = |all, row: &WaitRow| all + row.seconds;
    let own = report.spins.iter().filter(is_own);
    (own.clone().fold(0.0, seconds), own.filter(is_awaited).fold(0.0, seconds))
}

fn calls(profiled: &Profiled) -> BTreeMap<String, f64> {
    profiled.calls.iter().map(|&(name, rate)| (name.to_owned(), rate)).collect()
}

/// Resident memory over time.
#[derive(Debug, Default)]
struct Memory {
    points: Vec<u64>,
    last_ns: u64,
    /// Between two points, in nanoseconds; 0 before the first.
    distance_ns: u64,
    /// What the allocator's heaps held when they were last read.
    heap: Option<HeapContents>,
    /// How often they were read, and when they are to be read again.
    heap_readings: u64,
    heap_due_ns: u64,
    /// When they were read last, and how long that took of a processor.
    heap_read_ns: u64,
    heap_took_ns: u64,
    /// The processes that were looked at last.
    processes: Vec<u32>,
}

impl Memory {
    fn look(&mut self, processes: &[u32]) {
        let now = clock::now_ns();
        if now - self.last_ns < self.distance_ns {
            return;
        }
        self.distance_ns = self.distance_ns.max(MEMORY_NS);
        let resident = resident_bytes(processes);
        if resident == 0 {
            // They have ended.
            return;
        }
        self.last_ns = now;
        self.points.push(resident);
        if self.processes != processes {
            self.processes = processes.to_vec();
        }
        if resident >= HEAP_BYTES && now >= self.heap_due_ns {
            self.read_heaps(processes);
        }
        if self.points.len() >= MOST_POINTS {
            let mut keep = false;
            self.points.retain(|_| {
                keep = !keep;
                keep
            });
            self.distance_ns *= 2;
        }
    }

    /// Reads the heaps once more at the end, if they are still there: what they held while the
    /// program was busy says little of what they hold now. Not if that takes long.
    fn look_last(&mut self) {
        let is_old = clock::now_ns() - self.heap_read_ns >= HEAP_NS;
        let is_large = self.points.last().is_some_and(|&resident| resident >= HEAP_BYTES);
        if is_old && is_large && self.heap_took_ns <= HEAP_LAST_NS {
            let processes = std::mem::take(&mut self.processes);
            self.read_heaps(&processes);
        }
    }

    /// Reads the heaps of the process that has most in them; the longer that takes, the later it is
    /// done again.
    fn read_heaps(&mut self, processes: &[u32]) {
        let (began, before) = (clock::now_ns(), clock::own_thread_ns());
        let contents = processes.iter().filter_map(|&pid| heap_contents(pid).ok()?);
        let most = contents.max_by_key(|heap| heap.used_bytes + heap.free_bytes + heap.top_bytes);
        self.heap = most.or(self.heap);
        // A short run is understood soon, and a long one not disturbed; that a busy machine had no
        // processor for it meanwhile is no cost.
        let took = clock::own_thread_ns() - before;
        (self.heap_read_ns, self.heap_took_ns) = (began, took);
        self.heap_readings += 1;
        let patience = (HEAP_PATIENCE * self.heap_readings.pow(2)).min(HEAP_PATIENCE_MOST);
        self.heap_due_ns = began + (took * patience).max(HEAP_NS);
    }
}
