//! The time in which threads neither ran nor wanted to, divided by looks at them. Pure functions of
//! numbers.
//!
//! How long a thread rested is known exactly; what for, only of those that a look has seen at rest.
//! Where looks are rare, threads that wait often but shortly are mostly not seen, while one that
//! sleeps always is. So what was not seen is given to those that were, by how likely they were to
//! be missed as well. What is left then nobody knows.

use crate::micro::Counted;

/// The rest of a thread, and looks at it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Rest {
    ns: u64,
    /// The time that it is a part of.
    wall_ns: u64,
    /// Looks at the thread, and those of them that saw it at rest.
    looks: u32,
    seen: u32,
}

impl Rest {
    /// What was counted in an interval.
    pub(crate) fn of(counted: &Counted) -> Self {
        Self {
            ns: counted.rest_ns(),
            wall_ns: counted.wall_ns,
            looks: counted.looks,
            seen: counted.waits.total(),
        }
    }

    /// As one with the interval before.
    pub(crate) fn after(self, before: Self) -> Self {
        Self {
            ns: self.ns + before.ns,
            wall_ns: self.wall_ns + before.wall_ns,
            looks: self.looks + before.looks,
            seen: self.seen + before.seen,
        }
    }

    /// Whether nobody has looked at the thread yet.
    pub(crate) fn is_open(&self) -> bool {
        self.looks == 0
    }

    /// The time that each look at the resting thread stands for, in nanoseconds.
    pub(crate) fn look_ns(&self) -> f64 {
        if self.seen > 0 { self.ns as f64 / f64::from(self.seen) } else { 0.0 }
    }

    /// How long, for each time that this thread was seen at rest, one like it rested that was not.
    fn missed_ns(&self) -> f64 {
        if self.seen == 0 || self.ns == 0 {
            return 0.0;
        }
        let part = (self.ns as f64 / self.wall_ns as f64).min(1.0);
        let missed = (1.0 - part).powi(self.looks.cast_signed());
        self.ns as f64 * missed / (1.0 - missed)
    }
}

/// How many times as long as it rested itself each thread stands for.
pub(crate) fn factors(rests: &[Rest]) -> Vec<f64> {
    let unseen: u64 = rests.iter().filter(|rest| rest.seen == 0).map(|rest| rest.ns).sum();
    let missed: f64 = rests.iter().map(Rest::missed_ns).sum();
    let given = if missed > 0.0 { (unseen as f64 / missed).min(1.0) } else { 0.0 };
    let factor = |rest: &Rest| 1.0 + given * rest.missed_ns() / (rest.ns as f64).max(1.0);
    rests.iter().map(factor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A thread that was looked at four times in half a second.
    fn rest(ms: u64, seen: u32) -> Rest {
        Rest { ns: ms * MS, wall_ns: 500 * MS, looks: 4, seen }
    }

    fn stood_for(rests: &[Rest]) -> Vec<f64> {
        let ns = |(rest, factor): (&Rest, f64)| rest.ns as f64 * factor / MS as f64;
        rests.iter().zip(factors(rests)).map(ns).collect()
    }

    #[test]
    fn a_thread_that_was_seen_stands_for_those_like_it_that_were_not() {
        // A fifth of the time: four looks miss 0.8⁴ of them.
        let rests: Vec<_> = (0..1000).map(|n| rest(100, u32::from(n >= 410))).collect();
        let seen: f64 = stood_for(&rests)[410..].iter().sum();
        assert!((seen - 100_000.0).abs() < 200.0, "{seen} ms of 100 s");
    }

    #[test]
    fn a_thread_that_sleeps_all_the_time_stands_for_itself_alone() {
        let found = stood_for(&[rest(500, 4), rest(100, 1), rest(100, 0)]);
        assert!((found[0] - 500.0).abs() < 1e-9, "{found:?}");
        assert!(found[1] > 150.0 && found[1] <= 200.0, "{found:?}");
    }

    #[test]
    fn no_more_is_given_than_there_is_and_nothing_by_one_that_cannot_have_been_missed() {
        let all: f64 = stood_for(&[rest(100, 1), rest(100, 2), rest(10, 0)]).iter().sum();
        assert!(
            (all - 220.0).abs() < 1e-9,
            "210 ms, of which the last 10 were counted twice: {all}"
        );
        assert_eq!(factors(&[rest(500, 4), rest(400, 0)]), [1.0, 1.0]);
        // Counters may say that a thread which was seen at rest has not rested.
        assert_eq!(factors(&[rest(0, 1), rest(0, 0)]), [1.0, 1.0]);
    }

    #[test]
    fn an_interval_without_a_look_is_one_with_the_next() {
        let unseen = Rest { looks: 0, ..rest(80, 0) };
        assert!(unseen.is_open() && !rest(80, 0).is_open());
        let both = rest(20, 1).after(unseen);
        assert_eq!(both, Rest { ns: 100 * MS, wall_ns: 1000 * MS, looks: 4, seen: 1 });
    }
}
