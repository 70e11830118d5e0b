//! `replay`: makes the calls of a recorded program again, thread by thread, in an order in which
//! they can have happened.
//!
//! A script says what each thread does (`freehold_trace::script`). The threads are started when
//! their first call is due and end after their last. Each goes its own way: it waits for others
//! only where it needs an object that another thread has not made yet, and where it would get ahead
//! of them by more than the script allows.
//!
//! What the recorded program did between its calls is not known: of its memory, `Touch` says how
//! much is written to, and its computation is left out.

mod pace;
mod perform;
mod source;

use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{fmt, io};

use self::pace::Pace;
use self::perform::Performer;
use self::source::Source;
use crate::clock::nanoseconds;
use crate::mapping::Mapping;
use crate::resident::{self, Quick, Resident};
use crate::threads::{self, Scope};
use crate::timeline::{Reading, Timeline};
use crate::usage::{self, Usage};

/// How much of each block is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// Nothing.
    None,
    /// A byte of each page.
    First,
    /// Everything.
    All,
}

/// What a run is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// How much of each block is written to.
    pub touch: Touch,
    /// Idle time between the two readings of memory at the end; zero for one reading only.
    pub settle: Duration,
}

/// Calls by function.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Calls {
    /// `malloc`.
    pub malloc: u64,
    /// `calloc`.
    pub calloc: u64,
    /// `realloc`.
    pub realloc: u64,
    /// `posix_memalign`.
    pub aligned: u64,
    /// `free` of an object.
    pub free: u64,
    /// `free` of null.
    pub free_null: u64,
}

/// What a run measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// From the first call to the last.
    pub elapsed: Duration,
    /// Calls made.
    pub calls: Calls,
    /// Threads that made them.
    pub threads: u32,
    /// Time that threads have spent waiting for each other, all together.
    pub waited: Duration,
    /// Anonymous memory before the first call.
    pub before: Resident,
    /// The most anonymous memory at once, as sampled.
    pub peak_bytes: u64,
    /// The most bytes alive at once, as added up at the end of each slice.
    pub peak_live_bytes: u64,
    /// Bytes alive at the end.
    pub end_live_bytes: u64,
    /// Memory after the last call, all threads ended.
    pub end: Resident,
    /// Memory after the settle time.
    pub settled: Option<Resident>,
    /// Mapped by the harness for itself.
    pub harness_bytes: u64,
    /// Readings during the run.
    pub timeline: Vec<Reading>,
    /// Processor time and faults.
    pub usage: Usage,
}

/// Why a run has no outcome.
#[derive(Debug)]
pub enum Error {
    /// The script could not be read.
    Read(io::Error),
    /// It is not a script, or is damaged.
    Damaged,
    /// The harness could not map its own arrays.
    Map(io::Error),
    /// A thread could not be started.
    Threads(io::Error),
    /// The allocator returned null.
    Exhausted {
        /// The size asked for.
        size: u64,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => write!(f, "cannot read the script: {error}"),
            Self::Damaged => f.write_str("the script is damaged"),
            Self::Map(error) => write!(f, "cannot map the harness's own arrays: {error}"),
            Self::Threads(error) => write!(f, "cannot start all threads: {error}"),
            Self::Exhausted { size } => write!(f, "a call for {size} bytes returned null"),
        }
    }
}

impl std::error::Error for Error {}

/// How often memory is read at first.
const READ_EVERY: Duration = Duration::from_millis(1);

/// No thread, in the list of those that have ended.
const NOBODY: u32 = 0;

/// The threads that have ended and are to be joined: a stack of their numbers plus one.
struct Ended {
    last: AtomicU32,
    before: Mapping<AtomicU32>,
}

impl Ended {
    fn push(&self, thread: usize) {
        let number = thread as u32 + 1;
        let mut last = self.last.load(Ordering::Relaxed);
        loop {
            self.before[thread].store(last, Ordering::Relaxed);
            // Release pairs with the acquire in `drain`: the link comes with it.
            let pushed =
                self.last.compare_exchange_weak(last, number, Ordering::Release, Ordering::Relaxed);
            match pushed {
                Ok(_) => return,
                Err(other) => last = other,
            }
        }
    }

    fn drain(&self, mut each: impl FnMut(usize)) {
        let mut number = self.last.swap(NOBODY, Ordering::Acquire);
        while number != NOBODY {
            let thread = number as usize - 1;
            number = self.before[thread].load(Ordering::Relaxed);
            each(thread);
        }
    }
}

/// Counters of calls that threads add to when they end.
#[derive(Default)]
struct Totals {
    malloc: AtomicU64,
    calloc: AtomicU64,
    realloc: AtomicU64,
    aligned: AtomicU64,
    free: AtomicU64,
    free_null: AtomicU64,
    waited_ns: AtomicU64,
}

impl Totals {
    fn add(&self, calls: &Calls, waited: Duration) {
        // Relaxed: read when all threads have been joined.
        self.malloc.fetch_add(calls.malloc, Ordering::Relaxed);
        self.calloc.fetch_add(calls.calloc, Ordering::Relaxed);
        self.realloc.fetch_add(calls.realloc, Ordering::Relaxed);
        self.aligned.fetch_add(calls.aligned, Ordering::Relaxed);
        self.free.fetch_add(calls.free, Ordering::Relaxed);
        self.free_null.fetch_add(calls.free_null, Ordering::Relaxed);
        self.waited_ns.fetch_add(nanoseconds(waited), Ordering::Relaxed);
    }

