//! Large objects: runs that end at an inaccessible page, and are inaccessible when they are freed.
//!
//! How many bytes were asked for stands in the first word of the bits that the run's first granule
//! would have if it were a slab. A freed run waits in a queue, bounded in address space, for the
//! largest have no memory any more. The others keep theirs, which is cleared when they leave: that
//! costs less than new pages. What they keep is bounded, too: those that have waited longest leave
//! to make room. Where the system cannot make pages inaccessible, a run that waits is empty at
//! least. What cannot be made accessible when it is its turn waits on, and when there is no place
//! left for it, or its thread ends, it waits with all such memory of the arena (`shut`).

use super::clear;
use super::thread::Misuse;
use crate::arena::Arena;
use crate::blocks::Prefer;
use crate::cache::ThreadCache;
use crate::layout::{GRANULE, Granule, at};
use core::ops::Range;
use freehold_sync::atomic::{AtomicU64, Ordering};
use freehold_sys::System;

/// The most runs that wait.
const PLACES: usize = 16;

/// The most bytes of address space that wait. What is larger does not.
const MOST_BYTES: usize = 16 << 20;

/// The most bytes of memory that wait, of a thread. Of a larger object none is kept.
const MOST_KEPT: usize = 1 << 20;

/// The most bytes of memory that wait, of all threads: about, since they do not look at once.
const MOST_KEPT_BY_ALL: usize = 3 << 19;

/// The states of a run's word: not hardened or none, freed, or twice the bytes plus one, and
/// whether it has a fence.
const NONE: u64 = 0;
const FREED: u64 = 2;
const FENCED: u64 = 1 << 63;

const fn in_use(bytes: usize, is_fenced: bool) -> u64 {
    (bytes as u64) << 1 | 1 | if is_fenced { FENCED } else { 0 }
}

/// Bytes after the object that are not zero, if there is room in its last page.
const MARK: u64 = 0xa5a5_a5a5_a5a5_a5a5;

/// Bytes after the object that are looked at when it is freed.
const LOOKED_AT: usize = 64;

/// Freed runs that wait: the oldest leaves first.
pub(super) struct Freed {
    places: [FreedRun; PLACES],
    next: usize,
    bytes: usize,
    /// Bytes of memory.
    kept: usize,
}

/// What became of the pages of a freed object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pages {
    /// They are accessible, and empty; or there are none.
    Open,
    /// They are inaccessible, and empty.
    Guarded,
    /// They are inaccessible, and have kept their memory.
    Hidden,
}

/// A run that waits.
#[derive(Clone, Copy)]
struct FreedRun {
    /// Where it starts; 0 if there is none.
    address: usize,
    /// Bytes of the object's pages, and what became of these.
    bytes: usize,
    pages: Pages,
    /// Whether what follows them is inaccessible.
    is_fenced: bool,
}

impl FreedRun {
    const NONE: Self = Self { address: 0, bytes: 0, pages: Pages::Open, is_fenced: false };

    /// How many bytes of it have kept their memory.
    fn kept(&self) -> usize {
        if self.pages == Pages::Hidden { self.bytes } else { 0 }
    }

    /// All but the address as a word: not 0 if anything of the run is inaccessible.
    fn packed(self) -> u64 {
        (self.bytes as u64) << 3 | (self.pages as u64) << 1 | u64::from(self.is_fenced)
    }

    /// The other way round; `None` for 0.
    fn unpacked(address: usize, word: u64) -> Option<Self> {
        let pages = match word >> 1 & 3 {
            0 => Pages::Open,
            1 => Pages::Guarded,
            _ => Pages::Hidden,
        };
        let (bytes, is_fenced) = ((word >> 3) as usize, word & 1 != 0);
        (word != 0).then_some(Self { address, bytes, pages, is_fenced })
    }
}

impl Freed {
    /// None.
    pub(super) const fn new() -> Self {
        Self { places: [FreedRun::NONE; PLACES], next: 0, bytes: 0, kept: 0 }
    }
}

/// A large object in use.
#[derive(Clone, Copy)]
pub(super) struct Large {
    g: Granule,
    start: usize,
    pub(super) bytes: usize,
    /// Whether what follows its last page is inaccessible.
    is_fenced: bool,
}

impl Large {
    /// Where its accessible memory ends.
    fn accessible(self, page: usize) -> usize {
        self.start + self.bytes.next_multiple_of(page)
    }

