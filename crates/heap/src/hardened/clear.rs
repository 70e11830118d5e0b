//! Clearing memory, and looking whether it is clear.

use crate::class::SMALL_MAX;
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
#[inline(always)]
pub(crate) fn clear(start: usize, bytes: usize) {
    if bytes <= SMALL_MAX {
        clear_small(start, bytes);
    } else {
        // SAFETY: the caller's memory.
        unsafe { at::<u8>(start).write_bytes(0, bytes) };
    }
}

/// The same, of at most [`SMALL_MAX`] bytes: without a call, for which the caller would have to save
/// what it has in registers.
#[inline(always)]
fn clear_small(start: usize, bytes: usize) {
    match bytes {
        ..8 => (start..start + bytes).for_each(|place| set(place, 0_u8)),
        8..16 => {
            set(start, 0_u64);
            set(start + bytes - 8, 0_u64);
        }
        16..=32 => clear_ends::<1>(start, bytes),
        33..=64 => clear_ends::<2>(start, bytes),
        65..=128 => clear_ends::<4>(start, bytes),
        _ => {
            clear_lines(start, bytes - LINE);
            set(start + bytes - LINE, [Pair::ZERO; LINE / PAIR]);
        }
    }
}

/// Makes so many lines of memory zero that they have `bytes` bytes at least, which is not 0.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn clear_lines(start: usize, bytes: usize) {
    // In assembly, since compilers make a call of such a loop.
    // SAFETY: the caller's memory.
    unsafe {
        core::arch::asm!(
            "xorps {zero}, {zero}",
            "2:",
            "movups xmmword ptr [{place}], {zero}",
            "movups xmmword ptr [{place} + 16], {zero}",
            "movups xmmword ptr [{place} + 32], {zero}",
            "movups xmmword ptr [{place} + 48], {zero}",
            "add {place}, 64",
            "cmp {place}, {end}",
            "jb 2b",
            place = inout(reg) start => _,
            end = in(reg) start + bytes,
            zero = out(xmm_reg) _,
            options(nostack),
        );
    }
}

/// The same, where nobody has counted instructions.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn clear_lines(start: usize, bytes: usize) {
    // SAFETY: the caller's memory.
    unsafe { at::<u8>(start).write_bytes(0, bytes) };
}

/// Makes the room of a tiny slot zero: a word, and up to seven pairs of them.
#[inline(always)]
pub(crate) fn clear_tiny(start: usize, bytes: usize) {
    match bytes {
        ..=24 => {
            set(start, 0_u64);
            set(start + bytes / 2 - 4, 0_u64);
            set(start + bytes - WORD, 0_u64);
        }
        ..=64 => clear_ends::<2>(start, bytes),
        _ => clear_ends::<4>(start, bytes),
    }
}

/// Makes the first and the last `N` pairs of words of memory zero, which has so many.
#[inline(always)]
fn clear_ends<const N: usize>(start: usize, bytes: usize) {
    set(start, [Pair::ZERO; N]);
    set(start + bytes - N * PAIR, [Pair::ZERO; N]);
}

#[inline(always)]
fn set<T>(place: usize, value: T) {
    // SAFETY: inside the memory of a caller here.
    unsafe { at::<T>(place).write_unaligned(value) };
}

/// Whether memory of whole words is zero that the caller owns.
#[inline(always)]
pub(crate) fn is_clear(start: usize, bytes: usize) -> bool {
    debug_assert!(bytes.is_multiple_of(WORD));
    if bytes < PAIR {
        return bytes == 0 || word(start) == 0;
    }
    if bytes <= 2 * PAIR {
        return pair(start).or(pair(start + bytes - PAIR)).is_zero();
    }
    if bytes < LINE {
        let end = start + bytes;
        let ends = pair(start).or(pair(start + PAIR)).or(pair(end - 2 * PAIR));
        return ends.or(pair(end - PAIR)).is_zero();
    }
    let last = start + bytes - LINE;
    let mut all = line(last);
    let mut place = start;
    while place < last {
        all = all.or(line(place));
        place += LINE;
    }
    all.is_zero()
}

