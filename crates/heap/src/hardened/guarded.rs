//! Large objects: runs that end at an inaccessible page. The largest are inaccessible when they are
//! freed; up to [`MOST_CLEARED`] bytes they are cleared, and looked at before they are given out
//! again, as objects of slabs are. To take a range its rights and give them back are two calls
//! that keep all threads from the process' mappings; and each must be waited for by all processors.
//!
//! How many bytes were asked for stands in the first word of the bits that the run's first granule
//! would have if it were a slab. A freed run waits in a queue, bounded in address space, for the
//! largest have no memory any more. The others keep theirs: that costs less than new pages. If they
//! are inaccessible it is cleared when they leave. What they keep is bounded, too: those that have
//! waited longest leave to make room. Cleared ones go from there to those that are ready to be
//! given out with the fence that they have (`ready`). Where the system cannot make pages
//! inaccessible, a run that waits is empty at least. What cannot be made accessible when it is its
//! turn waits on, and when there is no place left for it, or its thread ends, it waits with all
//! such memory of the arena (`shut`).

use super::clear;
use super::ready::{Cleared, MOST_CLEARED};
use super::thread::{Misuse, Thread};
use crate::arena::Arena;
use crate::blocks::Prefer;
use crate::invalid::Invalid;
use crate::layout::{GRANULE, Granule, at};
use crate::medium::Given;
use crate::tally::Account;
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
    /// They are accessible, have kept their memory, and are zero unless somebody has written there
    /// since.
    Cleared,
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
    fn kept(self) -> usize {
        if matches!(self.pages, Pages::Hidden | Pages::Cleared) { self.bytes } else { 0 }
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
            2 => Pages::Hidden,
            _ => Pages::Cleared,
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

    /// Notes that an object is in use, whose fence is there.
    fn begin_large(&self, large: Large) {
        self.mark(large);
        // Relaxed: the caller's alone.
        self.run_word(large.g).store(in_use(large.bytes, large.is_fenced), Ordering::Relaxed);
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

    /// Clears a freed object, or makes it inaccessible, or empty where that cannot be had; with its
    /// memory, if it `keeps` it. Empty as well if it is not to wait: it would be accessible again
    /// at once, and guard markers take page tables for all of it, 2 MiB a gigabyte.
    fn withdraw(&self, large: Large, waits: bool, keeps: bool) -> FreedRun {
        let page = self.guard_page().unwrap_or(self.system.page_size());
        let (address, bytes) = (large.start, large.accessible(page) - large.start);
        let pages = if keeps && (1..=MOST_CLEARED).contains(&bytes) {
            clear::clear(address, bytes);
            Pages::Cleared
        } else if !waits {
            self.empty_pages(address, bytes);
            Pages::Open
        } else {
            self.close_pages(address, bytes, keeps)
        };
        FreedRun { address, bytes, pages, is_fenced: large.is_fenced }
    }

    /// Does that with the pages of an object, of which one of no bytes has none: what follows is
    /// inaccessible already.
    fn close_pages(&self, address: usize, bytes: usize, keeps: bool) -> Pages {
        if bytes == 0 {
            return Pages::Open;
        }
        if self.guard_page().is_none() {
            self.empty_pages(address, bytes);
            return Pages::Open;
        }
        // SAFETY: pages of the run, which its user gave up.
        if keeps && unsafe { self.system.hide(address, bytes) } {
            return Pages::Hidden;
        }
        // SAFETY: as above.
        if unsafe { self.system.guard(address, bytes) } { Pages::Guarded } else { Pages::Open }
    }

    /// Gives the memory of a freed object's pages back, which are accessible and zero then.
    fn empty_pages(&self, address: usize, bytes: usize) {
        // SAFETY: pages of the run, which its user gave up.
        if !unsafe { self.system.purge(address, bytes) } {
            clear::clear(address, bytes);
        }
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
            Pages::Open | Pages::Cleared => true,
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

    /// Counts anew what freed runs have kept that wait: in the child of a fork, where those of
    /// vanished threads wait for ever, and would leave no room for others.
    pub fn recount_kept(&self, mine: Option<&Thread>) {
        let mut kept = mine.map_or(0, |mine| mine.freed_runs.kept);
        self.each_shut(|g| {
            let word = self.left_word(g).load(Ordering::Relaxed);
            kept += FreedRun::unpacked(self.tables.address(g), word).map_or(0, FreedRun::kept);
        });
        self.hardening.kept.store(kept, Ordering::Relaxed);
    }

    /// Makes a freed run one that nobody has, if it can be made accessible. Returns whether it is.
    fn open_guarded(&self, g: Granule, run: FreedRun) -> bool {
        let is_open = self.reopen(run, run.address + self.run_granules(g) as usize * GRANULE);
        if is_open {
            self.run_word(g).store(NONE, Ordering::Relaxed);
        }
        is_open
    }

    /// Notes that a freed run does not wait any longer.
    fn note_left(&self, g: Granule) {
        let bytes = self.run_granules(g) as usize * GRANULE;
        // Relaxed, here and elsewhere: sums, which nothing else is read after.
        self.hardening.waiting.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Gives back the runs that are ready.
    pub(crate) fn release_ready(&self) {
        let account = Account::new(&self.tally);
        while let Some(ready) = self.hardening.ready.take_any() {
            let run = self.freed_run(ready);
            if self.open_guarded(ready.g, run) {
                self.note_left(ready.g);
                self.give_run(ready.g, &account);
            } else {
                self.keep_ready(run);
            }
        }
    }

    /// Keeps a run that was ready, for whoever finds that it can be made accessible.
    fn keep_ready(&self, run: FreedRun) {
        self.hardening.kept.fetch_add(run.kept(), Ordering::Relaxed);
        self.keep_freed(run);
    }

    /// A run that is ready, as one that waits.
    fn freed_run(&self, ready: Cleared) -> FreedRun {
        let Cleared { g, bytes, is_fenced } = ready;
        let (address, bytes) = (self.tables.address(g), bytes as usize);
        FreedRun { address, bytes, pages: Pages::Cleared, is_fenced }
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

impl Thread {
    /// Gives out a run for an object of `bytes`, which is zero.
    pub(super) fn take_large<S: System>(
        &mut self,
        arena: &Arena<S>,
        bytes: usize,
        align: usize,
    ) -> Result<Option<usize>, Misuse> {
        let page = arena.system.page_size();
        let Some(pages) = bytes.checked_next_multiple_of(page) else { return Ok(None) };
        if pages <= MOST_CLEARED
            && align <= GRANULE
            && let Some(ready) = arena.hardening.ready.take(pages as u32)
        {
            return self.take_ready(arena, ready, bytes).map(Some);
        }
        let taken = pages
            .checked_add(page)
            .and_then(|wanted| self.cache.take_run(arena, wanted, align, Prefer::Dirty));
        let Some(Given { address, .. }) = taken else { return Ok(None) };
        // Direct mappings are pages of their own, and are unmapped when freed.
        let Some(g) = arena.run_at(address) else { return Ok(Some(address)) };
        let large = Large { g, start: address, bytes, is_fenced: false };
        let is_fenced = arena.guard_end(large);
        arena.begin_large(Large { is_fenced, ..large });
        Ok(Some(address))
    }

    /// Gives out a run that was ready, whose fence is where it has to be.
    fn take_ready<S: System>(
        &mut self,
        arena: &Arena<S>,
        ready: Cleared,
        bytes: usize,
    ) -> Result<usize, Misuse> {
        let Cleared { g, is_fenced, .. } = ready;
        self.inspect_cleared(arena.freed_run(ready))?;
        arena.note_left(g);
        let start = arena.tables.address(g);
        arena.begin_large(Large { g, start, bytes, is_fenced });
        Ok(start)
    }

    /// Looks whether nobody has written to a freed run that was cleared.
    fn inspect_cleared(&mut self, run: FreedRun) -> Result<(), Misuse> {
        let FreedRun { address, bytes, .. } = run;
        if clear::looks_clear(address, bytes, |end| self.random.below(end)) {
            return Ok(());
        }
        Err(Misuse(Invalid::WrittenWhenFree { address, size: bytes }))
    }

    /// Takes a large object back, which waits. Others that have waited are released.
    pub(super) fn free_large<S: System>(
        &mut self,
        arena: &Arena<S>,
        address: usize,
    ) -> Result<(), Misuse> {
        let (large, page) = (arena.large_at(address)?, arena.system.page_size());
        // Relaxed: of two threads that free it one is first; nothing else is decided here.
        if arena.run_word(large.g).swap(FREED, Ordering::Relaxed) == FREED {
            return Err(Misuse::freed_again(address));
        }
        arena.inspect_large(large)?;
        let keeps = self.make_room_to_keep(arena, large.accessible(page) - address)?;
        let all = arena.run_end(large) - address;
        let run = arena.withdraw(large, all <= MOST_BYTES, keeps);
        // Relaxed, here and below: sums, which nothing else is read after.
        arena.hardening.waiting.fetch_add(all, Ordering::Relaxed);
        if all > MOST_BYTES && self.release_guarded(arena, large.g, run)? {
            return Ok(());
        }
        let former = self.freed_runs.places[self.freed_runs.next];
        arena.hardening.kept.fetch_add(run.kept(), Ordering::Relaxed);
        if !self.release_former(arena, former)? {
            // That waits on.
            arena.keep_freed(run);
            return Ok(());
        }
        let freed = &mut self.freed_runs;
        freed.bytes += all;
        freed.kept += run.kept();
        freed.places[freed.next] = run;
        freed.next = (freed.next + 1) % PLACES;
        while self.freed_runs.bytes > MOST_BYTES {
            if !self.release_one_large(arena)? {
                break;
            }
        }
        Ok(())
    }

    /// Whether a freed object of so many bytes may keep its memory while it waits. For that, those
    /// are released which have kept theirs longest.
    fn make_room_to_keep<S: System>(
        &mut self,
        arena: &Arena<S>,
        bytes: usize,
    ) -> Result<bool, Misuse> {
        if bytes > MOST_KEPT {
            return Ok(false);
        }
        loop {
            // Relaxed: see where it is added to.
            let by_all = arena.hardening.kept.load(Ordering::Relaxed);
            if self.freed_runs.kept + bytes <= MOST_KEPT && by_all + bytes <= MOST_KEPT_BY_ALL {
                return Ok(true);
            }
            if !self.release_oldest(arena, |run| run.kept() > 0)? {
                return Ok(false);
            }
        }
    }

    /// Releases the run that has waited longest of those that can be. Returns whether there was
    /// one.
    pub(super) fn release_one_large<S: System>(
        &mut self,
        arena: &Arena<S>,
    ) -> Result<bool, Misuse> {
        self.release_oldest(arena, |_| true)
    }

    /// Releases the run that has waited longest of some, and can be. Returns whether there was one.
    fn release_oldest<S: System>(
        &mut self,
        arena: &Arena<S>,
        some: impl Fn(&FreedRun) -> bool,
    ) -> Result<bool, Misuse> {
        let next = self.freed_runs.next;
        for n in (next..PLACES).chain(0..next) {
            let run = self.freed_runs.places[n];
            if run.address != 0 && some(&run) && self.release_former(arena, run)? {
                self.freed_runs.places[n] = FreedRun::NONE;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Releases a run that has waited, or makes it ready. Returns whether that could be done.
    fn release_former<S: System>(
        &mut self,
        arena: &Arena<S>,
        former: FreedRun,
    ) -> Result<bool, Misuse> {
        let Some(g) = arena.granule_of(former.address) else { return Ok(true) };
        let bytes = arena.run_granules(g) as usize * GRANULE;
        let is_done = if former.pages == Pages::Cleared {
            self.make_ready(arena, g, former)?;
            true
        } else {
            self.release_guarded(arena, g, former)?
        };
        if is_done {
            self.freed_runs.bytes -= bytes;
            self.freed_runs.kept -= former.kept();
            arena.hardening.kept.fetch_sub(former.kept(), Ordering::Relaxed);
        }
        Ok(is_done)
    }

    /// Makes a cleared run one that is ready, and gives others of these back to make room.
    fn make_ready<S: System>(
        &mut self,
        arena: &Arena<S>,
        g: Granule,
        run: FreedRun,
    ) -> Result<(), Misuse> {
        let ready = Cleared { g, bytes: run.bytes as u32, is_fenced: run.is_fenced };
        while let Err(other) = arena.hardening.ready.put(ready) {
            let run = arena.freed_run(other);
            self.inspect_cleared(run)?;
            if !self.release_guarded(arena, other.g, run)? {
                arena.keep_ready(run);
            }
        }
        Ok(())
    }

    /// Gives a freed run back. Returns whether that could be done: whether it is accessible.
    fn release_guarded<S: System>(
        &mut self,
        arena: &Arena<S>,
        g: Granule,
        run: FreedRun,
    ) -> Result<bool, Misuse> {
        if !arena.open_guarded(g, run) {
            return Ok(false);
        }
        arena.note_left(g);
        // SAFETY: a freed run, which no one but the caller has.
        unsafe { self.cache.free_slow(arena, run.address) }.map_err(Misuse::from)?;
        Ok(true)
    }
}
