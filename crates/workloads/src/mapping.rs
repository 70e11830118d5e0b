//! Memory straight from the kernel, for the harness's own arrays. It never calls `malloc`.

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

/// Types of which all zero bytes are a valid value.
///
/// # Safety
/// An all-zero bit pattern must be a valid value of the type.
pub(crate) unsafe trait Zeroed {}

// SAFETY: zero is a valid integer.
unsafe impl Zeroed for AtomicU32 {}
// SAFETY: zero is a valid integer.
unsafe impl Zeroed for AtomicU64 {}
// SAFETY: zero is the null pointer.
unsafe impl<T> Zeroed for AtomicPtr<T> {}
// SAFETY: zero is a valid integer.
unsafe impl Zeroed for u32 {}
// SAFETY: zero is a valid number.
unsafe impl Zeroed for f64 {}

/// An array in anonymous pages of its own.
pub(crate) struct Mapping<T> {
    start: NonNull<T>,
    len: usize,
}

// SAFETY: the mapping owns its pages as a `Box<[T]>` would; nothing in it is tied to a thread.
unsafe impl<T: Send> Send for Mapping<T> {}
// SAFETY: a shared mapping gives out `&[T]` only.
unsafe impl<T: Sync> Sync for Mapping<T> {}

impl<T: Zeroed> Mapping<T> {
    /// Maps room for `len` values, all zero.
    pub(crate) fn zeroed(len: usize) -> io::Result<Self> {
        Self::map(len, 0).map(|start| Self { start, len })
    }

    /// The same with its pages in place, so that the first use of one is no page fault.
    pub(crate) fn resident(len: usize) -> io::Result<Self> {
        Self::map(len, libc::MAP_POPULATE).map(|start| Self { start, len })
    }
}

impl<T> Mapping<T> {
    /// Maps room for `len` values, and makes each from its number.
    pub(crate) fn filled(len: usize, mut make: impl FnMut(usize) -> T) -> io::Result<Self> {
        // Grows with every value, so that a panic drops those that there are; their pages stay.
        let start = Self::map(len, 0)?;
        let mut mapping = Self { start, len: 0 };
        for number in 0..len {
            // SAFETY: there is room for `len` values, and the place is not yet in use.
            unsafe { mapping.start.add(number).write(make(number)) };
            mapping.len += 1;
        }
        Ok(mapping)
    }

    /// The size of the mapping.
    pub(crate) fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    fn map(len: usize, flags: i32) -> io::Result<NonNull<T>> {
        const { assert!(align_of::<T>() <= 4096, "mappings begin with a page") };
        let bytes = len.checked_mul(size_of::<T>()).filter(|&bytes| bytes > 0);
        let bytes = bytes.ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: an anonymous mapping at an address of the kernel's choice replaces nothing.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(start.cast()).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

impl<T> Deref for Mapping<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `start` is page-aligned, which no type here exceeds, and begins `len` values
        // that were made or are valid as zeros, and are mapped until `drop`.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for Mapping<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and the borrow of `self` is the only one.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T> AsMut<[T]> for Mapping<T> {
    fn as_mut(&mut self) -> &mut [T] {
        self
    }
}

impl<T> Drop for Mapping<T> {
    fn drop(&mut self) {
        let bytes = self.bytes();
        if bytes == 0 {
            return;
        }
        // SAFETY: the values are valid, and nobody uses them after this.
        unsafe { ptr::drop_in_place(ptr::from_mut::<[T]>(self)) };
        // SAFETY: the range is what was mapped, and no borrow of it outlives `self`.
        let status = unsafe { libc::munmap(self.start.as_ptr().cast(), bytes) };
        debug_assert_eq!(status, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn a_mapping_starts_zeroed_and_keeps_what_is_stored() {
        let mapping = Mapping::<AtomicU64>::zeroed(1000).expect("maps");
        assert_eq!(mapping.len(), 1000);
        assert!(mapping.iter().all(|word| word.load(Ordering::Relaxed) == 0));
        mapping[999].store(5, Ordering::Relaxed);
        assert_eq!(mapping[999].load(Ordering::Relaxed), 5);
        assert_eq!(mapping.bytes(), 8000);
    }

    #[test]
    fn an_empty_or_absurd_mapping_is_refused() {
        assert!(Mapping::<AtomicU64>::zeroed(0).is_err());
        assert!(Mapping::<AtomicU64>::zeroed(usize::MAX).is_err());
    }

    #[test]
    fn values_are_made_from_their_numbers_and_dropped_with_the_mapping() {
        let witness = Arc::new(());
        let make = |number| (number, Arc::clone(&witness));
        let mut mapping = Mapping::filled(3, make).expect("maps");
        mapping[1].0 += 10;
        assert_eq!([mapping[0].0, mapping[1].0, mapping[2].0], [0, 11, 2]);
        assert_eq!(Arc::strong_count(&witness), 4);
        drop(mapping);
        assert_eq!(Arc::strong_count(&witness), 1);
    }
}
