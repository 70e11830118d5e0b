//! An arena: one region of address space, its tables, and all heaps that take from it.
//!
//! A process has one; tests have many. It lives within its own metadata, is never moved, and its
//! memory is not given back while anything of it is in use.
//!
//! The order in which locks are taken is in `order`.

use crate::direct::DirectMappings;
use crate::exchange::RunExchange;
use crate::handover::Handover;
use crate::hardened::{Hardening, Secret};
use crate::heap::Heap;
use crate::layout::{
    BLOCK, BLOCK_GRANULES, Block, GRANULE_SHIFT, Granule, ZONE_BLOCKS, ZONE_GRANULES, at,
};
use crate::lease::Leases;
use crate::magazine::Magazine;
use crate::order;
use crate::outbox::Outbox;
use crate::policy::grow;
use crate::pool::Pool;
use crate::populate::Populated;
use crate::purge::{Help, Purger};
use crate::shut::Shut;
use crate::spare::LivePeak;
use crate::stock::Stock;
use crate::tables::{Bits, BlockEntry, FarBits, Remote, SlabLocal, Tables, Tag, ZoneEntry};
use crate::tally::{Granules, Tally};
use crate::whole::WholeSlabs;
use crate::zeroing::Zeroing;
use core::mem::offset_of;
use core::ptr::NonNull;
use freehold_sync::atomic::{AtomicBool, AtomicU32, Ordering};
use freehold_sync::frontier::Frontier;
use freehold_sync::lock::Lock;
use freehold_sys::System;

/// Bytes before and after the metadata that are never made accessible: who runs over the end of a
/// neighbouring mapping ends there. As large as the largest page.
const METADATA_FENCE: usize = 64 * 1024;

/// The size of a page of which a block's local parts take one.
const SMALL_PAGE: usize = BLOCK_GRANULES as usize * size_of::<SlabLocal>();

/// A region, its tables, and the heaps that take from it.
///
/// In this order: what a small process does not use, on pages of its own, which stay untouched; on
/// one page the pools, at which every process looks, what everybody reads and hardly anybody
/// writes, what is written often, on lines of its own, and what is used when threads come and go or
/// the region grows.
#[repr(C)]
pub struct Arena<S: System> {
    pub(crate) direct: DirectMappings,
    pub(crate) exchange: RunExchange,
    pub(crate) handover: Handover,
    pub(crate) pools: [Pool; crate::class::CLASSES],
    pub(crate) system: S,
    pub(crate) tables: Tables,
    /// Blocks in the region.
    blocks: u32,
    /// In blocks: those below can be used, and so can their tables.
    pub(crate) frontier: Frontier,
    /// Where the heaps end, which stand from there on downwards, and where those begin that were
    /// committed with the arena.
    heaps: usize,
    pub(crate) first_heaps: usize,
    /// Where their maps stand.
    maps: usize,
    /// Where the metadata is with its fences, and how many bytes that is.
    pub(crate) metadata: (usize, usize),
    /// The reservation that the metadata is in, and behind it the region: where, and bytes.
    reservation: (usize, usize),
    /// Whether every object is looked at when it comes and goes.
    pub(crate) hardening: Hardening,
    /// Whether there is something that a background thread should look at, and none is there. Here,
    /// since it is read by who takes objects and gives them back, and hardly ever written.
    pub(crate) help_wanted: AtomicBool,
    pub(crate) help: Help,
    /// How many heaps share what hot runs there may be, while there is a background thread: those
    /// whose threads have claimed runs and not rested since.
    pub(crate) run_sharers: AtomicU32,
    pub(crate) purger: Purger,
    pub(crate) whole: WholeSlabs,
    /// What threads without a heap claim and release, and what heaps' tallies have moved here.
    pub(crate) tally: Tally,
    pub(crate) leases: Leases,
    pub(crate) magazines: Stock<Magazine>,
    pub(crate) outboxes: Stock<Outbox>,
    pub(crate) populated: Populated,
    pub(crate) zeroing: Zeroing,
    pub(crate) shut: Shut,
    pub(crate) live_peak: LivePeak,
    /// How many times pages were moved.
    pub(crate) moves: AtomicU32,
    /// Held while committing.
    grow: Lock,
}

