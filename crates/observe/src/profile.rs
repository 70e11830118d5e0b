//! Where a process' processor time and page faults come from, by samples that every user may
//! take; and how often it asks the system for memory. It must not know what that means.

use std::collections::HashMap;
use std::io;
use std::rc::Rc;

use freehold_model::{Frame, WaitRow};

use crate::clock;
use crate::perf::record::{BP, Record, SP, Sample};
use crate::perf::{Kind, Passing, Session};
use crate::sharing::{Lines, Shared};
use crate::stack::image::{Files, Image, Place, Registers, Scratch};
use crate::stack::symbol::Symbols;
use crate::stack::touch::touches;
use crate::stack::wait::Judged;
use crate::waiting::{self, Cell, Lock, Site};

/// Different stacks that are kept. Others count in the sums alone.
const MOST_STACKS: usize = 20_000;

/// Frames of a stack that are kept: as many as lie between an allocator and its caller.
const FRAMES: usize = 16;

/// How long calls are counted, and how long they are not, in nanoseconds: counting one costs some
/// microseconds.
const WINDOW_NS: u64 = 20_000_000;
const PAUSE_NS: u64 = 480_000_000;

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
    session: Session,
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
    /// Threads that began.
    pub(crate) threads_begun: u64,
    /// Anonymous mappings that were made.
    pub(crate) mappings: u64,
    /// Records that were lost.
    pub(crate) lost: u64,
}

/// What the samples come to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Profiled {
    /// Without names.
    pub(crate) totals: Totals,
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
        Ok(Self {
            busiest: pid,
            session: Session::of(pid)?,
            files: Files::default(),
            images: HashMap::new(),
            scratch: Scratch::default(),
            stacks: HashMap::new(),
            lines: Lines::default(),
            allocators_lines: Lines::default(),
            totals: Totals::default(),
            windows: (counting == Counting::Calls).then(Windows::default),
        })
    }

    /// Takes the samples that have come. To be called often.
    pub(crate) fn take(&mut self) {
        let Self { session, files, images, scratch, stacks, totals, busiest, .. } = self;
        let (lines, allocators_lines) = (&mut self.lines, &mut self.allocators_lines);
        session.drain(&mut |kind, record| match (record, kind) {
            (Record::Sample(sample), Some(kind)) => {
                let image =
                    images.entry(sample.pid).or_insert_with(|| Image::of(sample.pid, files));
                image.notice(sample.pc, files);
                let stack = stack(&sample, image, files, scratch);
                if kind == Kind::Clock {
                    totals.samples += 1;
                    *busiest = sample.pid;
                    let is_allocators = |place: &Place| files.get(place.file).is_allocator;
                    let is_within = stack.iter().any(is_allocators);
                    let lines = if is_within { &mut *allocators_lines } else { &mut *lines };
                    touch(&sample, image, files, &stack, lines);
                }
                weigh(stacks, stack, kind, sample.period);
            }
            (Record::Begin, _) => totals.threads_begun += 1,
            (Record::Map { is_anonymous: true, .. }, _) => totals.mappings += 1,
            (Record::Lost(lost), _) => totals.lost += lost,
            _ => {}
        });
        if let Some(windows) = &mut self.windows {
            windows.step(self.busiest, &self.images, &self.files);
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
        let part = |samples: u32| part(f64::from(samples), self.totals.samples as f64);
        Profiled {
            totals: self.totals,
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

/// Takes account of the data that a sample touches.
fn touch(
    sample: &Sample<'_>,
    image: &Image,
    files: &Files,
    stack: &Rc<[Place]>,
    lines: &mut Lines<Rc<[Place]>>,
) {
    let (Some(registers), Some(leaf)) = (&sample.registers, image.place(sample.pc)) else { return };
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    if let Some((code, begin)) = files.get(leaf.file).code() {
        // Code is decoded where it is in memory, so that addresses relative to it are right.
        let bias = sample.pc.wrapping_sub(leaf.address);
        let touched = touches(code, begin.wrapping_add(bias), sample.pc, registers);
        lines.add((sample.pid, sample.tid), &touched, stack);
    }
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
#[derive(Default)]
struct Windows {
    counting: Vec<(&'static str, Passing)>,
    since_ns: u64,
    is_open: bool,
    counted_ns: u64,
    calls: HashMap<&'static str, u64>,
}

impl Windows {
    /// Opens a window, or closes one, when it is time to.
    fn step(&mut self, pid: u32, images: &HashMap<u32, Image>, files: &Files) {
        let now = clock::now_ns();
        let length = if self.is_open { WINDOW_NS } else { PAUSE_NS };
        // The first one opens as soon as it is known where the functions are.
        if self.since_ns > 0 && now - self.since_ns < length {
            return;
        }
        if self.is_open {
            self.close(now);
        } else if let Some(image) = images.get(&pid) {
            self.open(pid, image, files);
        }
    }

    fn open(&mut self, pid: u32, image: &Image, files: &Files) {
        let functions = image.mapping(files).into_iter();
        // Where the system refuses them, nothing is counted.
        self.counting = functions
            .filter_map(|(name, address)| Some((name, Passing::of(pid, address).ok()?)))
            .collect();
        for (_, passing) in &self.counting {
            passing.enable(true);
        }
        self.is_open = !self.counting.is_empty();
        self.since_ns = clock::now_ns();
    }

    fn close(&mut self, now: u64) {
        for (_, passing) in &self.counting {
            passing.enable(false);
        }
        for (name, passing) in self.counting.drain(..) {
            *self.calls.entry(name).or_default() += passing.count();
        }
        self.counted_ns += now - self.since_ns;
        self.since_ns = now;
        self.is_open = false;
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