    /// What is accessible and was not asked for.
    fn slack(self, page: usize) -> Range<usize> {
        self.start + self.bytes..self.accessible(page)
    }
}

impl<S: System> Arena<S> {
    /// What is known of the run that starts at a granule.
    fn run_word(&self, g: Granule) -> &AtomicU64 {
        self.bits(g).word(0)
    }

    /// The large object that starts at `address`.
    pub(super) fn large_at(&self, address: usize) -> Result<Large, Misuse> {
        let g = self.run_at(address).ok_or_else(|| Misuse::from(self.explain(address)))?;
        // Relaxed: whoever has the object was given it by who wrote this.
        match self.run_word(g).load(Ordering::Relaxed) {
            NONE | FREED => Err(Misuse::freed_again(address)),
            word => Ok(Large {
                g,
                start: address,
                bytes: ((word & !FENCED) >> 1) as usize,
                is_fenced: word & FENCED != 0,
            }),
        }
    }

    /// Pages as they can be made inaccessible one by one; `None` where they are too large.
    fn guard_page(&self) -> Option<usize> {
        Some(self.system.page_size()).filter(|&page| page <= GRANULE)
    }

    /// Gives out a run for an object of `bytes`, which is zero.
    pub(super) fn take_guarded(
        &self,
        cache: &mut ThreadCache,
        bytes: usize,
        align: usize,
    ) -> Option<usize> {
        let page = self.system.page_size();
        let wanted = bytes.checked_next_multiple_of(page)?.checked_add(page)?;
        let given = cache.take_run(self, wanted, align, Prefer::Dirty)?;
        let address = given.address;
        // Direct mappings are pages of their own, and are unmapped when freed.
        let Some(g) = self.run_at(address) else { return Some(address) };
        let large = Large { g, start: address, bytes, is_fenced: false };
        self.mark(large);
        let is_fenced = self.guard_end(large);
        // Relaxed: the caller's alone.
        self.run_word(g).store(in_use(bytes, is_fenced), Ordering::Relaxed);
        Some(address)
    }

    /// Where a run ends, with its inaccessible part.
    fn run_end(&self, large: Large) -> usize {
        large.start + self.run_granules(large.g) as usize * GRANULE
    }

    /// Makes what follows the object's last page inaccessible: a page at least. Returns whether it
    /// is.
    fn guard_end(&self, large: Large) -> bool {
        let Some(page) = self.guard_page() else { return false };
        let from = large.accessible(page);
        // SAFETY: pages of the run, which are the caller's and not in use.
        unsafe { self.system.guard(from, self.run_end(large) - from) }
    }

    fn mark(&self, large: Large) {
        let slack = large.slack(self.system.page_size());
        for (place, byte) in slack.zip(MARK.to_ne_bytes()) {
            // SAFETY: accessible, behind the object, and of its run.
            unsafe { at::<u8>(place).write(byte) };
        }
    }

    fn unmark(&self, large: Large) {
        let slack = large.slack(self.system.page_size());
        clear::clear(slack.start, slack.len().min(size_of_val(&MARK)));
    }

    /// Whether nothing was written behind the object.
    fn is_marked(&self, large: Large) -> bool {
        let slack = large.slack(self.system.page_size());
        let rest = slack.start + slack.len().min(size_of_val(&MARK));
        // SAFETY: accessible, and of the object's run.
        let byte = |place: usize| unsafe { at::<u8>(place).read() };
        slack.clone().zip(MARK.to_ne_bytes()).all(|(place, mark)| byte(place) == mark)
            && (rest..slack.end).take(LOOKED_AT).all(|place| byte(place) == 0)
    }

    /// Looks at what follows the object.
    pub(super) fn inspect_large(&self, large: Large) -> Result<(), Misuse> {
        if self.is_marked(large) { Ok(()) } else { Err(Misuse::overrun(large.start, large.bytes)) }
    }

