//! A double of the operating system for tests: the real one, with a count of every call and the
//! power to make the n-th one fail, a page size of the test's choice, and a clock the test turns.

use crate::{HugePages, Linux, System};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering::SeqCst};

/// A [`System`] that counts and fails on demand.
pub struct Fake {
    real: Linux,
    page_size: usize,
    address_space: usize,
    processors: usize,
    /// The processor that all threads run on.
    processor: AtomicUsize,
    clock: AtomicU64,
    calls: AtomicUsize,
    fail_from: AtomicUsize,
    purged: AtomicUsize,
    populated: AtomicUsize,
    page_cost: AtomicU64,
    huge_page_cost: AtomicU64,
    spent: AtomicU64,
    eligible: AtomicBool,
    populated_as_huge: AtomicUsize,
    huge_pages: HugePages,
    keeps_guarded: AtomicBool,
    accesses_changed: AtomicUsize,
    keeps_hidden: AtomicBool,
    asked_for_space: AtomicUsize,
    tells_resident: AtomicBool,
    /// A function, or null.
    before_purge: AtomicPtr<()>,
}

impl Default for Fake {
    fn default() -> Self {
        Self::new()
    }
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
            processor: AtomicUsize::new(usize::MAX),
            clock: AtomicU64::new(0),
            calls: AtomicUsize::new(0),
            fail_from: AtomicUsize::new(usize::MAX),
            purged: AtomicUsize::new(0),
            populated: AtomicUsize::new(0),
            page_cost: AtomicU64::new(0),
            huge_page_cost: AtomicU64::new(0),
            spent: AtomicU64::new(0),
            eligible: AtomicBool::new(false),
            populated_as_huge: AtomicUsize::new(0),
            huge_pages: HugePages::OnRequest,
            keeps_guarded: AtomicBool::new(false),
            accesses_changed: AtomicUsize::new(0),
            keeps_hidden: AtomicBool::new(false),
            asked_for_space: AtomicUsize::new(0),
            tells_resident: AtomicBool::new(true),
            before_purge: AtomicPtr::new(core::ptr::null_mut()),
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

    /// Lets every thread run on processor `number` from now on. Until then nobody knows on which.
    pub fn run_on(&self, number: usize) {
        self.processor.store(number, SeqCst);
    }

    /// The same with huge pages at such times.
    #[must_use]
    pub fn with_huge_pages(mut self, when: HugePages) -> Self {
        self.huge_pages = when;
        self
    }

    /// Calls so far that can fail: reserve, commit, purge, map, remap, move,
    /// populate.
    pub fn calls(&self) -> usize {
        self.calls.load(SeqCst)
    }

    /// Bytes purged so far.
    pub fn purged(&self) -> usize {
        self.purged.load(SeqCst)
    }

    /// Bytes populated so far.
    pub fn populated(&self) -> usize {
        self.populated.load(SeqCst)
    }

    /// Lets `n` more calls succeed, then fails every one until [`Fake::recover`].
    pub fn fail_after(&self, n: usize) {
        self.fail_from.store(self.calls() + n, SeqCst);
    }

    /// Ends the failures.
    pub fn recover(&self) {
        self.fail_from.store(usize::MAX, SeqCst);
    }

    /// Those of them that were eligible for huge pages.
    pub fn populated_as_huge(&self) -> usize {
        self.populated_as_huge.load(SeqCst)
    }

    /// Sets what populating a page costs a thread, and what so much of a huge page does: the only
    /// things that take it any time.
    pub fn set_page_costs(&self, nanoseconds: u64, huge: u64) {
        self.page_cost.store(nanoseconds, SeqCst);
        self.huge_page_cost.store(huge, SeqCst);
    }

    /// Whether what was guarded stays inaccessible: as if near a limit others had taken the memory.
    pub fn keep_guarded(&self, kept: bool) {
        self.keeps_guarded.store(kept, SeqCst);
    }

    /// The same of what was hidden.
    pub fn keep_hidden(&self, kept: bool) {
        self.keeps_hidden.store(kept, SeqCst);
    }

    /// Has a function called, from now on, with each range that is about to be purged, and its
    /// length: for what others do at that moment.
    pub fn before_purge(&self, call: fn(usize, usize)) {
        self.before_purge.store(call as *mut (), SeqCst);
    }

    /// Whether it says what is resident.
    pub fn tell_resident(&self, told: bool) {
        self.tells_resident.store(told, SeqCst);
    }

    /// How many times something was to be made inaccessible or accessible.
    pub fn times_access_changed(&self) -> usize {
        self.accesses_changed.load(SeqCst)
    }

