//! How calls, live bytes and resident memory grew while a run was measured: readings at equal
//! distances, as many as fit. It must not know who takes them.

use std::io;
use std::time::Duration;

use crate::mapping::{Mapping, Zeroed};

/// The most readings. When there are more, every second one is dropped.
const ROOM: usize = 256;

/// A reading.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    /// When it was taken, from the beginning of the measurement.
    pub at: Duration,
    /// Calls made until then, those before the measurement included.
    pub calls: u64,
    /// Requested bytes not yet freed.
    pub live_bytes: u64,
    /// Resident memory.
    pub rss_bytes: u64,
}

// SAFETY: integers, and a duration, which is two of them.
unsafe impl Zeroed for Reading {}

/// The readings so far, kept where taking one needs no `malloc`.
pub(crate) struct Timeline {
    readings: Mapping<Reading>,
    len: usize,
    every: Duration,
}

impl Timeline {
    /// None so far, to be taken this often at first.
    pub(crate) fn new(every: Duration) -> io::Result<Self> {
        Ok(Self { readings: Mapping::resident(ROOM)?, len: 0, every })
    }

    /// Whether it is time for another.
    pub(crate) fn is_due(&self, at: Duration) -> bool {
        at >= self.next_due()
    }

    /// When the next one is due, from the beginning of the measurement.
    pub(crate) fn next_due(&self) -> Duration {
        self.readings().last().map_or(Duration::ZERO, |last| last.at + self.every)
    }

    pub(crate) fn push(&mut self, reading: Reading) {
        if self.len == ROOM {
            for kept in 0..ROOM / 2 {
                self.readings[kept] = self.readings[2 * kept];
            }
            self.len = ROOM / 2;
            self.every *= 2;
        }
        self.readings[self.len] = reading;
        self.len += 1;
    }

    pub(crate) fn readings(&self) -> &[Reading] {
        &self.readings[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_keeps_readings_from_all_of_it_at_equal_distances() {
        let mut timeline = Timeline::new(Duration::from_millis(10)).expect("maps");
        for ms in 0..100_000 {
            let at = Duration::from_millis(ms);
            if timeline.is_due(at) {
                timeline.push(Reading { at, ..Reading::default() });
            }
        }
        let readings = timeline.readings();
        assert!((ROOM / 2..=ROOM).contains(&readings.len()), "{}", readings.len());
        assert_eq!(readings[0].at, Duration::ZERO);
        let distance = readings[1].at;
        assert!(readings.windows(2).all(|pair| pair[1].at == pair[0].at + distance));
        assert!(readings[readings.len() - 1].at + distance >= Duration::from_millis(99_999));
    }
}