/// Whether the room of a tiny slot is zero.
#[inline(always)]
pub(crate) fn is_tiny_clear(start: usize, bytes: usize) -> bool {
    if bytes <= 3 * WORD {
        // One word or three.
        return word(start) | word(start + bytes / 2 - 4) | word(start + bytes - WORD) == 0;
    }
    let end = start + bytes;
    let ends = pair(start).or(pair(start + PAIR)).or(pair(end - 2 * PAIR)).or(pair(end - PAIR));
    if bytes <= LINE {
        return ends.is_zero();
    }
    let middle = pair(start + 2 * PAIR).or(pair(start + 3 * PAIR));
    ends.or(middle).or(pair(end - 4 * PAIR)).or(pair(end - 3 * PAIR)).is_zero()
}

/// Whether two words are zero that nobody else writes to.
#[inline(always)]
pub(crate) fn are_clear(first: usize, last: usize) -> bool {
    word(first) | word(last) == 0
}

/// Lets the processor fetch a line of memory that will be looked at soon, whatever the address is.
#[inline(always)]
pub(crate) fn fetch(address: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which no address makes fail.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at::<i8>(address));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[inline(always)]
fn word(address: usize) -> u64 {
    // SAFETY: inside the memory of a caller here.
    unsafe { at::<u64>(address).read_unaligned() }
}

/// Two words, which processors take at once.
#[derive(Clone, Copy)]
#[repr(C)]
struct Pair([u64; 2]);

const PAIR: usize = size_of::<Pair>();

impl Pair {
    const ZERO: Self = Self([0; 2]);

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Self([self.0[0] | other.0[0], self.0[1] | other.0[1]])
    }

    #[inline(always)]
    fn is_zero(self) -> bool {
        self.0[0] | self.0[1] == 0
    }
}

#[inline(always)]
fn pair(address: usize) -> Pair {
    // SAFETY: inside the memory of a caller here.
    unsafe { at::<Pair>(address).read_unaligned() }
}

/// All pairs of a line in one.
#[inline(always)]
fn line(address: usize) -> Pair {
    let half = |address| pair(address).or(pair(address + PAIR));
    half(address).or(half(address + 2 * PAIR))
}

/// Whether memory of whole words looks as if it were zero: all of it up to [`ALL_BELOW`] bytes, or
/// else its ends and a line that `random` chooses.
#[inline(always)]
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
    fn tiny_slots_are_looked_at_and_cleared_as_others_are() {
        for bytes in (8..=120).step_by(16) {
            let mut memory = [0_u64; 17];
            let start = memory.as_mut_ptr().expose_provenance() + WORD;
            assert!(is_tiny_clear(start, bytes));
            for n in 0..bytes {
                // SAFETY: inside the memory.
                unsafe { *at::<u8>(start + n) = 1 };
                assert!(!is_tiny_clear(start, bytes));
                clear_tiny(start, bytes);
                assert!(is_clear(start, bytes));
            }
            memory.fill(1);
            clear_tiny(start, bytes);
            assert!(is_tiny_clear(start, bytes) && memory[0] == 1);
            assert!(memory[1 + bytes / WORD..].iter().all(|&word| word == 1));
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

    #[test]
    fn what_is_cleared_is_that_and_nothing_beside_it() {
        let mut memory = std::vec![0_u8; SMALL_MAX + 200];
        for bytes in (0..300).chain(SMALL_MAX - 70..SMALL_MAX + 100) {
            memory.fill(1);
            clear(memory[50..].as_mut_ptr().expose_provenance(), bytes);
            assert!(memory[50..50 + bytes].iter().all(|&byte| byte == 0), "{bytes}");
            assert!(memory[..50].iter().chain(&memory[50 + bytes..]).all(|&byte| byte == 1));
        }
    }
}
