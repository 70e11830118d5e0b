//! Where a process' processor time and page faults come from, by samples that every user may
//! take; and how often it asks the system for memory. It must not know what that means.

use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use freehold_model::{Frame, WaitRow};

use crate::clock;
use crate::duty::Duty;
use crate::perf::record::{BP, Record, SP, Sample};
use crate::perf::{Kind, Passing, Session};
use crate::recorded::{Event, Recorded};
use crate::sharing::{Lines, Shared};
use crate::stack::image::{Files, Image, Place, Registers, Scratch};
use crate::stack::symbol::Symbols;
use crate::stack::touch::{Touch, touches};
use crate::stack::wait::Judged;
use crate::waiting::{self, Cell, Lock, Site};

/// Different stacks that are kept. Others count in the sums alone.
const MOST_STACKS: usize = 20_000;

/// Frames of a stack that are kept: as many as lie between an allocator and its caller.
const FRAMES: usize = 16;

/// The part of the time in which running code is sampled, and the shortest time.
const SAMPLED: f64 = 0.2;
const SAMPLED_AT_LEAST: Duration = Duration::from_millis(20);

/// The same in brief windows, in which four times as many samples are taken.
const BRIEFLY: f64 = 0.0125;
const BRIEFLY_AT_LEAST: Duration = Duration::from_millis(5);

/// The same for the counting of calls, each of which takes some microseconds longer meanwhile, and
/// so does each time that a thread is given a processor.
const COUNTED: f64 = 0.01;
const COUNTED_LEAST: f64 = 0.0025;
const COUNTED_AT_LEAST: Duration = Duration::from_millis(5);

/// How long samples may stay in their rings while they are taken: these hold an eighth of a second.
const LONGEST: Duration = Duration::from_millis(50);

/// Samples of one stack.
#[derive(Debug, Clone, Copy, Default)]
struct Weight {
    clock: u64,
    faults: u64,
}

/// Samples of a process.
pub(crate) struct Profile {
    /// The process that was sampled last.
    busiest: u32,
    pid: u32,
    /// What records, while it does.
    session: Option<Session>,
    /// When samples of time are taken.
    duty: Duty,
    /// Whether nothing at all is recorded between windows.
    is_restrained: bool,
    recorded: Recorded,
    /// When records were taken last.
    taken_ns: u64,
    files: Files,
    images: HashMap<u32, Image>,
    scratch: Scratch,
    stacks: HashMap<Rc<[Place]>, Weight>,
    /// The lines that the program touches.
    lines: Lines<Rc<[Place]>>,
    /// The lines that allocators touch, which are no business of the program's.
    allocators_lines: Lines<Rc<[Place]>>,
    totals: Totals,
    /// Counts of calls, if they are wanted.
    windows: Option<Windows>,
}

/// What is to be found out besides samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counting {
    /// Nothing, which costs nothing.
    Nothing,
    /// How often memory is asked for of the system.
    Calls,
}

/// What needs no names.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Totals {
    /// Samples of time on a processor in user mode.
    pub(crate) samples: u64,
    /// Records that were lost.
    pub(crate) lost: u64,
}

/// What the samples come to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Profiled {
    /// Without names.
    pub(crate) totals: Totals,
    /// What the kernel recorded.
    pub(crate) recorded: Recorded,
    /// The part of the samples of time that is within an allocator.
    pub(crate) allocator_share: f64,
    /// The part of page faults that is within an allocator.
    pub(crate) allocator_faults: f64,
    /// The function with most time of its own, and its part.
    pub(crate) hottest: Option<(Frame, f64)>,
    /// The function of the program with most page faults, and its part.
    pub(crate) faulting: Option<(Frame, f64)>,
    /// The part of the samples that touches shared lines.
    pub(crate) atomic_share: f64,
    /// The same, for lines that are shared falsely.
    pub(crate) false_share: f64,
    /// How often each function that asks the system for memory is called, a second.
    pub(crate) calls: Vec<(&'static str, f64)>,
}

