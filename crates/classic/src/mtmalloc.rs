//! libmtmalloc as it was until 2010: buckets chosen by the thread's number, in each a list of
//! chunks for every class, and a lock for each bucket and each chunk.
//!
//! An allocation walks the list from the chunk that served the last one to the end, then from the
//! start to there, and looks at every chunk for a free block. A chunk is as large as the variable
//! `MTCHUNKSIZE` says, from 9 to 256 pages of 8 KiB. Freeing finds the chunk through the block's
//! header, whoever frees, and takes the chunk's lock alone. What is larger than 64 KiB is served
//! from one area behind one lock.
//!
//! Departures: a header has 16 bytes, not 8, so that a chunk of 20 pages has 304 blocks of 512
//! bytes and not 312. A chunk that is too small for eight blocks has as many as fit.

use crate::Model;
use crate::block::{Kind, at, header_of};
use crate::buckets::{All, Buckets};
use crate::chunk::Chunk;
use crate::class::{self, CLASSES};
use crate::environment;
use crate::guarded::Guarded;
use crate::order;
use crate::oversize::Oversize;
use crate::thread;
use core::iter::successors;
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use freehold_sync::lock::Lock;

/// Buckets for each processor.
const BUCKETS_A_PROCESSOR: usize = 2;

/// The variable for the size of chunks, and what it may be.
const CHUNK_SIZE: &str = "MTCHUNKSIZE";
const LEAST_PAGES: usize = 9;
const MOST_PAGES: usize = 256;

/// The model.
pub struct Mtmalloc {
    buckets: Buckets<Bucket>,
    oversize: Oversize,
    /// The size of new chunks in pages; 0 until the environment was asked.
    pages: AtomicUsize,
}

type Bucket = Guarded<[Cache; CLASSES]>;

/// The chunks of a class in a bucket.
struct Cache {
    first: Option<&'static Listed>,
    /// The chunk that served the last allocation.
    hint: Option<&'static Listed>,
    looked_at: u64,
}

type Listed = Chunk<Kept>;

/// What is kept at the start of a chunk.
struct Kept {
    lock: Lock,
    /// Free blocks. Changed with the lock held, and looked at without.
    free: AtomicU32,
    next: Option<&'static Listed>,
}

impl Mtmalloc {
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

    /// How many chunks were looked at so far, in search of a free block.
    pub fn chunks_looked_at(&self) -> u64 {
        let all = self.buckets.existing();
        let of_bucket = |bucket: &Bucket| {
            bucket.with(|caches| caches.iter().map(|cache| cache.looked_at).sum::<u64>())
        };
        all.map_or(0, |all| all.iter().map(of_bucket).sum())
    }

    /// Bytes taken from the system so far.
    pub fn taken(&self) -> usize {
        self.oversize.segment.taken()
    }

    fn buckets(&self) -> Option<All<'_, Bucket>> {
        self.buckets.get(&self.oversize.segment, BUCKETS_A_PROCESSOR, || {
            Guarded::new(
                order::HEAP,
                [const { Cache { first: None, hint: None, looked_at: 0 } }; CLASSES],
            )
        })
    }

    fn allocate_in(&self, class: usize) -> Option<usize> {
        let buckets = self.buckets()?;
        let bucket = buckets.get(thread::number() & (buckets.len() - 1));
        bucket.with(|caches| {
            let cache = &mut caches[class];
            cache.search().or_else(|| cache.grow(self.chunk(class, cache.first)?))
        })
    }

    fn chunk(&self, class: usize, next: Option<&'static Listed>) -> Option<&'static Listed> {
        let bytes = class::bytes(class);
        Chunk::new(&self.oversize.segment, self.pages(), bytes, |blocks| Kept {
            lock: Lock::new(order::CHUNK),
            free: AtomicU32::new(blocks as u32),
            next,
        })
    }

    fn pages(&self) -> usize {
        match self.pages.load(Ordering::Relaxed) {
            0 => {
                let asked = environment::number(CHUNK_SIZE).unwrap_or(LEAST_PAGES);
                let pages = asked.clamp(LEAST_PAGES, MOST_PAGES);
                self.pages.store(pages, Ordering::Relaxed);
                pages
            }
            pages => pages,
        }
    }
}

impl Default for Mtmalloc {
    fn default() -> Self {
        Self::new()
    }
}

impl Cache {
    /// Looks for a free block from the hint to the end, and then from the start to the hint.
    fn search(&mut self) -> Option<usize> {
        let hint = self.hint?;
        let to_end = successors(self.hint, |chunk| chunk.kept.next);
        let to_hint = successors(self.first, |chunk| chunk.kept.next);
        let to_hint = to_hint.take_while(|chunk| !ptr::eq(*chunk, hint));
        let mut looked_at = 0;
        let found = to_end.chain(to_hint).find_map(|chunk| {
            looked_at += 1;
            Some((chunk, chunk.take_one()?))
        });
        self.looked_at += looked_at;
        let (chunk, block) = found?;
        self.hint = Some(chunk);
        Some(block)
    }

    /// Puts a new chunk at the start of the list and takes the first block from it.
    fn grow(&mut self, chunk: &'static Listed) -> Option<usize> {
        (self.first, self.hint) = (Some(chunk), Some(chunk));
        chunk.take_one()
    }
}

impl Listed {
    fn take_one(&self) -> Option<usize> {
        if self.kept.free.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.kept.lock.hold(|| {
            let block = self.take()?;
            self.kept.free.fetch_sub(1, Ordering::Relaxed);
            Some(block)
        })
    }

    fn put_back(&self, block: usize) {
        self.kept.lock.hold(|| {
            self.put(block);
            self.kept.free.fetch_add(1, Ordering::Relaxed);
        });
    }
}

impl Model for Mtmalloc {
    fn allocate(&self, size: usize) -> *mut u8 {
        match class::of(size) {
            Some(class) => self.allocate_in(class).map_or(ptr::null_mut(), at),
            None => self.oversize.allocate(size),
        }
    }

    unsafe fn deallocate(&self, block: *mut u8) {
        // SAFETY: the block is the caller's to give back, and its owner the chunk that it is from.
        unsafe {
            let own = header_of(block);
            if own.kind() == Kind::Fitted {
                self.oversize.deallocate(block);
            } else {
                (*at::<Listed>(own.owner)).put_back(block.addr());
            }
        }
    }

    fn each_lock(&self, each: &mut dyn FnMut(&Lock)) {
        self.buckets.each_lock(each);
        self.oversize.locks().into_iter().for_each(each);
    }

    /// A thread that was just freeing a block may have held a chunk's lock. The block counts as
    /// free already, or it is lost.
    fn after_fork(&self) {
        for bucket in self.buckets.existing().iter().flat_map(All::iter) {
            // SAFETY: there is only this thread, and it holds the bucket's lock.
            for cache in unsafe { bucket.as_held() } {
                let chunks = successors(cache.first, |chunk| chunk.kept.next);
                chunks.for_each(|chunk| chunk.kept.lock.reset());
            }
        }
    }
}