    fn calls(&self) -> Calls {
        Calls {
            malloc: self.malloc.load(Ordering::Relaxed),
            calloc: self.calloc.load(Ordering::Relaxed),
            realloc: self.realloc.load(Ordering::Relaxed),
            aligned: self.aligned.load(Ordering::Relaxed),
            free: self.free.load(Ordering::Relaxed),
            free_null: self.free_null.load(Ordering::Relaxed),
        }
    }
}

/// A replay that is set up.
struct Stage<'a> {
    source: &'a Source,
    pace: Pace,
    performer: Performer<'a>,
    totals: Totals,
    ended: Ended,
}

/// Readings that the starting thread takes while the others work.
struct Watch {
    quick: Quick,
    timeline: Timeline,
    start: Instant,
    peak_bytes: u64,
}

/// Makes the calls of the script at `path`.
pub fn run(path: &Path, config: &Config) -> Result<Outcome, Error> {
    let source = Source::open(path)?;
    let stage = Stage::new(&source, config)?;
    let mut watch = Watch {
        quick: Quick::open(),
        timeline: Timeline::new(READ_EVERY).map_err(Error::Map)?,
        start: Instant::now(),
        peak_bytes: 0,
    };
    let harness_bytes = stage.mapped_bytes();
    let before = resident::now();
    let used = usage::now();
    watch.start = Instant::now();
    let ran =
        threads::scope(source.threads(), &|_: &Scope<'_>, number| stage.work(number), |scope| {
            stage.conduct(scope, &mut watch)
        });
    let elapsed = ran.map_err(Error::Map)??;
    let usage = usage::now().since(used);
    watch.read(&stage);
    let end = resident::now();
    let settled = resident::after(config.settle);
    if let Some(size) = stage.performer.exhausted() {
        return Err(Error::Exhausted { size });
    }
    if stage.performer.is_damaged() {
        return Err(Error::Damaged);
    }
    Ok(Outcome {
        elapsed,
        calls: stage.totals.calls(),
        threads: source.threads() as u32,
        waited: Duration::from_nanos(stage.totals.waited_ns.load(Ordering::Relaxed)),
        before,
        // No sample is taken at the end of its own accord, or at all in a short replay.
        peak_bytes: watch.peak_bytes.max(end.anonymous_bytes),
        peak_live_bytes: stage.pace.peak_bytes(),
        end_live_bytes: stage.pace.live_bytes(),
        end,
        settled,
        harness_bytes,
        timeline: watch.timeline.readings().to_vec(),
        usage,
    })
}

impl<'a> Stage<'a> {
    fn new(source: &'a Source, config: &Config) -> Result<Self, Error> {
        let header = source.header();
        let pace = Pace::new(header.slices, |slice| source.slice(slice)).map_err(Error::Map)?;
        let performer = Performer::new(source, config.touch).map_err(Error::Map)?;
        let before = Mapping::zeroed(source.threads().max(1)).map_err(Error::Map)?;
        let ended = Ended { last: AtomicU32::new(NOBODY), before };
        Ok(Self { source, pace, performer, totals: Totals::default(), ended })
    }

    fn mapped_bytes(&self) -> u64 {
        let own = self.pace.mapped_bytes() + self.performer.mapped_bytes();
        (own + self.ended.before.bytes()) as u64
    }

    /// What each thread does.
    fn work(&self, number: usize) {
        let (calls, waited) = self.performer.perform(number, &self.pace);
        self.totals.add(&calls, waited);
        self.ended.push(number);
    }

    /// Starts the threads when they are due, joins those that have ended, and reads memory.
    fn conduct(&self, scope: &Scope<'_>, watch: &mut Watch) -> Result<Duration, Error> {
        let slices = self.source.header().slices;
        let mut next = 0;
        loop {
            while next < self.source.threads() && self.pace.is_open(self.source.thread(next).slice)
            {
                scope.start(next).map_err(|error| {
                    self.pace.stop();
                    Error::Threads(error)
                })?;
                next += 1;
            }
            self.ended.drain(|number| {
                scope.join(number);
            });
            watch.read(self);
            if self.pace.is_over() {
                return Ok(watch.start.elapsed());
            }
            let due = match self.source.threads() {
                threads if next < threads => self.source.thread(next).slice,
                _ => slices + freehold_trace::script::LEAD,
            };
            self.pace.wait_for(due, Some(watch.until_next()));
        }
    }
}

impl Watch {
    /// Reads memory if that is due.
    fn read(&mut self, stage: &Stage<'_>) {
        let at = self.start.elapsed();
        if !self.timeline.is_due(at) {
            return;
        }
        let rss_bytes = self.quick.anonymous_bytes();
        self.peak_bytes = self.peak_bytes.max(rss_bytes);
        let live_bytes = stage.pace.live_bytes();
        self.timeline.push(Reading { at, calls: 0, live_bytes, rss_bytes });
    }

    /// How long until the next reading is due.
    fn until_next(&self) -> Duration {
        let due = self.timeline.next_due();
        due.saturating_sub(self.start.elapsed()).max(Duration::from_micros(100))
    }
}
