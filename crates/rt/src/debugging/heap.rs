//! The heap of a process that is debugged: one, under one lock, since speed does not matter.
//!
//! Objects stand in cells of the usual heap. What is freed waits in a queue before its cell goes
//! back, so that second frees and writes to freed memory are found.

use super::options::Options;
use super::table::{Note, Record, Table};
use super::zones::{Damage, ZONE};
use core::ptr;
use freehold_heap::arena::Arena;
use freehold_heap::blocks::Prefer;
use freehold_heap::cache::ThreadCache;
use freehold_heap::invalid::Invalid;
use freehold_heap::layout::{UNIT, at};
use freehold_heap::medium::Given;
use freehold_sys::{Linux, System};

/// Bytes that wait at most, and objects.
const WAITING_BYTES: usize = 32 << 20;
const WAITING: usize = 16 * 1024;

/// What a process that is debugged has.
pub(super) struct Heap {
    pub(super) options: Options,
    pub(super) table: Table,
    pub(super) cache: ThreadCache,
    oldest: *mut Record,
    newest: *mut Record,
    waiting: usize,
    waiting_bytes: usize,
    random: u64,
}

/// What the program did wrong.
#[derive(Clone, Copy)]
pub(super) enum Misuse {
    /// An object, or its surroundings, were written to that must not have been.
    Damaged { object: usize, damage: Damage },
    /// The object was freed before.
    Freed { object: usize },
    /// It is no object.
    NoObject(usize),
    /// The usual heap refuses a cell.
    Cell(Invalid),
}

impl Heap {
    pub(super) const fn new() -> Self {
        Self {
            options: Options {
                audit: false,
                patterns: false,
                guards: false,
                firewall: 0,
                failing: 0,
                seed: 0,
                leaks: false,
                signal: 0,
            },
            table: Table::NONE,
            cache: ThreadCache::new(),
            oldest: ptr::null_mut(),
            newest: ptr::null_mut(),
            waiting: 0,
            waiting_bytes: 0,
            random: 0,
        }
    }

    /// Begins. Returns whether there is room for what must be remembered.
    pub(super) fn begin(&mut self, options: Options) -> bool {
        self.options = options;
        // Not 0, whatever the seed.
        self.random = options.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        self.table.prepare()
    }

