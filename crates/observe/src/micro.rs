//! From counters to shares: where a thread's time went, as `prstat -m` puts it. Pure functions of
//! numbers; it must not know where they were read.

use std::ops::AddAssign;

use freehold_model::Shares;

/// How often a thread that did not run was seen waiting, by what for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    /// A lock or a condition: a futex.
    pub(crate) futex: u32,
    /// A page fault of what it runs.
    pub(crate) text_fault: u32,
    /// Another page fault.
    pub(crate) data_fault: u32,
    /// Anything else.
    pub(crate) other: u32,
}

impl Waits {
    /// How often a page fault.
    pub(crate) fn faults(self) -> u32 {
        self.text_fault + self.data_fault
    }

    /// How often in all.
    pub(crate) fn total(self) -> u32 {
        self.futex + self.text_fault + self.data_fault + self.other
    }
}

impl AddAssign for Waits {
    fn add_assign(&mut self, more: Self) {
        self.futex += more.futex;
        self.text_fault += more.text_fault;
        self.data_fault += more.data_fault;
        self.other += more.other;
    }
}

/// What was counted for a thread in an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// How long the interval was, in nanoseconds.
    pub(crate) wall_ns: u64,
    /// On a processor.
    pub(crate) run_ns: u64,
    /// Waiting for one.
    pub(crate) wait_ns: u64,
    /// Ticks in user mode, and in the kernel: only their proportion is used.
    pub(crate) user_ticks: u64,
    /// Ticks in the kernel.
    pub(crate) system_ticks: u64,
    /// How often it was looked at.
    pub(crate) looks: u32,
    /// What it was seen waiting for.
    pub(crate) waits: Waits,
    /// Whether it can be seen what a thread waits for.
    pub(crate) shows_waits: bool,
}

impl Counted {
    /// The time in which the thread neither ran nor wanted to, in nanoseconds.
    pub(crate) fn rest_ns(&self) -> u64 {
        self.wall_ns.saturating_sub(self.run_ns + self.wait_ns)
    }

    /// The time that each look at the waiting thread stands for, in nanoseconds.
    pub(crate) fn look_ns(&self) -> f64 {
        match self.waits.total() {
            0 => 0.0,
            looks => self.rest_ns() as f64 / f64::from(looks),
        }
    }

    /// Where the time went. The counters of a running thread lag behind its clock, so that they
    /// may come to more than the interval: then they are shares of their own sum.
    pub(crate) fn shares(&self) -> Shares {
        let whole = self.wall_ns.max(self.run_ns + self.wait_ns) as f64;
        if whole <= 0.0 {
            return Shares::default();
        }
        let run = self.run_ns as f64 / whole;
        let sys = run * self.system_share();
        let rest = self.rest_ns() as f64 / whole;
        let part = |looks: u32| f64::from(looks) * self.look_ns() / whole;
        let lck = part(self.waits.futex);
        let (tfl, dfl) = (part(self.waits.text_fault), part(self.waits.data_fault));
        Shares {
            usr: run - sys,
            sys,
            tfl: self.shows_waits.then_some(tfl),
            dfl: self.shows_waits.then_some(dfl),
            lck: self.shows_waits.then_some(lck),
            // Rounding may leave less than nothing.
            slp: (rest - lck - tfl - dfl).max(0.0),
            lat: self.wait_ns as f64 / whole,
            ..Shares::default()
        }
    }

    /// The part of the time on a processor that was spent in the kernel.
    fn system_share(&self) -> f64 {
        match self.user_ticks + self.system_ticks {
            0 => 0.0,
            all => self.system_ticks as f64 / all as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn counted() -> Counted {
        Counted {
            wall_ns: SECOND,
            run_ns: SECOND / 4,
            wait_ns: SECOND / 4,
            user_ticks: 20,
            system_ticks: 5,
            looks: 12,
            waits: Waits { futex: 3, text_fault: 1, data_fault: 1, other: 3 },
            shows_waits: true,
        }
    }

    #[test]
    fn times_are_exact_and_what_is_left_is_split_by_what_was_seen() {
        let shares = counted().shares();
        let near = |value: f64, expected: f64| assert!((value - expected).abs() < 1e-12);
        near(shares.usr, 0.2);
        near(shares.sys, 0.05);
        near(shares.lat, 0.25);
        near(shares.lck.expect("seen"), 0.5 * 3.0 / 8.0);
        near(shares.tfl.expect("seen"), 0.5 / 8.0);
        near(shares.dfl.expect("seen"), 0.5 / 8.0);
        near(shares.slp, 0.5 * 3.0 / 8.0);
        near(shares.total(), 1.0);
    }

    #[test]
    fn a_thread_that_was_never_seen_waiting_sleeps() {
        let unseen = Counted { waits: Waits::default(), ..counted() };
        assert!((unseen.shares().slp - 0.5).abs() < 1e-12);
        assert_eq!(unseen.shares().lck, Some(0.0));
    }

    #[test]
    fn what_cannot_be_seen_is_not_called_zero() {
        let hidden = Counted { waits: Waits::default(), shows_waits: false, ..counted() };
        assert_eq!((hidden.shares().lck, hidden.shares().dfl), (None, None));
        assert!((hidden.shares().total() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn counters_that_overrun_the_interval_still_add_up() {
        let over = Counted { run_ns: SECOND, wait_ns: SECOND / 2, ..counted() };
        assert!((over.shares().total() - 1.0).abs() < 1e-12);
        assert_eq!(over.rest_ns(), 0);
        assert_eq!(Counted::default().shares(), Shares::default());
    }
}