// So that the zones behind the arena are aligned.
const _: () = assert!(align_of::<ZoneEntry>() <= align_of::<Purger>());

// SAFETY: what an arena shares between threads is atomic, or protected by the locks and words that
// say so where it is defined; addresses are kept as numbers.
unsafe impl<S: System> Sync for Arena<S> {}
// SAFETY: nothing in an arena belongs to the thread that made it.
unsafe impl<S: System> Send for Arena<S> {}

/// Where the parts of the metadata stand, in bytes from its start.
///
/// What a small process uses stands together: each place far from others costs the system a page
/// table or two, each part that is committed by itself a call, and each page a page fault. A table
/// that is large because the region is begins where another begins, and one of the two grows
/// downwards: so the heaps, before the arena, with the far bits behind it; the local parts with the
/// tags; and the remote parts with the blocks. These begin in the middle of a page, which holds
/// what a small process uses of both. Local parts come first and remote parts last, so that the
/// tags are near the arena, and the blocks near the region.
struct Plan {
    /// The first local part ends here, and the tags begin.
    tags: usize,
    /// The first heap ends here.
    heaps: usize,
    /// The arena begins here, so that a page begins with what of it every process uses.
    arena: usize,
    /// Behind the arena, on the same page.
    zones: usize,
    far_bits: usize,
    magazines: usize,
    maps: usize,
    outboxes: usize,
    /// The first remote part ends here, and the blocks begin.
    blocks: usize,
    total: usize,
}

impl Plan {
    /// A plan for so many blocks, and for stocks that take their share of the `left` address space.
    fn new<S: System>(page: usize, blocks: usize, leases: &Leases, left: usize) -> Self {
        let granules = blocks * BLOCK_GRANULES as usize;
        let mut end = 0;
        let mut part = |bytes: usize| {
            let start = end;
            end = (start + bytes).next_multiple_of(page);
            start
        };
        // So much of the page where two tables meet is the one's that grows downwards. Where pages
        // are larger one tells of several blocks, and none would be theirs alone, to be purged.
        let meet = if page == SMALL_PAGE { page / 4 * 3 } else { 0 };
        part(granules * size_of::<SlabLocal>());
        let tags = part(meet + granules * size_of::<Tag>()) + meet;
        part(leases.heaps() * size_of::<Heap>());
        let unused = offset_of!(Arena<S>, pools) / align_of::<Arena<S>>() * align_of::<Arena<S>>();
        let before = unused.next_multiple_of(page) - unused;
        let zone_bytes = blocks.div_ceil(ZONE_BLOCKS as usize) * size_of::<ZoneEntry>();
        let heaps = part(before + size_of::<Arena<S>>() + zone_bytes);
        let arena = heaps + before;
        let far_bits = part(granules * size_of::<FarBits>());
        part(Stock::<Magazine>::link_bytes(left));
        let magazines = part(Stock::<Magazine>::bytes(left));
        let maps = part(leases.maps() * granules.next_multiple_of(page));
        part(Stock::<Outbox>::link_bytes(left));
        let outboxes = part(Stock::<Outbox>::bytes(left));
        part(granules * size_of::<Remote>());
        let blocks = part(meet + blocks * size_of::<BlockEntry>()) + meet;
        let total = part(0);
        let zones = arena + size_of::<Arena<S>>();
        Self { tags, heaps, arena, zones, far_bits, magazines, maps, outboxes, blocks, total }
    }

    /// The tables of a region, with the metadata at `start`.
    fn tables(&self, start: usize, region: usize) -> Tables {
        Tables {
            tags: start + self.tags,
            locals: start + self.tags,
            far_bits: start + self.far_bits,
            remotes: start + self.blocks,
            blocks: start + self.blocks,
            zones: start + self.zones,
            region,
        }
    }

    /// What is committed at once, with the first zone's far bits: from where to where.
    fn at_once(&self, page: usize, leases: &Leases, granules: usize) -> (usize, usize) {
        let heaps = grow::heaps_at_once(leases.first_heaps() * size_of::<Heap>());
        let far_bits = granules.min(ZONE_GRANULES) * size_of::<FarBits>();
        let end = (self.far_bits + far_bits).next_multiple_of(page);
        (self.heaps - heaps.next_multiple_of(page), end)
    }
}

