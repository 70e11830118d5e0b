//! Performing the steps of a thread. It must not know when threads start, or what is reported.

use std::ffi::c_void;
use std::hint;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use freehold_trace::script::Step;

use super::pace::Pace;
use super::source::{Source, read};
use super::{Calls, Touch};
use crate::mapping::Mapping;

/// Bytes between two writes when one of each page is written: no page is smaller.
const PAGE: usize = 4096;

/// Looks for an object that is not there yet, before the thread yields between looks.
const LOOKS: u32 = 200;

/// The table of objects, and what has gone wrong.
pub(super) struct Performer<'a> {
    source: &'a Source,
    touch: Touch,
    slots: Mapping<AtomicPtr<c_void>>,
    /// The size for which the allocator returned null, plus one; 0 if it has not.
    exhausted: AtomicU64,
    damaged: AtomicBool,
}

/// What a thread has to stop for.
enum Stop {
    /// The allocator returned null for this size.
    Exhausted(u64),
    /// The script is damaged.
    Damaged,
    /// Another thread has stopped.
    Others,
}

/// A thread while it performs.
struct Actor<'a> {
    performer: &'a Performer<'a>,
    pace: &'a Pace,
    slice: Option<u32>,
    calls: Calls,
    waited: Duration,
}

impl<'a> Performer<'a> {
    pub(super) fn new(source: &'a Source, touch: Touch) -> io::Result<Self> {
        let slots = Mapping::resident((source.header().slots as usize).max(1))?;
        let (exhausted, damaged) = (AtomicU64::new(0), AtomicBool::new(false));
        Ok(Self { source, touch, slots, exhausted, damaged })
    }

    pub(super) fn mapped_bytes(&self) -> usize {
        self.slots.bytes()
    }

    /// The size for which the allocator returned null.
    pub(super) fn exhausted(&self) -> Option<u64> {
        self.exhausted.load(Ordering::Relaxed).checked_sub(1)
    }

    pub(super) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Performs all steps of a thread; returns the calls that it made, and how long it waited for
    /// others.
    pub(super) fn perform(&self, number: usize, pace: &Pace) -> (Calls, Duration) {
        let mut actor = Actor {
            performer: self,
            pace,
            slice: None,
            calls: Calls::default(),
            waited: Duration::ZERO,
        };
        if let Err(stop) = actor.perform(number) {
            match stop {
                Stop::Exhausted(size) => self.exhausted.store(size + 1, Ordering::Relaxed),
                Stop::Damaged => self.damaged.store(true, Ordering::Relaxed),
                Stop::Others => {}
            }
            pace.stop();
        }
        (actor.calls, actor.waited)
    }
}

