//! What a trace amounts to, process by process.

use freehold_model::{Amount, Peak, ProcessRecording, TraceCalls};
use freehold_trace::record::Function;

use super::error::TraceError;
use super::objects::{Event, Object, Step, Walk};
use super::open::Trace;

/// What was recorded of each process.
pub fn recording(trace: &Trace) -> Result<Vec<ProcessRecording>, TraceError> {
    trace.processes().map(|(number, _)| totals(trace, number)).collect()
}

/// The process with the most calls: the one that a trace is about, if nothing else is said.
pub fn busiest(processes: &[ProcessRecording]) -> Option<&ProcessRecording> {
    // Of equals the first: a command before what it starts.
    processes.iter().rev().max_by_key(|process| process.calls.total())
}

/// What was recorded of a process.
pub fn totals(trace: &Trace, number: u32) -> Result<ProcessRecording, TraceError> {
    let mut walk = Walk::new(trace, number)?;
    let mut totals = Totals::default();
    while let Some(step) = walk.next_step()? {
        totals.take(&step);
    }
    let process = trace.process(number)?;
    let seconds = |clock: u64| clock as f64 / 1e9;
    let weight = totals.weight();
    Ok(ProcessRecording {
        process: number,
        pid: process.pid,
        forked_from: process.forked_from,
        program: process.program.to_string_lossy().into_owned(),
        command: process.command.clone(),
        allocator: process.allocator.to_string_lossy().into_owned(),
        began_seconds: seconds(process.began),
        seconds: seconds(totals.last.saturating_sub(process.began)),
        threads: walk.threads() as u32,
        recorded_calls: totals.recorded,
        calls: totals.calls,
        requested_bytes: totals.requested,
        peak: Peak {
            seconds: seconds(totals.peak_at.saturating_sub(process.began)),
            ..totals.peak
        },
        remaining: Amount {
            bytes: totals.live.bytes * weight,
            objects: totals.live.objects * weight,
        },
        freed_elsewhere: totals.elsewhere,
        freed_unknown: totals.unknown,
        nested: process.nested,
        lost: process.lost,
        exact_seconds: totals.exact_until.map(|clock| seconds(clock.saturating_sub(process.began))),
    })
}

/// Adding up.
#[derive(Debug, Default)]
struct Totals {
    calls: TraceCalls,
    recorded: u64,
    requested: u64,
    live: Amount,
    peak: Peak,
    peak_at: u64,
    elsewhere: u64,
    unknown: u64,
    level: u32,
    exact_until: Option<u64>,
    last: u64,
}

impl Totals {
    /// How many objects one that is recorded stands for.
    fn weight(&self) -> u64 {
        1 << self.level
    }

    fn take(&mut self, step: &Step) {
        self.last = step.clock;
        match step.event {
            Event::Allocated { function, object, .. } => {
                self.call(function);
                self.appear(&object, step.clock);
            }
            Event::Freed { function, object } => {
                self.call(function);
                self.disappear(&object);
                if object.thread != step.thread {
                    self.elsewhere += self.weight();
                }
            }
            Event::Resized { from, to } => {
                self.call(Function::Realloc);
                self.disappear(&from);
                self.appear(&to, step.clock);
            }
            Event::FreedUnknown { function } => {
                self.call(function);
                self.unknown += self.weight();
            }
            Event::Forgotten { object } => self.disappear(&object),
            Event::FreeNull => {
                self.recorded += 1;
                self.calls.free_null += 1;
            }
            Event::Failed { .. } => {
                self.recorded += 1;
                self.calls.failed += 1;
            }
            Event::Exit => {}
            Event::Level(level) => {
                self.level = level;
                self.exact_until.get_or_insert(step.clock);
            }
        }
    }

    fn call(&mut self, function: Function) {
        self.recorded += 1;
        let weight = self.weight();
        let calls = &mut self.calls;
        *match function {
            Function::Malloc => &mut calls.malloc,
            Function::Calloc => &mut calls.calloc,
            Function::Realloc => &mut calls.realloc,
            Function::New => &mut calls.new,
            Function::Free => &mut calls.free,
            Function::Delete => &mut calls.delete,
            Function::AlignedAlloc
            | Function::PosixMemalign
            | Function::Memalign
            | Function::Valloc
            | Function::Pvalloc
            | Function::NewAligned => &mut calls.aligned,
        } += weight;
    }

    fn appear(&mut self, object: &Object, clock: u64) {
        self.requested = self.requested.saturating_add(object.size.saturating_mul(self.weight()));
        self.live.bytes = self.live.bytes.saturating_add(object.size);
        self.live.objects += 1;
        let bytes = self.live.bytes.saturating_mul(self.weight());
        if bytes > self.peak.bytes {
            let objects = self.live.objects * self.weight();
            self.peak = Peak { bytes, objects, seconds: 0.0 };
            self.peak_at = clock;
        }
    }

    fn disappear(&mut self, object: &Object) {
        self.live.bytes = self.live.bytes.saturating_sub(object.size);
        self.live.objects = self.live.objects.saturating_sub(1);
    }
}
