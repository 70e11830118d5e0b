//! Runs of several blocks: which blocks they take, and what stays between them.

use crate::support::{Estate, Random, Thread};
use freehold_heap::layout::{BLOCK, GRANULE};
use freehold_sys::fake::Fake;

fn megabytes(bytes: usize) -> usize {
    bytes >> 20
}

#[test]
fn memory_between_large_buffers_that_come_and_go_is_used_again() {
    let mut random = Random::new();
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    let mut buffers = Vec::new();
    let mut requested = 0;
    let mut settled = 0;
    for round in 0..1000 {
        if round == 200 {
            requested = 0;
            settled = estate.arena().purged_bytes();
        }
        if buffers.len() == 20 {
            thread.free(buffers.swap_remove(random.below(20)));
        }
        let size = (5 << 20) + random.below(20 << 20);
        requested += size;
        buffers.push(thread.alloc(size).unwrap());
        estate.arena().system().advance(2);
    }
    let purged = estate.arena().purged_bytes() - settled;
    let (purged, requested) = (megabytes(purged), megabytes(requested));
    assert!(purged < requested / 16, "{purged} MiB were given back for {requested} MiB");
    let now = estate.arena().granules_in_use();
    assert!(now.dirty <= now.used / 4 * 3 + BLOCK / GRANULE, "{now:?}");
    thread.free_all(buffers);
}

#[test]
fn a_run_takes_the_shortest_row_of_used_blocks_that_is_long_enough() {
    let estate = Estate::new(Fake::new());
    let mut thread = Thread::new(&estate);
    // Rows of one, two and three blocks, each between others, and all of them within what may stay.
    let mut take = |blocks| thread.alloc(blocks * BLOCK).unwrap();
    let mut rows = Vec::new();
    let mut others = Vec::new();
    for blocks in [3, 1, 2] {
        rows.push(take(blocks));
        others.push(take(1));
    }
    others.push(take(40));
    let [three, one, two] = rows[..] else { unreachable!() };
    thread.free_all([three, two, one]);
    assert_eq!(thread.alloc(2 * BLOCK), Some(two));
    assert_eq!(thread.alloc(BLOCK + GRANULE), Some(three));
    thread.free_all([two, three]);
    thread.free_all(others);
}
