//! The arenas of the C library of GNU: what `malloc_info(3)` tells of them, and what lies in their
//! fast bins, read in the memory of the process. Where an arena is taken to be, everything about it
//! has to fit. Source: `malloc/malloc.c` and `malloc/arena.c` of glibc 2.27 to 2.42.

use std::collections::HashSet;
use std::ops::Range;

use crate::chunks::Words;

/// Where things are in an arena, in bytes.
const FAST_BINS: u64 = 16;
const FAST_BIN_COUNT: u64 = 10;
const TOP: u64 = 96;
const BINS: u64 = 112;
const BIN_COUNT: u64 = 127;
const NEXT: u64 = 2160;
const SYSTEM: u64 = 2184;
const PEAK: u64 = 2192;
const BYTES: u64 = 2200;

/// Arenas begin at multiples of this.
const ALIGNMENT: usize = 16;

/// More than any process has.
const MOST_ARENAS: usize = 65_536;

/// Blocks that are followed in a fast bin.
const MOST_BLOCKS: u64 = 1 << 20;

/// From the size of a block to that of the next in the fast bins.
const STEP: u64 = 16;

/// What the arenas of a process say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Arenas {
    /// How many there are.
    pub(crate) count: u64,
    /// Bytes that they have from the system.
    pub(crate) system: u64,
    /// The sum of the most that each ever had.
    pub(crate) peak: u64,
    /// Bytes in their fast bins.
    pub(crate) fast: u64,
}

/// Finds the first arena in the C library's data, and all others by way of it.
pub(crate) fn find(memory: &mut dyn Words, data: &[Range<u64>]) -> Option<Arenas> {
    let mut candidates = data.iter().flat_map(|area| {
        let last = area.end.saturating_sub(BYTES);
        (area.start.next_multiple_of(ALIGNMENT as u64)..=last).step_by(ALIGNMENT)
    });
    let all = candidates.find_map(|candidate| {
        is_arena(memory, candidate).then(|| ring(memory, candidate)).flatten()
    });
    let mut total = Arenas::default();
    for arena in all? {
        total.count += 1;
        total.system += memory.word(arena + SYSTEM)?;
        total.peak += memory.word(arena + PEAK)?;
        total.fast += in_fast_bins(memory, arena);
    }
    Some(total)
}

/// The arenas that are linked to one, and it: they make a ring.
fn ring(memory: &mut dyn Words, first: u64) -> Option<Vec<u64>> {
    let mut all = vec![first];
    let mut seen = HashSet::from([first]);
    loop {
        let next = memory.word(all.last()? + NEXT)?;
        if next == first {
            return Some(all);
        }
        if next == 0 || all.len() == MOST_ARENAS || !seen.insert(next) {
            return None;
        }
        all.push(next);
    }
}

/// Whether everything fits: each bin is linked in both directions, and sizes are possible.
fn is_arena(memory: &mut dyn Words, at: u64) -> bool {
    let mut has = |offset: u64| memory.word(at + offset).unwrap_or(0);
    let (system, peak, top) = (has(SYSTEM), has(PEAK), has(TOP));
    let mut empty = 0;
    let bins_fit = (0..BIN_COUNT).all(|n| {
        // As if the bin were a block whose links are where these two are.
        let bin = at + BINS + n * STEP - STEP;
        let (next, previous) = (has(BINS + n * STEP), has(BINS + n * STEP + 8));
        empty += u64::from(next == bin);
        next != 0 && previous != 0 && (next == bin) == (previous == bin)
    });
    bins_fit && empty > 0 && top != 0 && system <= peak && system.is_multiple_of(4096)
}

/// Bytes of the blocks in an arena's fast bins.
fn in_fast_bins(memory: &mut dyn Words, arena: u64) -> u64 {
    (0..FAST_BIN_COUNT)
        .map(|bin| {
            let first = memory.word(arena + FAST_BINS + bin * 8).unwrap_or(0);
            chain(memory, first) * (bin + 2) * STEP
        })
        .sum()
}

/// Blocks in a chain. The links are mixed with their own address, but for older versions.
fn chain(memory: &mut dyn Words, first: u64) -> u64 {
    let mut count = 0;
    let mut block = first;
    while block != 0 && block.is_multiple_of(STEP) && count < MOST_BLOCKS {
        count += 1;
        let place = block + STEP;
        let Some(link) = memory.word(place) else { return count };
        let mixed = link ^ place >> 12;
        block = if mixed.is_multiple_of(STEP) { mixed } else { link };
    }
    count
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const AT: u64 = 0x7000_0000_1c40;

    /// An arena without free blocks that has so much from the system.
    fn put(words: &mut HashMap<u64, u64>, at: u64, next: u64, system: u64) {
        for n in 0..BIN_COUNT {
            let bin = at + BINS + n * 16 - 16;
            words.insert(at + BINS + n * 16, bin);
            words.insert(at + BINS + n * 16 + 8, bin);
        }
        for fast in 0..FAST_BIN_COUNT {
            words.insert(at + FAST_BINS + fast * 8, 0);
        }
        words.insert(at + TOP, 0x5555_0000);
        words.insert(at + NEXT, next);
        words.insert(at + SYSTEM, system);
        words.insert(at + PEAK, system + 4096);
    }

    #[test]
    fn all_arenas_are_found_by_way_of_the_first_with_their_fast_bins() {
        let mut words = HashMap::new();
        let other = 0x7fff_0000_0030;
        put(&mut words, AT, other, 8192);
        put(&mut words, other, AT, 4096);
        // Two blocks of 32 bytes, the second the last; links are mixed with their address.
        let (one, two) = (0x7fff_0000_2000_u64, 0x7fff_0000_3000_u64);
        words.insert(other + FAST_BINS, one);
        words.insert(one + 16, two ^ (one + 16) >> 12);
        words.insert(two + 16, (two + 16) >> 12);
        let data = 0x7000_0000_1000..0x7000_0000_4000;
        let expected = Arenas { count: 2, system: 12_288, peak: 20_480, fast: 64 };
        assert_eq!(find(&mut words, std::slice::from_ref(&data)), Some(expected));
        // A bin that is linked in one direction only belongs to something else.
        words.insert(AT + BINS, 0x1234_0000);
        assert_eq!(find(&mut words, &[data]), None);
    }
}