/// Gives back what is around a part of a reservation, each an address and bytes: where address
/// space is scarce. Where it is not, that is not worth the calls.
///
/// # Safety
/// The reservation is the caller's, the part lies in it, and nothing around that is referred to.
unsafe fn trim<S: System>(system: &S, all: (usize, usize), part: (usize, usize)) {
    let (before, after) = (part.0 - all.0, all.0 + all.1 - (part.0 + part.1));
    // SAFETY: the caller's promise.
    unsafe {
        if before > 0 {
            system.unmap(all.0, before);
        }
        if after > 0 {
            system.unmap(part.0 + part.1, after);
        }
    }
}

impl<S: System> Arena<S> {
    /// Reserves a region as large as the system allows and makes an arena of it. `None` when not
    /// even the smallest can be had.
    pub fn create(system: S) -> Option<NonNull<Self>> {
        Self::create_with(system, None)
    }

    /// The same, hardened: to be used by [`hardened::Thread`](crate::hardened::Thread)s alone.
    pub fn create_hardened(system: S, secret: Secret) -> Option<NonNull<Self>> {
        Self::create_with(system, Some(secret))
    }

    fn create_with(system: S, secret: Option<Secret>) -> Option<NonNull<Self>> {
        let (page, processors) = (system.page_size(), system.processors());
        let leases = Leases::new(processors);
        let left = system.address_space_left();
        for bytes in grow::reservations(left) {
            let (fence, fenced) = grow::fenced(bytes);
            let blocks = bytes / BLOCK;
            let left_for_stocks = left.saturating_sub(fenced);
            let plan = Plan::new::<S>(page, blocks, &leases, left_for_stocks);
            let metadata = plan.total + 2 * METADATA_FENCE;
            let needed = metadata + fenced;
            let Some(reserved) = system.reserve(needed + BLOCK, page) else {
                continue;
            };
            // The metadata ends at a multiple of a block.
            let outside = (reserved + metadata).next_multiple_of(BLOCK) - metadata;
            let reservation = if fence == 0 {
                // SAFETY: the reservation just made; the part begins less than a block further on.
                unsafe { trim(&system, (reserved, needed + BLOCK), (outside, needed)) };
                (outside, needed)
            } else {
                (reserved, needed + BLOCK)
            };
            let start = outside + METADATA_FENCE;
            let region = outside + metadata + fence;
            let granules = blocks * BLOCK_GRANULES as usize;
            let (from, to) = plan.at_once(page, &leases, granules);
            // SAFETY: a part of the reservation just made.
            if !unsafe { system.commit(start + from, to - from) } {
                // A smaller one needs less, and what was reserved would be lost.
                // SAFETY: the reservation just made, unused.
                unsafe { system.unmap(reservation.0, reservation.1) };
                continue;
            }
            let place = at::<Self>(start + plan.arena);
            // SAFETY: committed above, aligned, large enough, nobody else's, and zero.
            unsafe {
                Self::begin_at(place, &plan, (start, region));
                (&raw mut (*place).blocks).write(blocks as u32);
                (&raw mut (*place).first_heaps).write(start + from);
                (&raw mut (*place).leases).write(leases);
                let (magazines, outboxes) = (start + plan.magazines, start + plan.outboxes);
                let magazines = Stock::at(order::MAGAZINES, magazines, left_for_stocks);
                (&raw mut (*place).magazines).write(magazines);
                let outboxes = Stock::at(order::OUTBOXES, outboxes, left_for_stocks);
                (&raw mut (*place).outboxes).write(outboxes);
                (&raw mut (*place).hardening).write(Hardening::new(secret));
                (&raw mut (*place).metadata).write((outside, metadata));
                (&raw mut (*place).reservation).write(reservation);
                (&raw mut (*place).system).write(system);
            }
            return NonNull::new(place);
        }
        None
    }