    /// How many times it was asked how much address space is left.
    pub fn times_asked_for_space(&self) -> usize {
        self.asked_for_space.load(SeqCst)
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
        let call = self.before_purge.load(SeqCst);
        if !call.is_null() {
            // SAFETY: it is such a function.
            let call = unsafe { core::mem::transmute::<*mut (), fn(usize, usize)>(call) };
            call(at, bytes);
        }
        // SAFETY: the caller's promise, passed on.
        let done = self.allowed() && unsafe { self.real.purge(at, bytes) };
        if done {
            self.purged.fetch_add(bytes, SeqCst);
        }
        done
    }

    unsafe fn guard(&self, at: usize, bytes: usize) -> bool {
        self.check(at, bytes);
        self.accesses_changed.fetch_add(1, SeqCst);
        // SAFETY: the caller's promise, passed on.
        unsafe { self.real.guard(at, bytes) }
    }

    unsafe fn hide(&self, at: usize, bytes: usize) -> bool {
        self.check(at, bytes);
        self.accesses_changed.fetch_add(1, SeqCst);
        // SAFETY: the caller's promise, passed on.
        unsafe { self.real.hide(at, bytes) }
    }

    unsafe fn reveal(&self, at: usize, bytes: usize) -> bool {
        self.check(at, bytes);
        self.accesses_changed.fetch_add(1, SeqCst);
        // SAFETY: the caller's promise, passed on.
        !self.keeps_hidden.load(SeqCst) && unsafe { self.real.reveal(at, bytes) }
    }

    unsafe fn unguard(&self, at: usize, bytes: usize) -> bool {
        self.check(at, bytes);
        self.accesses_changed.fetch_add(1, SeqCst);
        // SAFETY: the caller's promise, passed on.
        !self.keeps_guarded.load(SeqCst) && unsafe { self.real.unguard(at, bytes) }
    }

    unsafe fn forbid_huge_pages(&self, at: usize, bytes: usize) {
        self.eligible.store(false, SeqCst);
        // SAFETY: the caller's promise, passed on.
        unsafe { self.real.forbid_huge_pages(at, bytes) }
    }

    unsafe fn find_huge_pages(&self, at: usize, bytes: usize) {
        self.check(at, bytes);
    }

    fn huge_pages(&self) -> HugePages {
        self.huge_pages
    }

    unsafe fn allow_huge_pages(&self, at: usize, bytes: usize) -> bool {
        self.check(at, bytes);
        // SAFETY: the caller's promise, passed on.
        unsafe { self.real.allow_huge_pages(at, bytes) };
        self.eligible.store(true, SeqCst);
        self.allowed()
    }

    unsafe fn populate(&self, at: usize, bytes: usize) -> bool {
        self.check(at, bytes);
        let allowed = self.allowed();
        if allowed {
            self.populated.fetch_add(bytes, SeqCst);
            let huge = self.eligible.load(SeqCst);
            self.populated_as_huge.fetch_add(if huge { bytes } else { 0 }, SeqCst);
            let cost = if huge { &self.huge_page_cost } else { &self.page_cost };
            self.spent.fetch_add((bytes / self.page_size) as u64 * cost.load(SeqCst), SeqCst);
        }
        // SAFETY: the caller's promise, passed on.
        unsafe { self.real.populate(at, bytes) };
        allowed
    }

    fn resident(&self, at: usize, bytes: usize) -> Option<usize> {
        self.check(at, bytes);
        if self.tells_resident.load(SeqCst) { self.real.resident(at, bytes) } else { None }
    }

    fn map(&self, bytes: usize) -> Option<usize> {
        self.check(0, bytes);
        if !self.allowed() {
            return None;
        }
        let at = self.real.reserve(bytes, self.page_size)?;
        // SAFETY: the reservation just made.
        unsafe { self.real.commit(at, bytes) }.then_some(at)
    }

    unsafe fn remap(&self, at: usize, old_bytes: usize, new_bytes: usize) -> Option<usize> {
        self.check(at, old_bytes);
        // The kernel would move it to a page of its own size.
        if !self.allowed() || self.page_size != self.real.page_size() {
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

    fn barrier(&self) -> bool {
        self.allowed() && self.real.barrier()
    }

    fn peek(&self, at: usize) -> Option<u8> {
        if self.allowed() { self.real.peek(at) } else { None }
    }

    fn address_space_left(&self) -> usize {
        self.asked_for_space.fetch_add(1, SeqCst);
        self.address_space
    }

    fn processor(&self) -> Option<usize> {
        Some(self.processor.load(SeqCst)).filter(|&number| number != usize::MAX)
    }

    fn processors(&self) -> usize {
        self.processors
    }

    fn thread_nanoseconds(&self) -> u64 {
        self.spent.load(SeqCst)
    }

    fn milliseconds(&self) -> u64 {
        self.clock.load(SeqCst)
    }
}
