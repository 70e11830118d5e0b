//! Keeping threads together: how far each may be ahead of the others, and how many bytes are alive.
//!
//! Time is cut into slices. A thread that goes on to a slice says that it is through with the one
//! before; a slice that all its threads are through with is complete, and a thread may be a few
//! slices ahead of the first that is not.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use freehold_trace::script::LEAD;

use crate::futex;
use crate::mapping::Mapping;

/// Nobody waits for any slice.
const NONE: u32 = u32::MAX;

/// Looks before a waiting thread sleeps.
const LOOKS: u32 = 20;

/// The slices.
pub(super) struct Pace {
    /// How many threads are not yet through with a slice.
    left: Mapping<AtomicU32>,
    /// How many slices are complete, all before them included.
    complete: AtomicU32,
    /// The least number of complete slices that anybody sleeps for, or [`NONE`].
    wanted: AtomicU32,
    /// Goes up with every waking: what sleepers sleep on.
    wakings: AtomicU32,
    stopped: AtomicBool,
    live: AtomicI64,
    peak: AtomicI64,
}

impl Pace {
    /// So many slices, each with as many threads as `threads` says.
    pub(super) fn new(slices: u32, threads: impl Fn(usize) -> u32) -> io::Result<Self> {
        Ok(Self {
            left: Mapping::filled(slices as usize, |slice| AtomicU32::new(threads(slice)))?,
            complete: AtomicU32::new(0),
            wanted: AtomicU32::new(NONE),
            wakings: AtomicU32::new(0),
            stopped: AtomicBool::new(false),
            live: AtomicI64::new(0),
            peak: AtomicI64::new(0),
        })
    }

    pub(super) fn mapped_bytes(&self) -> usize {
        self.left.bytes()
    }

    /// Bytes alive, as far as they have been told.
    pub(super) fn live_bytes(&self) -> u64 {
        self.live.load(Ordering::Relaxed).max(0) as u64
    }

    /// The most bytes alive.
    pub(super) fn peak_bytes(&self) -> u64 {
        self.peak.load(Ordering::Relaxed).max(0) as u64
    }

    /// Whether a slice may be begun.
    pub(super) fn is_open(&self, slice: u32) -> bool {
        // SeqCst: see `wake`. It also pairs with the release of who completed the slices before.
        self.complete.load(Ordering::SeqCst) >= slice.saturating_sub(LEAD)
    }

    /// Whether all slices are complete, or there is no sense in going on.
    pub(super) fn is_over(&self) -> bool {
        self.is_stopped() || self.complete.load(Ordering::Acquire) as usize == self.left.len()
    }

    /// Whether there is no sense in going on.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// There is no sense in going on.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.wakings.fetch_add(1, Ordering::SeqCst);
        futex::wake_all(&self.wakings);
    }

    /// A thread is through with a slice, in which it has changed the bytes alive by so many.
    pub(super) fn leave(&self, slice: u32, change: i64) {
        // Relaxed: these are numbers, and say nothing of other memory.
        let live = self.live.fetch_add(change, Ordering::Relaxed) + change;
        if live > self.peak.load(Ordering::Relaxed) {
            self.peak.fetch_max(live, Ordering::Relaxed);
        }
        let Some(left) = self.left.get(slice as usize) else { return };
        // Release and Acquire: what was done in a slice happens before what is done in those that
        // begin after it.
        if left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.complete_more();
        }
    }

    /// Counts the complete slices, as far as they follow on one another.
    fn complete_more(&self) {
        loop {
            let complete = self.complete.load(Ordering::SeqCst);
            let is_next = |left: &AtomicU32| left.load(Ordering::Acquire) == 0;
            if !self.left.get(complete as usize).is_some_and(is_next) {
                return;
            }
            let counted = self.complete.compare_exchange(
                complete,
                complete + 1,
                Ordering::SeqCst,
                Ordering::SeqCst,
            );
            if counted.is_ok() {
                self.wake(complete + 1);
            }
        }
    }

    /// Wakes those who sleep for at most so many complete slices.
    ///
    /// Sequentially consistent, as in `wait_for`: either this thread sees what a sleeper has
    /// written down, or the sleeper sees that there are more complete slices. Who wakes takes
    /// everything out that was written down, also by somebody who does not sleep yet: he finds that
    /// there was a waking since he began, and begins anew.
    fn wake(&self, complete: u32) {
        if self.wanted.load(Ordering::SeqCst) > complete {
            return;
        }
        self.wanted.store(NONE, Ordering::SeqCst);
        self.wakings.fetch_add(1, Ordering::SeqCst);
        futex::wake_all(&self.wakings);
    }

    /// Waits until a slice may be begun; returns how long that took.
    pub(super) fn enter(&self, slice: u32) -> Duration {
        if self.is_open(slice) {
            return Duration::ZERO;
        }
        let start = Instant::now();
        for _ in 0..LOOKS {
            thread::yield_now();
            if self.is_open(slice) {
                return start.elapsed();
            }
        }
        while !self.is_open(slice) && !self.is_stopped() {
            self.wait_for(slice, None);
        }
        start.elapsed()
    }

    /// Sleeps until a slice may be begun, or for `time`; may return early.
    pub(super) fn wait_for(&self, slice: u32, time: Option<Duration>) {
        let wakings = self.wakings.load(Ordering::SeqCst);
        self.wanted.fetch_min(slice.saturating_sub(LEAD), Ordering::SeqCst);
        if !self.is_open(slice) && !self.is_stopped() {
            futex::wait(&self.wakings, wakings, time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_complete_in_their_order_only() {
        let pace = Pace::new(3, |_| 1).expect("maps");
        assert!(pace.is_open(LEAD) && !pace.is_open(LEAD + 1));
        pace.leave(1, 0);
        assert!(!pace.is_open(LEAD + 1));
        pace.leave(0, 0);
        assert!(pace.is_open(LEAD + 2) && !pace.is_open(LEAD + 3));
        pace.leave(2, 0);
        assert!(pace.is_over());
    }

    #[test]
    fn the_most_bytes_alive_are_remembered() {
        let pace = Pace::new(3, |_| 1).expect("maps");
        pace.leave(0, 700);
        pace.leave(1, -300);
        pace.leave(2, 100);
        assert_eq!((pace.live_bytes(), pace.peak_bytes()), (500, 700));
    }

    #[test]
    fn threads_that_wait_for_each_other_all_come_through() {
        const THREADS: u32 = 4;
        const SLICES: u32 = 20_000;
        let pace = Pace::new(SLICES, |_| THREADS).expect("maps");
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for slice in 0..SLICES {
                        pace.enter(slice);
                        let behind = pace.complete.load(Ordering::Relaxed);
                        assert!(slice <= behind + LEAD);
                        pace.leave(slice, 1);
                    }
                });
            }
        });
        assert!(pace.is_over());
        assert_eq!(pace.live_bytes(), u64::from(THREADS * SLICES));
    }
}
