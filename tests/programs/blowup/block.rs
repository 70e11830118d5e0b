//! Memory from the malloc of the process, counted while it is in use.

use std::ffi::c_void;

use crate::memory::Meter;

/// A block that is in use, and has been written to.
pub(crate) struct Block {
    start: *mut c_void,
    size: usize,
}

// SAFETY: a block belongs to whoever has the value, as with `Box`.
unsafe impl Send for Block {}

impl Block {
    /// Allocates and fills a block.
    pub(crate) fn new(meter: &Meter, size: usize) -> Self {
        // SAFETY: may be called with any number.
        let start = unsafe { libc::malloc(size) };
        assert!(!start.is_null(), "no memory");
        // SAFETY: just given out, with that many bytes.
        unsafe { start.cast::<u8>().write_bytes(1, size) };
        meter.add(size);
        Self { start, size }
    }

    /// Frees it.
    pub(crate) fn free(self, meter: &Meter) {
        meter.subtract(self.size);
        // SAFETY: the block is ours, and ends here.
        unsafe { libc::free(self.start) };
    }
}

/// Sizes, each about as likely as any other: a small generator of a thread's own.
pub(crate) struct Sizes {
    state: u64,
    least: usize,
    spread: usize,
}

impl Sizes {
    /// Sizes from `least` to `most`.
    pub(crate) fn new(seed: usize, least: usize, most: usize) -> Self {
        Self { state: seed as u64 * 2 + 1, least, spread: most - least + 1 }
    }

    /// A random number below `bound`: a linear congruential generator, whose upper half is good.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.state >> 33) as usize % bound
    }

    /// The next size.
    pub(crate) fn next(&mut self) -> usize {
        self.least + self.below(self.spread)
    }
}
