//! What all threads of a run share: what was asked for, who has done what, and whether it is over.
//! It must not know what the harness does.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::error::Error;
use crate::mapping::{Mapping, Zeroed};
use crate::rng::Rng;
use crate::settings::Settings;
use crate::sharing::Lines;
use crate::tally::Tally;
use crate::worker::{Halt, Worker};

/// What the threads of a run share.
pub(crate) struct Session {
    /// Threads that work, besides the one that leads them.
    pub(crate) threads: u32,
    pub(crate) seed: u64,
    pub(crate) settle: Duration,
    /// Whether contents are checked.
    pub(crate) verifies: bool,
    /// The account of cache lines, if blocks on shared ones are to be counted.
    pub(crate) lines: Option<Lines>,
    /// One for each thread, and the last for the leader.
    pub(crate) tallies: Mapping<Tally>,
    /// Relaxed: it carries no data, and being seen a little later only makes a run a little longer.
    stop: AtomicBool,
    failure: Mutex<Option<Error>>,
    verified: AtomicU64,
    peak_live_bytes: AtomicU64,
    harness_bytes: AtomicU64,
}

impl Session {
    pub(crate) fn new(settings: &Settings) -> Result<Self, Error> {
        let threads = settings.threads();
        let lines = settings.flag("false-sharing").then(Lines::new).transpose();
        Ok(Self {
            threads,
            seed: settings.count("seed"),
            settle: settings.duration("settle"),
            verifies: settings.flag("verify"),
            lines: lines.map_err(Error::Map)?,
            tallies: Mapping::zeroed(threads as usize + 1).map_err(Error::Map)?,
            stop: AtomicBool::new(false),
            failure: Mutex::new(None),
            verified: AtomicU64::new(0),
            peak_live_bytes: AtomicU64::new(0),
            harness_bytes: AtomicU64::new(0),
        })
    }

    /// Whether a block's allocation and its end have to be looked at.
    #[inline]
    pub(crate) fn is_checked(&self) -> bool {
        self.verifies || self.lines.is_some()
    }

    /// The worker of this number. `generation` counts those who had the number before.
    pub(crate) fn worker(&self, number: u32, generation: u64) -> Worker<'_> {
        Worker {
            number,
            rng: Rng::for_thread(self.seed.wrapping_add(generation), number),
            session: self,
            tally: &self.tallies[number as usize],
        }
    }

    /// The worker that prepares what the others work on.
    pub(crate) fn leader(&self) -> Worker<'_> {
        self.worker(self.threads, 0)
    }

    /// Maps a zeroed array for the harness.
    pub(crate) fn map<T: Zeroed>(&self, len: usize) -> Result<Mapping<T>, Error> {
        Mapping::zeroed(len).map(|mapping| self.count(mapping)).map_err(Error::Map)
    }

    /// Maps an array for the harness, and makes its values.
    pub(crate) fn fill<T>(
        &self,
        len: usize,
        make: impl FnMut(usize) -> T,
    ) -> Result<Mapping<T>, Error> {
        Mapping::filled(len, make).map(|mapping| self.count(mapping)).map_err(Error::Map)
    }

    fn count<T>(&self, mapping: Mapping<T>) -> Mapping<T> {
        self.harness_bytes.fetch_add(mapping.bytes() as u64, Ordering::Relaxed);
        mapping
    }

    pub(crate) fn harness_bytes(&self) -> u64 {
        self.harness_bytes.load(Ordering::Relaxed) + self.tallies.bytes() as u64
    }

    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Keeps the first reason for which a run fails, and stops everybody.
    #[cold]
    pub(crate) fn fail(&self, error: Error) -> Halt {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(error);
        self.stop();
        Halt
    }

    /// The reason, if there is one.
    pub(crate) fn take_failure(&self) -> Option<Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Whether blocks have been found corrupt, so that none may be touched any more.
    pub(crate) fn is_corrupt(&self) -> bool {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(*failure, Some(Error::Corrupt(_)))
    }

    /// Counts a block that was checked and found to be right.
    pub(crate) fn verified(&self) {
        self.verified.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn verified_blocks(&self) -> Option<u64> {
        self.verifies.then(|| self.verified.load(Ordering::Relaxed))
    }

    /// Requested bytes that were not yet freed.
    pub(crate) fn live_bytes(&self) -> u64 {
        Tally::live_bytes(&self.tallies)
    }

    /// Looks whether more bytes are live than ever before. Harnesses call it where they know that
    /// a peak is, besides the calls every few milliseconds.
    pub(crate) fn look(&self) {
        self.peak_live_bytes.fetch_max(self.live_bytes(), Ordering::Relaxed);
    }

    pub(crate) fn peak_live_bytes(&self) -> u64 {
        self.peak_live_bytes.load(Ordering::Relaxed)
    }

    /// Operations in the sense of the harness, of all threads together.
    pub(crate) fn operations(&self) -> u64 {
        self.tallies.iter().map(Tally::operations).sum()
    }
}
