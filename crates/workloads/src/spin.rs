//! Computation that is there to take time.

use std::hint;

/// Computes for so many steps, of about a nanosecond each.
#[inline]
pub(crate) fn spin(steps: u64) {
    for step in 0..steps {
        hint::black_box(step);
    }
}
