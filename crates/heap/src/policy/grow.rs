//! How much address space to make usable when more is needed.

use crate::layout::{BLOCK, ZONE_BLOCKS};

/// The first bytes of a region are never backed by huge pages, whatever the system's setting as the
/// process starts: a small program would pay for memory that it does not use.
pub const SMALL_PAGES_BELOW: usize = 16 << 20;

/// The largest region that is reserved.
pub const LARGEST: usize = 1 << 40;

/// How many pages of a heap's map are written to at once when it is extended, each for 128 MiB of
/// the region: more would take a call longer than it may.
pub const MAP_PAGES_TOUCHED: usize = 64;

/// Blocks to commit beyond `committed`, when `wanted` are needed and `reserved` exist.
///
/// Committing costs one system call and no memory, but counts against overcommit and data limits:
/// so a small process starts with 8 MiB, and a large one goes on by half of what it has, at most a
/// zone at a time unless more is wanted.
pub fn step(committed: u32, wanted: u32, reserved: u32) -> u32 {
    let by_half = (committed / 2).clamp(4, ZONE_BLOCKS);
    by_half.max(wanted).min(reserved - committed)
}

/// For a region of so many bytes, the bytes before it that are never made accessible, and all that
/// is reserved, those and as many after it included. So who runs out of the region at either end,
/// by up to a block, ends there and not in metadata or somebody else's mapping. A region that is
/// small because a limit is has none.
pub fn fenced(region: usize) -> (usize, usize) {
    let fence = if region < 32 * BLOCK { 0 } else { BLOCK };
    (fence, region + 2 * fence)
}

/// The sizes of region to try, largest first: all but a quarter of the address space that is left,
/// at most [`LARGEST`], and then half each time down to 4 MiB. Where little is left a third
/// stays, since a few threads' stacks need more than a quarter of it.
pub fn reservations(address_space_left: usize) -> impl Iterator<Item = usize> {
    const SMALLEST: usize = 4 << 20;
    const LITTLE: usize = 64 << 20;
    let usual = address_space_left - address_space_left / 4;
    let first = if address_space_left < LITTLE {
        (address_space_left - address_space_left / 3).max(SMALLEST.min(usual))
    } else {
        usual.min(LARGEST)
    };
    let sizes = core::iter::successors(Some(first), |size| Some(size / 2));
    sizes.map(|size| size / BLOCK * BLOCK).take_while(|&size| size >= SMALLEST)
}

/// How much of the first heaps, which take so many bytes with that of the first thread, to commit
/// together with what every process needs: all, which saves a call, unless that is much, since it
/// counts against a limit on data.
pub fn heaps_at_once(bytes: usize) -> usize {
    if bytes <= 128 << 10 { bytes } else { 0 }
}

/// The bytes to reserve for what threads lease one each, of which there may be `most` bytes: an
/// eighth of the address space that is left at most. Under a limit the program's threads need it
/// for their stacks.
pub fn stock(most: usize, address_space_left: usize) -> usize {
    most.min(address_space_left / 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn steps_grow_with_the_heap_and_end_at_the_reservation() {
        assert_eq!(step(0, 1, 1000), 4);
        assert_eq!(step(20, 1, 1000), 10);
        assert_eq!(step(500, 1, 1000), ZONE_BLOCKS);
        assert_eq!(step(500, 300, 1000), 300);
        assert_eq!(step(998, 1, 1000), 2);
        assert_eq!(step(990, 300, 1000), 10);
    }

    #[test]
    fn a_region_has_fences_of_a_block_unless_they_are_much_of_it() {
        assert_eq!(fenced(1 << 40), (BLOCK, (1 << 40) + 2 * BLOCK));
        assert_eq!(fenced(4 << 20), (0, 4 << 20));
    }

    #[test]
    fn the_first_heaps_are_committed_with_the_arena_unless_they_are_many() {
        assert_eq!(heaps_at_once(48 << 10), 48 << 10);
        assert_eq!(heaps_at_once(128 << 10), 128 << 10);
        assert_eq!(heaps_at_once((128 << 10) + 1), 0);
    }

    #[test]
    fn what_threads_lease_takes_an_eighth_of_what_a_limit_leaves() {
        assert_eq!(stock(64 << 20, usize::MAX), 64 << 20);
        assert_eq!(stock(64 << 20, 128 << 20), 16 << 20);
        assert_eq!(stock(1 << 20, 128 << 20), 1 << 20);
    }

    #[test]
    fn without_a_limit_the_region_is_a_tebibyte() {
        assert_eq!(reservations(usize::MAX).next(), Some(1 << 40));
    }

    #[test]
    fn under_a_limit_a_quarter_is_left_to_others_and_sizes_fall_to_4_mib() {
        let sizes: Vec<_> = reservations(512 << 20).collect();
        assert_eq!(sizes, [384, 192, 96, 48, 24, 12, 6].map(|mib| mib << 20));
        assert_eq!(reservations(13 << 20).collect::<Vec<_>>(), [8 << 20, 4 << 20]);
        assert_eq!(reservations(11 << 19).collect::<Vec<_>>(), [4 << 20]);
        assert_eq!(reservations(4 << 20).next(), None);
    }
}
