//! `freehold timeline`: where each thread's time goes over the whole of a run, in as much detail as
//! a picture can show.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::time::Duration;

use freehold_model::{
    Cost, Gap, Shares, Source, ThreadBar, TimeColumn, Timeline, TopReport, TopRow,
};

use crate::figures;
use crate::memory::resident_bytes;
use crate::target::TargetError;
use crate::top::{By, Top};

/// How long a column is at first. Whenever there are too many, two become one.
const COLUMN: Duration = Duration::from_millis(100);

/// Columns that are kept.
const MOST_COLUMNS: usize = 400;

/// The part of a processor that looking may take: a column is short, and needs some looks.
const BUDGET: f64 = 0.015;

/// Threads that are kept.
const MOST_THREADS: usize = 512;

/// Tells how many bytes processes have in use, where that is known.
pub type Live<'a> = dyn FnMut(&[u32]) -> Option<u64> + 'a;

/// Records where the time of threads goes.
pub struct Recorder<'a> {
    pid: u32,
    live: Box<Live<'a>>,
    /// Where Freehold says what it has in use, and how often that was looked for.
    signpost: Option<u64>,
    searches: u32,
    top: Top,
    timeline: Timeline,
    column: Duration,
    left_out: HashSet<u32>,
    observer_seconds: f64,
    looks: f64,
}

impl<'a> Recorder<'a> {
    /// Begins to record a process, of which `live` may tell how much memory it has in use. Where it
    /// does not, Freehold is asked, if the process has it.
    pub fn of(pid: u32, live: Box<Live<'a>>) -> Result<Self, TargetError> {
        Ok(Self {
            pid,
            live,
            signpost: None,
            searches: 0,
            top: Top::for_part(pid, By::Thread, BUDGET)?,
            timeline: Timeline::default(),
            column: COLUMN,
            left_out: HashSet::new(),
            observer_seconds: 0.0,
            looks: 0.0,
        })
    }

    /// Records for this long, or until nothing is left to record, or `pause`, which waits for the
    /// given time, says that it is enough.
    pub fn record(
        &mut self,
        duration: Option<Duration>,
        pause: &mut dyn FnMut(Duration) -> ControlFlow<()>,
    ) {
        let mut left = duration.unwrap_or(Duration::MAX);
        while !left.is_zero() {
            let length = self.column.min(left);
            left = left.saturating_sub(length);
            let (report, flow) = self.top.interval(length, pause);
            self.add(report);
            if flow.is_break() {
                break;
            }
        }
    }

    /// What was recorded.
    pub fn timeline(&self) -> Timeline {
        let seconds = self.timeline.columns.last().map_or(0.0, |last| last.end_seconds);
        let per_second = |value: f64| if seconds > 0.0 { value / seconds } else { 0.0 };
        Timeline {
            left_out: self.left_out.len() as u64,
            cost: Cost {
                observer_cpus: per_second(self.observer_seconds),
                looks_per_second: per_second(self.looks),
            },
            ..self.timeline.clone()
        }
    }

    fn add(&mut self, report: TopReport) {
        self.observer_seconds += report.cost.observer_cpus * report.seconds;
        self.looks += report.cost.looks_per_second * report.seconds;
        let at = self.timeline.columns.len();
        let processes = self.top.processes();
        let live_bytes = (self.live)(&processes).or_else(|| self.live_in_freehold());
        self.timeline.columns.push(TimeColumn {
            end_seconds: report.end_seconds,
            seconds: report.seconds,
            resident_bytes: resident_bytes(&processes),
            live_bytes,
        });
        for row in &report.rows {
            self.add_row(at, row);
        }
        for thread in &mut self.timeline.threads {
            thread.columns.resize(at + 1, None);
        }
        self.timeline.sources = report.sources;
        self.timeline.missing = report.missing;
        self.tell_live();
        if self.timeline.columns.len() > MOST_COLUMNS {
            halve(&mut self.timeline);
            self.column *= 2;
        }
    }

