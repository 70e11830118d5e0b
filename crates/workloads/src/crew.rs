//! The course of a run: threads are started and prepare themselves behind a gate, work is timed,
//! and then everything is freed while all threads are alive. It must not know what the work is.
//!
//! | gate    | behind it, everything has been | what is read there          |
//! |---------|--------------------------------|-----------------------------|
//! | `start` | set up                         | memory before               |
//! | `done`  | done, and not yet freed        | time, usage, memory at end  |
//! | `freed` | freed                          | retained memory             |
//!
//! Every thread works on a *slot*, which holds its blocks. A thread may end early and leave its
//! slot to another: to one that it starts itself, or to one that the leader starts.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::clock::nanoseconds;
use crate::error::Error;
use crate::gate::{Gate, Signal};
use crate::mapping::Mapping;
use crate::outcome::{Calls, Detail, Live, Memory, Outcome};
use crate::resident::{self, Quick, Resident};
use crate::session::Session;
use crate::tally::Tally;
use crate::threads::{Scope, scope};
use crate::timeline::{Reading, Timeline};
use crate::usage::{self, Usage};
use crate::worker::{Halt, Worker};

/// How often the sum of live bytes is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What becomes of a slot when a thread has done its part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// All work on it is done.
    Done,
    /// The thread starts another that goes on, and ends.
    Successor,
    /// The thread ends; the leader joins it and starts another that goes on.
    Replacement,
}

/// What the threads of a harness do.
pub(crate) trait Work: Sync {
    /// What a thread works on.
    type Slot: Send;

    /// Prepares a slot, in its first thread, before the measurement.
    fn set_up(&self, _worker: &mut Worker<'_>, _slot: &mut Self::Slot) -> Result<(), Halt> {
        Ok(())
    }

    /// Does what is measured.
    fn work(&self, worker: &mut Worker<'_>, slot: &mut Self::Slot) -> Result<Next, Halt>;

    /// Frees what is left, after the measurement.
    fn tear_down(&self, worker: &mut Worker<'_>, slot: &mut Self::Slot) -> Result<(), Halt>;
}

/// A slot, and how many threads have worked on it. Two cache lines wide, as tallies are.
#[repr(align(128))]
struct Place<S>(Mutex<(S, u64)>);

/// The slots of a run, made by the harness.
pub(crate) struct Slots<S>(Mapping<Place<S>>);

impl<S> Slots<S> {
    /// Makes a slot for each thread. `make` may allocate from the kernel only.
    pub(crate) fn new(
        session: &Session,
        mut make: impl FnMut(u32) -> Result<S, Error>,
    ) -> Result<Self, Error> {
        let place = |number| Ok(Place(Mutex::new((make(number as u32)?, 0))));
        session.fill_with(session.threads as usize, place).map(Self)
    }

    /// The slots, for a look from the leader before or after the threads.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut S> {
        self.0.iter_mut().map(|place| {
            let state = place.0.get_mut().unwrap_or_else(PoisonError::into_inner);
            &mut state.0
        })
    }
}

/// How many slots are done, and whether the leader is wanted.
#[derive(Default)]
struct Roll {
    done: u32,
    wanted: u32,
}

struct Crew<'a, W: Work> {
    session: &'a Session,
    work: &'a W,
    slots: &'a Slots<W::Slot>,
    /// Set for a slot whose thread has ended and is to be replaced.
    vacant: Mapping<AtomicU32>,
    start: Gate,
    done: Gate,
    freed: Gate,
    roll: Mutex<Roll>,
    changed: Condvar,
    began: OnceLock<Instant>,
    started: AtomicU64,
}

/// Looks at what is live and what is resident, while others work.
struct Watch<'a> {
    session: &'a Session,
    began: Instant,
    resident: Quick,
    timeline: Timeline,
}

impl<'a> Watch<'a> {
    fn new(session: &'a Session) -> io::Result<Self> {
        let timeline = Timeline::new(LOOK_EVERY)?;
        Ok(Self { session, began: Instant::now(), resident: Quick::open(), timeline })
    }

    fn look(&mut self) {
        self.session.look();
        let at = self.began.elapsed();
        if self.timeline.is_due(at) {
            let live_bytes = self.session.live_bytes();
            let rss_bytes = self.resident.rss_bytes();
            let Calls { allocations, reallocations, frees } = Tally::calls(&self.session.tallies);
            let calls = allocations + reallocations + frees;
            self.timeline.push(Reading { at, calls, live_bytes, rss_bytes });
        }
    }
}