    /// Makes what of an arena is the same whatever system it is on, and says where its tables and
    /// heaps are, with the metadata and the region at these places. Field by field: a whole arena
    /// on the stack would stay resident there, and some fields begin as zeros.
    ///
    /// # Safety
    /// The place is the caller's, aligned, and zero.
    unsafe fn begin_at(place: *mut Self, plan: &Plan, (start, region): (usize, usize)) {
        // SAFETY: the caller's promise; each is a field of the place.
        unsafe {
            (&raw mut (*place).tables).write(plan.tables(start, region));
            (&raw mut (*place).heaps).write(start + plan.heaps);
            (&raw mut (*place).maps).write(start + plan.maps);
            if !Lock::IS_ZEROS {
                let none = [const { Pool::new() }; crate::class::CLASSES];
                (&raw mut (*place).pools).write(none);
                (&raw mut (*place).direct).write(DirectMappings::new());
            }
            (&raw mut (*place).purger).write(Purger::new());
            (&raw mut (*place).whole).write(WholeSlabs::default());
            (&raw mut (*place).populated).write(Populated::new());
            (&raw mut (*place).zeroing).write(Zeroing::default());
            (&raw mut (*place).shut).write(Shut::new());
            (&raw mut (*place).tally).write(Tally::default());
            (&raw mut (*place).live_peak).write(LivePeak::default());
            (&raw mut (*place).moves).write(AtomicU32::new(0));
            (&raw mut (*place).frontier).write(Frontier::new());
            (&raw mut (*place).help_wanted).write(AtomicBool::new(false));
            (&raw mut (*place).help).write(Help::default());
            (&raw mut (*place).run_sharers).write(AtomicU32::new(0));
            (&raw mut (*place).grow).write(Lock::new(order::GROWTH));
        }
    }

    /// Gives everything back to the system.
    ///
    /// # Safety
    /// Nobody uses the arena, its heaps or its memory any longer.
    pub unsafe fn destroy(this: NonNull<Self>) {
        // SAFETY: the caller is the only user; the arena is moved out of its place before that
        // goes.
        let arena = unsafe { this.read() };
        // SAFETY: the caller is the only user.
        unsafe { arena.hardening.unmap(&arena.system) };
        arena.direct.unmap_all(&arena.system);
        let (reserved, bytes) = arena.reservation;
        // SAFETY: the reservation made by `create`.
        unsafe { arena.system.unmap(reserved, bytes) };
    }

    /// The operating system that the arena was made on.
    pub fn system(&self) -> &S {
        &self.system
    }

    /// The first byte of the region.
    pub fn region(&self) -> usize {
        self.tables.region
    }

    /// Bytes of the region, used or not.
    pub(crate) fn region_bytes(&self) -> usize {
        self.blocks as usize * BLOCK
    }

    /// The number of granules that exist, used or not.
    pub(crate) fn granules(&self) -> u32 {
        self.blocks * BLOCK_GRANULES
    }

    /// Blocks committed so far.
    pub(crate) fn committed_blocks(&self) -> u32 {
        self.frontier.usable()
    }

    /// The granule of an address in the committed part of the region.
    #[inline]
    pub fn granule_of(&self, address: usize) -> Option<Granule> {
        let index = address.wrapping_sub(self.tables.region) >> GRANULE_SHIFT;
        let committed = self.committed_blocks() as usize * BLOCK_GRANULES as usize;
        (index < committed).then_some(Granule(index as u32))
    }

    /// The tag of a committed granule.
    #[inline]
    pub(crate) fn tag(&self, g: Granule) -> &Tag {
        // SAFETY: granules come from `granule_of` or from claims, so the table is committed there;
        // all-zero memory is a valid tag, and all access is atomic.
        unsafe { &*at::<Tag>(self.tables.tags).add(g.0 as usize) }
    }

    /// The local part of a committed granule. Who may dereference it, the slab's word says.
    #[inline]
    pub(crate) fn local(&self, g: Granule) -> *mut SlabLocal {
        // SAFETY: as in `tag`, the table is committed there.
        unsafe { at::<SlabLocal>(self.tables.locals).sub(g.0 as usize + 1) }
    }

    /// The word of a committed granule.
    #[inline]
    pub(crate) fn word(&self, g: Granule) -> &Remote {
        // SAFETY: as in `tag`.
        unsafe { &*at::<Remote>(self.tables.remotes).sub(g.0 as usize + 1) }
    }

