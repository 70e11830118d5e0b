//! Clearing memory, and looking whether it is clear.

use crate::layout::{UNIT, at};

/// Makes memory zero that the caller owns.
#[inline]
pub(crate) fn clear(start: usize, bytes: usize) {
    // SAFETY: the caller's memory.
    unsafe { at::<u8>(start).write_bytes(0, bytes) };
}

/// Whether memory is zero that the caller owns.
#[inline]
pub(crate) fn is_clear(start: usize, bytes: usize) -> bool {
    let (whole, rest) = (bytes / UNIT, bytes % UNIT);
    let mut all = 0_u128;
    for n in 0..whole {
        // SAFETY: inside the caller's memory.
        all |= unsafe { at::<u128>(start + n * UNIT).read_unaligned() };
    }
    for n in whole * UNIT..whole * UNIT + rest {
        // SAFETY: inside the caller's memory.
        all |= u128::from(unsafe { at::<u8>(start + n).read() });
    }
    all == 0
}
