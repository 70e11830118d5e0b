//! How long runs take, learnt from those that were made. It must not know what they are.

use std::collections::HashMap;
use std::time::Duration;

use crate::plan::Step;

/// A number of runs and the time they took.
#[derive(Debug, Clone, Copy, Default)]
struct Taken {
    runs: u32,
    time: Duration,
}

impl Taken {
    fn add(&mut self, time: Duration) {
        self.runs += 1;
        self.time += time;
    }

    fn mean(self) -> Option<Duration> {
        self.time.checked_div(self.runs)
    }
}

/// The time that runs take.
#[derive(Debug, Default)]
pub(super) struct Pace {
    cells: HashMap<(usize, usize), Taken>,
    cases: HashMap<usize, Taken>,
    all: Taken,
}

impl Pace {
    /// Takes note of a run.
    pub(super) fn note(&mut self, step: &Step, time: Duration) {
        self.cells.entry((step.case, step.allocator)).or_default().add(time);
        self.cases.entry(step.case).or_default().add(time);
        self.all.add(time);
    }

    /// How long these runs will take: as long as such runs have taken, or else those of the case,
    /// or else all; `None` before the first.
    pub(super) fn expected(&self, steps: &[Step]) -> Option<Duration> {
        let other = self.all.mean()?;
        let expected = |step: &Step| {
            let own = self.cells.get(&(step.case, step.allocator));
            let known = own.or_else(|| self.cases.get(&step.case));
            known.and_then(|taken| taken.mean()).unwrap_or(other)
        };
        Some(steps.iter().map(expected).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_run_yet_is_expected_to_take_as_long_as_what_is_most_like_it() {
        let step = |case, allocator| Step { case, allocator, round: 0 };
        let second = Duration::from_secs(1);
        let mut pace = Pace::default();
        assert_eq!(pace.expected(&[step(0, 0)]), None);
        pace.note(&step(0, 0), second);
        pace.note(&step(1, 0), 3 * second);
        assert_eq!(pace.expected(&[step(0, 0)]), Some(second));
        assert_eq!(pace.expected(&[step(1, 1)]), Some(3 * second));
        assert_eq!(pace.expected(&[step(2, 0), step(0, 1)]), Some(3 * second));
    }
}
