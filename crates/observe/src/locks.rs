//! `freehold locks`: what threads wait for, who waits, and for how long.
//!
//! Looks at waiting threads give the call that each waits in, and its stack, which is copied while
//! the thread sleeps; nothing is stopped.

use std::collections::HashMap;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::time::Duration;

use freehold_model::{Cost, LocksReport, Shares, SleepRow};

use crate::access::Access;
use crate::clock::{self, seconds};
use crate::proc::syscall::Call;
use crate::profile::{Counting, Profile};
use crate::rest::{self, Rest};
use crate::stack::image::{Files, Image, Place, Registers, Scratch};
use crate::syscalls::{self, is_futex_wait};
use crate::tally::Tally;
use crate::target::{self, TargetError};
use crate::waiting::{self, Cell, Lock, Site};
use crate::watch::{Interval, Sighting, ThreadKey, ThreadTime, Watch};

/// The part of a processor that looking may take: stacks are dearer than counters.
const BUDGET: f64 = 0.015;

/// The least part.
const BUDGET_LEAST: f64 = 0.004;

/// How often a second each processor may be given to threads of the program before it is observed
/// less. Whatever is done to a program costs it most while it waits for contended locks: whoever
/// holds one has it for longer then, and everybody waits.
const SWITCHES: f64 = 5000.0;

/// Different waits that are told apart. Beyond them, those of new places count as one.
const MOST_SITES: usize = 20_000;

/// How long an interval is: after it, looks are turned into times.
const INTERVAL: Duration = Duration::from_millis(500);

/// The first, after which it is known how much observing costs the program, as it is then. Each is
/// twice as long as the one before.
const FIRST: Duration = Duration::from_millis(25);

/// What a thread was seen waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum What {
    /// A futex, by the place in the list of sites.
    Site(usize),
    /// Another system call, by its number.
    Call(u64),
}

/// What all threads did.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Total {
    /// Where their time went, in seconds rather than shares.
    pub(crate) shares: Shares,
    /// Their page faults without a disk.
    pub(crate) minor_faults: u64,
    /// Processor time of threads that began and ended without being seen, in seconds.
    pub(crate) unseen_seconds: f64,
}

/// Watches what the threads of a process, and of its descendants, wait for.
pub struct Locks {
    watch: Watch,
    /// Samples of running threads, or why there are none.
    profile: Result<Profile, String>,
    taker: Taker,
    tallies: HashMap<ThreadKey, Tally<What>>,
    /// The rest of threads that nobody has looked at since.
    unseen: HashMap<ThreadKey, Rest>,
    cells: Vec<Cell>,
    sleeps: HashMap<u64, f64>,
    totals: LocksReport,
    total: Total,
    looks: u64,
    observer_ns: u64,
    observed_ns: u64,
}

impl Locks {
    /// Begins to watch a process.
    pub fn of(pid: u32) -> Result<Self, TargetError> {
        Self::counting(pid, Counting::Nothing)
    }

    /// The same, with more to be found out by samples.
    pub(crate) fn counting(pid: u32, counting: Counting) -> Result<Self, TargetError> {
        target::check(pid)?;
        Ok(Self {
            profile: Profile::of(pid, counting).map_err(|error| error.to_string()),
            watch: Watch::new(pid, BUDGET),
            taker: Taker::default(),
            tallies: HashMap::new(),
            unseen: HashMap::new(),
            cells: Vec::new(),
            sleeps: HashMap::new(),
            totals: LocksReport::default(),
            total: Total::default(),
            looks: 0,
            observer_ns: 0,
            observed_ns: 0,
        })
    }

    /// Watches for this long, or until nothing is left to watch, or `pause`, which is told the
    /// processes and waits for the given time, says that it is enough.
    pub fn watch(
        &mut self,
        duration: Option<Duration>,
        pause: &mut dyn FnMut(&[u32], Duration) -> ControlFlow<()>,
    ) {
        let mut left = duration.unwrap_or(Duration::MAX);
        let mut usual = if self.observed_ns == 0 { FIRST } else { INTERVAL };
        while !left.is_zero() {
            let length = left.min(usual);
            usual = (2 * usual).min(INTERVAL);
            let flow = self.interval(length, pause);
            left = left.saturating_sub(length);
            if flow.is_break() {
                break;
            }
        }
        if let Ok(profile) = &mut self.profile {
            profile.take_samples();
        }
    }