/// What was measured, whatever the harness.
pub(crate) struct Measured {
    elapsed: Duration,
    memory: Memory,
    usage: Usage,
    live: Live,
    timeline: Vec<Reading>,
    /// Operations of all threads when the measurement ended.
    operations: u64,
    started: u64,
}

/// Runs `work` on `slots`, for at most `limit` where there is one.
pub(crate) fn run<W: Work>(
    session: &Session,
    work: &W,
    slots: &Slots<W::Slot>,
    limit: Option<Duration>,
) -> Result<Measured, Error> {
    let threads = session.threads as usize;
    let crew = Crew {
        session,
        work,
        slots,
        vacant: session.map(threads)?,
        start: Gate::default(),
        done: Gate::default(),
        freed: Gate::default(),
        roll: Mutex::default(),
        changed: Condvar::new(),
        began: OnceLock::new(),
        started: AtomicU64::new(0),
    };
    // Two jobs for each slot: a thread, and the one that follows it.
    let body = |scope: &Scope<'_>, job: usize| crew.live(scope, job);
    let mut watch = Watch::new(session).map_err(Error::Map)?;
    let measured = scope(2 * threads, &body, |scope| crew.lead(scope, &mut watch, limit));
    let measured = measured.map_err(Error::Map)?;
    match session.take_failure() {
        Some(error) => Err(error),
        None => measured,
    }
}

