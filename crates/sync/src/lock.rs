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

#[cfg(not(loom))]
use crate::atomic::pause;
use crate::atomic::{AtomicU32, Ordering};

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
}

impl Lock {
    /// A free lock.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self { word: AtomicU32::new(FREE), waits: AtomicU32::new(0) }
    }

    /// A free lock.
    #[cfg(loom)]
    pub fn new() -> Self {
        Self { word: AtomicU32::new(FREE), waits: AtomicU32::new(0) }
    }

    /// Takes the lock if nobody holds it.
    pub fn try_acquire(&self) -> bool {
        // Acquire pairs with the Release in `release`: who holds the lock sees what the last holder
        // did. Relaxed on failure: nothing is read then.
        self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes the lock, waiting for it if need be.
    pub fn acquire(&self) {
        if !self.try_acquire() {
            self.acquire_slow();
        }
    }

    #[cold]
    fn acquire_slow(&self) {
        // Relaxed: a statistic.
        self.waits.fetch_add(1, Ordering::Relaxed);
        for _ in 0..SPINS {
            #[cfg(not(loom))]
            pause();
            if self.try_acquire() {
                return;
            }
        }
        // Acquire as in `try_acquire`.
        while self.word.swap(CONTENDED, Ordering::Acquire) != FREE {
            #[cfg(not(loom))]
            freehold_sys::futex::wait(&self.word, CONTENDED);
            #[cfg(loom)]
            loom::thread::yield_now();
        }
    }

    /// Gives the lock back. Only the holder may call this.
    pub fn release(&self) {
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
        // Relaxed: there is one thread.
        self.word.store(FREE, Ordering::Relaxed);
    }

    /// How often somebody had to wait, since the start of the process.
    pub fn waits(&self) -> u32 {
        // Relaxed: a statistic.
        self.waits.load(Ordering::Relaxed)
    }
}

impl Default for Lock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::thread;

    #[test]
    fn increments_under_the_lock_are_not_lost() {
        let lock = Arc::new(Lock::new());
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
        let lock = Lock::new();
        assert!(lock.try_acquire());
        assert!(!lock.try_acquire());
        lock.release();
        assert!(lock.try_acquire());
    }
}
