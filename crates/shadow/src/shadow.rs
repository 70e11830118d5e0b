//! What must be in use, by the allocator's own answers: a second account of the heap.

use crate::contents;
use std::collections::BTreeMap;

/// An object in use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object {
    pub(crate) address: usize,
    /// What was asked for, which is what has contents.
    pub(crate) size: usize,
    /// What can be used, which nobody else may be given.
    usable: usize,
    tag: u64,
}

/// The objects in use, by address.
#[derive(Default)]
pub(crate) struct Shadow {
    objects: BTreeMap<usize, Object>,
    bytes: usize,
    /// Objects entered so far: each has contents of its own.
    entered: u64,
}

impl Shadow {
    /// Bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Objects in use.
    pub(crate) fn count(&self) -> usize {
        self.objects.len()
    }

    /// The `n`-th object in use.
    pub(crate) fn nth(&self, n: usize) -> Option<Object> {
        self.objects.values().nth(n).copied()
    }

    /// Enters an object that was given out, and fills it.
    ///
    /// # Panics
    /// When it overlaps another.
    pub(crate) fn enter(&mut self, address: usize, size: usize, usable: usize) {
        assert!(usable >= size, "{size} bytes were wanted at {address:#x}, {usable} are usable");
        let end = address + usable;
        let before = self.objects.range(..end).next_back();
        assert!(
            before.is_none_or(|(_, it)| it.address + it.usable <= address),
            "{usable} bytes at {address:#x} overlap {before:x?}"
        );
        self.entered += 1;
        let object = Object { address, size, usable, tag: self.entered };
        contents::fill(address, size, object.tag);
        self.bytes += usable;
        self.objects.insert(address, object);
    }

    /// Takes an object out that is about to be freed.
    ///
    /// # Panics
    /// When its contents are not what they were.
    pub(crate) fn leave(&mut self, object: Object) {
        contents::check(object.address, object.size, object.tag);
        self.bytes -= object.usable;
        self.objects.remove(&object.address);
    }

    /// Takes an object out that was resized, and enters what became of it, if it was.
    ///
    /// # Panics
    /// When the contents that both have are not what they were.
    pub(crate) fn resized(&mut self, object: Object, moved: usize, size: usize, usable: usize) {
        contents::check_start(moved, object.size.min(size), object.size, object.tag);
        self.bytes -= object.usable;
        self.objects.remove(&object.address);
        self.enter(moved, size, usable);
    }
}
