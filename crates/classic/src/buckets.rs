//! The buckets of libmtmalloc: as many as the processors call for, made when they are first
//! needed.

use crate::block::at;
use crate::environment;
use crate::guarded::Guarded;
use crate::order;
use crate::segment::{Segment, processors};
use core::marker::PhantomData;
use core::slice;
use core::sync::atomic::{AtomicUsize, Ordering};
use freehold_sync::lock::Lock;

/// The variable by which a model is made for another number of processors than there are.
const PROCESSORS: &str = "FREEHOLD_MODEL_CPUS";

/// The largest number that is believed.
const MOST_PROCESSORS: usize = 4096;

/// Buckets, each on cache lines of its own.
pub(crate) struct Buckets<B> {
    making: Lock,
    first: AtomicUsize,
    count: AtomicUsize,
    processors: AtomicUsize,
    bucket: PhantomData<fn() -> B>,
}

#[repr(align(128))]
struct Padded<B>(B);

/// The buckets as they were made.
pub(crate) struct All<'a, B> {
    buckets: &'a [Padded<B>],
    /// The processors that they were made for.
    pub(crate) processors: usize,
}

impl<'a, B> All<'a, B> {
    pub(crate) fn len(&self) -> usize {
        self.buckets.len()
    }

    pub(crate) fn get(&self, n: usize) -> &'a B {
        &self.buckets[n].0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &'a B> {
        self.buckets.iter().map(|padded| &padded.0)
    }
}

impl<B: Sync> Buckets<B> {
    /// None yet; they are going to be for so many processors, or, with 0, for as many as there are.
    pub(crate) const fn new(processors: usize) -> Self {
        Self {
            making: Lock::new(order::BUCKETS),
            first: AtomicUsize::new(0),
            count: AtomicUsize::new(0),
            processors: AtomicUsize::new(processors),
            bucket: PhantomData,
        }
    }

    /// All buckets, if they have been made.
    pub(crate) fn existing(&self) -> Option<All<'_, B>> {
        // Acquire pairs with the Release in `make`: the buckets are complete.
        let first = self.first.load(Ordering::Acquire);
        if first == 0 {
            return None;
        }
        let (count, processors) =
            (self.count.load(Ordering::Relaxed), self.processors.load(Ordering::Relaxed));
        // SAFETY: `make` has written so many buckets there, and they are never given back.
        let buckets = unsafe { slice::from_raw_parts(at(first), count) };
        Some(All { buckets, processors })
    }

    /// All buckets: `a_processor` of them for each processor, rounded up to a power of two.
    pub(crate) fn get(
        &self,
        segment: &Segment,
        a_processor: usize,
        new: fn() -> B,
    ) -> Option<All<'_, B>> {
        if let Some(all) = self.existing() {
            return Some(all);
        }
        self.making.hold(|| {
            if self.existing().is_none() {
                self.make(segment, a_processor, new)?;
            }
            self.existing()
        })
    }

    fn make(&self, segment: &Segment, a_processor: usize, new: fn() -> B) -> Option<()> {
        let asked = match self.processors.load(Ordering::Relaxed) {
            0 => environment::number(PROCESSORS).unwrap_or_else(processors),
            asked => asked,
        };
        let asked = asked.clamp(1, MOST_PROCESSORS);
        let count = (a_processor * asked).next_power_of_two();
        let align = align_of::<Padded<B>>();
        let memory = segment.extend(count * size_of::<Padded<B>>() + align)?;
        let first = memory.next_multiple_of(align);
        for n in 0..count {
            // SAFETY: the memory is new, and has room for so many.
            unsafe { at::<Padded<B>>(first).add(n).write(Padded(new())) };
        }
        self.count.store(count, Ordering::Relaxed);
        self.processors.store(asked, Ordering::Relaxed);
        // Release pairs with the Acquire in `existing`.
        self.first.store(first, Ordering::Release);
        Some(())
    }
}

impl<T: Send> Buckets<Guarded<T>> {
    /// The lock under which they are made, and those of all of them.
    pub(crate) fn each_lock(&self, each: &mut dyn FnMut(&Lock)) {
        each(&self.making);
        if let Some(all) = self.existing() {
            all.iter().for_each(|bucket| each(bucket.lock()));
        }
    }
}
