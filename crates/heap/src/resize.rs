//! Sizes of objects in use, and changing them: in place, by claiming what follows, by moving pages,
//! and by copying only when nothing else will do.

use crate::arena::Arena;
use crate::blocks::Prefer;
use crate::cache::ThreadCache;
use crate::class::{Class, MEDIUM_MAX};
use crate::invalid::Invalid;
use crate::layout::{GRANULE, Granule, UNIT, at};
use crate::tables::RUN;
use crate::tally::Account;
use core::ptr;
use freehold_sync::atomic::Ordering;
use freehold_sys::System;
use freehold_sys::touch::touch;

/// From this size on, contents are moved by changing page tables rather than copied. Below it the
/// call and the refaults of neighbours cost more than the copy.
const MOVE_PAGES_FROM: usize = 4 << 20;

/// How many times pages are moved in the life of an arena. Each time the kernel has one mapping
/// more to keep, and there is a limit to those.
const MOST_MOVES: u32 = 256;

/// An object in use.
#[derive(Clone, Copy)]
enum InUse {
    /// In a slab.
    Slab,
    /// A run, and its first granule.
    Run(Granule),
    /// A direct mapping.
    Direct,
}

impl<S: System> Arena<S> {
    /// The bytes that can be used at `address`: constant as long as the object is in use, and never
    /// less than was asked for.
    pub fn usable_size(&self, address: usize) -> Result<usize, Invalid> {
        self.find(address).map(|(_, size)| size)
    }

    fn find(&self, address: usize) -> Result<(InUse, usize), Invalid> {
        let Some(g) = self.granule_of(address) else {
            let size = self.direct.usable(address).ok_or_else(|| self.explain(address))?;
            return Ok((InUse::Direct, size));
        };
        let tag = self.tag(g);
        match tag.class() {
            0 | RUN => {
                let g = self.run_at(address).ok_or_else(|| self.explain(address))?;
                Ok((InUse::Run(g), self.run_granules(g) as usize * GRANULE))
            }
            class => {
                let class = Class(class);
                let slab = self.tables.address(Granule(g.0 - tag.delta()));
                class.object_at(address - slab).ok_or_else(|| self.explain(address))?;
                Ok((InUse::Slab, class.usable()))
            }
        }
    }

    /// Moves the contents of a large run to another by moving its pages.
    fn move_run(&self, kind: InUse, from: usize, to: usize, bytes: usize) -> bool {
        let page = self.system.page_size();
        let whole =
            bytes.is_multiple_of(page) && from.is_multiple_of(page) && to.is_multiple_of(page);
        if bytes < MOVE_PAGES_FROM || !whole || !matches!(kind, InUse::Run(_)) {
            return false;
        }
        if self.granule_of(to).is_none() {
            return false;
        }
        // Relaxed: one too many does no harm.
        if self.moves.fetch_add(1, Ordering::Relaxed) >= MOST_MOVES {
            return false;
        }
        // SAFETY: both are runs in the committed region, of at least `bytes` bytes, different, and
        // in use by the caller alone.
        unsafe { self.system.move_pages(from, to, bytes) }
    }
}

impl ThreadCache {
    /// Changes the size of an object: the contents up to the smaller size are kept, and the address
    /// may change. `Ok(None)` when there is no memory; the object is as before then.
    ///
    /// # Safety
    /// `address` is in use by the caller alone, if it is an object at all.
    pub unsafe fn resize<S: System>(
        &mut self,
        arena: &Arena<S>,
        address: usize,
        size: usize,
    ) -> Result<Option<usize>, Invalid> {
        let (kind, usable) = arena.find(address)?;
        if let InUse::Run(g) = kind {
            arena.forget_zeroed(g);
        }
        if self.fits_in_place(arena, kind, usable, size) {
            return Ok(Some(address));
        }
        if matches!(kind, InUse::Direct)
            && size > MEDIUM_MAX
            && let Some(moved) = arena.direct.resize(&arena.system, address, size)
        {
            return Ok(Some(moved));
        }
        let Some(new) = self.take(arena, size, UNIT, Prefer::Dirty) else {
            // What is to become smaller can stay as it is.
            return Ok((size <= usable).then_some(address));
        };
        let keep = usable.min(size);
        if matches!(kind, InUse::Slab) {
            // Others get its memory next.
            // SAFETY: the caller's object, of at least so many bytes.
            unsafe { touch(address, keep, arena.system.page_size()) };
        }
        if !arena.move_run(kind, address, new.address, keep) {
            // SAFETY: both are objects of at least `keep` bytes, and different ones.
            unsafe {
                ptr::copy_nonoverlapping(at::<u8>(address), at::<u8>(new.address), keep);
            }
        }
        if self.put_back_last(arena, address) {
            return Ok(Some(new.address));
        }
        // SAFETY: the caller gives the old object up.
        unsafe { self.free_slow(arena, address) }?;
        Ok(Some(new.address))
    }

    /// Whether the object can keep its address: because its class still fits, or because its run
    /// could be made shorter or longer.
    fn fits_in_place<S: System>(
        &mut self,
        arena: &Arena<S>,
        kind: InUse,
        usable: usize,
        size: usize,
    ) -> bool {
        let account = Account::new(self.heap().map_or(&arena.tally, |heap| &heap.tally));
        let fits = match kind {
            // Shrinking moves only when it frees at least half.
            InUse::Slab => size <= usable && (size > usable / 2 || usable <= UNIT),
            InUse::Run(g) if size > MEDIUM_MAX => {
                if size <= usable {
                    arena.shrink_run(g, size, &account);
                    true
                } else {
                    arena.extend_run(g, size, &account)
                }
            }
            InUse::Run(_) => false,
            InUse::Direct => size <= usable && size > usable / 2,
        };
        let released = account.total_released();
        if released > 0 {
            self.note_released(arena, released);
        }
        fits
    }
}