impl Profile {
    /// Begins to sample a process.
    pub(crate) fn of(pid: u32, counting: Counting) -> io::Result<Self> {
        let mut profile = Self {
            busiest: pid,
            pid,
            session: Some(Session::of(pid, false)?),
            duty: Duty::new(SAMPLED / 2.0, SAMPLED_AT_LEAST),
            files: Files::default(),
            images: HashMap::new(),
            scratch: Scratch::default(),
            stacks: HashMap::new(),
            lines: Lines::default(),
            allocators_lines: Lines::default(),
            totals: Totals::default(),
            is_restrained: false,
            recorded: Recorded::default(),
            taken_ns: clock::now_ns(),
            windows: (counting == Counting::Calls).then(Windows::new),
        };
        profile.recorded.begin(clock::now_ns());
        profile.turn();
        Ok(profile)
    }

    /// Begins to sample time, or ends it.
    fn turn(&mut self) {
        let (on, began) = (!self.duty.is_open(), clock::own_thread_ns());
        if on && self.session.is_none() {
            // Where there is nobody left to record, there is nothing to know.
            self.session = Session::of(self.pid, self.is_restrained).ok();
            if self.session.is_some() {
                self.recorded.begin(clock::now_ns());
            }
        }
        if let Some(session) = &self.session {
            session.sample_time(on);
        }
        if !on {
            self.leave();
        }
        self.duty.turned(on, clock::now_ns(), clock::own_thread_ns() - began);
    }

    /// Records nothing until the next window, where that is to be: even events that are disabled
    /// make it longer to give a processor to a thread.
    fn leave(&mut self) {
        let is_over = |session: &Session| session.is_brief() || self.is_restrained;
        if self.session.as_ref().is_some_and(|session| is_over(session) && session.is_small()) {
            self.take_samples();
            self.recorded.end(clock::now_ns());
            self.session = None;
        }
    }

    /// From now on does only this part of what it would do by itself, as far as that is enough.
    pub(crate) fn restrain(&mut self, part: f64) {
        self.is_restrained = part < 1.0;
        if !self.duty.is_open() {
            self.leave();
        }
        let is_brief = self.is_restrained && self.session.as_ref().is_none_or(Session::is_brief);
        if is_brief {
            self.duty.allow(BRIEFLY, BRIEFLY_AT_LEAST);
        } else {
            self.duty.allow((SAMPLED * part).max(4.0 * BRIEFLY), SAMPLED_AT_LEAST);
        }
        if let Some(windows) = &mut self.windows {
            windows.duty.allow((COUNTED * part).max(COUNTED_LEAST), COUNTED_AT_LEAST);
        }
    }

    /// Takes the samples that have come, and returns for how long it need not be called again.
    pub(crate) fn take(&mut self) -> Duration {
        self.take_samples();
        if self.duty.left_ns(clock::now_ns()) == 0 {
            self.turn();
        }
        let sampling = Duration::from_nanos(self.duty.left_ns(clock::now_ns()));
        let sampling = if self.duty.is_open() { sampling.min(LONGEST) } else { sampling };
        let Some(windows) = &mut self.windows else { return sampling };
        windows.step(self.busiest, &self.images, &self.files);
        sampling.min(windows.left())
    }

    /// Takes the samples that have come.
    pub(crate) fn take_samples(&mut self) {
        let Self { session, files, images, scratch, stacks, totals, busiest, recorded, .. } = self;
        let Some(session) = session else { return };
        let mut touching = Vec::new();
        self.taken_ns = clock::now_ns();
        session.drain(&mut |kind, record| match (record, kind) {
            (Record::Sample(sample), Some(kind)) => {
                let image =
                    images.entry(sample.pid).or_insert_with(|| Image::of(sample.pid, files));
                image.notice(sample.pc, files);
                let stack = stack(&sample, image, files, scratch);
                if kind == Kind::Clock {
                    totals.samples += 1;
                    *busiest = sample.pid;
                    let touches = touched(&sample, image, files);
                    let thread = (sample.pid, sample.tid);
                    touching.push((sample.at_ns, thread, touches, Rc::clone(&stack)));
                }
                weigh(stacks, stack, kind, sample.period);
            }
            (Record::Begin { is_process }, _) => {
                recorded.begin_thread();
                if is_process {
                    recorded.add(Event::Process);
                }
            }
            (Record::End, _) => recorded.end_thread(),
            (Record::Map { is_anonymous: true, .. }, _) => recorded.add(Event::Mapping),
            (Record::Lost(lost), _) => totals.lost += lost,
            _ => {}
        });
        // Whether threads touch a line in turns is seen in the order of time alone.
        touching.sort_by_key(|&(at_ns, ..)| at_ns);
        for (at_ns, thread, touches, stack) in touching {
            let is_allocators = |place: &Place| files.get(place.file).is_allocator;
            let is_within = stack.iter().any(is_allocators);
            let lines = if is_within { &mut self.allocators_lines } else { &mut self.lines };
            lines.add(thread, at_ns, &touches, &stack);
        }
    }

