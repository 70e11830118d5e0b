//! `freehold top`: an interval as shares of each thread's time, or each process'.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::Duration;

use freehold_model::{Cost, TopReport, TopRow};

use crate::access::Access;
use crate::clock::seconds;
use crate::perf::tracepoint::Tracepoints;
use crate::syscalls;
use crate::target::{self, TargetError};
use crate::watch::{Interval, ThreadKey, ThreadTime, Watch};

/// What is a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// A thread.
    Thread,
    /// A process, with all its threads.
    Process,
}

/// The part of a processor that looking may take at first; and what all of observing may, once it
/// is known what reading the counters takes, but not below a quarter of it.
const BUDGET: f64 = 0.004;
const WHOLE: f64 = 0.006;
const LEAST: f64 = WHOLE / 4.0;

/// Watches where the time of a process' threads goes, and of its descendants'.
pub struct Top {
    watch: Watch,
    by: By,
    /// Whether looks are as frequent as all of observing may cost, rather than as they may.
    is_frugal: bool,
    /// How often each thread was seen waiting in which call, in this interval.
    calls: HashMap<ThreadKey, HashMap<u64, u32>>,
}

impl Top {
    /// Begins to watch a process.
    pub fn of(pid: u32, by: By) -> Result<Self, TargetError> {
        target::check(pid)?;
        let watch = Watch::counting(pid, BUDGET, Tracepoints::find());
        Ok(Self { watch, by, is_frugal: true, calls: HashMap::new() })
    }

    /// The same, but system calls and signals are not counted: to begin with that can take a tenth
    /// of a second, which is much of a short interval.
    pub fn without_counts(pid: u32, by: By) -> Result<Self, TargetError> {
        Ok(Self { is_frugal: true, ..Self::for_part(pid, by, BUDGET)? })
    }

    /// As [`Top::without_counts`], for another part of a processor.
    pub(crate) fn for_part(pid: u32, by: By, budget: f64) -> Result<Self, TargetError> {
        target::check(pid)?;
        let watch = Watch::new(pid, budget);
        Ok(Self { watch, by, is_frugal: false, calls: HashMap::new() })
    }

    /// Watches for an interval. It ends early when nothing is left to watch, or when `pause`,
    /// which waits for the given time, says so.
    pub fn interval(
        &mut self,
        duration: Duration,
        pause: &mut dyn FnMut(Duration) -> ControlFlow<()>,
    ) -> (TopReport, ControlFlow<()>) {
        let calls = &mut self.calls;
        calls.clear();
        let flow = self.watch.look_for(duration, pause, &mut |seen, _| {
            *calls.entry(seen.thread).or_default().entry(seen.call.number).or_default() += 1;
        });
        let interval = self.watch.close();
        if self.is_frugal && interval.ns > 0 {
            let fixed_ns = interval.observer_ns.saturating_sub(interval.looks_ns);
            let fixed = fixed_ns as f64 / interval.ns as f64;
            self.watch.allow((WHOLE - fixed).max(LEAST));
        }
        let rows: Vec<_> = interval.threads.iter().map(|thread| self.row(thread)).collect();
        let rows = match self.by {
            By::Thread => rows,
            By::Process => by_process(&rows),
        };
        (report(&interval, &self.watch, rows), flow)
    }

    /// The processes that are watched.
    pub(crate) fn processes(&self) -> Vec<u32> {
        self.watch.processes()
    }

    fn row(&self, thread: &ThreadTime) -> TopRow {
        let calls = self.calls.get(&(thread.pid, thread.tid)).into_iter().flatten();
        let most = calls.max_by_key(|&(&number, &times)| (times, number));
        TopRow { waits_in: most.map(|(&number, _)| syscalls::name(number)), ..row(thread) }
    }
}

