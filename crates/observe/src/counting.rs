//! How the system calls and signals of threads are counted: all of them while that is cheap, and
//! those of a short window in each interval where the program makes so many that counting them
//! would slow it down.

use std::time::Duration;

use crate::perf::tracepoint::{Counters, Counts, Tracepoints};

/// So many system calls a second are all counted: each takes some tenths of a microsecond longer.
const AFFORDED: f64 = 100_000.0;

/// How long a window is.
const WINDOW: Duration = Duration::from_millis(20);

/// After how long it is seen whether windows are needed, the first time: a program that is starting
/// makes many calls, and soon fewer.
const TRIAL: Duration = Duration::from_millis(200);

/// How system calls and signals are counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Precision {
    /// Not at all.
    #[default]
    None,
    /// Each.
    Exact,
    /// Those in a window.
    Estimate,
}

/// When counters are open.
pub(crate) struct Policy {
    tracepoints: Option<Tracepoints>,
    in_windows: bool,
    began_ns: u64,
    /// When the open window ends; without windows, when it is to be seen whether they are needed.
    until_ns: Option<u64>,
}

/// The counts of one thread.
#[derive(Default)]
pub(crate) struct Counting {
    /// What counts, what it said at the beginning of the interval, and since when that is.
    open: Option<(Counters, Counts, u64)>,
    /// What a window of this interval counted, and how much longer each call took meanwhile.
    window: Option<(Counts, f64)>,
}

impl Policy {
    /// Counts at these tracepoints, if there are any, from now on.
    pub(crate) fn new(tracepoints: Option<Tracepoints>, now_ns: u64) -> Self {
        let until_ns = tracepoints.is_some().then(|| now_ns + TRIAL.as_nanos() as u64);
        Self { tracepoints, in_windows: false, began_ns: now_ns, until_ns }
    }

    /// How precise counts are.
    pub(crate) fn precision(&self) -> Precision {
        match (self.tracepoints, self.in_windows) {
            (None, _) => Precision::None,
            (_, false) => Precision::Exact,
            (_, true) => Precision::Estimate,
        }
    }

    /// Begins to count what a new thread does; in windows it has to wait for the next.
    pub(crate) fn begin(&self, counting: &mut Counting, tid: u32, now_ns: u64) {
        if !self.in_windows {
            self.open(counting, tid, now_ns);
        }
    }

    fn open(&self, counting: &mut Counting, tid: u32, now_ns: u64) {
        let Some(tracepoints) = self.tracepoints else { return };
        let counters = Counters::open(tracepoints, tid);
        counting.open = counters.map(|counters| (counters, Counts::default(), now_ns));
    }

    /// Opens the window of an interval that begins.
    pub(crate) fn open_window<'a>(
        &mut self,
        threads: impl Iterator<Item = (u32, &'a mut Counting)>,
        now_ns: u64,
    ) {
        if self.in_windows && self.until_ns.is_none() {
            threads.for_each(|(tid, counting)| self.open(counting, tid, now_ns));
            self.until_ns = Some(now_ns + WINDOW.as_nanos() as u64);
        }
    }

    /// When `close_window` is to be called.
    pub(crate) fn until_ns(&self) -> u64 {
        self.until_ns.unwrap_or(u64::MAX)
    }

    /// Ends the open window. Without windows, begins with them if calls are many.
    pub(crate) fn close_window<'a>(
        &mut self,
        threads: impl Iterator<Item = &'a mut Counting>,
        now_ns: u64,
    ) {
        // A program that is still beginning is looked at soon again.
        let again = now_ns + (now_ns - self.began_ns);
        let mut rate = 0.0;
        let threads: Vec<_> = threads.inspect(|counting| rate += counting.rate(now_ns)).collect();
        self.in_windows |= rate > AFFORDED;
        self.until_ns = (!self.in_windows).then_some(again);
        let call_ns = self.tracepoints.map_or(0.0, |tracepoints| tracepoints.call_ns());
        if self.in_windows {
            for counting in threads {
                counting.close(call_ns);
            }
        }
    }

    /// An interval of this length ends, in which so many calls were made: windows are for the next
    /// one if they were many, and no longer if they were few.
    pub(crate) fn close_interval<'a>(
        &mut self,
        threads: impl Iterator<Item = (u32, &'a mut Counting)>,
        calls: u64,
        interval_ns: u64,
        now_ns: u64,
    ) {
        let rate = calls as f64 * 1e9 / interval_ns.max(1) as f64;
        if !self.in_windows && rate > AFFORDED {
            self.in_windows = true;
            self.until_ns = None;
            threads.for_each(|(_, counting)| *counting = Counting::default());
        } else if self.in_windows && rate < AFFORDED / 2.0 {
            self.in_windows = false;
            self.until_ns = None;
            threads.for_each(|(tid, counting)| self.open(counting, tid, now_ns));
        }
    }
}

impl Counting {
    /// What was counted of an interval in which the thread ran for so long, and which ends. A
    /// thread that has not moved since it began did nothing.
    pub(crate) fn counts(&mut self, has_moved: bool, run_ns: u64, now_ns: u64) -> Option<Counts> {
        let window = self.window.take();
        if !has_moved {
            return (window.is_some() || self.open.is_some()).then(Counts::default);
        }
        if let Some((counts, call_ns)) = window {
            return counts.of_a_run(run_ns, call_ns);
        }
        let (counters, before, since_ns) = self.open.as_mut()?;
        let now = counters.counts()?;
        *since_ns = now_ns;
        Some(now.since(std::mem::replace(before, now)))
    }

    /// Calls a second since the counters were opened, or the interval began.
    fn rate(&self, now_ns: u64) -> f64 {
        let Some((counters, before, since_ns)) = &self.open else { return 0.0 };
        let counts = counters.counts().unwrap_or_default().since(*before);
        counts.calls as f64 * 1e9 / (now_ns - since_ns).max(1) as f64
    }

    /// Keeps what was counted, and counts no more.
    fn close(&mut self, call_ns: f64) {
        let Some((counters, before, _)) = self.open.take() else { return };
        let counted = counters.counts().map(|counts| counts.since(before));
        self.window = counted.map(|counts| (counts, call_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn windows_come_with_many_calls_and_go_with_few() {
        let mut policy = Policy::new(None, 0);
        let mut after = |calls| {
            policy.close_interval(std::iter::empty(), calls, SECOND_NS, SECOND_NS);
            policy.in_windows
        };
        let afforded = AFFORDED as u64;
        assert!(!after(afforded));
        assert!(after(afforded + 1));
        assert!(after(afforded / 2), "they do not come and go with every interval");
        assert!(!after(afforded / 2 - 1));
    }

    #[test]
    fn it_is_seen_again_whether_windows_are_needed_after_twice_the_time() {
        let mut policy = Policy::new(None, 0);
        policy.close_window(std::iter::empty(), SECOND_NS);
        assert_eq!(policy.until_ns(), 2 * SECOND_NS);
        policy.in_windows = true;
        policy.close_window(std::iter::empty(), 2 * SECOND_NS);
        assert_eq!(policy.until_ns(), u64::MAX, "the next opens with the next interval");
        policy.open_window(std::iter::empty(), 3 * SECOND_NS);
        assert_eq!(policy.until_ns(), 3 * SECOND_NS + WINDOW.as_nanos() as u64);
    }
}