    /// The words that threads spin for, or write all together, where `user_seconds` were spent on
    /// a processor in the program.
    pub(crate) fn spins(&self, user_seconds: f64) -> Vec<WaitRow> {
        let sample_ns = part(user_seconds * 1e9, self.totals.samples as f64);
        let words = self.lines.exchanged().into_iter().chain(self.allocators_lines.exchanged());
        let (sites, cells): (Vec<_>, Vec<_>) = words
            .flat_map(|word| {
                let lock = self.lock(word.pid, word.address);
                word.stacks.iter().map(move |(stack, samples)| {
                    let site = Site { lock, stack: stack.to_vec() };
                    (site, Cell::of(sample_ns, u64::from(*samples)))
                })
            })
            .unzip();
        waiting::rows(&sites, &cells, &self.files)
    }

    fn lock(&self, pid: u32, address: u64) -> Lock {
        let place = self.images.get(&pid).and_then(|image| image.place(address));
        place.map_or(Lock::Memory { pid, address }, Lock::Data)
    }

    /// Samples of time on a processor in user mode.
    pub(crate) fn samples(&self) -> u64 {
        self.totals.samples
    }

    /// What the samples come to.
    pub(crate) fn profiled(&self) -> Profiled {
        let mut symbols = Symbols::new();
        let mut sums = Sums::default();
        for (stack, weight) in &self.stacks {
            sums.add(stack, *weight, &self.files, &mut symbols);
        }
        let Shared { atomic, falsely } = self.lines.shared();
        let mut recorded = self.recorded;
        if self.session.is_some() {
            recorded.end(self.taken_ns);
        }
        let part = |samples: u32| part(f64::from(samples), self.totals.samples as f64);
        Profiled {
            totals: self.totals,
            recorded,
            allocator_share: self::part(sums.in_allocator.clock as f64, sums.all.clock as f64),
            allocator_faults: self::part(sums.in_allocator.faults as f64, sums.all.faults as f64),
            hottest: most(sums.leaves, sums.all.clock),
            faulting: most(sums.faulting, sums.all.faults),
            atomic_share: part(atomic),
            false_share: part(falsely),
            calls: self.windows.as_ref().map(Windows::rates).unwrap_or_default(),
        }
    }
}

fn part(some: f64, all: f64) -> f64 {
    if all > 0.0 { some / all } else { 0.0 }
}

fn most(weights: HashMap<Frame, u64>, all: u64) -> Option<(Frame, f64)> {
    let (frame, weight) = weights.into_iter().max_by_key(|(_, weight)| *weight)?;
    Some((frame, part(weight as f64, all as f64)))
}

fn stack(sample: &Sample<'_>, image: &Image, files: &Files, scratch: &mut Scratch) -> Rc<[Place]> {
    let Some(registers) = &sample.registers else {
        return image.place(sample.pc).into_iter().collect();
    };
    let at = Registers { pc: sample.pc, sp: registers[SP], bp: registers[BP] };
    let mut stack = image.unwind_copy(at, sample.stack, files, scratch);
    stack.truncate(FRAMES);
    stack.into()
}

/// The data that a sample touches, as far as is known.
fn touched(sample: &Sample<'_>, image: &Image, files: &Files) -> Vec<Touch> {
    if !cfg!(target_arch = "x86_64") {
        return Vec::new();
    }
    let of_code = || {
        let (registers, leaf) = (sample.registers.as_ref()?, image.place(sample.pc)?);
        let (code, begin) = files.get(leaf.file).code()?;
        // Code is decoded where it is in memory, so that addresses relative to it are right.
        let bias = sample.pc.wrapping_sub(leaf.address);
        Some(touches(code, begin.wrapping_add(bias), sample.pc, registers))
    };
    of_code().unwrap_or_default()
}

