//! When something is done that costs the observed program as long as it goes on: for a part of the
//! time, in windows. It must not know what is done.

use std::time::Duration;

/// The part of a processor that opening and closing windows may take.
const BUDGET: f64 = 0.005;

/// Opens windows and closes them.
#[derive(Debug)]
pub(crate) struct Duty {
    /// The part of the time in which a window is open.
    share: f64,
    /// The shortest window, in nanoseconds.
    shortest_ns: u64,
    is_open: bool,
    /// Since when it has been open, or closed.
    since_ns: u64,
    /// What it takes to open and to close a window: what it took recently, and forgotten slowly.
    cost_ns: u64,
}

impl Duty {
    /// Windows of at least this length, for this part of the time.
    pub(crate) fn new(share: f64, shortest: Duration) -> Self {
        let shortest_ns = shortest.as_nanos() as u64;
        Self { share, shortest_ns, is_open: false, since_ns: 0, cost_ns: 0 }
    }

    /// Whether a window is open.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// How long the open window is, or was; or for how long none has been open.
    pub(crate) fn ns(&self, now_ns: u64) -> u64 {
        now_ns - self.since_ns
    }

    /// How long it is until a window is to be opened, or closed: nothing for the first.
    pub(crate) fn left_ns(&self, now_ns: u64) -> u64 {
        if self.since_ns == 0 {
            return 0;
        }
        let period = self.period_ns() as f64;
        let length = if self.is_open { period * self.share } else { period * (1.0 - self.share) };
        (length as u64).saturating_sub(self.ns(now_ns))
    }

    /// From now on windows are open for this part of the time, and at least this long.
    pub(crate) fn allow(&mut self, share: f64, shortest: Duration) {
        self.share = share;
        self.shortest_ns = shortest.as_nanos() as u64;
    }

    /// A window has been opened, or closed, which took so much of a processor.
    pub(crate) fn turned(&mut self, is_open: bool, now_ns: u64, took_ns: u64) {
        // One of the two takes longer: as if both did.
        self.cost_ns = (self.cost_ns / 8 * 7).max(2 * took_ns);
        self.is_open = is_open;
        self.since_ns = now_ns;
    }

    /// From the beginning of one window to that of the next.
    fn period_ns(&self) -> u64 {
        let useful = self.shortest_ns as f64 / self.share;
        useful.max(self.cost_ns as f64 / BUDGET) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn windows_are_open_for_their_part_of_the_time() {
        let mut duty = Duty::new(0.2, Duration::from_millis(20));
        assert_eq!(duty.left_ns(7 * MS), 0, "the first opens at once");
        duty.turned(true, 7 * MS, 0);
        assert_eq!(duty.left_ns(7 * MS), 20 * MS);
        assert_eq!(duty.left_ns(50 * MS), 0, "late is not early");
        duty.turned(false, 50 * MS, 0);
        assert_eq!(duty.left_ns(60 * MS), 70 * MS);
    }

    #[test]
    fn windows_that_are_dear_to_open_are_rare_and_long() {
        let mut duty = Duty::new(0.2, Duration::from_millis(20));
        duty.turned(true, MS, 5 * MS);
        assert_eq!(duty.left_ns(MS), 400 * MS);
        duty.turned(false, 401 * MS, MS);
        assert_eq!(duty.left_ns(401 * MS), 1400 * MS);
        for _ in 0..40 {
            duty.turned(false, 401 * MS, 0);
        }
        assert_eq!(duty.left_ns(401 * MS), 80 * MS, "it was an exception");
    }

    #[test]
    fn less_of_the_time_makes_windows_rarer_rather_than_shorter() {
        let mut duty = Duty::new(0.2, Duration::from_millis(20));
        duty.allow(0.02, Duration::from_millis(20));
        duty.turned(true, MS, 0);
        assert_eq!(duty.left_ns(MS), 20 * MS);
        duty.turned(false, 21 * MS, 0);
        assert_eq!(duty.left_ns(21 * MS), 980 * MS);
    }
}
