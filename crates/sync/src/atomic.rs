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

/// Tells the processor that this is a wait loop; under the model, lets another thread run.
pub fn pause() {
    #[cfg(not(loom))]
    core::hint::spin_loop();
    #[cfg(loom)]
    loom::thread::yield_now();
}