fn weigh(stacks: &mut HashMap<Rc<[Place]>, Weight>, stack: Rc<[Place]>, kind: Kind, period: u64) {
    let is_full = stacks.len() >= MOST_STACKS && !stacks.contains_key(&stack);
    let weight = stacks.entry(if is_full { Rc::new([]) } else { stack }).or_default();
    match kind {
        // The clock's period is time, which samples are taken at: each is worth the same.
        Kind::Clock => weight.clock += 1,
        Kind::Fault => weight.faults += period,
    }
}

/// Sums over stacks.
#[derive(Default)]
struct Sums {
    all: Weight,
    in_allocator: Weight,
    leaves: HashMap<Frame, u64>,
    faulting: HashMap<Frame, u64>,
}

impl Sums {
    fn add(&mut self, stack: &[Place], weight: Weight, files: &Files, symbols: &mut Symbols) {
        self.all.clock += weight.clock;
        self.all.faults += weight.faults;
        let mut is_leaf = true;
        let mut in_allocator = false;
        for &place in stack {
            let file = files.get(place.file);
            for frame in symbols.frames(place, files) {
                let judged = Judged {
                    frame,
                    in_allocator: file.is_allocator,
                    in_c_library: file.is_c_library,
                };
                // The line within a function does not matter here.
                let function = Frame { file: None, line: None, ..frame.clone() };
                if std::mem::take(&mut is_leaf) {
                    *self.leaves.entry(function.clone()).or_default() += weight.clock;
                }
                if judged.is_allocator() {
                    if !std::mem::replace(&mut in_allocator, true) {
                        self.in_allocator.clock += weight.clock;
                        self.in_allocator.faults += weight.faults;
                    }
                } else if !file.is_c_library {
                    *self.faulting.entry(function).or_default() += weight.faults;
                    return;
                }
            }
        }
    }
}

/// Counts calls of functions that ask the system for memory, in windows.
struct Windows {
    counting: Vec<(&'static str, Passing)>,
    duty: Duty,
    counted_ns: u64,
    calls: HashMap<&'static str, u64>,
}

impl Windows {
    fn new() -> Self {
        Self {
            counting: Vec::new(),
            duty: Duty::new(COUNTED, COUNTED_AT_LEAST),
            counted_ns: 0,
            calls: HashMap::new(),
        }
    }

    /// Opens a window, or closes one, when it is time to; the first as soon as it is known where
    /// the functions are.
    fn step(&mut self, pid: u32, images: &HashMap<u32, Image>, files: &Files) {
        if self.duty.left_ns(clock::now_ns()) > 0 {
            return;
        }
        if self.duty.is_open() {
            self.close();
        } else if let Some(image) = images.get(&pid) {
            self.open(pid, image, files);
        }
    }

    fn open(&mut self, pid: u32, image: &Image, files: &Files) {
        let began = clock::own_thread_ns();
        let functions = image.mapping(files).into_iter();
        // Where the system refuses them, nothing is counted.
        self.counting = functions
            .filter_map(|(name, address)| Some((name, Passing::of(pid, address).ok()?)))
            .collect();
        for (_, passing) in &self.counting {
            passing.enable(true);
        }
        let took = clock::own_thread_ns() - began;
        self.duty.turned(!self.counting.is_empty(), clock::now_ns(), took);
    }

    fn close(&mut self) {
        let began = clock::own_thread_ns();
        for (_, passing) in &self.counting {
            passing.enable(false);
        }
        self.counted_ns += self.duty.ns(clock::now_ns());
        for (name, passing) in self.counting.drain(..) {
            *self.calls.entry(name).or_default() += passing.count();
        }
        self.duty.turned(false, clock::now_ns(), clock::own_thread_ns() - began);
    }

    /// How long it is until there is something to be done.
    fn left(&self) -> Duration {
        // A window that could not be opened yet waits for samples, which are taken anyway.
        let left = self.duty.left_ns(clock::now_ns());
        if left == 0 { Duration::MAX } else { Duration::from_nanos(left) }
    }

    /// Calls a second.
    fn rates(&self) -> Vec<(&'static str, f64)> {
        let counted = clock::seconds(self.counted_ns);
        let mut rates: Vec<_> =
            self.calls.iter().map(|(&name, &calls)| (name, part(calls as f64, counted))).collect();
        rates.sort_unstable_by_key(|&(name, _)| name);
        rates
    }
}
