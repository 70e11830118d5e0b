//! Clearing memory, and looking whether it is clear.

use crate::layout::at;

const WORD: usize = size_of::<u64>();
/// Bytes of a cache line.
const LINE: usize = 64;
/// Memory is looked at as a whole up to so many bytes: what is longer would cost a miss of the
/// cache for every line of it, and many a page that nobody has touched.
const ALL_BELOW: usize = 512;
/// Bytes at either end that are looked at in any case.
const ENDS: usize = 128;

/// Makes memory zero that the caller owns.
#[inline]
pub(crate) fn clear(start: usize, bytes: usize) {
    // SAFETY: the caller's memory.
    unsafe { at::<u8>(start).write_bytes(0, bytes) };
}

/// Whether memory of whole words is zero that the caller owns.
#[inline]
pub(crate) fn is_clear(start: usize, bytes: usize) -> bool {
    debug_assert!(bytes.is_multiple_of(WORD));
    // SAFETY: inside the caller's memory.
    let pair = |offset: usize| unsafe { at::<Pair>(start + offset).read_unaligned() };
    let mut all = Pair([0; 2]);
    let mut offset = 0;
    while offset + LINE <= bytes {
        all =
            all.or(pair(offset).or(pair(offset + 16))).or(pair(offset + 32).or(pair(offset + 48)));
        offset += LINE;
    }
    let mut rest = all.0[0] | all.0[1];
    while offset < bytes {
        rest |= word(start + offset);
        offset += WORD;
    }
    rest == 0
}

/// Whether the first and the last word of memory that the caller owns are zero.
#[inline]
pub(crate) fn are_ends_clear(start: usize, bytes: usize) -> bool {
    word(start) | word(start + bytes - WORD) == 0
}

#[inline]
fn word(address: usize) -> u64 {
    // SAFETY: inside the memory of a caller here.
    unsafe { at::<u64>(address).read_unaligned() }
}

/// Two words, which processors take at once.
#[derive(Clone, Copy)]
#[repr(C)]
struct Pair([u64; 2]);

impl Pair {
    #[inline]
    fn or(self, other: Self) -> Self {
        Self([self.0[0] | other.0[0], self.0[1] | other.0[1]])
    }
}

/// Whether memory of whole words looks as if it were zero: all of it up to [`ALL_BELOW`] bytes, or
/// else its ends and a line that `random` chooses.
#[inline]
pub(crate) fn looks_clear(start: usize, bytes: usize, random: impl FnOnce(usize) -> usize) -> bool {
    if bytes <= ALL_BELOW {
        return is_clear(start, bytes);
    }
    let line = start + random(bytes / LINE) * LINE;
    is_clear(start, ENDS) && is_clear(line, LINE) && is_clear(start + bytes - ENDS, ENDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_that_is_not_zero_is_seen() {
        for words in 0..40 {
            let mut memory = std::vec![0_u64; words + 1];
            let start = memory.as_mut_ptr().expose_provenance();
            assert!(is_clear(start, words * WORD));
            for n in 0..words * WORD {
                // SAFETY: inside the memory.
                unsafe { *at::<u8>(start + n) = 1 };
                assert!(!is_clear(start, words * WORD));
                assert!(!looks_clear(start, words * WORD, |_| 0));
                clear(start + n, 1);
            }
        }
    }

    #[test]
    fn of_much_memory_the_ends_and_a_chosen_line_are_seen() {
        let mut memory = std::vec![0_u64; 1000];
        let start = memory.as_mut_ptr().expose_provenance();
        let bytes = memory.len() * WORD;
        for place in [0, ENDS - 1, 50 * LINE, bytes - ENDS, bytes - 1] {
            // SAFETY: inside the memory.
            unsafe { *at::<u8>(start + place) = 1 };
            assert!(!looks_clear(start, bytes, |_| 50));
            clear(start + place, 1);
            assert!(looks_clear(start, bytes, |_| 50));
        }
    }
}