    fn tell_live(&mut self) {
        let Timeline { columns, sources, missing, .. } = &mut self.timeline;
        if columns.iter().any(|column| column.live_bytes.is_some()) {
            sources.push(Source::new(
                "memory in use",
                "counted calls, or Freehold's tables",
                "but for the last 64 calls of a thread; what is at Freehold's threads' hands \
                 counts as in use",
            ));
        } else {
            missing.push(Gap::allowed_by(
                "memory in use",
                "freehold timeline --count -- CMD, or running it under Freehold",
            ));
        }
    }

    /// What Freehold has in use in the process. At first it may not be there yet; later it is
    /// looked for ever more rarely, since that takes a while.
    fn live_in_freehold(&mut self) -> Option<u64> {
        if self.signpost.is_none() {
            self.searches += 1;
            if !self.searches.is_power_of_two() {
                return None;
            }
            self.signpost = figures::locate_freehold(self.pid);
        }
        Some(figures::read_freehold(self.pid, self.signpost?)?.live_bytes())
    }

    fn add_row(&mut self, at: usize, row: &TopRow) {
        let threads = &mut self.timeline.threads;
        let tid = row.tid.unwrap_or(row.pid);
        // A number is used again only long after its thread has ended: the last one is meant.
        let known = threads.iter().rposition(|own| (own.pid, own.tid) == (row.pid, tid));
        if known.is_none() && threads.len() >= MOST_THREADS {
            self.left_out.insert(tid);
            return;
        }
        let index = known.unwrap_or_else(|| {
            threads.push(ThreadBar { pid: row.pid, tid, ..ThreadBar::default() });
            threads.len() - 1
        });
        let thread = &mut threads[index];
        thread.name.clone_from(&row.name);
        thread.columns.resize(at, None);
        thread.columns.push((row.seconds > 0.0).then_some(row.shares));
    }
}

/// Makes two columns one.
fn halve(timeline: &mut Timeline) {
    let lengths: Vec<f64> = timeline.columns.iter().map(|column| column.seconds).collect();
    for thread in &mut timeline.threads {
        let pairs = thread.columns.chunks(2).zip(lengths.chunks(2));
        thread.columns = pairs.map(|(shares, lengths)| mean(shares, lengths)).collect();
    }
    let pairs = timeline.columns.chunks(2);
    timeline.columns = pairs
        .filter_map(|pair| {
            let seconds = pair.iter().map(|column| column.seconds).sum();
            Some(TimeColumn { seconds, ..*pair.last()? })
        })
        .collect();
}

/// The mean of shares, weighted by time, where there were any.
fn mean(shares: &[Option<Shares>], lengths: &[f64]) -> Option<Shares> {
    let there =
        || shares.iter().zip(lengths).filter_map(|(own, length)| Some((own.as_ref()?, length)));
    let whole: f64 = there().map(|(_, length)| length).sum();
    if whole <= 0.0 {
        return None;
    }
    let mut mean = Shares::default();
    for (own, length) in there() {
        mean.add(own, length / whole);
    }
    Some(mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(end_seconds: f64, seconds: f64) -> TimeColumn {
        TimeColumn { end_seconds, seconds, resident_bytes: 7, live_bytes: Some(5) }
    }

    #[test]
    fn two_columns_become_one_weighted_by_their_length() {
        let running = Shares { usr: 1.0, ..Shares::default() };
        let asleep = Shares { slp: 1.0, ..Shares::default() };
        let bar = |columns| ThreadBar { columns, ..ThreadBar::default() };
        let mut timeline = Timeline {
            columns: vec![column(1.0, 1.0), column(4.0, 3.0), column(5.0, 1.0)],
            threads: vec![
                bar(vec![Some(running), Some(asleep), Some(running)]),
                bar(vec![None, Some(running), None]),
            ],
            ..Timeline::default()
        };
        halve(&mut timeline);
        assert_eq!(timeline.columns, [column(4.0, 4.0), column(5.0, 1.0)]);
        let mixed = Shares { usr: 0.25, slp: 0.75, ..Shares::default() };
        assert_eq!(timeline.threads[0].columns, [Some(mixed), Some(running)]);
        assert_eq!(timeline.threads[1].columns, [Some(running), None]);
    }
}
