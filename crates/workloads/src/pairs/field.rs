//! The threads of `pairs` and what they share. It must not know when a run ends or what is
//! reported of it: it looks at the stop flag and keeps its counters current.

use std::ffi::c_void;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Scope};

use super::{Config, Sizes};
use crate::blocks;
use crate::checks::{Checks, Subject};
use crate::clock::nanoseconds;
use crate::error::Error;
use crate::gate::{Gate, Signal};
use crate::handoff::{Baton, CLOSED, EMPTY, FULL};
use crate::mapping::{Mapping, Zeroed};
use crate::pattern::{self, Fault};
use crate::progress::{Count, Progress};
use crate::rng::Rng;

/// Calls between two publications of a thread's progress, and between two looks at the stop flag.
const PUBLISH_EVERY: usize = 64;

/// Pointers in two cache lines: block arrays start at multiples of this, so that no two threads
/// write to one line.
const LINE: usize = 16;

/// A slot: the word that hands it over, and what is handed over with it. The blocks themselves are
/// kept apart, so that waiting for the word does not disturb the partner who writes them.
#[repr(align(128))]
struct Slot {
    baton: Baton,
    count: AtomicU32,
    bytes: AtomicU64,
}

// SAFETY: atomic integers and padding, all of which may be zero; a zero baton is EMPTY.
unsafe impl Zeroed for Slot {}

/// Everything that the threads of a run share.
pub(super) struct Field<'a> {
    pub(super) config: &'a Config,
    slots: Mapping<Slot>,
    blocks: Mapping<AtomicPtr<c_void>>,
    /// The size of each block, where blocks are checked.
    sizes: Option<Mapping<AtomicU32>>,
    pub(super) checks: Checks,
    pub(super) allocating: Mapping<Progress>,
    pub(super) freeing: Mapping<Progress>,
    pub(super) start: Gate,
    pub(super) end: Gate,
    /// Relaxed: it carries no data, and being seen a little later only makes a run a little longer.
    pub(super) stop: AtomicBool,
    /// The first reason for which the run failed.
    failure: Mutex<Option<Error>>,
}

impl<'a> Field<'a> {
    pub(super) fn new(config: &'a Config) -> io::Result<Self> {
        let pairs = config.pairs as usize;
        let slots = pairs * config.depth as usize;
        let checks = Checks::new(config.verify, config.false_sharing)?;
        let sizes = checks.are_wanted().then(|| Mapping::zeroed(slots * Self::stride(config)));
        Ok(Self {
            config,
            slots: Mapping::zeroed(slots)?,
            blocks: Mapping::zeroed(slots * Self::stride(config))?,
            sizes: sizes.transpose()?,
            checks,
            allocating: Mapping::zeroed(pairs)?,
            freeing: Mapping::zeroed(pairs)?,
            start: Gate::default(),
            end: Gate::default(),
            stop: AtomicBool::new(false),
            failure: Mutex::new(None),
        })
    }

    fn stride(config: &Config) -> usize {
        (config.allocations as usize).next_multiple_of(LINE)
    }

    pub(super) fn threads(&self) -> u32 {
        2 * self.config.pairs
    }

    /// What the harness mapped for itself.
    pub(super) fn mapped_bytes(&self) -> u64 {
        let sizes = self.sizes.as_ref().map_or(0, Mapping::bytes);
        let arrays = self.slots.bytes() + self.blocks.bytes() + sizes;
        (arrays + self.allocating.bytes() + self.freeing.bytes()) as u64
    }

