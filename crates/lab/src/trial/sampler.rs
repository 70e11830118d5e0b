//! Resident memory over time: a thread that reads it again and again while a program runs.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use freehold_model::Moment;

use super::tree::{Family, Memory, memory_of};

/// Between two samples: a share of the time so far, within these bounds. So short programs are
/// seen closely, and long ones cost little.
const SHARE: u32 = 100;
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(50);

/// Who belongs to the family is looked up less often than what they hold.
const LOOK_UP_EVERY: usize = 8;

/// Moments of a curve that are kept.
const KEPT: usize = 100;

/// The share of its peak at which memory still counts as being there.
const NEAR_PEAK: f64 = 0.95;

/// Less memory than this coming and going is nothing to watch.
const WORTH_WATCHING: u64 = 4 << 20;

/// A thread that samples.
pub(super) struct Sampler {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Samples>,
}

/// What was sampled.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Samples {
    /// In the order of time.
    pub(super) moments: Vec<Moment>,
    /// The most that any single process held, by the kernel's own count.
    pub(super) highest_bytes: u64,
    /// The most processes at once.
    pub(super) processes: u32,
}

impl Sampler {
    /// Begins to sample a family. Time counts from `start`.
    pub(super) fn start(mut family: Family, start: Instant) -> io::Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&over);
        let builder = thread::Builder::new().name("sampler".to_owned());
        let thread = builder.spawn(move || {
            let mut samples = Samples::default();
            let mut members = Vec::new();
            for count in 0.. {
                if ended.load(Ordering::Relaxed) {
                    break;
                }
                if count % LOOK_UP_EVERY == 0 {
                    members = family.members();
                }
                samples.take(&members, start.elapsed());
                thread::park_timeout((start.elapsed() / SHARE).clamp(SHORTEST, LONGEST));
            }
            samples
        })?;
        Ok(Self { over, thread })
    }

    /// What was sampled until now.
    pub(super) fn stop(self) -> Samples {
        self.over.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_default()
    }
}

impl Samples {
    fn take(&mut self, members: &[u32], time: Duration) {
        let all: Vec<Memory> =
            members.iter().map(|&pid| memory_of(pid)).filter(|own| own.rss_bytes > 0).collect();
        if all.is_empty() {
            return;
        }
        let rss_bytes = all.iter().map(|own| own.rss_bytes).sum();
        self.moments.push(Moment { seconds: time.as_secs_f64(), rss_bytes });
        let highest = all.iter().map(|own| own.peak_rss_bytes).max().unwrap_or_default();
        self.highest_bytes = self.highest_bytes.max(highest);
        self.processes = self.processes.max(all.len() as u32);
    }

    /// The most that was held at once.
    pub(super) fn peak(&self) -> u64 {
        let most = self.moments.iter().map(|moment| moment.rss_bytes).max().unwrap_or_default();
        most.max(self.highest_bytes)
    }

    /// Memory held between two times, averaged over them; between samples it is taken to go
    /// straight from one to the next.
    pub(super) fn mean(&self, from: f64, to: f64) -> u64 {
        let within = |pair: &[Moment]| {
            let [first, second] = pair else { return (0.0, 0.0) };
            let (start, end) = (first.seconds.max(from), second.seconds.min(to));
            if end <= start {
                return (0.0, 0.0);
            }
            let length = second.seconds - first.seconds;
            let at = |time: f64| {
                let share = (time - first.seconds) / length;
                first.rss_bytes as f64 * (1.0 - share) + second.rss_bytes as f64 * share
            };
            (end - start, (end - start) * f64::midpoint(at(start), at(end)))
        };
        let parts = self.moments.windows(2).map(within);
        let (time, area) = parts.fold((0.0, 0.0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
        if time > 0.0 { (area / time) as u64 } else { self.at(to).unwrap_or_default() }
    }

    /// Memory held at a time, or a moment before.
    pub(super) fn at(&self, seconds: f64) -> Option<u64> {
        let before = self.moments.iter().rev().find(|moment| moment.seconds <= seconds);
        before.or(self.moments.first()).map(|moment| moment.rss_bytes)
    }

    /// How long it took, once memory was no longer wanted, until half of what had come upon `base`
    /// was given back. It is wanted until `from`, or else for as long as it stays near its peak.
    /// `None` if that was not seen.
    pub(super) fn return_seconds(&self, base: u64, from: Option<f64>) -> Option<f64> {
        let peak = self.moments.iter().map(|moment| moment.rss_bytes).max()?;
        let came = peak.saturating_sub(base);
        if came < WORTH_WATCHING {
            return None;
        }
        let is_near = |moment: &&Moment| moment.rss_bytes as f64 >= NEAR_PEAK * peak as f64;
        let left_peak = || Some(self.moments.iter().rev().find(is_near)?.seconds);
        let from = from.or_else(left_peak)?;
        let is_back =
            |moment: &&Moment| moment.seconds >= from && moment.rss_bytes <= base + came / 2;
        Some(self.moments.iter().find(is_back)?.seconds - from)
    }

    /// The curve with few moments: of each stretch of time the highest.
    pub(super) fn thinned(&self) -> Vec<Moment> {
        let size = self.moments.len().div_ceil(KEPT).max(1);
        let highest = |stretch: &[Moment]| stretch.iter().copied().max_by_key(|own| own.rss_bytes);
        self.moments.chunks(size).filter_map(highest).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn samples(curve: &[(f64, u64)]) -> Samples {
        let moment = |&(seconds, mib): &(f64, u64)| Moment { seconds, rss_bytes: mib * MIB };
        Samples { moments: curve.iter().map(moment).collect(), ..Samples::default() }
    }

    #[test]
    fn a_mean_is_over_time_and_not_over_samples() {
        let ramp = samples(&[(0.0, 0), (0.1, 0), (0.2, 0), (1.2, 100)]);
        assert_eq!(ramp.mean(0.2, 1.2), 50 * MIB);
        assert_eq!(ramp.mean(0.7, 1.2), 75 * MIB);
        assert_eq!(samples(&[(0.5, 8)]).mean(0.0, 1.0), 8 * MIB);
    }

    #[test]
    fn memory_comes_back_when_half_of_it_has() {
        let curve = samples(&[(0.0, 10), (1.0, 110), (2.0, 110), (3.0, 80), (4.0, 60), (5.0, 10)]);
        assert_eq!(curve.return_seconds(10 * MIB, None), Some(2.0));
        assert_eq!(curve.return_seconds(10 * MIB, Some(2.5)), Some(1.5));
        let kept = samples(&[(0.0, 10), (1.0, 110), (2.0, 100)]);
        assert_eq!(kept.return_seconds(10 * MIB, Some(1.0)), None);
        let small = samples(&[(0.0, 10), (1.0, 11), (2.0, 1)]);
        assert_eq!(small.return_seconds(10 * MIB, Some(1.0)), None);
    }

    #[test]
    fn a_long_curve_is_thinned_and_keeps_its_peak() {
        let long: Vec<(f64, u64)> = (0..1000).map(|n| (f64::from(n), n as u64 % 700)).collect();
        let thinned = samples(&long).thinned();
        assert_eq!(thinned.len(), 100);
        assert_eq!(thinned.iter().map(|own| own.rss_bytes).max(), Some(699 * MIB));
    }
}