    /// Takes a large object back, which waits. Others that have waited are released.
    pub(super) fn free_guarded(
        &self,
        cache: &mut ThreadCache,
        freed: &mut Freed,
        address: usize,
    ) -> Result<(), Misuse> {
        let (large, page) = (self.large_at(address)?, self.system.page_size());
        // Relaxed: of two threads that free it one is first; nothing else is decided here.
        if self.run_word(large.g).swap(FREED, Ordering::Relaxed) == FREED {
            return Err(Misuse::freed_again(address));
        }
        self.inspect_large(large)?;
        let keeps = self.make_room_to_keep(cache, freed, large.accessible(page) - address)?;
        let run = self.withdraw(large, keeps);
        let all = self.run_end(large) - address;
        if all > MOST_BYTES && self.release_guarded(cache, run)? {
            return Ok(());
        }
        let former = freed.places[freed.next];
        // Relaxed, here and below: sums, which nothing else is read after.
        self.hardening.waiting.fetch_add(all, Ordering::Relaxed);
        self.hardening.kept.fetch_add(run.kept(), Ordering::Relaxed);
        if !self.release_former(cache, freed, former)? {
            // That waits on.
            self.keep_freed(run);
            return Ok(());
        }
        freed.bytes += all;
        freed.kept += run.kept();
        freed.places[freed.next] = run;
        freed.next = (freed.next + 1) % PLACES;
        while freed.bytes > MOST_BYTES {
            if !self.release_one(cache, freed)? {
                break;
            }
        }
        Ok(())
    }

    /// Whether a freed object of so many bytes may keep its memory while it waits. For that, those
    /// are released which have kept theirs longest.
    fn make_room_to_keep(
        &self,
        cache: &mut ThreadCache,
        freed: &mut Freed,
        bytes: usize,
    ) -> Result<bool, Misuse> {
        if bytes > MOST_KEPT {
            return Ok(false);
        }
        loop {
            // Relaxed: see where it is added to.
            let by_all = self.hardening.kept.load(Ordering::Relaxed);
            if freed.kept + bytes <= MOST_KEPT && by_all + bytes <= MOST_KEPT_BY_ALL {
                return Ok(true);
            }
            if !self.release_oldest(cache, freed, |run| run.kept() > 0)? {
                return Ok(false);
            }
        }
    }

    /// Makes a freed object inaccessible, or empty where that cannot be had; with its memory, if it
    /// `keeps` it.
    fn withdraw(&self, large: Large, keeps: bool) -> FreedRun {
        let page = self.guard_page().unwrap_or(self.system.page_size());
        let (address, bytes) = (large.start, large.accessible(page) - large.start);
        let pages = self.close_pages(address, bytes, keeps);
        FreedRun { address, bytes, pages, is_fenced: large.is_fenced }
    }

    /// Does that with the pages of an object, of which one of no bytes has none: what follows is
    /// inaccessible already.
    fn close_pages(&self, address: usize, bytes: usize, keeps: bool) -> Pages {
        if bytes == 0 {
            return Pages::Open;
        }
        if self.guard_page().is_none() {
            // SAFETY: pages of the run, which its user gave up.
            if !unsafe { self.system.purge(address, bytes) } {
                clear::clear(address, bytes);
            }
            return Pages::Open;
        }
        // SAFETY: as above.
        if keeps && unsafe { self.system.hide(address, bytes) } {
            return Pages::Hidden;
        }
        // SAFETY: as above.
        if unsafe { self.system.guard(address, bytes) } { Pages::Guarded } else { Pages::Open }
    }

    /// Makes a freed run accessible, and what it has kept zero. Returns whether it is: near a
    /// limit, what became inaccessible may have gone to others. If not, it is as it was.
    fn reopen(&self, run: FreedRun, end: usize) -> bool {
        let FreedRun { address, bytes, pages, is_fenced } = run;
        let fence = address + bytes;
        // SAFETY: here and below, a freed run, which no one but the caller has.
        if is_fenced && !unsafe { self.system.unguard(fence, end - fence) } {
            return false;
        }
        let is_open = match pages {
            Pages::Open => true,
            // SAFETY: as above.
            Pages::Guarded => unsafe { self.system.unguard(address, bytes) },
            // SAFETY: as above, and hidden when it was freed.
            Pages::Hidden => unsafe { self.system.reveal(address, bytes) },
        };
        if is_open {
            clear::clear(address, run.kept());
        } else if is_fenced {
            // So that the next one to try finds all of it in the same state. Whether that can be
            // had does not matter: nobody has the run.
            // SAFETY: as above, and accessible.
            unsafe { self.system.guard(fence, end - fence) };
        }
        is_open
    }

    /// Releases the run that has waited longest of those that can be. Returns whether there was
    /// one.
    pub(super) fn release_one(
        &self,
        cache: &mut ThreadCache,
        freed: &mut Freed,
    ) -> Result<bool, Misuse> {
        self.release_oldest(cache, freed, |_| true)
    }

