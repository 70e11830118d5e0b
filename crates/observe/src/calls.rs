//! `freehold syscalls`: which system calls a program makes, how often, with which success, and how
//! long they take.

use std::collections::HashMap;
use std::process::{Command, ExitStatus};
use std::{fs, io};

use freehold_model::{CallRow, Gap, Source, SyscallsReport, ThreadCalls};

use crate::clock::{self, seconds};
use crate::syscalls;
use crate::target::{self, TargetError};
use crate::trace::{Entered, Seer, Tracer};

/// Threads whose calls are kept apart. Those of others count in the sum alone.
const MOST_THREADS: usize = 10_000;

/// Counts the system calls of a process, and of those that descend from it.
pub struct Syscalls {
    tracer: Tracer,
    counts: Counts,
    began_ns: u64,
    observer_ns: u64,
}

/// Calls of one number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Count {
    calls: u64,
    errors: u64,
    ns: u64,
    longest_ns: u64,
}

#[derive(Default)]
struct Counts {
    all: HashMap<u64, Count>,
    threads: HashMap<u32, OfThread>,
    unlisted: u64,
}

#[derive(Default)]
struct OfThread {
    name: String,
    calls: HashMap<u64, Count>,
}

impl Syscalls {
    /// Starts a command.
    pub fn start(command: Command) -> Result<Self, TargetError> {
        Ok(Self::with(Tracer::start(command)?))
    }

    /// Begins to observe a process that is there.
    pub fn attach(pid: u32) -> Result<Self, TargetError> {
        target::check(pid)?;
        Ok(Self::with(Tracer::attach(pid)?))
    }

    fn with(tracer: Tracer) -> Self {
        let (began_ns, observer_ns) = (clock::now_ns(), clock::own_thread_ns());
        Self { tracer, counts: Counts::default(), began_ns, observer_ns }
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.tracer.pid()
    }

    /// Observes until the process ends, or `goes_on` says that it is enough; lets it go then.
    pub fn watch(&mut self, goes_on: &mut dyn FnMut() -> bool) {
        self.tracer.run(goes_on, &mut self.counts);
    }

    /// How a command that was started ended: nothing while it runs.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.tracer.status()
    }

    /// Waits for a command that was started and is no longer observed.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.tracer.wait_for_the_end()
    }

    /// What was seen.
    pub fn report(&self) -> SyscallsReport {
        let counts = &self.counts;
        let thread = |(&tid, own): (&u32, &OfThread)| {
            let calls = rows(&own.calls);
            ThreadCalls { tid, name: own.name.clone(), calls }
        };
        let mut threads: Vec<_> = counts.threads.iter().map(thread).collect();
        let made = |own: &ThreadCalls| own.calls.iter().map(|row| row.count).sum::<u64>();
        threads.sort_by_key(|own| (std::cmp::Reverse(made(own)), own.tid));
        SyscallsReport {
            seconds: seconds(clock::now_ns() - self.began_ns),
            calls: rows(&counts.all),
            threads,
            unlisted_calls: counts.unlisted,
            sources: vec![
                Source::new("calls, errors", "ptrace", "exact counts"),
                Source::new(
                    "time",
                    "the clock at the beginning and the end of each call",
                    "too long by what tracing takes: some 10 µs a call",
                ),
            ],
            missing: vec![Gap::nowhere("how fast the program is when it is not traced")],
            observer_seconds: seconds(clock::own_thread_ns() - self.observer_ns),
        }
    }
}

impl Seer for Counts {
    fn saw(&mut self, tid: u32, call: Entered, now_ns: u64, is_error: Option<bool>) {
        let ns = now_ns - call.at_ns;
        let is_error = is_error.unwrap_or(false);
        self.all.entry(call.number).or_default().add(ns, is_error);
        let is_new = !self.threads.contains_key(&tid);
        if is_new && self.threads.len() >= MOST_THREADS {
            self.unlisted += 1;
            return;
        }
        let own = self.threads.entry(tid).or_default();
        if is_new || syscalls::may_rename(call.number) {
            let name = fs::read(format!("/proc/{tid}/comm")).unwrap_or_default();
            let name = String::from_utf8_lossy(&name);
            if !name.is_empty() {
                name.trim_end().clone_into(&mut own.name);
            }
        }
        own.calls.entry(call.number).or_default().add(ns, is_error);
    }
}

impl Count {
    fn add(&mut self, ns: u64, is_error: bool) {
        self.calls += 1;
        self.errors += u64::from(is_error);
        self.ns += ns;
        self.longest_ns = self.longest_ns.max(ns);
    }
}

fn rows(calls: &HashMap<u64, Count>) -> Vec<CallRow> {
    let row = |(&number, count): (&u64, &Count)| CallRow {
        name: syscalls::name(number),
        count: count.calls,
        errors: count.errors,
        seconds: seconds(count.ns),
        longest_seconds: seconds(count.longest_ns),
    };
    let mut rows: Vec<_> = calls.iter().map(row).collect();
    rows.sort_by(|a, b| b.seconds.total_cmp(&a.seconds).then(a.name.cmp(&b.name)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_added_up_by_number_and_by_thread() {
        let mut counts = Counts::default();
        let call = |number, at_ns| Entered { number, at_ns };
        counts.saw(1, call(0, 100), 300, Some(false));
        counts.saw(1, call(0, 400), 900, Some(true));
        counts.saw(2, call(0, 0), 100, None);
        let all = counts.all[&0];
        assert_eq!(all, Count { calls: 3, errors: 1, ns: 800, longest_ns: 500 });
        assert_eq!(counts.threads[&1].calls[&0].calls, 2);
        assert_eq!(counts.threads[&2].calls[&0].errors, 0);
    }
}
