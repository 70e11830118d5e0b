//! One bit for every 16 bytes of address space: set while they are part of a block.
//!
//! Blocks start at multiples of 16, so two blocks share a bit exactly if they overlap, or if one
//! begins in the 16 bytes in which the other one ends, which is as wrong. The map is large, but
//! only the parts of it that are used take memory, and only those can be touched: where the system
//! commits no more memory than it has, the whole of it could not be had.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::complain::fail;

/// Addresses are below two to the power of this, on the architectures there are.
const ADDRESS_BITS: u32 = 48;
/// log2 of the bytes that a bit stands for.
const UNIT_SHIFT: u32 = 4;
const WORD_BITS: usize = 64;
const WORDS: usize = 1 << (ADDRESS_BITS - UNIT_SHIFT - WORD_BITS.trailing_zeros());
/// Words that are made usable at once: a number of pages of any size, for 64 MiB of addresses.
const PART: usize = 64 << 10;

/// The bits for so many bytes.
fn units(bytes: usize) -> usize {
    bytes.div_ceil(1 << UNIT_SHIFT)
}

/// The map.
pub(crate) struct Shadow {
    words: &'static [AtomicU64],
    /// Which parts of the map can be touched.
    usable: Box<[AtomicBool]>,
    /// Bits that are set.
    units: AtomicUsize,
}

impl Shadow {
    /// An empty map.
    pub(crate) fn new() -> Self {
        let bytes = WORDS * size_of::<AtomicU64>();
        // SAFETY: a new mapping, which disturbs nothing.
        let place = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        assert!(place != libc::MAP_FAILED, "no address space for the shadow map");
        Self {
            // SAFETY: the mapping is of that size, zero, and never unmapped; what is in use of it
            // is made usable before.
            words: unsafe { std::slice::from_raw_parts(place.cast(), WORDS) },
            usable: (0..WORDS / PART).map(|_| AtomicBool::new(false)).collect(),
            units: AtomicUsize::new(0),
        }
    }

    /// Enters a block that was given out.
    pub(crate) fn claim(&self, address: usize, bytes: usize) {
        let word = |address: usize| (address >> UNIT_SHIFT) / WORD_BITS;
        for part in word(address) / PART..=word(address + bytes.max(1) - 1) / PART {
            self.make_usable(part);
        }
        self.each_word(address, bytes, |word, bits| {
            // Relaxed, here and below: each bit is an account of its own.
            if word.fetch_or(bits, Ordering::Relaxed) & bits != 0 {
                fail(format_args!("the block of {bytes} bytes at {address:#x} overlaps another"));
            }
        });
        self.units.fetch_add(units(bytes), Ordering::Relaxed);
    }

    fn make_usable(&self, part: usize) {
        // Acquire and Release: who sees that a part is usable can touch it.
        if self.usable[part].load(Ordering::Acquire) {
            return;
        }
        let words = &self.words[part * PART..(part + 1) * PART];
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a part of this map; done twice it does no harm.
        let result =
            unsafe { libc::mprotect(words.as_ptr().cast_mut().cast(), size_of_val(words), rights) };
        assert!(result == 0, "no memory for the shadow map");
        self.usable[part].store(true, Ordering::Release);
    }

    /// Strikes out a block that is about to be freed.
    pub(crate) fn release(&self, address: usize, bytes: usize) {
        self.each_word(address, bytes, |word, bits| {
            if word.fetch_and(!bits, Ordering::Relaxed) & bits != bits {
                fail(format_args!(
                    "the block of {bytes} bytes at {address:#x} was not entered as a whole"
                ));
            }
        });
        self.units.fetch_sub(units(bytes), Ordering::Relaxed);
    }

    fn each_word(&self, address: usize, bytes: usize, f: impl Fn(&AtomicU64, u64)) {
        let (mut unit, mut left) = (address >> UNIT_SHIFT, units(bytes));
        while left > 0 {
            let at = unit % WORD_BITS;
            let n = left.min(WORD_BITS - at);
            let ones = u64::MAX >> (WORD_BITS - n);
            f(&self.words[unit / WORD_BITS], ones << at);
            unit += n;
            left -= n;
        }
    }

    /// Complains unless every block was struck out.
    pub(crate) fn check_empty(&self) {
        let bytes = self.units.load(Ordering::Relaxed) << UNIT_SHIFT;
        if bytes != 0 {
            fail(format_args!("{bytes} bytes were given out and not freed"));
        }
    }
}
