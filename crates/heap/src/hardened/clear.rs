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
/// How far ahead memory is fetched that is looked at from one end to the other.
const AHEAD: usize = 1024;

/// Makes memory zero that the caller owns.
#[inline(always)]
pub(crate) fn clear(start: usize, bytes: usize) {
    if bytes <= SMALL_MAX {
        clear_small(start, bytes);
    } else {
        clear_much(start, bytes);
    }
}

/// The same, of more. What the program has never written to is read only: that costs less than to
/// write it back, and of pages that nobody has touched it is no memory.
fn clear_much(start: usize, bytes: usize) {
    let end = start + bytes;
    let whole = start + (bytes - 2 * LINE);
    let mut place = start;
    while place < whole {
        // The processor itself looks ahead no further than to the end of a page.
        fetch(place + AHEAD);
        fetch(place + AHEAD + LINE);
        if !line(place).or(line(place + LINE)).is_zero() {
            break;
        }
        place += 2 * LINE;
    }
    // SAFETY: the caller's memory.
    unsafe { at::<u8>(place).write_bytes(0, end - place) };
}

/// The same, of at most [`SMALL_MAX`] bytes: without a call, for which the caller would have to
/// save what it has in registers.
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

/// Makes memory of `bytes` bytes and more zero, but less than a line more; `bytes` is not 0.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn clear_lines(start: usize, bytes: usize) {
    use core::arch::x86_64::{__m128i, _mm_setzero_si128};
    set(start, Pair::ZERO);
    let (mut place, end) = ((start + PAIR) / PAIR * PAIR, start + bytes);
    while place < end {
        for n in 0..LINE / PAIR {
            // Volatile, since compilers make a call of such a loop otherwise.
            // SAFETY: the caller's memory, at a multiple of its own size.
            unsafe { at::<__m128i>(place + n * PAIR).write_volatile(_mm_setzero_si128()) };
        }
        place += LINE;
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
pub(crate) fn clear_tiny(start: usize, end: usize) {
    match end - start {
        ..=24 => {
            // One word or three, with the one in the middle.
            set(start, 0_u64);
            set(end - WORD, 0_u64);
            set(start + (end - start) / 2 - WORD / 2, 0_u64);
        }
        bytes @ ..=64 => clear_ends::<2>(start, bytes),
        bytes => clear_ends::<4>(start, bytes),
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
        return wide(start).or(wide(start + bytes - PAIR)).is_zero();
    }
    if bytes < LINE {
        let end = start + bytes;
        let ends = wide(start).or(wide(start + PAIR)).or(wide(end - 2 * PAIR));
        return ends.or(wide(end - PAIR)).is_zero();
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
pub(crate) fn is_tiny_clear(start: usize, end: usize) -> bool {
    if end - start <= 3 * WORD {
        return word(start) | word(end - WORD) | word(start + (end - start) / 2 - WORD / 2) == 0;
    }
    let ends = wide(start).or(wide(start + PAIR)).or(wide(end - 2 * PAIR)).or(wide(end - PAIR));
    if end - start <= LINE {
        return ends.is_zero();
    }
    let middle = wide(start + 2 * PAIR).or(wide(start + 3 * PAIR));
    ends.or(middle).or(wide(end - 4 * PAIR)).or(wide(end - 3 * PAIR)).is_zero()
}

/// A pair in a register of its own kind: compilers take two of the others otherwise.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
struct Wide(core::arch::x86_64::__m128i);

#[cfg(target_arch = "x86_64")]
impl Wide {
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        // SAFETY: every processor of this architecture can.
        Self(unsafe { core::arch::x86_64::_mm_or_si128(self.0, other.0) })
    }

    #[inline(always)]
    fn is_zero(self) -> bool {
        use core::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_setzero_si128};
        // SAFETY: as above.
        unsafe { _mm_movemask_epi8(_mm_cmpeq_epi8(self.0, _mm_setzero_si128())) == 0xffff }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn wide(address: usize) -> Wide {
    // SAFETY: inside the memory of a caller here.
    Wide(unsafe { core::arch::x86_64::_mm_loadu_si128(at(address)) })
}

#[cfg(not(target_arch = "x86_64"))]
type Wide = Pair;

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn wide(address: usize) -> Pair {
    // SAFETY: inside the memory of a caller here.
    unsafe { at::<Pair>(address).read_unaligned() }
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

/// The same for the first lines of memory.
#[inline(always)]
pub(crate) fn fetch_first(start: usize, bytes: usize) {
    let end = start.wrapping_add(bytes.min(AHEAD));
    let mut place = start;
    while place < end {
        fetch(place);
        place = place.wrapping_add(LINE);
    }
}

/// The same for most of what will be looked at by [`looks_clear`]. As many lines of any object,
/// since a processor that has to guess how many there are guesses wrong.
#[inline(always)]
pub(crate) fn fetch_looked_at(start: usize, bytes: usize) {
    for n in 0..4 {
        fetch(start.wrapping_add(n * LINE));
    }
    fetch(start.wrapping_add(bytes).wrapping_sub(LINE));
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

    #[cfg(not(target_arch = "x86_64"))]
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Self([self.0[0] | other.0[0], self.0[1] | other.0[1]])
    }

    #[cfg(not(target_arch = "x86_64"))]
    #[inline(always)]
    fn is_zero(self) -> bool {
        self.0[0] | self.0[1] == 0
    }
}

/// All pairs of a line in one.
#[inline(always)]
fn line(address: usize) -> Wide {
    let half = |address| wide(address).or(wide(address + PAIR));
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
            assert!(is_tiny_clear(start, start + bytes));
            for n in 0..bytes {
                // SAFETY: inside the memory.
                unsafe { *at::<u8>(start + n) = 1 };
                assert!(!is_tiny_clear(start, start + bytes));
                clear_tiny(start, start + bytes);
                assert!(is_clear(start, bytes));
            }
            memory.fill(1);
            clear_tiny(start, start + bytes);
            assert!(is_tiny_clear(start, start + bytes) && memory[0] == 1);
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