    /// The bits of the slab at a committed granule.
    #[inline]
    pub(crate) fn bits(&self, g: Granule) -> Bits<'_> {
        // SAFETY: as in `tag`.
        let far = unsafe { &*at::<FarBits>(self.tables.far_bits).add(g.0 as usize) };
        Bits { near: self.word(g), far }
    }

    /// A committed block.
    #[inline]
    pub(crate) fn block(&self, b: Block) -> &BlockEntry {
        // SAFETY: as in `tag`.
        unsafe { &*at::<BlockEntry>(self.tables.blocks).add(b.0 as usize) }
    }

    /// A zone of the region.
    #[inline]
    pub(crate) fn zone(&self, zone: u32) -> &ZoneEntry {
        debug_assert!(zone < self.blocks.div_ceil(ZONE_BLOCKS));
        // SAFETY: the zones' table is committed as a whole from the start.
        unsafe { &*at::<ZoneEntry>(self.tables.zones).add(zone as usize) }
    }

    /// Where the heap of that number stands, made or not.
    pub(crate) fn heap_place(&self, id: u16) -> *mut Heap {
        debug_assert!(id >= 1 && usize::from(id) <= self.leases.heaps());
        // SAFETY: inside the part of the metadata planned for the heaps.
        unsafe { at::<Heap>(self.heaps).sub(usize::from(id)) }
    }

    /// Where the map of that number stands, of as many bytes as there are granules.
    pub(crate) fn map_place(&self, n: usize) -> usize {
        debug_assert!(n < self.leases.maps());
        self.maps + n * (self.granules() as usize).next_multiple_of(self.system.page_size())
    }

    /// The heap of that number, which has been made.
    #[inline]
    pub(crate) fn heap(&self, id: u16) -> &Heap {
        // SAFETY: ids are handed out after the heap was made, and heaps are never unmade.
        unsafe { &*self.heap_place(id) }
    }

    /// All heaps made so far.
    pub(crate) fn all_heaps(&self) -> impl Iterator<Item = &Heap> {
        self.leases.made().map(|id| self.heap(id))
    }

    /// About how many granules are in use, and how many are free but dirty: what policies ask.
    pub(crate) fn about_in_use(&self) -> Granules {
        Tally::sum([&self.tally].into_iter())
    }

    /// Granules in use and granules free but dirty, at this moment: exact, and a look at every
    /// heap's line.
    pub fn granules_in_use(&self) -> Granules {
        Tally::sum(self.every_tally())
    }

    /// The tallies of all heaps, and the arena's own.
    pub(crate) fn every_tally(&self) -> impl Iterator<Item = &Tally> {
        self.all_heaps().map(|heap| &heap.tally).chain([&self.tally])
    }

    /// Commits at least `wanted` more blocks, and offers them as wholly free ones, unless another
    /// thread has offered some since the caller saw that those up to `offered` are. Returns false
    /// if there is no more memory.
    pub(crate) fn commit_more(&self, offered: u32, wanted: u32) -> bool {
        self.grow.hold(|| {
            let committed = self.frontier.offered();
            if committed > offered {
                return true; // Another thread was faster: look there first.
            }
            if wanted > self.blocks - committed {
                return false;
            }
            let smallest = wanted.max(1);
            let step = grow::step(committed, wanted, self.blocks);
            // Near a limit the large step may fail where the small one does not.
            let done = [step, smallest].into_iter().find(|&n| self.commit_blocks(committed, n));
            let Some(n) = done else { return false };
            if committed == 0 {
                self.find_huge_pages();
            }
            self.frontier.advance(committed + n, || {
                for block in (committed..committed + n).map(Block) {
                    // Relaxed: offering the block publishes it. Zero already, but this has the
                    // kernel give the table a page of its own, before one of zeros is read there.
                    self.block(block).dirty.store(0, Ordering::Relaxed);
                    self.zone(block.zone()).whole.release(block.bit());
                }
            });
            true
        })
    }

    fn commit_blocks(&self, first: u32, count: u32) -> bool {
        let data = self.tables.address(Block(first).first());
        let zones = Block(first).zone()..=Block(first + count - 1).zone();
        // The tables first: near a limit, data that was committed in a large step would leave no
        // room for them, and a smaller step would come too late.
        zones.into_iter().all(|zone| self.commit_tables_of(zone))
            // SAFETY: inside the region, beyond what is committed.
            && unsafe { self.system.commit(data, count as usize * BLOCK) }
    }

    /// Commits the tables of a whole zone. Committing twice does no harm.
    fn commit_tables_of(&self, zone: u32) -> bool {
        let tables = &self.tables;
        let zone = zone as usize;
        let of_granules = |size: usize| {
            let all = self.granules() as usize;
            [zone, zone + 1].map(|zone| (zone * ZONE_GRANULES).min(all) * size)
        };
        let of_blocks = |size: usize| {
            let all = self.blocks as usize;
            [zone, zone + 1].map(|zone| (zone * ZONE_BLOCKS as usize).min(all) * size)
        };
        let far_bits = of_granules(size_of::<FarBits>());
        // Those of the first zone were committed with the arena.
        (zone == 0 || self.commit_around(tables.far_bits, [0, 0], far_bits))
            && self.commit_around(
                tables.tags,
                of_granules(size_of::<SlabLocal>()),
                of_granules(size_of::<Tag>()),
            )
            && self.commit_around(
                tables.blocks,
                of_granules(size_of::<Remote>()),
                of_blocks(size_of::<BlockEntry>()),
            )
    }

    /// Commits a part of the table that grows downwards from a place in the metadata, and of the
    /// one that grows upwards: each from so many bytes to so many. In one call where they meet.
    fn commit_around(&self, place: usize, down: [usize; 2], up: [usize; 2]) -> bool {
        let page = self.system.page_size();
        let commit = |from: usize, to: usize| {
            let from = from / page * page;
            // SAFETY: inside the tables, which are inside the metadata's reservation.
            from >= to || unsafe { self.system.commit(from, to.next_multiple_of(page) - from) }
        };
        let ([near, far], [first, end]) = (down, up);
        if near + first == 0 {
            return commit(place - far, place + end);
        }
        commit(place - far, place - near) && commit(place + first, place + end)
    }

    /// Takes every lock, so that no heap is in the middle of anything: for a fork.
    pub fn lock_all(&self) {
        self.purger.lock.acquire();
        self.leases.lock.acquire();
        self.magazines.lock.acquire();
        self.outboxes.lock.acquire();
        self.hardening.locks().into_iter().for_each(Lock::acquire);
        for heap in self.all_heaps() {
            heap.lock.acquire_among_peers();
        }
        for heap in self.all_heaps() {
            heap.own_pooling.lock.acquire_among_peers();
        }
        for pool in &self.pools {
            pool.lock.acquire_among_peers();
        }
        self.shut.lock.acquire();
        self.grow.acquire();
        self.direct.lock.acquire();
    }

    /// Releases what [`Arena::lock_all`] took: in the parent.
    pub fn unlock_all(&self) {
        self.every_lock(Lock::release);
    }

    /// Makes every lock free, and takes up the heaps of threads that do not exist here: in the
    /// child, by its only thread, whose own heap is `mine`.
    pub fn after_fork_in_child(&self, mine: Option<&Heap>) {
        self.every_lock(Lock::reset);
        for id in self.leases.made() {
            let heap = self.heap(id);
            let vanished =
                heap.is_exclusive() && heap.is_leased() && mine.is_none_or(|mine| mine.id() != id);
            if vanished {
                // What was freed twice, the parent says: it has that thread still.
                // SAFETY: its thread is gone, and it was not inside the heap: we held its lock.
                unsafe { self.end_lease(heap, |_| ()) };
            }
        }
        self.count_run_sharers();
        self.reset_exchange();
        self.reset_handover();
    }

    fn every_lock(&self, act: impl Fn(&Lock)) {
        act(&self.direct.lock);
        act(&self.grow);
        act(&self.shut.lock);
        for pool in &self.pools {
            act(&pool.lock);
        }
        for heap in self.all_heaps() {
            act(&heap.own_pooling.lock);
            act(&heap.lock);
        }
        self.hardening.locks().into_iter().for_each(&act);
        act(&self.outboxes.lock);
        act(&self.magazines.lock);
        act(&self.leases.lock);
        act(&self.purger.lock);
    }

    /// How often a thread had to wait for one of the locks.
    pub fn lock_waits(&self) -> u64 {
        let total = core::cell::Cell::new(0_u64);
        self.every_lock(|lock| total.set(total.get() + u64::from(lock.waits())));
        total.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ops::Range;
    use freehold_sys::Linux;
    use std::vec::Vec;

    /// What each table takes of the metadata, of a region of so many blocks.
    fn parts(
        plan: &Plan,
        page: usize,
        blocks: usize,
        leases: &Leases,
        left: usize,
    ) -> Vec<Range<usize>> {
        let granules = blocks * BLOCK_GRANULES as usize;
        let zones = blocks.div_ceil(ZONE_BLOCKS as usize) * size_of::<ZoneEntry>();
        let tables = plan.tables(0, 0);
        let (locals, remotes) = (granules * size_of::<SlabLocal>(), granules * size_of::<Remote>());
        let heaps = leases.heaps() * size_of::<Heap>();
        let maps = leases.maps() * granules.next_multiple_of(page);
        Vec::from([
            plan.heaps - heaps..plan.heaps,
            plan.arena..plan.arena + size_of::<Arena<Linux>>(),
            tables.zones..tables.zones + zones,
            tables.locals - locals..tables.locals,
            tables.tags..tables.tags + granules * size_of::<Tag>(),
            tables.far_bits..tables.far_bits + granules * size_of::<FarBits>(),
            plan.magazines - Stock::<Magazine>::link_bytes(left)..plan.magazines,
            plan.magazines..plan.magazines + Stock::<Magazine>::bytes(left),
            plan.maps..plan.maps + maps,
            plan.outboxes - Stock::<Outbox>::link_bytes(left)..plan.outboxes,
            plan.outboxes..plan.outboxes + Stock::<Outbox>::bytes(left),
            tables.remotes - remotes..tables.remotes,
            tables.blocks..tables.blocks + blocks * size_of::<BlockEntry>(),
        ])
    }

    #[test]
    fn the_parts_of_the_metadata_lie_side_by_side_whatever_the_region_and_the_pages() {
        for page in [4096, 65536] {
            for blocks in [2, 3, 64, 65, 1000, 1 << 19] {
                let (leases, left) = (Leases::new(2), 100 << 20);
                let plan = Plan::new::<Linux>(page, blocks, &leases, left);
                // What tells of 1 MiB, and of the blocks that are committed first, is on one page.
                let small = [
                    (plan.tags, 32 * size_of::<SlabLocal>(), 32 * size_of::<Tag>()),
                    (plan.blocks, 32 * size_of::<Remote>(), 4 * size_of::<BlockEntry>()),
                ];
                for (place, down, up) in small.into_iter().filter(|_| page == 4096) {
                    assert!(place % page >= down && page - place % page >= up, "{place}");
                }
                let mut parts = parts(&plan, page, blocks, &leases, left);
                parts.sort_by_key(|part| part.start);
                for (before, after) in parts.iter().zip(&parts[1..]) {
                    assert!(before.end <= after.start, "{before:?} {after:?}");
                    assert!(after.start - before.end < 2 * page, "{before:?} {after:?}");
                }
                assert!(parts.last().is_some_and(|last| last.end <= plan.total));
                let used = plan.arena + offset_of!(Arena<Linux>, pools);
                assert_eq!(used / page, plan.zones / page, "what is used first is on one page");
                assert!(used % page < align_of::<Arena<Linux>>());
                let granules = blocks * BLOCK_GRANULES as usize;
                let (from, to) = plan.at_once(page, &leases, granules);
                let far_bits = granules.min(ZONE_GRANULES) * size_of::<FarBits>();
                assert!(from <= plan.heaps && to >= plan.far_bits + far_bits);
                let far = from + BLOCK;
                assert!(page > 4096 || to < far, "it could be backed by a huge page: {from} {to}");
            }
        }
    }
}
