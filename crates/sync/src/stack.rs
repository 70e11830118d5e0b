//! A stack of small numbers that any thread may push to and pop from without a lock.
//!
//! The links live with whatever the numbers name. The head is one word: the number plus one (0 when
//! empty) in the low half and a count of pops in the high half. The count defeats the one danger
//! of such a stack: a thread that read `head` and its link, slept while others popped both and
//! pushed the first again, and would now set a head that is in use.

use crate::atomic::{AtomicU32, AtomicU64, Ordering};

/// A last-in first-out stack of `u32`.
#[derive(Debug)]
pub struct IndexStack {
    head: AtomicU64,
}

const fn index_of(head: u64) -> Option<u32> {
    (head as u32).checked_sub(1)
}

impl IndexStack {
    /// An empty stack.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self { head: AtomicU64::new(0) }
    }

    /// An empty stack.
    #[cfg(loom)]
    pub fn new() -> Self {
        Self { head: AtomicU64::new(0) }
    }

    /// Pushes `index`, which is on no stack. `link` gives the word that belongs to an index.
    pub fn push<'a>(&self, index: u32, link: impl Fn(u32) -> &'a AtomicU32) {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            // Relaxed: published by the exchange below.
            link(index).store(head as u32, Ordering::Relaxed);
            let new = (head & !u64::from(u32::MAX)) | u64::from(index + 1);
            // Release pairs with the Acquire in `pop`: who gets the index sees the link and all
            // that the pusher did with what the index names.
            match self.head.compare_exchange_weak(head, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(seen) => head = seen,
            }
        }
    }

    /// Whether there was nothing on it a moment ago: for who would rather not try in vain.
    pub fn is_empty(&self) -> bool {
        // Relaxed: a hint, and popping decides.
        index_of(self.head.load(Ordering::Relaxed)).is_none()
    }

    /// Pops the index pushed last.
    pub fn pop<'a>(&self, link: impl Fn(u32) -> &'a AtomicU32) -> Option<u32> {
        // Acquire pairs with the Release in `push`; needed already here, to read the link.
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let index = index_of(head)?;
            // Relaxed: if this link is stale then the count has changed, and the exchange fails.
            let next = link(index).load(Ordering::Relaxed);
            let new = ((head >> 32).wrapping_add(1) << 32) | u64::from(next);
            // Acquire on both outcomes, as above. Pushes of others that this passes over stay in
            // the release sequence, since every change of the head is a read-modify-write.
            match self.head.compare_exchange_weak(head, new, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return Some(index),
                Err(seen) => head = seen,
            }
        }
    }
}

impl Default for IndexStack {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use std::vec::Vec;

    #[test]
    fn the_last_pushed_comes_first() {
        let links: Vec<AtomicU32> = (0..3).map(|_| AtomicU32::new(0)).collect();
        let stack = IndexStack::new();
        let link = |i: u32| &links[i as usize];
        (0..3).for_each(|i| stack.push(i, link));
        assert!(!stack.is_empty());
        let popped: Vec<_> = std::iter::from_fn(|| stack.pop(link)).collect();
        assert_eq!(popped, [2, 1, 0]);
        assert!(stack.is_empty());
    }

    #[test]
    fn nothing_is_lost_or_doubled_when_many_threads_exchange_indices() {
        let links: Arc<Vec<AtomicU32>> = Arc::new((0..8).map(|_| AtomicU32::new(0)).collect());
        let stack = Arc::new(IndexStack::new());
        (0..8).for_each(|i| stack.push(i, |i| &links[i as usize]));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (links, stack) = (links.clone(), stack.clone());
                std::thread::spawn(move || {
                    let link = |i: u32| &links[i as usize];
                    for _ in 0..50_000 {
                        if let Some(i) = stack.pop(link) {
                            stack.push(i, link);
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        let rest: BTreeSet<_> = std::iter::from_fn(|| stack.pop(|i| &links[i as usize])).collect();
        assert_eq!(rest, (0..8).collect());
    }
}
