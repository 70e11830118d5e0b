//! Sleeping until a moment. It must not know what is waited for.

use std::thread;
use std::time::{Duration, Instant};

/// Sleeps in steps of at most `step` until `end`, calling `tick` after each; `tick` returning
/// `false` ends the sleep early. Returns whether the whole time passed.
pub(crate) fn sleep_until(end: Instant, step: Duration, mut tick: impl FnMut() -> bool) -> bool {
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        thread::sleep(left.min(step));
        if !tick() {
            return false;
        }
    }
}

/// A duration in whole nanoseconds, as counters keep it.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
