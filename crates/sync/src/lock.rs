//! A lock for slow paths: one word, a futex to sleep on, a count of the times somebody had to wait.
//!
//! | word | meaning |
//! |---|---|
//! | `FREE` | nobody holds it |
//! | `HELD` | held, nobody sleeps |
//! | `CONTENDED` | held, and somebody may sleep: who unlocks must wake one |
//!
//! A sleeper sets `CONTENDED` before it sleeps, and only sleeps while the word still says so, so
//! that a wake-up cannot be lost. Whoever got the lock after sleeping keeps `CONTENDED`, because it
//! cannot know whether others sleep: one wake-up too many, never one too few.
//!
//! Every lock has a place in an order (`rank`), which builds with debug assertions check.

#[cfg(not(loom))]
use crate::atomic::pause;
use crate::atomic::{AtomicU32, Ordering};
use crate::rank::{Place, Rank};

const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;

/// How often to look again before sleeping: about as long as the shortest critical sections last.
const SPINS: u32 = 40;

/// A mutual-exclusion lock that protects whatever its owner says it protects.
#[derive(Debug)]
pub struct Lock {
    word: AtomicU32,
    waits: AtomicU32,
    place: Place,
}

// What `Lock::IS_ZEROS` says.
const _: () = assert!(FREE == 0);

impl Lock {
    /// Whether a free lock is all zeros: where locks have no rank that is checked, and
    /// atomics are the processor's.
    pub const IS_ZEROS: bool = cfg!(not(loom)) && size_of::<Place>() == 0;

    /// A free lock of the given rank.
    #[cfg(not(loom))]
    pub const fn new(rank: &'static Rank) -> Self {
        let place = Place::new(rank);
        Self { word: AtomicU32::new(FREE), waits: AtomicU32::new(0), place }
    }

    /// A free lock of the given rank.
    #[cfg(loom)]
    pub fn new(rank: &'static Rank) -> Self {
        let place = Place::new(rank);
        Self { word: AtomicU32::new(FREE), waits: AtomicU32::new(0), place }
    }

    /// Takes the lock if nobody holds it.
    pub fn try_acquire(&self) -> bool {
        let taken = self.take();
        if taken {
            self.place.note_taken();
        }
        taken
    }

    fn take(&self) -> bool {
        // Acquire pairs with the Release in `release`: who holds the lock sees what the last holder
        // did. Relaxed on failure: nothing is read then.
        self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes the lock, waiting for it if need be.
    pub fn acquire(&self) {
        self.place.check();
        self.wait();
    }

    /// Takes the lock, waiting for it if need be, where the thread may hold others of its rank: for
    /// who takes all of them, as others do in the same order.
    pub fn acquire_among_peers(&self) {
        self.place.check_among_peers();
        self.wait();
    }

    fn wait(&self) {
        if !self.take() {
            self.acquire_slow();
        }
        self.place.note_taken();
    }

    #[cold]
    fn acquire_slow(&self) {
        // Relaxed: a statistic.
        self.waits.fetch_add(1, Ordering::Relaxed);
        for _ in 0..SPINS {
            #[cfg(not(loom))]
            pause();
            if self.take() {
                return;
            }
        }
        // Acquire as in `take`.
        while self.word.swap(CONTENDED, Ordering::Acquire) != FREE {
            #[cfg(not(loom))]
            freehold_sys::futex::wait(&self.word, CONTENDED);
            #[cfg(loom)]
            loom::thread::yield_now();
        }
    }

    /// Gives the lock back. Only the holder may call this.
    pub fn release(&self) {
        self.place.note_released();
        // Release pairs with the Acquire of the next holder.
        if self.word.swap(FREE, Ordering::Release) == CONTENDED {
            #[cfg(not(loom))]
            freehold_sys::futex::wake_one(&self.word);
        }
    }

    /// Runs `f` with the lock held.
    pub fn hold<R>(&self, f: impl FnOnce() -> R) -> R {
        self.acquire();
        let result = f();
        self.release();
        result
    }

    /// Whether somebody holds the lock at this moment.
    pub fn is_held(&self) -> bool {
        // Relaxed: a glance, for diagnosis and for a thread that asks about itself.
        self.word.load(Ordering::Relaxed) != FREE
    }

    /// Makes the lock free whoever held it. For the child of a fork, where only the thread that
    /// holds all locks exists, and sleepers of the parent do not.
    pub fn reset(&self) {
        self.place.note_reset();
        // Relaxed: there is one thread.
        self.word.store(FREE, Ordering::Relaxed);
    }

    /// How often somebody had to wait, since the start of the process.
    pub fn waits(&self) -> u32 {
        // Relaxed: a statistic.
        self.waits.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::thread;

    static RANK: Rank = Rank::new(0, "of a test");

    #[test]
    fn increments_under_the_lock_are_not_lost() {
        let lock = Arc::new(Lock::new(&RANK));
        let sum = Arc::new(AtomicU64::new(0));
        let threads: std::vec::Vec<_> = (0..4)
            .map(|_| {
                let (lock, sum) = (lock.clone(), sum.clone());
                thread::spawn(move || {
                    for _ in 0..20_000 {
                        lock.hold(|| sum.store(sum.load(Relaxed) + 1, Relaxed));
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(sum.load(Relaxed), 80_000);
        assert!(!lock.is_held());
    }

    #[test]
    fn a_held_lock_is_refused_to_others_until_released() {
        let lock = Lock::new(&RANK);
        assert!(lock.try_acquire());
        assert!(!lock.try_acquire());
        lock.release();
        assert!(lock.try_acquire());
    }
}
