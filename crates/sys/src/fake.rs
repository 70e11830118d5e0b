//! A double of the operating system for tests: the real one, with a count of every call and the
//! power to make the n-th one fail, a page size of the test's choice, and a clock the test turns.

use crate::{Linux, System};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};

/// A [`System`] that counts and fails on demand.
#[derive(Default)]
pub struct Fake {
    real: Linux,
    page_size: usize,
    address_space: usize,
    processors: usize,
    clock: AtomicU64,
    calls: AtomicUsize,
    fail_from: AtomicUsize,
    purged: AtomicUsize,
}

impl Fake {
    /// A system with 2 processors, no limits, and the machine's own page size.
    pub fn new() -> Self {
        let real = Linux::new();
        let page_size = real.page_size();
        Self {
            real,
            page_size,
            address_space: usize::MAX,
            processors: 2,
            fail_from: AtomicUsize::new(usize::MAX),
            ..Self::default()
        }
    }

    /// The same with pages of `bytes` (a multiple of the machine's own).
    #[must_use]
    pub fn with_page_size(mut self, bytes: usize) -> Self {
        assert!(bytes >= self.real.page_size() && bytes.is_power_of_two());
        self.page_size = bytes;
        self
    }

    /// The same with at most `bytes` of address space for any one reservation.
    #[must_use]
    pub fn with_address_space(mut self, bytes: usize) -> Self {
        self.address_space = bytes;
        self
    }

    /// The same with `count` processors.
    #[must_use]
    pub fn with_processors(mut self, count: usize) -> Self {
        self.processors = count;
        self
    }

    /// Calls so far that can fail: reserve, commit, map, remap, move.
    pub fn calls(&self) -> usize {
        self.calls.load(SeqCst)
    }

    /// Bytes purged so far.
    pub fn purged(&self) -> usize {
        self.purged.load(SeqCst)
    }

    /// Lets `n` more calls succeed, then fails every one until [`Fake::recover`].
    pub fn fail_after(&self, n: usize) {
        self.fail_from.store(self.calls() + n, SeqCst);
    }

    /// Ends the failures.
    pub fn recover(&self) {
        self.fail_from.store(usize::MAX, SeqCst);
    }

    /// Turns the clock forward.
    pub fn advance(&self, milliseconds: u64) {
        self.clock.fetch_add(milliseconds, SeqCst);
    }

    fn allowed(&self) -> bool {
        self.calls.fetch_add(1, SeqCst) < self.fail_from.load(SeqCst)
    }

    fn check(&self, at: usize, bytes: usize) {
        assert_eq!(at % self.page_size, 0, "{at:#x} is not on a page of {}", self.page_size);
        assert_eq!(bytes % self.page_size, 0, "{bytes:#x} is no number of pages");
        assert!(bytes > 0, "an empty range");
    }
}

impl System for Fake {
    fn page_size(&self) -> usize {
        self.page_size
    }

    fn reserve(&self, bytes: usize, align: usize) -> Option<usize> {
        self.check(0, bytes);
        let fits = self.allowed() && bytes <= self.address_space;
        fits.then(|| self.real.reserve(bytes, align.max(self.page_size)))?
    }

    unsafe fn unmap(&self, at: usize, bytes: usize) {
        self.check(at, bytes);
        // SAFETY: the caller's promise, passed on.
        unsafe { self.real.unmap(at, bytes) }
    }

    unsafe fn commit(&self, at: usize, bytes: usize) -> bool {
        self.check(at, bytes);
        // SAFETY: the caller's promise, passed on.
        self.allowed() && unsafe { self.real.commit(at, bytes) }
    }

    unsafe fn purge(&self, at: usize, bytes: usize) -> bool {
        self.check(at, bytes);
        self.purged.fetch_add(bytes, SeqCst);
        // SAFETY: the caller's promise, passed on.
        unsafe { self.real.purge(at, bytes) }
    }

    unsafe fn forbid_huge_pages(&self, at: usize, bytes: usize) {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.real.forbid_huge_pages(at, bytes) }
    }

    fn map(&self, bytes: usize) -> Option<usize> {
        self.check(0, bytes);
        self.allowed().then(|| self.real.map(bytes))?
    }

    unsafe fn remap(&self, at: usize, old_bytes: usize, new_bytes: usize) -> Option<usize> {
        self.check(at, old_bytes);
        if !self.allowed() {
            return None;
        }
        // SAFETY: the caller's promise, passed on.
        unsafe { self.real.remap(at, old_bytes, new_bytes) }
    }

    unsafe fn move_pages(&self, from: usize, to: usize, bytes: usize) -> bool {
        self.check(from, bytes);
        self.check(to, bytes);
        // SAFETY: the caller's promise, passed on.
        self.allowed() && unsafe { self.real.move_pages(from, to, bytes) }
    }

    fn address_space_left(&self) -> usize {
        self.address_space
    }

    fn processors(&self) -> usize {
        self.processors
    }

    fn milliseconds(&self) -> u64 {
        self.clock.load(SeqCst)
    }
}
