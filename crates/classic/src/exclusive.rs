//! libmtmalloc as it is since 2010, with `MTEXCLUSIVE`: four buckets for each processor, and a
//! bucket to itself for every thread whose number is at most twice that of the processors. Such a
//! thread takes no lock at all; later ones share the other buckets, each behind its lock.
//!
//! Chunks have no locks: their bits are set and cleared atomically. How many blocks of a chunk are
//! free stands in an array beside the counts of others, so that the search walks along cache lines
//! that tell of sixteen chunks each. A chunk is as large as `MTCHUNKSIZE` says, from 9 to 512 pages
//! of 8 KiB, and 64 if it says nothing.
//!
//! Departures: those of `mtmalloc`, and `MTMAXCACHE` and `MTREALFREE` are not there.

use crate::Model;
use crate::block::{Kind, at, header_of};
use crate::buckets::{All, Buckets};
use crate::chunk::Chunk;
use crate::class::{self, CLASSES};
use crate::environment;
use crate::guarded::Guarded;
use crate::order;
use crate::oversize::Oversize;
use crate::segment::Segment;
use crate::thread;
use core::iter::successors;
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use freehold_sync::lock::Lock;

const BUCKETS_A_PROCESSOR: usize = 4;

/// Threads for each processor that get a bucket of their own.
const EXCLUSIVE_A_PROCESSOR: usize = 2;

const CHUNK_SIZE: &str = "MTCHUNKSIZE";
const LEAST_PAGES: usize = 9;
const USUAL_PAGES: usize = 64;
const MOST_PAGES: usize = 512;

/// Chunks that an array tells of.
const COUNTS: usize = 64;

/// The model.
pub struct Exclusive {
    buckets: Buckets<Bucket>,
    oversize: Oversize,
    /// The size of new chunks in pages; 0 until the environment was asked.
    pages: AtomicUsize,
}

type Bucket = Guarded<[Cache; CLASSES]>;

/// The chunks of a class in a bucket.
struct Cache {
    newest: Option<&'static Array>,
    /// Where the last allocation was served: the array, and the place in it.
    hint: Option<(&'static Array, usize)>,
    looked_at: u64,
}

/// Counts of free blocks, side by side, and the chunks that they are of.
#[repr(C, align(64))]
struct Array {
    free: [AtomicU32; COUNTS],
    chunks: [AtomicUsize; COUNTS],
    used: AtomicUsize,
    next: Option<&'static Array>,
}

/// A chunk keeps the place of its count.
type Counted = Chunk<&'static AtomicU32>;

impl Exclusive {
    /// An empty heap, made as the environment says.
    pub const fn new() -> Self {
        Self::made_for(0, 0)
    }

    /// An empty heap for so many processors, with chunks of so many pages.
    pub const fn made_for(processors: usize, pages: usize) -> Self {
        Self {
            buckets: Buckets::new(processors),
            oversize: Oversize::new(),
            pages: AtomicUsize::new(pages),
        }
    }

    /// Bytes taken from the system so far.
    pub fn taken(&self) -> usize {
        self.oversize.segment.taken()
    }

    /// How many counts were looked at by the calling thread's bucket, in search of a free block.
    pub fn counts_looked_at(&self) -> u64 {
        self.with_caches(|caches| Some(caches.iter().map(|cache| cache.looked_at).sum()))
            .unwrap_or(0)
    }

    /// How often a thread waited for a bucket that it shares with others.
    pub fn waits(&self) -> u32 {
        let all = self.buckets.existing();
        all.map_or(0, |all| all.iter().map(|bucket| bucket.lock().waits()).sum())
    }

    fn buckets(&self) -> Option<All<'_, Bucket>> {
        self.buckets.get(&self.oversize.segment, BUCKETS_A_PROCESSOR, || {
            Guarded::new(
                order::HEAP,
                [const { Cache { newest: None, hint: None, looked_at: 0 } }; CLASSES],
            )
        })
    }

    fn with_caches<R>(&self, use_it: impl FnOnce(&mut [Cache; CLASSES]) -> Option<R>) -> Option<R> {
        let buckets = self.buckets()?;
        let exclusive = EXCLUSIVE_A_PROCESSOR * buckets.processors;
        match thread::number() - 1 {
            // SAFETY: no other thread has this number, and no later one gets the bucket.
            own if own < exclusive => use_it(unsafe { buckets.get(own).as_held() }),
            later => {
                let shared = exclusive + later % (buckets.len() - exclusive);
                buckets.get(shared).with(use_it)
            }
        }
    }

