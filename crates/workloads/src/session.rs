//! What all threads of a run share: what was asked for, who has done what, and whether it is over.
//! It must not know what the harness does.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::checks::Checks;
use crate::error::Error;
use crate::mapping::{Mapping, Zeroed};
use crate::rng::Rng;
use crate::settings::Settings;
use crate::tally::Tally;
use crate::worker::{Halt, Worker};

/// What the threads of a run share.
pub(crate) struct Session {
    /// Threads that work, besides the one that leads them.
    pub(crate) threads: u32,
    pub(crate) seed: u64,
    pub(crate) settle: Duration,
    /// What is looked at in every block.
    pub(crate) checks: Checks,
    /// One for each thread, then one for the leader, then those for helpers.
    pub(crate) tallies: Mapping<Tally>,
    /// Relaxed: it carries no data, and being seen a little later only makes a run a little longer.
    stop: AtomicBool,
    failure: Mutex<Option<Error>>,
    peak_live_bytes: AtomicU64,
    harness_bytes: AtomicU64,
}

impl Session {
    pub(crate) fn new(settings: &Settings) -> Result<Self, Error> {
        Self::with_helpers(settings, 0)
    }

    /// With this number of workers besides the threads and the leader.
    pub(crate) fn with_helpers(settings: &Settings, helpers: usize) -> Result<Self, Error> {
        let threads = settings.threads();
        let workers = threads as usize + 1 + helpers;
        let checks = Checks::new(settings.flag("verify"), settings.flag("false-sharing"));
        Ok(Self {
            threads,
            seed: settings.count("seed"),
            settle: settings.duration("settle"),
            checks: checks.map_err(Error::Map)?,
            tallies: Mapping::zeroed(workers).map_err(Error::Map)?,
            stop: AtomicBool::new(false),
            failure: Mutex::new(None),
            peak_live_bytes: AtomicU64::new(0),
            harness_bytes: AtomicU64::new(0),
        })
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

    /// The worker of a helper.
    pub(crate) fn helper(&self, number: u32) -> Worker<'_> {
        self.worker(self.threads + 1 + number, 0)
    }

    /// Maps a zeroed array for the harness, with its pages in place.
    pub(crate) fn map<T: Zeroed>(&self, len: usize) -> Result<Mapping<T>, Error> {
        Mapping::resident(len).map(|mapping| self.count(mapping)).map_err(Error::Map)
    }

    /// Maps an array for the harness, and makes its values.
    pub(crate) fn fill<T>(
        &self,
        len: usize,
        make: impl FnMut(usize) -> T,
    ) -> Result<Mapping<T>, Error> {
        Mapping::filled(len, make).map(|mapping| self.count(mapping)).map_err(Error::Map)
    }

    /// The same with values of which the making can fail.
    pub(crate) fn fill_with<T>(
        &self,
        len: usize,
        make: impl FnMut(usize) -> Result<T, Error>,
    ) -> Result<Mapping<T>, Error> {
        let values: Vec<T> = (0..len).map(make).collect::<Result<_, _>>()?;
        let mut values = values.into_iter();
        self.fill(len, |_| values.next().expect("as many as there are places"))
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

    /// The reason, where it is known that there is one.
    pub(crate) fn failure(&self) -> Error {
        self.take_failure().expect("whoever halts gives a reason")
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Whether blocks have been found corrupt, so that none may be touched any more.
    pub(crate) fn is_corrupt(&self) -> bool {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(*failure, Some(Error::Corrupt(_)))
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::harnesses;

    /// A session of one thread, of which contents are checked.
    pub(crate) fn verifying() -> Session {
        let threadtest = harnesses::find("threadtest").expect("there");
        let mut settings = Settings::new(threadtest);
        settings.set(threadtest, "verify", "true").expect("fits");
        Session::new(&settings).expect("maps")
    }

    #[test]
    fn the_first_reason_for_a_failure_is_kept_and_everybody_stops() {
        let session = verifying();
        assert!(!session.is_stopped());
        session.fail(Error::Exhausted { size: 1 });
        session.fail(Error::Exhausted { size: 2 });
        assert!(session.is_stopped());
        assert!(matches!(session.failure(), Error::Exhausted { size: 1 }));
        assert!(session.take_failure().is_none());
    }

    #[test]
    fn the_peak_of_live_bytes_is_that_of_the_looks() {
        let session = verifying();
        let worker = &mut session.leader();
        let mut held = worker.allocate(100).expect("memory");
        session.look();
        worker.free(&mut held).expect("as it was");
        session.look();
        assert_eq!((session.peak_live_bytes(), session.live_bytes()), (100, 0));
    }
}