impl Actor<'_> {
    fn perform(&mut self, number: usize) -> Result<(), Stop> {
        let source = self.performer.source;
        let mut steps = source.steps(&source.thread(number)).iter();
        while let Some(bytes) = steps.next() {
            match read(bytes).ok_or(Stop::Damaged)? {
                Step::Enter { slice, change } => self.enter(slice, change)?,
                Step::End { change } => self.leave(change),
                Step::Malloc { slot, size } => {
                    self.calls.malloc += 1;
                    // SAFETY: `malloc` has no preconditions.
                    let block = unsafe { libc::malloc(size as usize) };
                    self.put(slot, block, 0, size)?;
                }
                Step::Calloc { slot, size } => {
                    self.calls.calloc += 1;
                    // SAFETY: `calloc` has no preconditions.
                    let block = unsafe { libc::calloc(1, size as usize) };
                    self.put(slot, block, 0, size)?;
                }
                Step::Aligned { slot, size, power } => {
                    self.calls.aligned += 1;
                    self.put(slot, aligned(power, size), 0, size)?;
                }
                Step::ReallocNull { slot, size } => {
                    self.calls.realloc += 1;
                    // The compiler would make a call of `malloc` of it.
                    let null = hint::black_box(ptr::null_mut());
                    // SAFETY: null may be resized.
                    let block = unsafe { libc::realloc(null, size as usize) };
                    self.put(slot, block, 0, size)?;
                }
                Step::Realloc { from, to, size } => {
                    let Some(Step::Was { size: was }) = steps.next().and_then(read) else {
                        return Err(Stop::Damaged);
                    };
                    self.calls.realloc += 1;
                    let block = self.take(from)?;
                    // SAFETY: the block came from the allocator, and is nobody else's: it was taken
                    // out of its slot.
                    let moved = unsafe { libc::realloc(block, size as usize) };
                    self.put(to, moved, was, size)?;
                }
                Step::ReallocZero { slot } => {
                    self.calls.realloc += 1;
                    let block = self.take(slot)?;
                    // The compiler would make a call of `free` of it, and of both.
                    let nothing = hint::black_box(0);
                    // SAFETY: as above.
                    let rest = unsafe { libc::realloc(block, nothing) };
                    // Some allocators give out a block of no bytes instead.
                    // SAFETY: null, or a block of ours.
                    unsafe { libc::free(hint::black_box(rest)) };
                }
                Step::Free { slot } => {
                    self.calls.free += 1;
                    let block = self.take(slot)?;
                    // SAFETY: as above.
                    unsafe { libc::free(block) };
                }
                Step::FreeNull => {
                    self.calls.free_null += 1;
                    // SAFETY: null may be freed.
                    unsafe { libc::free(hint::black_box(ptr::null_mut())) };
                }
                Step::Was { .. } => return Err(Stop::Damaged),
            }
        }
        Ok(())
    }

    fn enter(&mut self, slice: u32, change: i64) -> Result<(), Stop> {
        self.leave(change);
        self.waited += self.pace.enter(slice);
        self.slice = Some(slice);
        if self.pace.is_stopped() { Err(Stop::Others) } else { Ok(()) }
    }

    fn leave(&mut self, change: i64) {
        if let Some(slice) = self.slice.take() {
            self.pace.leave(slice, change);
        }
    }

    /// Puts a new block into its slot, and writes to it as far as it is new.
    fn put(&self, slot: u32, block: *mut c_void, was: u64, size: u64) -> Result<(), Stop> {
        // An allocator may return null for no bytes.
        if block.is_null() && size > 0 {
            return Err(Stop::Exhausted(size));
        }
        // SAFETY: the block is ours and has so many bytes, of which the first were there before.
        unsafe { self.write(block.cast(), was as usize, size as usize) };
        let slot = self.performer.slots.get(slot as usize).ok_or(Stop::Damaged)?;
        // Whoever takes it must not wait for a block that is null.
        let block = if block.is_null() { NO_BYTES } else { block };
        // Release pairs with the acquire in `take`: what was written comes with the block.
        slot.store(block, Ordering::Release);
        Ok(())
    }

    /// Takes a block out of its slot, once it is there.
    fn take(&mut self, slot: u32) -> Result<*mut c_void, Stop> {
        let slot = self.performer.slots.get(slot as usize).ok_or(Stop::Damaged)?;
        let mut block = slot.load(Ordering::Acquire);
        if block.is_null() {
            block = self.wait_for(slot)?;
        }
        // Relaxed: who fills the slot again does so in a slice that begins after this one.
        slot.store(ptr::null_mut(), Ordering::Relaxed);
        Ok(if block == NO_BYTES { ptr::null_mut() } else { block })
    }

    #[cold]
    fn wait_for(&mut self, slot: &AtomicPtr<c_void>) -> Result<*mut c_void, Stop> {
        let start = Instant::now();
        let mut looks = 0_u32;
        loop {
            let block = slot.load(Ordering::Acquire);
            if !block.is_null() {
                self.waited += start.elapsed();
                return Ok(block);
            }
            if self.pace.is_stopped() {
                return Err(Stop::Others);
            }
            looks += 1;
            if looks < LOOKS {
                hint::spin_loop();
            } else {
                thread::yield_now();
            }
        }
    }

    /// Writes to the new part of a block.
    ///
    /// # Safety
    /// It has `size` bytes and is the caller's.
    unsafe fn write(&self, block: *mut u8, was: usize, size: usize) {
        if was >= size {
            return;
        }
        // SAFETY: all places are within the block.
        unsafe {
            match self.performer.touch {
                Touch::None => {}
                Touch::First => {
                    for at in (was..size).step_by(PAGE) {
                        block.add(at).write_volatile(1);
                    }
                }
                Touch::All => block.add(was).write_bytes(1, size - was),
            }
        }
    }
}

/// In a slot: null, as some allocators return for no bytes.
const NO_BYTES: *mut c_void = ptr::without_provenance_mut(1);

fn aligned(power: u32, size: u64) -> *mut c_void {
    let mut block = ptr::null_mut();
    // The least that the function takes.
    let align = 1_usize.checked_shl(power).unwrap_or(0).max(size_of::<usize>());
    // SAFETY: the result is written to a local variable.
    let status = unsafe { libc::posix_memalign(&raw mut block, align, size as usize) };
    if status == 0 { block } else { ptr::null_mut() }
}