/// What happened in an interval, as a report.
pub(crate) fn report(interval: &Interval, watch: &Watch, rows: Vec<TopRow>) -> TopReport {
    let access =
        Access { calls: watch.shows_calls(), times: watch.shows_times(), ..Access::of_system() };
    let length = seconds(interval.ns);
    let per_second = |value: f64| if length > 0.0 { value / length } else { 0.0 };
    TopReport {
        end_seconds: seconds(interval.end_ns),
        seconds: length,
        rows,
        unseen_cpu_seconds: seconds(interval.unseen_ns),
        sources: access.sources_of_times(interval.counted),
        missing: access.missing_times(interval.counted),
        cost: Cost {
            observer_cpus: per_second(seconds(interval.observer_ns)),
            looks_per_second: per_second(f64::from(interval.looks)),
        },
    }
}

fn row(thread: &ThreadTime) -> TopRow {
    TopRow {
        pid: thread.pid,
        tid: Some(thread.tid),
        name: thread.name.clone(),
        threads: 1,
        ended: u32::from(thread.has_ended),
        seconds: seconds(thread.counted.wall_ns),
        shares: thread.counted.shares(),
        voluntary_switches: thread.switches.voluntary,
        involuntary_switches: thread.switches.involuntary,
        minor_faults: thread.minor_faults,
        major_faults: thread.major_faults,
        system_calls: thread.counts.map(|counts| counts.calls),
        signals: thread.counts.map(|counts| counts.signals),
        ..TopRow::default()
    }
}

/// Adds the threads of each process up. Shares are weighted by the time that threads were there.
pub fn by_process(rows: &[TopRow]) -> Vec<TopRow> {
    let mut processes: Vec<TopRow> = Vec::new();
    for row in rows {
        let at = processes.iter().position(|process| process.pid == row.pid).unwrap_or_else(|| {
            processes.push(TopRow { pid: row.pid, ..TopRow::default() });
            processes.len() - 1
        });
        add(&mut processes[at], row);
    }
    for process in &mut processes {
        if process.seconds > 0.0 {
            let sum = std::mem::take(&mut process.shares);
            process.shares.add(&sum, 1.0 / process.seconds);
        }
    }
    processes
}

/// Adds a thread to its process, whose shares are still times.
fn add(process: &mut TopRow, thread: &TopRow) {
    // The thread that has the number of its process gives it its name, should it still be there.
    if process.name.is_empty() || thread.tid == Some(process.pid) {
        process.name.clone_from(&thread.name);
    }
    process.threads += 1;
    process.ended += thread.ended;
    process.seconds += thread.seconds;
    process.shares.add(&thread.shares, thread.seconds);
    process.voluntary_switches += thread.voluntary_switches;
    process.involuntary_switches += thread.involuntary_switches;
    process.minor_faults += thread.minor_faults;
    process.major_faults += thread.major_faults;
    add_known(&mut process.system_calls, thread.system_calls);
    add_known(&mut process.signals, thread.signals);
}

/// Adds a number, if it is known.
fn add_known(sum: &mut Option<u64>, more: Option<u64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or_default() + more);
    }
}

#[cfg(test)]
mod tests {
    use freehold_model::Shares;

    use super::*;

    #[test]
    fn threads_add_up_to_their_processes() {
        let thread = |pid, tid, usr, seconds| TopRow {
            pid,
            tid: Some(tid),
            name: format!("t{tid}"),
            threads: 1,
            seconds,
            shares: Shares { usr, slp: 1.0 - usr, ..Shares::default() },
            voluntary_switches: 5,
            system_calls: (tid == 1).then_some(7),
            ..TopRow::default()
        };
        let rows = [thread(1, 2, 1.0, 1.0), thread(1, 1, 0.0, 3.0), thread(9, 9, 0.5, 1.0)];
        let processes = by_process(&rows);
        assert_eq!(processes.len(), 2);
        let first = &processes[0];
        assert_eq!((first.pid, first.tid, first.threads), (1, None, 2));
        assert_eq!((first.name.as_str(), first.voluntary_switches), ("t1", 10));
        assert_eq!((first.system_calls, processes[1].system_calls), (Some(7), None));
        assert!((first.shares.usr - 0.25).abs() < 1e-12);
        assert!((first.shares.total() - 1.0).abs() < 1e-12);
    }
}
