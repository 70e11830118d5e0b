//! What blocks are filled with when their contents are checked. Each byte depends on the block's
//! tag and the byte's place, so that a block that was given out twice, that overlaps another or
//! that somebody wrote to is found out. It must not know who checks.

use std::fmt;
use std::slice;

const WORD: usize = size_of::<u64>();

/// Odd, so that all multiples of different tags and places differ.
const TAG_STEP: u64 = 0x9e37_79b9_7f4a_7c15;
const PLACE_STEP: u64 = 0xbf58_476d_1ce4_e5b9;

/// What is wrong with a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A byte is not what was written there.
    Contents {
        /// The size of the block.
        size: usize,
        /// Where the byte is.
        offset: usize,
        /// What was written.
        written: u8,
        /// What is there.
        found: u8,
    },
    /// A byte that `calloc` gave out is not zero.
    NotZero {
        /// The size of the block.
        size: usize,
        /// Where the byte is.
        offset: usize,
    },
    /// The address is not a multiple of what it has to be one of.
    Misaligned {
        /// The address.
        address: usize,
        /// The alignment.
        alignment: usize,
    },
    /// A structure built of blocks has another number of them than it was built with.
    Count {
        /// How many there should be.
        expected: u64,
        /// How many there are.
        found: u64,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Contents { size, offset, written, found } => write!(
                f,
                "byte {offset} of a block of {size} is {found:#04x}, but {written:#04x} was written"
            ),
            Self::NotZero { size, offset } => {
                write!(f, "byte {offset} of a block of {size} from calloc is not zero")
            }
            Self::Misaligned { address, alignment } => {
                write!(f, "a block at {address:#x} is not at a multiple of {alignment}")
            }
            Self::Count { expected, found } => {
                write!(f, "a list of {expected} blocks has become one of {found}")
            }
        }
    }
}

/// Fills `bytes` with the pattern of `tag`.
pub(crate) fn fill(bytes: &mut [u8], tag: u32) {
    for (place, word) in bytes.chunks_mut(WORD).enumerate() {
        word.copy_from_slice(&pattern(tag, place)[..word.len()]);
    }
}

/// Checks that `bytes`, the beginning of a block of `size`, have the pattern of `tag`.
pub(crate) fn check(bytes: &[u8], tag: u32, size: usize) -> Result<(), Fault> {
    for (place, word) in bytes.chunks(WORD).enumerate() {
        let pattern = pattern(tag, place);
        if word == pattern {
            continue;
        }
        let pairs = word.iter().zip(pattern);
        let wrong = pairs.enumerate().find(|(_, (found, written))| *found != written);
        if let Some((byte, (&found, written))) = wrong {
            let offset = place * WORD + byte;
            return Err(Fault::Contents { size, offset, written, found });
        }
    }
    Ok(())
}

/// Checks that a block is all zeros.
pub(crate) fn check_zero(bytes: &[u8]) -> Result<(), Fault> {
    match bytes.iter().position(|byte| *byte != 0) {
        None => Ok(()),
        Some(offset) => Err(Fault::NotZero { size: bytes.len(), offset }),
    }
}

/// The alignment that `malloc` owes a block of this size: that of the largest object that fits,
/// and of `max_align_t` at most.
pub(crate) fn owed_alignment(size: usize) -> usize {
    const MAX_ALIGN: usize = 16;
    if size == 0 { 1 } else { (1 << size.ilog2()).min(MAX_ALIGN) }
}

/// Checks an address.
pub(crate) fn check_alignment(address: usize, alignment: usize) -> Result<(), Fault> {
    if address.is_multiple_of(alignment) {
        Ok(())
    } else {
        Err(Fault::Misaligned { address, alignment })
    }
}

/// The byte of the pattern of `tag` at an offset.
pub(crate) fn byte(tag: u32, offset: usize) -> u8 {
    pattern(tag, offset / WORD)[offset % WORD]
}

fn pattern(tag: u32, place: usize) -> [u8; WORD] {
    let tag = (u64::from(tag) + 1).wrapping_mul(TAG_STEP);
    (tag ^ (place as u64).wrapping_mul(PLACE_STEP)).to_le_bytes()
}

/// The bytes of a block, for checking.
///
/// # Safety
/// `block` must be a live block of at least `size` bytes that nobody else writes meanwhile, and
/// all of them must have been written before.
pub(crate) unsafe fn bytes<'a>(block: *const u8, size: usize) -> &'a [u8] {
    // SAFETY: the caller vouches for it.
    unsafe { slice::from_raw_parts(block, size) }
}

/// The same, for writing.
///
/// # Safety
/// `block` must be a live block of at least `size` bytes that nobody else uses meanwhile.
pub(crate) unsafe fn bytes_mut<'a>(block: *mut u8, size: usize) -> &'a mut [u8] {
    // SAFETY: the caller vouches for it; bytes that were never written are only written here.
    unsafe { slice::from_raw_parts_mut(block, size) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_filled_passes_and_any_changed_byte_is_named() {
        for size in [1, 7, 8, 9, 100] {
            let mut block = vec![0; size];
            fill(&mut block, 77);
            assert_eq!(check(&block, 77, size), Ok(()));
            for offset in 0..size {
                let written = block[offset];
                assert_eq!(written, byte(77, offset));
                block[offset] ^= 0x10;
                let found = block[offset];
                let fault = Fault::Contents { size, offset, written, found };
                assert_eq!(check(&block, 77, size), Err(fault));
                block[offset] = written;
            }
        }
    }

    #[test]
    fn a_block_given_out_twice_has_the_pattern_of_one_owner_only() {
        let mut block = [0; 64];
        fill(&mut block, 1);
        fill(&mut block, 2);
        assert!(matches!(check(&block, 1, 64), Err(Fault::Contents { offset: 0, .. })));
    }

    #[test]
    fn a_block_moved_against_itself_is_found_out() {
        let mut block = [0; 64];
        fill(&mut block, 1);
        block.copy_within(8.., 0);
        assert!(check(&block, 1, 64).is_err());
    }

    #[test]
    fn dirty_memory_from_calloc_is_found_out() {
        assert_eq!(check_zero(&[0; 9]), Ok(()));
        assert_eq!(check_zero(&[0, 0, 3]), Err(Fault::NotZero { size: 3, offset: 2 }));
    }

    #[test]
    fn small_blocks_may_be_less_aligned_than_large_ones() {
        assert_eq!([0, 1, 3, 8, 15, 16, 100].map(owed_alignment), [1, 1, 2, 8, 8, 16, 16]);
        assert!(check_alignment(0x1008, 8).is_ok());
        let fault = Fault::Misaligned { address: 0x1008, alignment: 16 };
        assert_eq!(check_alignment(0x1008, 16), Err(fault));
    }
}
