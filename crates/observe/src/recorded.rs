//! What happens while the kernel records it, and what that comes to for all of the time: what was
//! not recorded is taken to be as what was recorded next. Pure bookkeeping.

use crate::clock;

/// How much happened.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Events {
    /// Threads that began.
    pub(crate) threads: f64,
    /// Anonymous mappings that were made.
    pub(crate) mappings: f64,
}

/// What was recorded.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Recorded {
    /// Since recording began the last time.
    now: Events,
    /// Before, and in the gaps between.
    before: Events,
    /// The time that `before` is of, in nanoseconds, and the part of it that was recorded.
    covered_ns: u64,
    watched_ns: u64,
    /// Where the time that nothing is known of begins, and when recording began.
    from_ns: u64,
    since_ns: u64,
}

impl Recorded {
    /// Recording begins, after a gap or for the first time.
    pub(crate) fn begin(&mut self, now_ns: u64) {
        self.since_ns = now_ns;
        if self.from_ns == 0 {
            self.from_ns = now_ns;
        }
    }

    /// Something was recorded.
    pub(crate) fn add(&mut self, threads: u64, mappings: u64) {
        self.now.threads += threads as f64;
        self.now.mappings += mappings as f64;
    }

    /// Recording ends.
    pub(crate) fn end(&mut self, now_ns: u64) {
        let (recorded, covered) = (now_ns - self.since_ns, now_ns - self.from_ns);
        let scale = if recorded > 0 { covered as f64 / recorded as f64 } else { 1.0 };
        let now = std::mem::take(&mut self.now);
        self.before.threads += now.threads * scale;
        self.before.mappings += now.mappings * scale;
        self.covered_ns += covered;
        self.watched_ns += recorded;
        self.from_ns = now_ns;
    }

    /// What happened a second, as far as is known.
    pub(crate) fn rates(&self) -> Events {
        let rate = |count: f64| if self.covered_ns > 0 { count / self.seconds() } else { 0.0 };
        Events { threads: rate(self.before.threads), mappings: rate(self.before.mappings) }
    }

    /// The part of the time that was recorded.
    pub(crate) fn share(&self) -> f64 {
        if self.covered_ns > 0 { self.watched_ns as f64 / self.covered_ns as f64 } else { 1.0 }
    }

    fn seconds(&self) -> f64 {
        clock::seconds(self.covered_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn what_was_recorded_all_the_time_is_exact() {
        let mut recorded = Recorded::default();
        recorded.begin(100 * MS);
        recorded.add(7, 3);
        recorded.end(600 * MS);
        assert_eq!(recorded.rates(), Events { threads: 14.0, mappings: 6.0 });
        assert!((recorded.share() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_gap_counts_as_what_was_recorded_after_it() {
        let mut recorded = Recorded::default();
        recorded.begin(100 * MS);
        // Eight threads begin with the program, and none later.
        recorded.add(8, 0);
        recorded.end(600 * MS);
        recorded.begin(1080 * MS);
        recorded.add(0, 5);
        recorded.end(1100 * MS);
        // 8 threads, and 5 mappings of 20 ms in 500, in a second of which 520 ms were recorded.
        assert_eq!(recorded.rates(), Events { threads: 8.0, mappings: 125.0 });
        assert!((recorded.share() - 0.52).abs() < 1e-9);
    }

    #[test]
    fn nothing_recorded_is_nothing_known() {
        assert_eq!(Recorded::default().rates(), Events::default());
    }
}
