//! What happens while the kernel records it, and what that comes to for all of the time: what was
//! not recorded is taken to be as what was recorded next, if that happens most of the time; what
//! happened once is not taken to go on. Pure bookkeeping.

use crate::clock;

/// What is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A thread began.
    Thread,
    /// And was the first of a process.
    Process,
    /// A thread began for one that had ended before: as many of those that begin as have ended
    /// since recording began.
    Successor,
    /// An anonymous mapping was made.
    Mapping,
}

const KINDS: usize = 4;

/// How often something was recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Count {
    /// Since recording began the last time.
    now: u64,
    /// Before, as recorded, and with the gaps between.
    counted: f64,
    whole: f64,
    /// In how many spells of recording it happened.
    spells: u32,
}

impl Count {
    /// A spell of recording ends that stands for so many times its length.
    fn end(&mut self, scale: f64) {
        let now = std::mem::take(&mut self.now);
        self.counted += now as f64;
        self.whole += now as f64 * scale;
        self.spells += u32::from(now > 0);
    }
}

/// What was recorded.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Recorded {
    counts: [Count; KINDS],
    spells: u32,
    /// Threads that have ended, and that none has begun for.
    ended: u64,
    /// The time that counts are of, in nanoseconds, and the part of it that was recorded.
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

    /// A thread began.
    pub(crate) fn begin_thread(&mut self) {
        self.add(Event::Thread);
        if let Some(others) = self.ended.checked_sub(1) {
            self.ended = others;
            self.add(Event::Successor);
        }
    }

    /// A thread ended.
    pub(crate) fn end_thread(&mut self) {
        self.ended += 1;
    }

    /// Something was recorded.
    pub(crate) fn add(&mut self, event: Event) {
        self.counts[event as usize].now += 1;
    }

    /// Recording ends.
    pub(crate) fn end(&mut self, now_ns: u64) {
        let (recorded, covered) = (now_ns - self.since_ns, now_ns - self.from_ns);
        let scale = if recorded > 0 { covered as f64 / recorded as f64 } else { 1.0 };
        for count in &mut self.counts {
            count.end(scale);
        }
        self.spells += 1;
        self.covered_ns += covered;
        self.watched_ns += recorded;
        self.from_ns = now_ns;
    }

    /// How often something happened a second, as far as is known.
    pub(crate) fn rate(&self, event: Event) -> f64 {
        let count = &self.counts[event as usize];
        let goes_on = 2 * count.spells > self.spells;
        let happened = if goes_on { count.whole } else { count.counted };
        if self.covered_ns > 0 { happened / clock::seconds(self.covered_ns) } else { 0.0 }
    }

    /// The part of the time that was recorded.
    pub(crate) fn share(&self) -> f64 {
        if self.covered_ns > 0 { self.watched_ns as f64 / self.covered_ns as f64 } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Recording from one time to another, in which something happened so often.
    fn record(recorded: &mut Recorded, from_ms: u64, to_ms: u64, event: Event, times: u32) {
        recorded.begin(from_ms * MS);
        (0..times).for_each(|_| recorded.add(event));
        recorded.end(to_ms * MS);
    }

    fn is(rate: f64, expected: f64) {
        assert!((rate - expected).abs() < 1e-9, "{rate}, not {expected}");
    }

    #[test]
    fn what_was_recorded_all_the_time_is_exact() {
        let mut recorded = Recorded::default();
        record(&mut recorded, 100, 600, Event::Thread, 7);
        is(recorded.rate(Event::Thread), 14.0);
        is(recorded.rate(Event::Process), 0.0);
        is(recorded.share(), 1.0);
    }

    #[test]
    fn a_gap_counts_as_what_was_recorded_after_it() {
        let mut recorded = Recorded::default();
        record(&mut recorded, 100, 600, Event::Mapping, 100);
        record(&mut recorded, 1080, 1100, Event::Mapping, 5);
        // 100, and 5 of 20 ms in 500, in a second of which 520 ms were recorded.
        is(recorded.rate(Event::Mapping), 225.0);
        is(recorded.share(), 0.52);
    }

    #[test]
    fn what_happened_once_is_not_taken_to_go_on() {
        let mut recorded = Recorded::default();
        record(&mut recorded, 100, 600, Event::Mapping, 1);
        // Eight threads begin, all of them while it is recorded.
        record(&mut recorded, 1080, 1100, Event::Thread, 8);
        is(recorded.rate(Event::Thread), 8.0);
        is(recorded.rate(Event::Mapping), 1.0);
    }

    #[test]
    fn threads_succeed_others_only_after_these_have_ended() {
        let mut recorded = Recorded::default();
        recorded.begin(100 * MS);
        (0..1000).for_each(|_| recorded.begin_thread());
        (0..10).for_each(|_| recorded.end_thread());
        (0..30).for_each(|_| recorded.begin_thread());
        (0..1020).for_each(|_| recorded.end_thread());
        recorded.end(1100 * MS);
        is(recorded.rate(Event::Thread), 1030.0);
        is(recorded.rate(Event::Successor), 10.0);
    }

    #[test]
    fn nothing_recorded_is_nothing_known() {
        is(Recorded::default().rate(Event::Thread), 0.0);
    }
}
