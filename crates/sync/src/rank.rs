//! The order in which locks are taken, and, in builds with debug assertions, a check of it.
//!
//! Threads that take several locks in one order never wait for each other in a circle. So every
//! lock has a [`Rank`], and a thread may wait for it only if its rank is above those of all locks
//! that the thread holds. Who takes a lock only if it is free waits for nobody, and may do so in
//! any order; but it holds the lock then, like any other.
//!
//! The check keeps a count for each rank in the thread's own storage. It neither allocates nor
//! locks, and knows nothing of a thread that the C library does not know (`freehold_sys::thread`):
//! that has no room for it. Without debug assertions, and under the model, nothing of it is left:
//! threads of the model share their storage.

/// A place in the order of locks, and what those in that place are called.
#[derive(Debug)]
#[cfg_attr(any(not(debug_assertions), loom), expect(dead_code, reason = "nobody asks for it"))]
pub struct Rank {
    order: u8,
    name: &'static str,
}

/// How many ranks there may be.
const RANKS: u8 = 16;

impl Rank {
    /// A rank: those with lower numbers are taken first.
    pub const fn new(order: u8, name: &'static str) -> Self {
        assert!(order < RANKS, "there are as many as the record of a thread has room for");
        Self { order, name }
    }
}

pub(crate) use place::Place;

/// What is left of a lock's rank where nothing is checked.
#[cfg(any(not(debug_assertions), loom))]
mod place {
    use super::Rank;

    #[derive(Debug)]
    pub(crate) struct Place;

    impl Place {
        pub(crate) const fn new(_: &'static Rank) -> Self {
            Self
        }

        #[inline(always)]
        pub(crate) fn check(&self) {}

        #[inline(always)]
        pub(crate) fn check_among_peers(&self) {}

        #[inline(always)]
        pub(crate) fn note_taken(&self) {}

        #[inline(always)]
        pub(crate) fn note_released(&self) {}

        #[inline(always)]
        pub(crate) fn note_reset(&self) {}
    }
}

#[cfg(all(debug_assertions, not(loom)))]
mod place {
    use super::{RANKS, Rank};
    use crate::atomic::{AtomicPtr, AtomicU16, Ordering};
    use core::fmt::{self, Write};
    use core::ptr;
    use freehold_sys::stderr::Message;

    /// The rank of a lock.
    #[derive(Debug)]
    pub(crate) struct Place(&'static Rank);

    /// What a thread holds of one rank: how many, and the rank itself for its name.
    ///
    /// Atomics for signal handlers, which leave the numbers as they found them: so Relaxed, and no
    /// exchange is needed.
    struct Held {
        count: AtomicU16,
        rank: AtomicPtr<Rank>,
    }

    freehold_sys::thread_storage! {
        /// What the calling thread holds: all zero is nothing.
        fn held() -> *mut [Held; RANKS as usize] = concat!(
            "freehold_held_",
            env!("CARGO_PKG_VERSION_MAJOR"),
            "_",
            env!("CARGO_PKG_VERSION_MINOR"),
            "_",
            env!("CARGO_PKG_VERSION_PATCH")
        );
    }

    /// What the calling thread holds, if it has room for a record of that.
    fn record() -> Option<&'static [Held; RANKS as usize]> {
        // SAFETY: the thread's own storage, which is valid when all zero, is shared with nobody but
        // its signal handlers, and outlives every call.
        freehold_sys::tls::is_there().then(|| unsafe { &*held() })
    }

    impl Place {
        pub(crate) const fn new(rank: &'static Rank) -> Self {
            Self(rank)
        }

        /// Before the thread waits for the lock.
        pub(crate) fn check(&self) {
            self.check_from(self.0.order);
        }

        /// The same, for who takes all locks of a rank.
        pub(crate) fn check_among_peers(&self) {
            self.check_from(self.0.order + 1);
        }

        /// Ends the process if the thread holds a lock in this place or a later one.
        fn check_from(&self, order: u8) {
            let Some(record) = record() else { return };
            let last = record.iter().rposition(|it| it.count.load(Ordering::Relaxed) > 0);
            if let Some(last) = last.filter(|&it| it >= usize::from(order)) {
                // SAFETY: whoever counts puts the rank there first, and ranks are never unmade.
                let held = unsafe { record[last].rank.load(Ordering::Relaxed).as_ref() };
                let held = held.map_or("", |rank| rank.name);
                end(format_args!(
                    "the lock {:?} is waited for by a thread that holds the lock \
                                  {held:?}, which comes after it or in the same place",
                    self.0.name
                ));
            }
        }

        pub(crate) fn note_taken(&self) {
            let Some(held) = self.held() else { return };
            held.rank.store(ptr::from_ref(self.0).cast_mut(), Ordering::Relaxed);
            held.count.store(held.count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }

        pub(crate) fn note_released(&self) {
            let Some(held) = self.held() else { return };
            match held.count.load(Ordering::Relaxed) {
                0 => end(format_args!(
                    "the lock {:?} is released by a thread that does not hold it",
                    self.0.name
                )),
                count => held.count.store(count - 1, Ordering::Relaxed),
            }
        }

        /// The lock is made free, whoever held it.
        pub(crate) fn note_reset(&self) {
            let Some(held) = self.held() else { return };
            let left = held.count.load(Ordering::Relaxed).saturating_sub(1);
            held.count.store(left, Ordering::Relaxed);
        }

        fn held(&self) -> Option<&'static Held> {
            Some(&record()?[usize::from(self.0.order)])
        }
    }

    #[cold]
    fn end(what: fmt::Arguments<'_>) -> ! {
        let mut message = Message::new();
        // Writing to a fixed buffer cannot fail.
        let _ = writeln!(message, "freehold: order of locks: {what}; aborting");
        drop(message);
        freehold_sys::process::abort()
    }
}