impl<W: Work> Crew<'_, W> {
    /// The leader's part. From the moment when the first gate opens, nothing in it may fail: the
    /// threads wait for it at the others.
    fn lead(
        &self,
        scope: &Scope<'_>,
        watch: &mut Watch<'_>,
        limit: Option<Duration>,
    ) -> Result<Measured, Error> {
        let threads = self.session.threads;
        for slot in 0..threads as usize {
            if let Err(error) = scope.start(2 * slot) {
                self.start.open(Signal::Leave);
                return Err(Error::Threads(error));
            }
        }
        self.start.wait_for(threads);
        self.session.look();
        let before = resident::now();
        let usage = usage::now();
        let began = *self.began.get_or_init(Instant::now);
        watch.began = began;
        self.start.open(Signal::Go);

        let lost = self.watch(scope, watch, limit.map(|limit| began + limit));
        let left = threads - lost;
        self.done.wait_for(left);
        let usage = usage::now().since(usage);
        watch.look();
        let (end, end_virtual_bytes) = (resident::now(), resident::virtual_bytes());
        let end_bytes = self.session.live_bytes();
        let operations = self.session.operations();
        let started = self.started.load(Ordering::Relaxed);
        self.done.open(Signal::Go);

        self.freed.wait_for(left);
        let memory = self.retained(before, end, end_virtual_bytes);
        self.freed.open(Signal::Go);
        let last = self.session.tallies.iter().map(Tally::finished_ns).max().unwrap_or(0);
        let elapsed = Duration::from_nanos(last);
        let live = Live { peak_bytes: self.session.peak_live_bytes(), end_bytes };
        let timeline = watch.timeline.readings().to_vec();
        Ok(Measured { elapsed, memory, usage, live, timeline, operations, started })
    }

    /// Waits until all slots are done, and replaces threads meanwhile. Returns the number of slots
    /// whose thread could not be replaced.
    fn watch(&self, scope: &Scope<'_>, watch: &mut Watch<'_>, deadline: Option<Instant>) -> u32 {
        let threads = self.session.threads;
        let mut lost = 0;
        let mut roll = self.lock();
        while roll.done + lost < threads {
            let left =
                deadline.map_or(LOOK_EVERY, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                self.session.stop();
            }
            let wait = if left.is_zero() { LOOK_EVERY } else { left.min(LOOK_EVERY) };
            if roll.wanted == 0 {
                let waited = self.changed.wait_timeout(roll, wait);
                roll = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            let wanted = std::mem::take(&mut roll.wanted);
            drop(roll);
            watch.look();
            if wanted > 0 {
                lost += self.replace(scope);
            }
            roll = self.lock();
        }
        lost
    }

    /// Joins every thread that is to be replaced, and starts another in its slot.
    fn replace(&self, scope: &Scope<'_>) -> u32 {
        let mut lost = 0;
        for slot in 0..self.session.threads as usize {
            if self.vacant[slot].swap(0, Ordering::Acquire) == 0 {
                continue;
            }
            // At most one of the two jobs is being done.
            scope.join(2 * slot);
            scope.join(2 * slot + 1);
            if let Err(error) = scope.start(2 * slot) {
                self.session.fail(Error::Threads(error));
                lost += 1;
            }
        }
        lost
    }

    fn retained(&self, before: Resident, end: Resident, end_virtual_bytes: u64) -> Memory {
        let freed = resident::now();
        let settled = resident::after(self.session.settle);
        let harness_bytes = self.session.harness_bytes();
        let peaks = resident::peaks();
        Memory { before, end, end_virtual_bytes, freed, settled, peaks, harness_bytes }
    }

    /// The life of a thread.
    fn live(&self, scope: &Scope<'_>, job: usize) {
        let number = job / 2;
        let mut place = self.slots.0[number].0.lock().unwrap_or_else(PoisonError::into_inner);
        let (slot, generation) = &mut *place;
        let mut worker = self.session.worker(number as u32, *generation);
        *generation += 1;
        self.started.fetch_add(1, Ordering::Relaxed);
        if *generation == 1 {
            // A failure is kept in the session, and stops everybody behind the gate.
            let _ = self.work.set_up(&mut worker, slot);
            if self.start.pass() == Signal::Leave {
                return;
            }
        } else {
            // The predecessor, if it was not the leader who joined it.
            scope.join(job ^ 1);
        }
        let next = if worker.is_stopped() && self.session.has_failed() {
            Next::Done
        } else {
            self.work.work(&mut worker, slot).unwrap_or(Next::Done)
        };
        match next {
            Next::Successor if !worker.is_stopped() => {
                drop(place);
                let Err(error) = scope.start(job ^ 1) else { return };
                self.session.fail(Error::Threads(error));
                place = self.slots.0[number].0.lock().unwrap_or_else(PoisonError::into_inner);
            }
            Next::Replacement if !worker.is_stopped() => {
                drop(place);
                self.vacant[number].store(1, Ordering::Release);
                self.lock().wanted += 1;
                self.changed.notify_all();
                return;
            }
            _ => {}
        }
        self.finish(&mut worker, &mut place.0);
    }

    fn finish(&self, worker: &mut Worker<'_>, slot: &mut W::Slot) {
        let began = self.began.get().map_or(Duration::ZERO, Instant::elapsed);
        worker.tally.finished(nanoseconds(began));
        self.lock().done += 1;
        self.changed.notify_all();
        self.done.pass();
        if !self.session.is_corrupt() {
            // A block found corrupt now ends the run as well: its reason is in the session.
            let _ = self.work.tear_down(worker, slot);
        }
        self.freed.pass();
    }

    fn lock(&self) -> MutexGuard<'_, Roll> {
        self.roll.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Measured {
    /// Operations per second.
    pub(crate) fn rate(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64()
    }

    /// How much more memory was resident at the peak than before, for each byte that was live at
    /// its own peak.
    pub(crate) fn blow_up(&self) -> f64 {
        let Memory { peaks, before, .. } = &self.memory;
        let grown = peaks.rss_bytes.saturating_sub(before.rss_bytes);
        grown as f64 / self.live.peak_bytes as f64
    }

    /// The same for what was resident in the end.
    pub(crate) fn final_blow_up(&self) -> Detail {
        let Memory { end, before, .. } = &self.memory;
        let grown = end.rss_bytes.saturating_sub(before.rss_bytes);
        let value = grown as f64 / self.live.peak_bytes as f64;
        Detail { name: "memory blow-up in the end", unit: "resident/requested", value }
    }

    /// The number of threads that worked, those that left their slot to others included.
    pub(crate) fn threads_started(&self) -> Detail {
        Detail { name: "threads started", unit: "threads", value: self.started as f64 }
    }

    /// The outcome of a harness that is about the time it takes.
    pub(crate) fn timed(self, session: &Session, details: Vec<Detail>) -> Outcome {
        let seconds = self.elapsed.as_secs_f64();
        self.outcome(session, seconds, details)
    }

    /// The outcome of a harness that is about operations per second.
    pub(crate) fn rated(self, session: &Session, details: Vec<Detail>) -> Outcome {
        let rate = self.rate();
        self.outcome(session, rate, details)
    }

    /// The outcome of a run with this value of the harness's metric.
    pub(crate) fn outcome(self, session: &Session, value: f64, details: Vec<Detail>) -> Outcome {
        Outcome {
            value,
            elapsed: self.elapsed,
            details,
            series: None,
            timeline: self.timeline,
            calls: Tally::calls(&session.tallies),
            live: self.live,
            memory: self.memory,
            usage: self.usage,
            verified_blocks: session.checks.verified_blocks(),
            false_sharing: session.checks.false_sharing(),
        }
    }
}
