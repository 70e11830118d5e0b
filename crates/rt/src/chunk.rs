//! Blocks of glibc's own malloc, and how they are recognised.
//!
//! glibc keeps its notes beside the blocks: in the word before a block the size of the *chunk* that
//! it lies in, with flags in the low bits, and before that a word whose meaning depends on them.
//! There are three kinds of chunk: in the data segment's extension; with a mapping of its own, when
//! it is large; and in the arena of a thread, whose parts are aligned to 64 MiB and begin with a
//! note about themselves. Each note is read only where the kernel says that it can be, and all must
//! agree. Source: `malloc/malloc.c` and `malloc/arena.c` of glibc 2.26 to 2.41.

use crate::maps::Mapping;
use crate::slow::page_size;
use core::ops::Range;
use freehold_heap::layout::at;

const WORD: usize = size_of::<usize>();
const HEADER: usize = 2 * WORD;
const SMALLEST: usize = 4 * WORD;

/// In the low bits of the size: the chunk has a mapping of its own; it is of a thread's arena.
const MAPPED: usize = 2;
const OF_THREAD: usize = 4;
const FLAGS: usize = 7;

/// The parts of threads' arenas are at multiples of this, and at most as large.
const PART: usize = 64 << 20;

/// A word inside `readable`.
fn word(readable: &Range<usize>, address: usize) -> Option<usize> {
    let fits = address.is_multiple_of(WORD)
        && address >= readable.start
        && address.checked_add(WORD)? <= readable.end;
    // SAFETY: the kernel says that it is mapped and can be read. It may change while it is read, if
    // the program passes what it must not; any value will do.
    fits.then(|| unsafe { at::<usize>(address).read_volatile() })
}

/// The bytes that can be used at `object`, if it is a block of glibc's malloc.
pub(crate) fn usable_size(object: usize) -> Option<usize> {
    let mapping = Mapping::containing(object)?;
    let range = mapping.range()?;
    let chunk = object.checked_sub(HEADER)?;
    if !mapping.is_writable() || !object.is_multiple_of(HEADER) {
        return None;
    }
    let (before, noted) = (word(&range, chunk)?, word(&range, chunk + WORD)?);
    let size = noted & !FLAGS;
    let end = chunk.checked_add(size)?;
    if size < SMALLEST || !size.is_multiple_of(HEADER) || end > range.end {
        return None;
    }
    // The next chunk's first word belongs to this one, but a mapping has no next chunk.
    match (mapping.name(), noted & (MAPPED | OF_THREAD)) {
        ("[heap]", 0) => Some(size - WORD),
        ("", MAPPED) => is_mapped(&range, chunk, before, end).then(|| size - HEADER),
        ("", OF_THREAD) => is_in_arena(&range, chunk, end)?.then(|| size - WORD),
        _ => None,
    }
}

/// Whether a chunk has a mapping of its own: whole pages, from as far before the chunk as the word
/// before its size says.
fn is_mapped(range: &Range<usize>, chunk: usize, before: usize, end: usize) -> bool {
    let page = page_size();
    chunk.checked_sub(before).is_some_and(|start| {
        start >= range.start && start.is_multiple_of(page) && end.is_multiple_of(page)
    })
}

/// Whether a chunk lies in a part of a thread's arena. Such a part begins with the arena's address,
/// the part before it, and the bytes in use.
fn is_in_arena(range: &Range<usize>, chunk: usize, end: usize) -> Option<bool> {
    let part = chunk & !(PART - 1);
    let arena = word(range, part)?;
    let previous = word(range, part + WORD)?;
    let bytes = word(range, part + 2 * WORD)?;
    let is_part = arena != 0
        && arena.is_multiple_of(HEADER)
        && previous.is_multiple_of(PART)
        && bytes.is_multiple_of(page_size())
        && bytes <= PART
        && part + bytes <= range.end;
    Some(is_part && chunk > part && end <= part + bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;
    use std::vec;

    // The tests run with the C library's malloc, so every vector is a block of it.

    fn measures(bytes: usize) {
        let block = vec![0_u8; bytes];
        let usable = usable_size(block.as_ptr().addr());
        assert!(usable.is_some_and(|it| it >= bytes), "{bytes} bytes: {usable:?}");
    }

    #[test]
    fn blocks_of_all_sizes_are_recognised_in_any_thread() {
        let measure_all = || [1, 24, 1000, 20_000, 100_000, 1 << 20, 50 << 20].map(measures);
        measure_all();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(measure_all);
            }
        });
    }

    #[test]
    fn what_is_no_block_is_not_recognised() {
        static DATA: [usize; 8] = [0x21; 8];
        let local = [0x21_usize; 8];
        let block = Box::new([0_usize; 512]);
        let others = [DATA.as_ptr().addr(), local.as_ptr().addr(), 1, HEADER, usize::MAX - 15];
        for address in others.map(|address| address.next_multiple_of(HEADER)) {
            assert_eq!(usable_size(address), None, "{address:#x}");
        }
        for inside in (8..4096).step_by(8) {
            assert_eq!(usable_size(block.as_ptr().addr() + inside), None, "{inside} bytes inside");
        }
    }
}
