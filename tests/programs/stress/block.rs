//! A block of memory and what it must hold.

use std::ffi::c_void;

use crate::calls::{Call, Calls, Request, resize};
use crate::complain::fail;
use crate::rng::Rng;
use crate::shadow::Shadow;

/// Blocks to this size are filled as a whole, larger ones a stretch in every page.
const FILLED: usize = 64 * 1024;
const PAGE: usize = 4096;
const STRETCH: usize = 64;

/// A block that is in use.
pub(crate) struct Block {
    address: *mut c_void,
    request: Request,
    usable: usize,
    /// The byte that fills it; never 0.
    tag: u8,
}

// SAFETY: a block belongs to whoever has the value, as with `Box`.
unsafe impl Send for Block {}

/// The parts of a block that are filled: where they start, and their bytes.
fn stretches(bytes: usize) -> impl Iterator<Item = (usize, usize)> {
    let (step, length) = if bytes <= FILLED { (bytes.max(1), bytes) } else { (PAGE, STRETCH) };
    (0..bytes).step_by(step).map(move |start| (start, length.min(bytes - start)))
}

impl Block {
    /// Gets a block, enters it, checks what was promised, and fills it. `None` without memory.
    pub(crate) fn new(
        calls: &Calls,
        shadow: &Shadow,
        request: Request,
        rng: &mut Rng,
    ) -> Option<Self> {
        let address = calls.allocate(request, rng);
        let mut block = Self::entered(calls, shadow, request, address, rng)?;
        if request.call == Call::Calloc && !block.holds_only(0, 0, request.size) {
            fail(format_args!("{request:?}: {address:?} is not zero"));
        }
        block.fill();
        Some(block)
    }

    fn entered(
        calls: &Calls,
        shadow: &Shadow,
        request: Request,
        address: *mut c_void,
        rng: &mut Rng,
    ) -> Option<Self> {
        if address.is_null() {
            return None;
        }
        // SAFETY: just given out.
        let usable = unsafe { calls.usable_size(address) };
        shadow.claim(address.addr(), usable);
        let block = Self { address, request, usable, tag: rng.below(255) as u8 + 1 };
        let align = calls.promised_align(request);
        if !address.addr().is_multiple_of(align) {
            block.complain("is not a multiple of the alignment");
        }
        if usable < request.size {
            block.complain("has a wrong usable size");
        }
        Some(block)
    }

    /// The bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.usable
    }

    /// Where it is.
    pub(crate) fn address(&self) -> *mut c_void {
        self.address
    }

    /// Whether it may be resized: if C's functions gave it out.
    pub(crate) fn may_be_resized(&self) -> bool {
        self.request.call.is_of_c()
    }

    fn fill(&mut self) {
        for (start, length) in stretches(self.usable) {
            // SAFETY: inside a block that is ours.
            unsafe { self.address.byte_add(start).cast::<u8>().write_bytes(self.tag, length) };
        }
    }

    /// Whether `length` bytes from `start` on are all `byte`.
    fn holds_only(&self, byte: u8, start: usize, length: usize) -> bool {
        if length == 0 {
            return true;
        }
        // SAFETY: inside a block that is ours. All bytes are the same if the first is the one, and
        // the bytes are the same as those one further on.
        unsafe {
            let first = self.address.byte_add(start);
            first.cast::<u8>().read() == byte
                && libc::memcmp(first, first.byte_add(1), length - 1) == 0
        }
    }

    /// Complains unless the first `bytes` are as they were filled when it had `filled`.
    fn check_contents(&self, bytes: usize, filled: usize) {
        for (start, length) in stretches(filled) {
            if start < bytes && !self.holds_only(self.tag, start, length.min(bytes - start)) {
                self.complain("was written to by somebody else");
            }
        }
    }

    /// Complains if anything has changed.
    pub(crate) fn check(&self, calls: &Calls) {
        self.check_contents(self.usable, self.usable);
        // SAFETY: the block is ours.
        if unsafe { calls.usable_size(self.address) } != self.usable {
            self.complain("has changed its usable size");
        }
    }

    /// Checks it and gives it back.
    pub(crate) fn free(self, calls: &Calls, shadow: &Shadow, rng: &mut Rng) {
        self.check(calls);
        shadow.release(self.address.addr(), self.usable);
        // SAFETY: the block is ours, and ends here.
        unsafe { calls.free(self.address, self.request, rng) };
    }

    /// Checks it and changes its size, which may fail. No alignment is promised any longer.
    pub(crate) fn resize(
        mut self,
        calls: &Calls,
        shadow: &Shadow,
        size: usize,
        rng: &mut Rng,
    ) -> Self {
        self.check(calls);
        shadow.release(self.address.addr(), self.usable);
        // SAFETY: the block is ours, and the old address is forgotten.
        let moved = unsafe { resize(self.address, size, rng) };
        let request = Request { call: Call::Realloc, size, align: 1 };
        let Some(mut new) = Self::entered(calls, shadow, request, moved, rng) else {
            shadow.claim(self.address.addr(), self.usable);
            return self;
        };
        let old = self.usable;
        std::mem::swap(&mut self.tag, &mut new.tag);
        new.check_contents(old.min(size), old);
        std::mem::swap(&mut self.tag, &mut new.tag);
        new.fill();
        new
    }

    #[cold]
    fn complain(&self, what: &str) -> ! {
        fail(format_args!(
            "{:?} of {} bytes, from {:?}, {what}",
            self.address, self.usable, self.request
        ))
    }
}
