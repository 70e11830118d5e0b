//! Memory for the moments when the allocator cannot be entered: a signal handler that interrupted
//! it, or another library's fork handler while all locks are held.
//!
//! Each piece is a mapping of its own, remembered in a table without locks. Such moments are rare,
//! so the table is short; when it is full there is no memory.

use freehold_sync::atomic::{AtomicUsize, Ordering};
use freehold_sys::{Linux, System};

const MOST: usize = 64;

/// Address and bytes of each mapping; address 0: free; 1: being filled in.
static TABLE: [(AtomicUsize, AtomicUsize); MOST] =
    [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; MOST];

const FREE: usize = 0;
const FILLING: usize = 1;

/// Maps `bytes` at a multiple of `align`, which is at most a page.
pub(crate) fn map(bytes: usize, align: usize) -> Option<usize> {
    let system = Linux::new();
    let page = system.page_size();
    let bytes = bytes.max(1).checked_next_multiple_of(page)?;
    if align > page {
        return None;
    }
    let (address, length) = TABLE.iter().find(|(address, _)| {
        // Acquire pairs with the Release in `unmap`.
        address.compare_exchange(FREE, FILLING, Ordering::Acquire, Ordering::Relaxed).is_ok()
    })?;
    let Some(at) = system.map(bytes) else {
        address.store(FREE, Ordering::Release);
        return None;
    };
    length.store(bytes, Ordering::Relaxed);
    // Release pairs with the Acquire in `usable` and `unmap`: the length is there.
    address.store(at, Ordering::Release);
    Some(at)
}

fn find(at: usize) -> Option<&'static (AtomicUsize, AtomicUsize)> {
    if at <= FILLING {
        return None;
    }
    TABLE.iter().find(|(address, _)| address.load(Ordering::Acquire) == at)
}

/// The bytes at `address`, if it is one of these mappings.
pub(crate) fn usable(address: usize) -> Option<usize> {
    find(address).map(|(_, length)| length.load(Ordering::Relaxed))
}

/// Unmaps what is at `address`, if it is one of these mappings.
pub(crate) fn unmap(at: usize) -> bool {
    let Some((address, length)) = find(at) else {
        return false;
    };
    let bytes = length.load(Ordering::Relaxed);
    // The entry is taken back first: as soon as the mapping is gone, another thread may be given a
    // new one at the same address, which must not be found under the old length.
    // Acquire pairs with the Release in `map`.
    let taken = address.compare_exchange(at, FILLING, Ordering::Acquire, Ordering::Relaxed);
    if taken.is_err() {
        return false;
    }
    // SAFETY: a mapping of ours, given up by its user.
    unsafe { Linux::new().unmap(at, bytes) };
    // Release pairs with the Acquire in `map`.
    address.store(FREE, Ordering::Release);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Mutex, PoisonError};

    /// There is one table, and each of these tests wants all of it.
    static TABLE_IN_USE: Mutex<()> = Mutex::new(());

    #[test]
    fn a_piece_at_an_address_that_was_just_given_up_has_its_own_length() {
        let _all = TABLE_IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        let work = |thread: usize| {
            for i in 0..20_000 {
                let bytes = (1 + (thread * 7 + i) % 5) * Linux::new().page_size();
                let piece = map(bytes, 16).unwrap();
                assert_eq!(usable(piece), Some(bytes));
                // SAFETY: the last byte of the piece.
                unsafe { freehold_heap::layout::at::<u8>(piece + bytes - 1).write(1) };
                assert!(unmap(piece));
            }
        };
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || work(thread));
            }
        });
    }

    #[test]
    fn pieces_are_found_again_and_their_places_reused() {
        let _all = TABLE_IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..3 {
            let pieces: std::vec::Vec<_> = (0..MOST).map(|_| map(5000, 16).unwrap()).collect();
            assert_eq!(map(1, 16), None);
            for &piece in &pieces {
                assert_eq!(usable(piece), Some(8192));
                assert_eq!(usable(piece + 16), None);
                assert!(unmap(piece));
                assert!(!unmap(piece));
            }
        }
    }
}