    /// Whether the next allocation is to fail.
    pub(super) fn is_to_fail(&mut self) -> bool {
        if self.options.failing == 0 {
            return false;
        }
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 32).is_multiple_of(u64::from(self.options.failing))
    }

    /// Gives out `size` bytes at a multiple of `align`. `None` when there is no memory.
    pub(super) fn allocate(
        &mut self,
        arena: &Arena<Linux>,
        (size, align): (usize, usize),
        zeroed: bool,
        note: Note,
    ) -> Option<usize> {
        let align = align.max(UNIT);
        let page = arena.system().page_size();
        let firewall = self.options.firewall;
        // What is mapped just now is zero, and so is what the heap says is: nobody writes to that,
        // or a large object would be resident that the program hardly uses.
        let (record, is_zero) = if firewall != 0 && size >= firewall && size > 0 && align <= page {
            (firewalled(arena, size, align, note)?, true)
        } else {
            self.in_cell(arena, size, align, note)?
        };
        // SAFETY: a cell that nobody else has.
        unsafe {
            if self.options.guards {
                record.fill_zones();
            }
            if zeroed {
                if !is_zero {
                    at::<u8>(record.object).write_bytes(0, size);
                }
            } else if self.options.patterns {
                record.fill_contents();
            }
        }
        let object = record.object;
        if self.table.enter(record).is_none() {
            // SAFETY: just taken, and given to nobody. What the heap just gave it takes back.
            let _ = unsafe { self.give_back(arena, &record) };
            return None;
        }
        Some(object)
    }

    /// An object in a cell of the heap, and whether that is zero.
    fn in_cell(
        &mut self,
        arena: &Arena<Linux>,
        size: usize,
        align: usize,
        note: Note,
    ) -> Option<(Record, bool)> {
        let (before, behind) = if self.options.guards { (align.max(ZONE), ZONE) } else { (0, 0) };
        let bytes = size.checked_add(before + behind)?.max(UNIT);
        let Given { address: cell, zero } = self.cache.take(arena, bytes, align, Prefer::Dirty)?;
        let cell_bytes = arena.usable_size(cell).unwrap_or(bytes);
        Some((Record::new(cell + before, size, (cell, cell_bytes), note), zero))
    }

    /// The bytes of an object.
    pub(super) fn size(&mut self, object: usize) -> Result<usize, Misuse> {
        match self.table.find(object) {
            Some(record) if record.is_freed => Err(Misuse::Freed { object }),
            Some(record) => Ok(record.size),
            None => Err(Misuse::NoObject(object)),
        }
    }

    /// Takes an object back.
    pub(super) fn free(
        &mut self,
        arena: &Arena<Linux>,
        object: usize,
        note: Note,
    ) -> Result<(), Misuse> {
        let Options { guards, patterns, .. } = self.options;
        let Some(record) = self.table.find(object) else { return Err(Misuse::NoObject(object)) };
        if record.is_freed {
            return Err(Misuse::Freed { object });
        }
        // SAFETY: the cell of an object that was given up.
        unsafe {
            if guards && let Some(damage) = record.look_at_zones() {
                return Err(Misuse::Damaged { object, damage });
            }
            record.is_freed = true;
            record.freed = note;
            if record.is_firewalled {
                Linux::new().withdraw(record.cell, record.cell_bytes);
            } else if patterns {
                record.fill_contents();
            }
        }
        let bytes = record.cell_bytes;
        let record = ptr::from_mut(record);
        self.wait(record, bytes);
        while self.waiting > WAITING || self.waiting_bytes > WAITING_BYTES {
            self.end_wait(arena)?;
        }
        Ok(())
    }

    fn wait(&mut self, record: *mut Record, bytes: usize) {
        // SAFETY: records of the table.
        unsafe {
            (*record).after = ptr::null_mut();
            match self.newest.as_mut() {
                Some(newest) => newest.after = record,
                None => self.oldest = record,
            }
        }
        self.newest = record;
        self.waiting += 1;
        self.waiting_bytes += bytes;
    }

    /// Lets the memory of the object that was freed first be used again.
    fn end_wait(&mut self, arena: &Arena<Linux>) -> Result<(), Misuse> {
        let oldest = self.oldest;
        // SAFETY: a record of the table.
        let Some(&record) = (unsafe { oldest.as_ref() }) else { return Ok(()) };
        if let Some(damage) = self.damage(&record) {
            return Err(Misuse::Damaged { object: record.object, damage });
        }
        self.oldest = record.after;
        if self.oldest.is_null() {
            self.newest = ptr::null_mut();
        }
        self.waiting -= 1;
        self.waiting_bytes -= record.cell_bytes;
        self.table.remove(oldest);
        // SAFETY: the object was given up.
        unsafe { self.give_back(arena, &record) }
    }

    /// Lets the memory of all objects that were freed be used again.
    pub(super) fn end_all_waits(&mut self, arena: &Arena<Linux>) -> Result<(), Misuse> {
        while !self.oldest.is_null() {
            self.end_wait(arena)?;
        }
        Ok(())
    }

    unsafe fn give_back(&mut self, arena: &Arena<Linux>, record: &Record) -> Result<(), Misuse> {
        // SAFETY: nobody uses the cell.
        unsafe {
            if record.is_firewalled {
                let page = arena.system().page_size();
                arena.system().unmap(record.cell - page, record.cell_bytes + 2 * page);
                return Ok(());
            }
            self.cache.free_slow(arena, record.cell).map_err(Misuse::Cell)
        }
    }

    /// What is wrong with an object.
    pub(super) fn damage(&self, record: &Record) -> Option<Damage> {
        // SAFETY: the cell is accessible, and was filled as the options say.
        unsafe {
            match (record.is_freed, record.is_firewalled) {
                (true, true) => None,
                (true, false) => {
                    let contents = self.options.patterns.then(|| record.look_at_contents());
                    let zones = || self.options.guards.then(|| record.look_at_zones()).flatten();
                    contents.flatten().or_else(zones)
                }
                (false, _) => self.options.guards.then(|| record.look_at_zones()).flatten(),
            }
        }
    }
}

/// Maps an object of its own, so that it ends, but for its alignment, at an inaccessible page.
fn firewalled(arena: &Arena<Linux>, size: usize, align: usize, note: Note) -> Option<Record> {
    let system = arena.system();
    let page = system.page_size();
    let bytes = size.checked_next_multiple_of(page)?;
    let start = system.reserve(bytes.checked_add(2 * page)?, page)?;
    let cell = start + page;
    // SAFETY: inside the reservation.
    if !unsafe { system.commit(cell, bytes) } {
        // SAFETY: the reservation just made.
        unsafe { system.unmap(start, bytes + 2 * page) };
        return None;
    }
    let object = (cell + bytes - size) & !(align - 1);
    let mut record = Record::new(object, size, (cell, bytes), note);
    record.is_firewalled = true;
    Some(record)
}