    /// Releases the run that has waited longest of some, and can be. Returns whether there was one.
    fn release_oldest(
        &self,
        cache: &mut ThreadCache,
        freed: &mut Freed,
        some: impl Fn(&FreedRun) -> bool,
    ) -> Result<bool, Misuse> {
        for n in (freed.next..PLACES).chain(0..freed.next) {
            let run = freed.places[n];
            if run.address != 0 && some(&run) && self.release_former(cache, freed, run)? {
                freed.places[n] = FreedRun::NONE;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Releases a run that has waited. Returns whether that could be done.
    fn release_former(
        &self,
        cache: &mut ThreadCache,
        freed: &mut Freed,
        former: FreedRun,
    ) -> Result<bool, Misuse> {
        let Some(g) = self.granule_of(former.address) else { return Ok(true) };
        let bytes = self.run_granules(g) as usize * GRANULE;
        if !self.release_guarded(cache, former)? {
            return Ok(false);
        }
        freed.bytes -= bytes;
        freed.kept -= former.kept();
        self.hardening.waiting.fetch_sub(bytes, Ordering::Relaxed);
        self.hardening.kept.fetch_sub(former.kept(), Ordering::Relaxed);
        Ok(true)
    }

    /// Keeps what waits in a thread that ends.
    pub(super) fn leave_freed(&self, freed: &mut Freed) {
        for run in core::mem::replace(freed, Freed::new()).places {
            if run.address != 0 {
                self.keep_freed(run);
            }
        }
    }

    /// Keeps a freed run that waits, for whoever finds that it can be made accessible.
    fn keep_freed(&self, run: FreedRun) {
        let Some(g) = self.run_at(run.address) else { return };
        // Relaxed: the caller's alone, and then that of who holds the lock of the list.
        self.left_word(g).store(run.packed(), Ordering::Relaxed);
        self.keep_shut(g);
    }

    /// What is known of a freed run that is kept so.
    fn left_word(&self, g: Granule) -> &AtomicU64 {
        self.bits(g).word(1)
    }

    /// Makes a run accessible that is kept so. Returns whether it is; `None` if it is no freed run
    /// of hardened mode. Only for who holds the lock of the list.
    pub(crate) fn reopen_freed(&self, g: Granule) -> Option<bool> {
        let (address, word) = (self.tables.address(g), self.left_word(g));
        let run = FreedRun::unpacked(address, word.load(Ordering::Relaxed))?;
        let bytes = self.run_granules(g) as usize * GRANULE;
        let is_open = self.reopen(run, address + bytes);
        if is_open {
            word.store(0, Ordering::Relaxed);
            self.run_word(g).store(NONE, Ordering::Relaxed);
            self.hardening.waiting.fetch_sub(bytes, Ordering::Relaxed);
            self.hardening.kept.fetch_sub(run.kept(), Ordering::Relaxed);
        }
        Some(is_open)
    }

    /// Gives a freed run back. Returns whether that could be done: whether it is accessible.
    fn release_guarded(&self, cache: &mut ThreadCache, run: FreedRun) -> Result<bool, Misuse> {
        let FreedRun { address, .. } = run;
        let Some(g) = self.run_at(address) else {
            return Err(Misuse::freed_again(address));
        };
        if !self.reopen(run, address + self.run_granules(g) as usize * GRANULE) {
            return Ok(false);
        }
        self.run_word(g).store(NONE, Ordering::Relaxed);
        // SAFETY: a freed run, which no one but the caller has.
        unsafe { cache.free_slow(self, address) }.map_err(Misuse::from)?;
        Ok(true)
    }

    /// Changes the size of a large object where it is, if its pages are as many as before. What is
    /// no longer in use is cleared.
    pub(super) fn resize_large(&self, large: Large, bytes: usize) -> bool {
        let page = self.system.page_size();
        let resized = Large { bytes, ..large };
        if resized.accessible(page) != large.accessible(page) {
            return false;
        }
        self.unmark(large);
        if bytes < large.bytes {
            clear::clear(large.start + bytes, large.bytes - bytes);
        }
        // Relaxed: the caller's alone.
        self.run_word(large.g).store(in_use(bytes, large.is_fenced), Ordering::Relaxed);
        self.mark(resized);
        true
    }
}
