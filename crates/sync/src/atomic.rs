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
#[cfg(not(loom))]
use freehold_sys::alone;
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

/// Tells the processor that this is a wait loop; under the model, lets another thread run.
pub fn pause() {
    #[cfg(not(loom))]
    core::hint::spin_loop();
    #[cfg(loom)]
    loom::thread::yield_now();
}

/// Whether the calling thread is the only one of its process, and may leave out what only others
/// need. Under the model it never is.
#[derive(Clone, Copy)]
pub struct Alone(bool);

impl Alone {
    /// As it is at this moment, and until the thread makes another.
    #[inline(always)]
    pub fn now() -> Self {
        #[cfg(not(loom))]
        return Self(alone::is_alone());
        #[cfg(loom)]
        Self(false)
    }

    /// Calls a function with this, compiled for either case: for what is done many times.
    #[inline(always)]
    pub fn apart<R>(self, f: impl Fn(Self) -> R) -> R {
        if self.0 { f(Self(true)) } else { f(Self(false)) }
    }

    /// `word.fetch_or`.
    #[inline(always)]
    pub(crate) fn fetch_or(self, word: &AtomicU64, bits: u64, order: Ordering) -> u64 {
        #[cfg(not(loom))]
        if self.0 {
            // SAFETY: there is no other thread, as this says.
            return unsafe { alone::fetch_or(word, bits) };
        }
        word.fetch_or(bits, order)
    }

    /// `word.fetch_and`, whose result nobody looks at.
    #[inline(always)]
    pub(crate) fn and(self, word: &AtomicU64, bits: u64, order: Ordering) {
        #[cfg(not(loom))]
        if self.0 {
            // SAFETY: as above.
            return unsafe { alone::and(word, bits) };
        }
        word.fetch_and(bits, order);
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
        #[cfg(not(loom))]
        if self.0 {
            // SAFETY: as above.
            return unsafe { alone::compare_exchange(word, seen, next) };
        }
        word.compare_exchange_weak(seen, next, order, Ordering::Relaxed)
    }
}
