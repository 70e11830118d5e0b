//! The one place where atomics come from: the machine's, or, under `--cfg loom`, the model's.

#[cfg(not(loom))]
pub use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
#[cfg(loom)]
pub use loom::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};

pub use core::sync::atomic::compiler_fence;
#[cfg(not(loom))]
pub use core::sync::atomic::fence;
#[cfg(loom)]
pub use loom::sync::atomic::fence;

/// This thread's side of a barrier that another one makes all threads pass (`membarrier(2)`): the
/// compiler keeps the order, and nothing is executed. Under the model, which has no such barrier,
/// it is one of the processor's, if it `is_there`.
#[inline(always)]
pub(crate) fn light_fence(is_there: bool) {
    #[cfg(not(loom))]
    {
        let _ = is_there;
        compiler_fence(Ordering::SeqCst);
    }
    #[cfg(loom)]
    if is_there {
        fence(Ordering::SeqCst);
    }
}

/// A barrier of the processor's right after a change that reads and writes at once. On x86 such a
/// change is one.
#[inline(always)]
pub(crate) fn fence_after_change() {
    if cfg!(all(not(loom), target_arch = "x86_64")) {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// Tells the processor that this is a wait loop; under the model, lets another thread run.
pub fn pause() {
    #[cfg(not(loom))]
    core::hint::spin_loop();
    #[cfg(loom)]
    loom::thread::yield_now();
}

/// Whether the calling thread is the only one of its process: what it changes it may read first
/// and write then, as if there were no atomics. Only for words that its own signal handlers leave
/// alone, since those find that their thread is busy. Under the model it never is.
#[derive(Clone, Copy)]
pub struct Alone(bool);

impl Alone {
    /// As it is at this moment, and until the thread makes another.
    #[inline(always)]
    pub fn now() -> Self {
        Self(cfg!(not(loom)) && freehold_sys::alone::is_alone())
    }

    /// Whether it is the only one.
    #[inline(always)]
    pub fn is_so(self) -> bool {
        self.0
    }

    /// Calls a function with this, compiled for either case: for what is done many times.
    #[inline(always)]
    pub fn apart<R>(self, f: impl Fn(Self) -> R) -> R {
        if self.0 { f(Self(true)) } else { f(Self(false)) }
    }

    /// `word.fetch_or`.
    #[inline(always)]
    pub(crate) fn fetch_or(self, word: &AtomicU64, bits: u64, order: Ordering) -> u64 {
        if !self.0 {
            return word.fetch_or(bits, order);
        }
        let before = word.load(Ordering::Relaxed);
        word.store(before | bits, Ordering::Relaxed);
        before
    }

    /// `word.fetch_and`.
    #[inline(always)]
    pub(crate) fn fetch_and(self, word: &AtomicU64, bits: u64, order: Ordering) -> u64 {
        if !self.0 {
            return word.fetch_and(bits, order);
        }
        let before = word.load(Ordering::Relaxed);
        word.store(before & bits, Ordering::Relaxed);
        before
    }

    /// `word.compare_exchange_weak`, Relaxed if it fails.
    #[inline(always)]
    pub(crate) fn exchange(
        self,
        word: &AtomicU64,
        seen: u64,
        next: u64,
        order: Ordering,
    ) -> Result<u64, u64> {
        if !self.0 {
            return word.compare_exchange_weak(seen, next, order, Ordering::Relaxed);
        }
        let before = word.load(Ordering::Relaxed);
        if before != seen {
            return Err(before);
        }
        word.store(next, Ordering::Relaxed);
        Ok(before)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn alone_words_change_as_by_atomics() {
        let words = [true, false].map(|alone| {
            let (alone, word) = (Alone(alone), AtomicU64::new(0b1010));
            let mut seen = std::vec::Vec::new();
            for bits in [0b0110, 1 << 63, 0b1000] {
                seen.push(alone.fetch_or(&word, bits, Ordering::Relaxed));
            }
            seen.push(alone.fetch_and(&word, !0b0110, Ordering::Relaxed));
            let now = word.load(Ordering::Relaxed);
            assert_eq!(alone.exchange(&word, now + 1, 7, Ordering::Relaxed), Err(now));
            // The weak one may fail for no reason.
            while alone.exchange(&word, now, 7, Ordering::Relaxed).is_err() {}
            seen.push(word.load(Ordering::Relaxed));
            seen
        });
        assert_eq!(words[0], words[1]);
    }
}
