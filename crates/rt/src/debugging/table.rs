//! What is known of each object, found by its address: records in memory of their own, out of reach
//! of the program's mistakes, in chains of a hash table.
//!
//! A record is in the table from the allocation on, until the object's memory may be used again.

use crate::stack::Stack;
use core::ptr;
use freehold_heap::layout::at;
use freehold_sys::{Linux, System};

/// Records that there may be.
const MOST: usize = 1 << 26;

/// How much of the address space that is left they take at most: under a limit the program needs
/// it.
const PART: usize = 8;

/// Chains.
const CHAINS: usize = 1 << 18;

/// Bytes of records that are made usable at once.
const STEP: usize = 1 << 20;

/// Who did something, and by which calls.
#[derive(Clone, Copy, Default)]
pub(super) struct Note {
    pub(super) thread: u32,
    pub(super) stack: Stack,
}

/// What is known of an object.
#[derive(Clone, Copy)]
pub(super) struct Record {
    pub(super) object: usize,
    /// Bytes that were asked for.
    pub(super) size: usize,
    /// The memory that it stands in.
    pub(super) cell: usize,
    pub(super) cell_bytes: usize,
    /// Whether that is a mapping of its own.
    pub(super) is_firewalled: bool,
    pub(super) is_freed: bool,
    pub(super) allocated: Note,
    pub(super) freed: Note,
    /// The next record of the chain, and of the queue of the freed or of the unused; null: none.
    next: *mut Record,
    pub(super) after: *mut Record,
}

/// The records.
pub(super) struct Table {
    records: usize,
    /// Records that may be made, that memory was made usable for, and that were made.
    most: usize,
    usable: usize,
    made: usize,
    unused: *mut Record,
    chains: *mut [*mut Record; CHAINS],
}

impl Table {
    pub(super) const NONE: Self = Self {
        records: 0,
        most: 0,
        usable: 0,
        made: 0,
        unused: ptr::null_mut(),
        chains: ptr::null_mut(),
    };

    /// Makes room. Returns whether there is address space for it.
    pub(super) fn prepare(&mut self) -> bool {
        let system = Linux::new();
        let most = (MOST * size_of::<Record>()).min(system.address_space_left() / PART);
        // An eighth each time that there is not as much in one place.
        let found = [1, 8, 64, 512].into_iter().find_map(|divisor| {
            let bytes = most / divisor / STEP * STEP;
            let records = if bytes > 0 { system.reserve(bytes, STEP)? } else { return None };
            Some((records, bytes / size_of::<Record>()))
        });
        let chains = system.map(size_of::<[*mut Record; CHAINS]>());
        let (Some((records, most)), Some(chains)) = (found, chains) else { return false };
        (self.records, self.most, self.chains) = (records, most, at(chains));
        true
    }

    fn chain(&mut self, object: usize) -> &mut *mut Record {
        let hash = (object as u64 >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        // SAFETY: made by `prepare`, all null at first, and only used through this table.
        unsafe { &mut (*self.chains)[hash as usize % CHAINS] }
    }

    /// The record of the object at an address.
    pub(super) fn find(&mut self, object: usize) -> Option<&mut Record> {
        let mut record = *self.chain(object);
        // SAFETY: records of this table, which are never unmade.
        while let Some(found) = unsafe { record.as_mut() } {
            if found.object == object {
                return Some(found);
            }
            record = found.next;
        }
        None
    }

    /// Enters an object. `None` when there is no memory for one more record.
    pub(super) fn enter(&mut self, mut record: Record) -> Option<()> {
        let place = if self.unused.is_null() { self.make()? } else { self.unused };
        // SAFETY: a record that is not in use; its link was written when it was given up.
        unsafe {
            if place == self.unused {
                self.unused = (*place).after;
            }
            let chain = self.chain(record.object);
            record.next = *chain;
            *chain = place;
            place.write(record);
        }
        Some(())
    }

    fn make(&mut self) -> Option<*mut Record> {
        if self.made == self.most {
            return None;
        }
        let end = (self.made + 1) * size_of::<Record>();
        if end > self.usable {
            // SAFETY: reserved by `prepare`.
            if !unsafe { Linux::new().commit(self.records + self.usable, STEP) } {
                return None;
            }
            self.usable += STEP;
        }
        self.made += 1;
        let place = at::<Record>(self.records + end - size_of::<Record>());
        Some(place)
    }

    /// Forgets the object of a record, which is in the table.
    pub(super) fn remove(&mut self, record: *mut Record) {
        // SAFETY: a record of this table.
        let object = unsafe { (*record).object };
        let mut link: *mut *mut Record = self.chain(object);
        // SAFETY: links of records of this table; the record is in its chain.
        unsafe {
            while *link != record {
                link = &raw mut (**link).next;
            }
            *link = (*record).next;
            (*record).object = 0;
            (*record).after = self.unused;
        }
        self.unused = record;
    }

    /// All objects.
    pub(super) fn all(&self) -> impl Iterator<Item = &Record> {
        // SAFETY: made, and initialised when they were entered.
        let records = (0..self.made).map(|n| unsafe { &*at::<Record>(self.records).add(n) });
        records.filter(|record| record.object != 0)
    }
}

impl Record {
    /// A new object's.
    pub(super) fn new(object: usize, size: usize, cell: (usize, usize), allocated: Note) -> Self {
        Self {
            object,
            size,
            cell: cell.0,
            cell_bytes: cell.1,
            is_firewalled: false,
            is_freed: false,
            allocated,
            freed: Note::default(),
            next: ptr::null_mut(),
            after: ptr::null_mut(),
        }
    }

    /// Whether an address lies in the memory that the object stands in.
    pub(super) fn contains(&self, address: usize) -> bool {
        address.wrapping_sub(self.cell) < self.cell_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_found_until_they_are_removed() {
        let mut table = Table::NONE;
        assert!(table.prepare());
        let object = |n: usize| 0x1000 + n * 16;
        for round in 0..3 {
            for n in 0..10_000 {
                let record = Record::new(object(n), n + round, (object(n), 16), Note::default());
                table.enter(record).unwrap();
            }
            assert_eq!(table.all().count(), 10_000);
            for n in 0..10_000 {
                let record = table.find(object(n)).unwrap();
                assert_eq!(record.size, n + round);
                let record = ptr::from_mut(record);
                table.remove(record);
                assert!(table.find(object(n)).is_none());
            }
        }
        assert_eq!(table.made, 10_000);
        assert_eq!(table.all().count(), 0);
    }
}
