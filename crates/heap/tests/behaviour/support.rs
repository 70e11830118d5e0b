//! What the tests of the heap share: a thread of the program, with its cache, its own idea of what
//! it owns, and a random number generator whose seed is printed.

use freehold_heap::arena::Arena;
use freehold_heap::blocks::Prefer;
use freehold_heap::cache::ThreadCache;
use freehold_heap::class::{Class, SMALL_MAX};
use freehold_heap::invalid::Invalid;
use freehold_sys::System;
use std::ptr::NonNull;

/// An arena that is given back at the end of the test, and checked before.
pub(crate) struct Estate<S: System> {
    arena: NonNull<Arena<S>>,
}

// SAFETY: an arena may be used and destroyed by any thread.
unsafe impl<S: System> Sync for Estate<S> {}
// SAFETY: as above.
unsafe impl<S: System> Send for Estate<S> {}

impl<S: System> Estate<S> {
    pub(crate) fn new(system: S) -> Self {
        Self { arena: Arena::create(system).expect("there is address space") }
    }

    pub(crate) fn arena(&self) -> &Arena<S> {
        // SAFETY: it lives until `drop`.
        unsafe { self.arena.as_ref() }
    }
}

impl<S: System> Drop for Estate<S> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: the threads of the test are gone.
            unsafe { self.arena().check() };
        }
        // SAFETY: nobody uses it any more.
        unsafe { Arena::destroy(self.arena) };
    }
}

/// A thread of the program.
pub(crate) struct Thread<'a, S: System> {
    arena: &'a Arena<S>,
    pub(crate) cache: ThreadCache,
}

impl<'a, S: System> Thread<'a, S> {
    pub(crate) fn new(estate: &'a Estate<S>) -> Self {
        Self { arena: estate.arena(), cache: ThreadCache::new() }
    }

    pub(crate) fn alloc(&mut self, size: usize) -> Option<usize> {
        if size <= SMALL_MAX {
            let object = self.cache.pop(Class::of_small(size));
            if !object.is_null() {
                return Some(object.addr());
            }
        }
        self.alloc_aligned(size, 16)
    }

    pub(crate) fn alloc_aligned(&mut self, size: usize, align: usize) -> Option<usize> {
        self.cache.take(self.arena, size, align, Prefer::Dirty).map(|given| given.address)
    }

    /// Memory that is zero, cleared only if it has to be.
    pub(crate) fn alloc_zeroed(&mut self, size: usize) -> Option<usize> {
        let given = self.cache.take(self.arena, size, 16, Prefer::Clean)?;
        if !given.zero {
            // SAFETY: just given out, with at least `size` bytes.
            unsafe { std::ptr::write_bytes(given.address as *mut u8, 0, size) };
        }
        Some(given.address)
    }

    pub(crate) fn free(&mut self, address: usize) {
        self.try_free(address).unwrap();
    }

    pub(crate) fn free_all(&mut self, addresses: impl IntoIterator<Item = usize>) {
        for address in addresses {
            self.free(address);
        }
    }

    pub(crate) fn try_free(&mut self, address: usize) -> Result<(), Invalid> {
        // SAFETY: the test gives the object up.
        unsafe {
            // The same ways as in the runtime.
            let cache = &mut self.cache;
            if cache.keep(self.arena.region(), address) {
                return Ok(());
            }
            let aside = cache.put_aside(self.arena, address);
            if cache.post(self.arena, address, aside) {
                return Ok(());
            }
            cache.free_slow(self.arena, address)
        }
    }

    pub(crate) fn resize(&mut self, address: usize, size: usize) -> Option<usize> {
        // SAFETY: the test owns the object.
        unsafe { self.cache.resize(self.arena, address, size) }.unwrap()
    }

    pub(crate) fn usable(&self, address: usize) -> usize {
        self.arena.usable_size(address).unwrap()
    }
}

impl<S: System> Drop for Thread<'_, S> {
    fn drop(&mut self) {
        let ended = self.cache.end(self.arena);
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }
}

/// A small, fast and good enough generator (xorshift64*).
#[derive(Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// Seeded from `FREEHOLD_SEED`, or else from the clock; the seed is printed.
    pub(crate) fn new() -> Self {
        let clock = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let given = std::env::var("FREEHOLD_SEED").ok().and_then(|s| s.parse().ok());
        let seed = given.unwrap_or_else(|| clock().as_nanos() as u64);
        eprintln!("FREEHOLD_SEED={seed}");
        Self(seed | 1)
    }

    /// Another, for another thread.
    pub(crate) fn fork(&mut self) -> Self {
        Self(self.next() | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() >> 11) as usize % n
    }

    /// Sizes from 0 to `max`, each order of magnitude as likely as the next.
    pub(crate) fn size(&mut self, max: usize) -> usize {
        let bits = self.below(max.ilog2() as usize + 2);
        self.below((1 << bits).min(max + 1))
    }
}

/// Fills an object with what only its owner knows.
pub(crate) fn fill(address: usize, size: usize, tag: u64) {
    for i in (0..size).step_by(509).chain(size.checked_sub(1)) {
        // SAFETY: inside an object of the caller's.
        unsafe { (address as *mut u8).add(i).write((tag ^ i as u64) as u8) };
    }
}

/// Checks what [`fill`] wrote.
pub(crate) fn check(address: usize, size: usize, tag: u64) {
    for i in (0..size).step_by(509).chain(size.checked_sub(1)) {
        // SAFETY: inside an object of the caller's.
        let found = unsafe { (address as *const u8).add(i).read() };
        assert_eq!(found, (tag ^ i as u64) as u8, "byte {i} of {size} at {address:#x}");
    }
}
