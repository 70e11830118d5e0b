//! How often, and for how long, each thread waited for what: from looks, from the number of its
//! switches, and from the time in which it did not run. Pure functions of numbers.
//!
//! Time is exact as a sum, and divided by looks. How often is an estimate: a wait that two looks or
//! more have seen is known to be one; the switches that are left are divided among the waits that
//! were seen once, as if these were all of a length.

use std::collections::HashMap;
use std::hash::Hash;

/// What was seen of a thread's waits for one thing in an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Looks {
    /// All looks.
    all: u64,
    /// Waits that were seen once.
    once: u64,
    /// Waits that were seen more than once.
    more: u64,
}

/// The wait that a thread was last seen in.
#[derive(Debug, Clone, Copy)]
struct Current<What> {
    what: What,
    turns: Option<u64>,
    since_ns: u64,
    looks: u64,
}

/// The waits of a thread.
#[derive(Debug)]
pub(crate) struct Tally<What> {
    current: Option<Current<What>>,
    seen: HashMap<What, Looks>,
}

/// What a thread's waits for one thing come to in an interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Waited<What> {
    pub(crate) what: What,
    pub(crate) ns: f64,
    pub(crate) waits: f64,
    pub(crate) looks: u64,
}

impl<What> Default for Tally<What> {
    fn default() -> Self {
        Self { current: None, seen: HashMap::new() }
    }
}

impl<What: Copy + Eq + Hash> Tally<What> {
    /// What the thread was last seen waiting for, if it still is in the same wait.
    pub(crate) fn same_wait(&self, turns: Option<u64>) -> Option<What> {
        let current = self.current.as_ref().filter(|_| turns.is_some());
        current.filter(|current| current.turns == turns).map(|current| current.what)
    }

    /// Takes account of a look, and returns for how long this wait has been seen.
    pub(crate) fn add(&mut self, what: What, turns: Option<u64>, now_ns: u64) -> u64 {
        let is_same = self.same_wait(turns) == Some(what);
        let looks = self.seen.entry(what).or_default();
        looks.all += 1;
        match &mut self.current {
            Some(current) if is_same => {
                current.looks += 1;
                if current.looks == 2 {
                    // It may have been counted in the interval before.
                    looks.once = looks.once.saturating_sub(1);
                    looks.more += 1;
                }
                now_ns - current.since_ns
            }
            current => {
                looks.once += 1;
                *current = Some(Current { what, turns, since_ns: now_ns, looks: 1 });
                0
            }
        }
    }

    /// Ends an interval in which each look stands for `look_ns`, and in which threads were switched
    /// away from `switches` times because they had to wait: this one, and those it stands for.
    pub(crate) fn close(&mut self, look_ns: f64, switches: f64) -> Vec<Waited<What>> {
        let seen = std::mem::take(&mut self.seen);
        let more: u64 = seen.values().map(|looks| looks.more).sum();
        let once: u64 = seen.values().map(|looks| looks.once).sum();
        let left = (switches - more as f64).max(once as f64);
        let waited = seen.into_iter().map(|(what, looks)| {
            let share = if once > 0 { looks.once as f64 / once as f64 } else { 0.0 };
            let waits = looks.more as f64 + left * share;
            Waited { what, ns: looks.all as f64 * look_ns, waits, looks: looks.all }
        });
        waited.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_wait_is_one_however_often_it_is_seen() {
        let mut tally = Tally::default();
        assert_eq!(tally.add('a', Some(7), 100), 0);
        assert_eq!(tally.add('a', Some(7), 150), 50);
        assert_eq!(tally.same_wait(Some(7)), Some('a'));
        let waited = tally.close(10.0, 1.0);
        assert_eq!(waited, [Waited { what: 'a', ns: 20.0, waits: 1.0, looks: 2 }]);
        // It goes on in the next interval.
        assert_eq!(tally.add('a', Some(7), 200), 100);
        assert_eq!(tally.close(10.0, 0.0), [Waited { what: 'a', ns: 10.0, waits: 0.0, looks: 1 }]);
    }

    #[test]
    fn switches_are_divided_among_the_waits_that_were_seen_once() {
        let mut tally = Tally::default();
        for turn in 0..3 {
            tally.add('a', Some(turn), turn);
        }
        tally.add('b', Some(9), 9);
        let mut waited = tally.close(1.0, 1000.0);
        waited.sort_by_key(|waited| waited.what);
        assert_eq!((waited[0].waits, waited[1].waits), (750.0, 250.0));
    }

    #[test]
    fn a_kernel_that_does_not_count_turns_gives_no_long_waits() {
        let mut tally = Tally::default();
        tally.add('a', None, 1);
        assert_eq!(tally.same_wait(None), None);
        assert_eq!(tally.add('a', None, 2), 0);
        assert_eq!(tally.close(1.0, 0.0), [Waited { what: 'a', ns: 2.0, waits: 2.0, looks: 2 }]);
    }
}
