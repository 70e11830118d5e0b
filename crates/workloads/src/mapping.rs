//! Memory straight from the kernel, for the harness's own arrays. It never calls `malloc`.

use std::io;
use std::ops::Deref;
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

/// An array of zeroed values in anonymous pages of its own.
pub(crate) struct Mapping<T: Zeroed> {
    start: NonNull<T>,
    len: usize,
}

// SAFETY: the mapping owns its pages as a `Box<[T]>` would; nothing in it is tied to a thread.
unsafe impl<T: Zeroed + Send> Send for Mapping<T> {}
// SAFETY: a shared mapping gives out `&[T]` only.
unsafe impl<T: Zeroed + Sync> Sync for Mapping<T> {}

impl<T: Zeroed> Mapping<T> {
    /// Maps room for `len` values.
    pub(crate) fn zeroed(len: usize) -> io::Result<Self> {
        let bytes = Self::bytes_for(len)?;
        // SAFETY: an anonymous mapping at an address of the kernel's choice replaces nothing.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { start, len })
    }

    /// The size of the mapping.
    pub(crate) fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    fn bytes_for(len: usize) -> io::Result<usize> {
        let bytes = len.checked_mul(size_of::<T>()).filter(|&bytes| bytes > 0);
        bytes.ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }
}

impl<T: Zeroed> Deref for Mapping<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `start` is page-aligned, which no type here exceeds, and begins `len` values
        // that are zeroed by the kernel, valid by `Zeroed`, and mapped until `drop`.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: Zeroed> Drop for Mapping<T> {
    fn drop(&mut self) {
        // SAFETY: the range is exactly what `zeroed` mapped, and no borrow of it outlives `self`.
        let status = unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes()) };
        debug_assert_eq!(status, 0);
    }
}

#[cfg(test)]
mod tests {
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
}