    fn pages(&self) -> usize {
        match self.pages.load(Ordering::Relaxed) {
            0 => {
                let asked = environment::number(CHUNK_SIZE).unwrap_or(USUAL_PAGES);
                let pages = asked.clamp(LEAST_PAGES, MOST_PAGES);
                self.pages.store(pages, Ordering::Relaxed);
                pages
            }
            pages => pages,
        }
    }
}

impl Default for Exclusive {
    fn default() -> Self {
        Self::new()
    }
}

impl Cache {
    /// Looks for a free block from the hint to the end, and then from the start to the hint.
    fn search(&mut self) -> Option<usize> {
        let (array, place) = self.hint?;
        let later = successors(array.next, |array| array.next).map(|array| (array, 0));
        let earlier = successors(self.newest, |array| array.next).map(|array| (array, 0));
        let earlier = earlier.take_while(|(earlier, _)| !ptr::eq(*earlier, array));
        let places = [(array, place)].into_iter().chain(later).chain(earlier);
        let whole = places.map(|(array, from)| (array, from, array.used.load(Ordering::Relaxed)));
        for (array, from, to) in whole.chain([(array, 0, place)]) {
            let found = (from..to).find(|&n| {
                self.looked_at += 1;
                // Acquire pairs with the Release in `deallocate`: a count of one finds its bit.
                array.free[n].load(Ordering::Acquire) > 0
            });
            if let Some(n) = found {
                self.hint = Some((array, n));
                return array.take(n);
            }
        }
        None
    }

    /// Makes another chunk and takes the first block from it.
    fn grow(&mut self, class: usize, pages: usize, segment: &Segment) -> Option<usize> {
        let is_full = |array: &&Array| array.used.load(Ordering::Relaxed) == COUNTS;
        let array = match self.newest {
            Some(array) if !is_full(&array) => array,
            newest => Array::new(newest, segment)?,
        };
        self.newest = Some(array);
        let n = array.used.load(Ordering::Relaxed);
        let count = &array.free[n];
        let chunk: &Counted = Chunk::new(segment, pages, class::bytes(class), |blocks| {
            count.store(blocks as u32, Ordering::Relaxed);
            count
        })?;
        array.chunks[n].store((&raw const *chunk).expose_provenance(), Ordering::Relaxed);
        array.used.store(n + 1, Ordering::Relaxed);
        self.hint = Some((array, n));
        array.take(n)
    }
}

impl Array {
    fn new(next: Option<&'static Self>, segment: &Segment) -> Option<&'static Self> {
        let memory = segment.extend(size_of::<Self>() + align_of::<Self>())?;
        let array = at::<Self>(memory.next_multiple_of(align_of::<Self>()));
        // SAFETY: the memory is new and large enough, and never given back.
        unsafe {
            array.write(Self {
                free: [const { AtomicU32::new(0) }; COUNTS],
                chunks: [const { AtomicUsize::new(0) }; COUNTS],
                used: AtomicUsize::new(0),
                next,
            });
            Some(&*array)
        }
    }

    /// A block of the chunk at this place. Its count is never more than its free blocks, since who
    /// frees counts last.
    fn take(&self, n: usize) -> Option<usize> {
        // SAFETY: the place was filled with a chunk's address when it was made.
        let chunk = unsafe { &*at::<Counted>(self.chunks[n].load(Ordering::Relaxed)) };
        let block = chunk.take()?;
        self.free[n].fetch_sub(1, Ordering::Relaxed);
        Some(block)
    }
}

impl Model for Exclusive {
    fn allocate(&self, size: usize) -> *mut u8 {
        let Some(class) = class::of(size) else { return self.oversize.allocate(size) };
        let block = self.with_caches(|caches| {
            let cache = &mut caches[class];
            let segment = &self.oversize.segment;
            cache.search().or_else(|| cache.grow(class, self.pages(), segment))
        });
        block.map_or(ptr::null_mut(), at)
    }

    unsafe fn deallocate(&self, block: *mut u8) {
        // SAFETY: the block is the caller's to give back, and its owner the chunk that it is from.
        unsafe {
            let own = header_of(block);
            if own.kind() == Kind::Fitted {
                return self.oversize.deallocate(block);
            }
            let chunk = &*at::<Counted>(own.owner);
            chunk.put(block.addr());
            // Release: whoever sees the count finds the bit.
            chunk.kept.fetch_add(1, Ordering::Release);
        }
    }

    fn each_lock(&self, each: &mut dyn FnMut(&Lock)) {
        self.buckets.each_lock(each);
        self.oversize.locks().into_iter().for_each(each);
    }
}