    fn interval(
        &mut self,
        length: Duration,
        pause: &mut dyn FnMut(&[u32], Duration) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Self { watch, profile, taker, tallies, cells, .. } = self;
        let processes = watch.processes();
        let pause = &mut |time: Duration| {
            let end_ns = clock::now_ns() + time.as_nanos() as u64;
            loop {
                // Samples may have to be taken, or no longer be, before it is time for a look.
                let next = profile.as_mut().map_or(Duration::MAX, Profile::take);
                let left = Duration::from_nanos(end_ns.saturating_sub(clock::now_ns()));
                pause(&processes, left.min(next))?;
                if left <= next {
                    return ControlFlow::Continue(());
                }
            }
        };
        let flow = watch.look_for(length, pause, &mut |seen, waits_on| {
            let tally = tallies.entry(seen.thread).or_default();
            let same = tally.same_wait(seen.turns);
            let what = same.unwrap_or_else(|| taker.what(seen, waits_on));
            let so_far = tally.add(what, seen.turns, seen.at_ns);
            if let What::Site(site) = what {
                if cells.len() <= site {
                    cells.resize(site + 1, Cell::default());
                }
                cells[site].longest_ns = cells[site].longest_ns.max(so_far);
            }
        });
        let interval = self.watch.close();
        self.account(&interval);
        flow
    }

    /// Turns the looks of an interval into times.
    fn account(&mut self, interval: &Interval) {
        self.observed_ns = interval.end_ns;
        self.observer_ns += interval.observer_ns;
        self.looks += u64::from(interval.looks);
        self.total.unseen_seconds += seconds(interval.unseen_ns);
        let rests: Vec<_> = interval.threads.iter().map(|thread| self.rest_of(thread)).collect();
        let factors = rest::factors(&rests);
        for ((thread, rest), factor) in interval.threads.iter().zip(rests).zip(factors) {
            self.account_for(thread, rest.look_ns() * factor, factor);
        }
        if interval.ns > 0 {
            self.restrain(interval);
        }
    }

    /// Observes less what is often given a processor.
    fn restrain(&mut self, interval: &Interval) {
        let switches: u64 = interval.threads.iter().map(|thread| thread.switches.sum()).sum();
        let cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
        let rate = switches as f64 / seconds(interval.ns) / cpus as f64;
        let part = (SWITCHES / rate.max(1.0)).min(1.0);
        self.watch.allow((BUDGET * part).max(BUDGET_LEAST));
        if let Ok(profile) = &mut self.profile {
            profile.restrain(part);
        }
    }

    /// How long a thread rested, as far as it was looked at since.
    fn rest_of(&mut self, thread: &ThreadTime) -> Rest {
        let key = (thread.pid, thread.tid);
        let before = self.unseen.remove(&key).unwrap_or_default();
        let rest = Rest::of(&thread.counted).after(before);
        if !rest.is_open() || thread.has_ended {
            return rest;
        }
        self.unseen.insert(key, rest);
        Rest::default()
    }

    /// Takes account of a thread that each look at stands for so much time, and that stands for so
    /// many times itself.
    fn account_for(&mut self, thread: &ThreadTime, look_ns: f64, factor: f64) {
        let counted = &thread.counted;
        let wall = seconds(counted.wall_ns);
        self.totals.thread_seconds += wall;
        self.total.shares.add(&counted.shares(), wall);
        self.total.minor_faults += thread.minor_faults;
        let in_looks = |looks: u32| f64::from(looks) * look_ns / 1e9;
        self.totals.lck_seconds += in_looks(counted.waits.futex);
        self.totals.fault_seconds += in_looks(counted.waits.faults());
        let key = (thread.pid, thread.tid);
        let Some(tally) = self.tallies.get_mut(&key) else { return };
        for waited in tally.close(look_ns, thread.switches.voluntary as f64 * factor) {
            match waited.what {
                What::Site(site) => self.cells[site].add(&waited),
                What::Call(number) => {
                    *self.sleeps.entry(number).or_default() += waited.ns / 1e9;
                }
            }
        }
        if thread.has_ended {
            self.tallies.remove(&key);
        }
    }