    /// Stops everybody, and keeps the first reason.
    #[cold]
    fn fail(&self, error: Error) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.stop.store(true, Ordering::Relaxed);
    }

    /// The reason for which the run failed, if it did.
    pub(super) fn failure(&self) -> Option<Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether nothing was found to be wrong; else the run is over.
    pub(super) fn is_sound(&self, found: Result<(), Fault>) -> bool {
        found.map_err(|fault| self.fail(Error::Corrupt(fault))).is_ok()
    }

    /// Takes up a new block, in a place of the array of blocks, for being checked.
    #[cold]
    fn enter(&self, place: &AtomicPtr<c_void>, size: usize, pair: u32) -> bool {
        let Some(sizes) = &self.sizes else { return true };
        let number = self.number_of(place);
        sizes[number].store(size as u32, Ordering::Relaxed);
        let alignment = pattern::owed_alignment(size);
        // SAFETY: the block in this place was allocated with this size just now.
        self.is_sound(unsafe { self.checks.enter(self.subject(number), alignment, pair) })
    }

    /// Looks at a block that is about to be freed.
    #[cold]
    fn strike(&self, place: &AtomicPtr<c_void>) -> bool {
        // SAFETY: the block in this place was entered by the partner, and not freed since.
        self.is_sound(unsafe { self.checks.strike(self.subject(self.number_of(place))) })
    }

    fn subject(&self, number: usize) -> Subject {
        let size = self.sizes.as_ref().map_or(0, |sizes| sizes[number].load(Ordering::Relaxed));
        let block = self.blocks[number].load(Ordering::Relaxed).cast();
        Subject { block, size: size as usize, tag: number as u32 }
    }

    fn number_of(&self, place: &AtomicPtr<c_void>) -> usize {
        let distance = ptr::from_ref(place) as usize - self.blocks.as_ptr() as usize;
        distance / size_of::<AtomicPtr<c_void>>()
    }

    /// The slots of a pair, without end, each with its array of blocks.
    fn turns(&self, pair: u32) -> impl Iterator<Item = (&Slot, &[AtomicPtr<c_void>])> {
        let depth = self.config.depth as usize;
        let stride = Self::stride(self.config);
        let first = pair as usize * depth;
        (first..first + depth).cycle().map(move |slot| {
            let blocks = &self.blocks[slot * stride..][..self.config.allocations as usize];
            (&self.slots[slot], blocks)
        })
    }

    /// Starts the allocating threads first and then the freeing ones, so that thread numbers tell
    /// them apart in any tool that lists threads.
    pub(super) fn start_threads<'s>(&'s self, scope: &'s Scope<'s, '_>) -> io::Result<()> {
        let pairs = self.config.pairs;
        for number in 0..self.threads() {
            let pair = number % pairs;
            let allocates = number < pairs;
            let role = if allocates { "alloc" } else { "free" };
            let builder = thread::Builder::new().name(format!("{role}-{pair}"));
            let started = builder.spawn_scoped(scope, move || {
                if self.start.pass() == Signal::Leave {
                    return;
                }
                if allocates {
                    self.allocate(pair);
                } else {
                    self.free(pair);
                }
                self.end.pass();
            });
            if let Err(error) = started {
                self.start.open(Signal::Leave);
                return Err(error);
            }
        }
        Ok(())
    }

    /// The life of an allocating thread.
    fn allocate(&self, pair: u32) {
        let handoff = self.config.handoff;
        let progress = &self.allocating[pair as usize];
        let mut rng = Rng::for_thread(self.config.seed, pair);
        let mut done = Count::default();
        for (slot, blocks) in self.turns(pair) {
            let (_, waited) = slot.baton.wait_while(FULL, handoff);
            done.waited_ns += nanoseconds(waited);
            progress.publish_wait(done.waited_ns);
            if self.stop.load(Ordering::Relaxed) {
                slot.baton.set(CLOSED, handoff);
                return;
            }
            let before = done;
            self.fill(pair, blocks, &mut rng, &mut done);
            slot.count.store((done.calls - before.calls) as u32, Ordering::Relaxed);
            slot.bytes.store(done.bytes - before.bytes, Ordering::Relaxed);
            slot.baton.set(FULL, handoff);
        }
    }

    /// Allocates a batch, or the part of one that was done when the run was stopped.
    fn fill(&self, pair: u32, blocks: &[AtomicPtr<c_void>], rng: &mut Rng, done: &mut Count) {
        let progress = &self.allocating[pair as usize];
        let memset = self.config.memset;
        let (base, span) = self.config.range();
        for chunk in blocks.chunks(PUBLISH_EVERY) {
            for place in chunk {
                let size = size(rng, base, span);
                let Some(block) = blocks::allocate(size) else {
                    self.fail(Error::Exhausted { size: size as u64 });
                    return;
                };
                if memset {
                    // SAFETY: the block was allocated with this size just now.
                    unsafe { blocks::fill(block, size) };
                }
                place.store(block.as_ptr(), Ordering::Relaxed);
                done.calls += 1;
                done.bytes += size as u64;
                if self.checks.are_wanted() && !self.enter(place, size, pair) {
                    return;
                }
            }
            progress.publish(done.calls, done.bytes);
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    /// The life of a freeing thread.
    fn free(&self, pair: u32) {
        let handoff = self.config.handoff;
        let progress = &self.freeing[pair as usize];
        let mut done = Count::default();
        for (slot, blocks) in self.turns(pair) {
            let (state, waited) = slot.baton.wait_while(EMPTY, handoff);
            done.waited_ns += nanoseconds(waited);
            progress.publish_wait(done.waited_ns);
            if state == CLOSED {
                return;
            }
            let count = slot.count.load(Ordering::Relaxed) as usize;
            let bytes = slot.bytes.load(Ordering::Relaxed);
            let blocks = &blocks[..count];
            // Memory that is not what it should be is left alone, and the run is over.
            if !self.checks.are_wanted() || blocks.iter().all(|place| self.strike(place)) {
                drain(blocks, bytes, &mut done, progress);
            }
            slot.baton.set(EMPTY, handoff);
        }
    }
}

impl Config {
    /// The least size, and how many there are from there on; none for a fixed one.
    fn range(&self) -> (u32, u32) {
        match self.sizes {
            Sizes::Random => (self.min, self.max),
            Sizes::Fixed => (self.max, 0),
        }
    }
}

/// The size of a block.
fn size(rng: &mut Rng, base: u32, span: u32) -> usize {
    base as usize + rng.below(span) as usize
}

/// Frees a batch of `bytes` in all. Live bytes fall in proportion while it goes on: single sizes
/// are not kept.
fn drain(blocks: &[AtomicPtr<c_void>], bytes: u64, done: &mut Count, progress: &Progress) {
    let before = *done;
    for chunk in blocks.chunks(PUBLISH_EVERY) {
        for place in chunk {
            // SAFETY: the partner stored the block before handing the slot over, nobody else has
            // freed it, and the slot is not read again before it has been filled anew.
            unsafe { blocks::release(place.load(Ordering::Relaxed)) };
            done.calls += 1;
        }
        let share = (done.calls - before.calls) as f64 / blocks.len() as f64;
        done.bytes = before.bytes + (bytes as f64 * share) as u64;
        progress.publish(done.calls, done.bytes);
    }
    done.bytes = before.bytes + bytes;
    progress.publish(done.calls, done.bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_histogram_that_was_published() {
        // What was counted in ten seconds with a maximum of 4096, in steps of 1024 bytes.
        const PUBLISHED: [u32; 5] = [2_331_480, 2_349_943, 2_347_354, 2_348_106, 18_323];
        const DRAWS: u32 = 1_000_000;
        let mut rng = Rng::for_thread(1, 0);
        let mut counts = [0_u32; 5];
        let mut sum = 0;
        for _ in 0..DRAWS {
            let size = size(&mut rng, 8, 4096);
            counts[size / 1024] += 1;
            sum += size;
        }
        let all = f64::from(PUBLISHED.iter().sum::<u32>());
        for (count, published) in counts.into_iter().zip(PUBLISHED) {
            let (share, published) =
                (f64::from(count) / f64::from(DRAWS), f64::from(published) / all);
            // Four standard deviations of a share of that many draws.
            let bound = 4.0 * (published / f64::from(DRAWS)).sqrt();
            assert!((share - published).abs() < bound, "{share}, not {published}: {counts:?}");
        }
        // 8 to 4103: 2055.5 on average.
        let mean = sum as f64 / f64::from(DRAWS);
        assert!((mean - 2055.5).abs() < 5.0, "{mean}");
    }
}