    /// What all threads did so far.
    pub(crate) fn total(&self) -> Total {
        self.total
    }

    /// How often all threads were looked at.
    pub(crate) fn looks(&self) -> u64 {
        self.looks
    }

    /// Whether it can be seen what threads wait for, or what would allow it.
    pub(crate) fn sees_waits(&self) -> Result<(), &'static str> {
        let access = Access { calls: self.watch.shows_calls(), ..Access::of_system() };
        if access.calls { Ok(()) } else { Err(access.remedy()) }
    }

    /// The samples of running threads, or why there are none.
    pub(crate) fn profile(&self) -> Result<&Profile, &str> {
        self.profile.as_ref().map_err(String::as_str)
    }

    /// What was seen so far.
    pub fn report(&self) -> LocksReport {
        let taker = &self.taker;
        let access = Access { calls: self.watch.shows_calls(), ..Access::of_system() };
        let mut sleeps: Vec<_> = self.sleeps.iter().map(sleep_row).collect();
        sleeps.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        let observed = seconds(self.observed_ns);
        let per_second = |value: f64| if observed > 0.0 { value / observed } else { 0.0 };
        let spins = self.profile().map(|profile| profile.spins(self.total.shares.usr));
        let refused = self.profile().err();
        LocksReport {
            seconds: observed,
            waits: waiting::rows(&taker.sites, &self.cells, &taker.files),
            spins: spins.unwrap_or_default(),
            samples: self.profile().ok().map(Profile::samples),
            sleeps,
            without_stack: taker.without_stack,
            sources: access.sources_of_waits(refused.is_none()),
            missing: access.missing_waits(refused),
            cost: Cost {
                observer_cpus: per_second(seconds(self.observer_ns)),
                looks_per_second: per_second(self.looks as f64),
            },
            ..self.totals.clone()
        }
    }
}

fn sleep_row((&number, &seconds): (&u64, &f64)) -> SleepRow {
    SleepRow { call: syscalls::name(number), seconds }
}

/// Takes the stacks of waiting threads, and keeps each different one once.
#[derive(Default)]
struct Taker {
    files: Files,
    images: HashMap<u32, Image>,
    scratch: Scratch,
    sites: Vec<Site>,
    known: HashMap<Site, usize>,
    without_stack: u64,
}

impl Taker {
    /// What a thread waits for that is in this call.
    fn what(&mut self, seen: &Sighting, waits_on: &mut dyn FnMut() -> bool) -> What {
        if !is_futex_wait(&seen.call) {
            return What::Call(seen.call.number);
        }
        let pid = seen.thread.0;
        let stack = self.stack(pid, &seen.call);
        // If the thread went on meanwhile, the copy may be of two moments.
        let stack = if waits_on() { stack } else { Vec::new() };
        self.without_stack += u64::from(stack.is_empty());
        let address = seen.call.arguments[0];
        let place = self.images.get(&pid).and_then(|image| image.place(address));
        let lock = place.map_or(Lock::Memory { pid, address }, Lock::Data);
        What::Site(self.intern(Site { lock, stack }))
    }

    fn stack(&mut self, pid: u32, call: &Call) -> Vec<Place> {
        let Self { files, images, scratch, .. } = self;
        let image = images.entry(pid).or_insert_with(|| Image::of(pid, files));
        image.notice(call.pc, files);
        image.unwind(Registers { pc: call.pc, sp: call.sp, bp: 0 }, files, scratch)
    }

    fn intern(&mut self, site: Site) -> usize {
        if let Some(&known) = self.known.get(&site) {
            return known;
        }
        if self.sites.len() > MOST_SITES {
            return MOST_SITES;
        }
        let is_last = self.sites.len() == MOST_SITES;
        let site = if is_last { Site::of_the_rest() } else { site };
        self.sites.push(site.clone());
        self.known.insert(site, self.sites.len() - 1);
        self.sites.len() - 1
    }
}
