//! Granules that are released while others find that there are none: S22, and two variants that
//! are wrong on purpose.

use super::{explore, must_be_rejected};
use crate::granules::{FreeGranules, longest_run};
use crate::open::{CORRECT, OpenBlocks, Orders};
use loom::sync::Arc;
use loom::thread;

const BLOCK: u32 = 3;

/// What is said when free granules are found by nobody.
const HIDDEN: &str = "is hidden";

/// A block of which a run is promised that is not there. Some look for it and correct that, as
/// many as there are; meanwhile granules are released, one by one.
fn corrected(orders: Orders, correctors: usize, released: &'static [u32]) {
    let shared = Arc::new((FreeGranules::new(0), OpenBlocks::new()));
    shared.1.note_released(BLOCK, 2);
    let others = (0..correctors).map(|_| {
        let shared = shared.clone();
        thread::spawn(move || {
            let (free, hints) = &*shared;
            if free.claim(|_| None).is_none() {
                hints.correct_by(orders, BLOCK, free);
            }
        })
    });
    let others: std::vec::Vec<_> = others.collect();
    let (free, hints) = &*shared;
    for granule in released {
        let after = free.release(1 << granule);
        hints.note_released_by(orders, BLOCK, longest_run(after));
    }
    others.into_iter().for_each(|other| other.join().unwrap());
    let run = longest_run(free.look());
    let is_found = hints.look() >> BLOCK & 1 != 0 && hints.longest(BLOCK) >= run;
    assert!(is_found, "a run of {run} {HIDDEN}");
}

#[test]
fn s22_what_is_released_while_hints_are_corrected_is_found() {
    explore(|| corrected(CORRECT, 1, &[7, 8]));
}

#[test]
fn s22_what_is_released_while_two_correct_hints_is_found() {
    explore(|| corrected(CORRECT, 2, &[7]));
}

#[test]
fn broken_without_a_second_look_is_rejected() {
    must_be_rejected(HIDDEN, || {
        const ORDERS: Orders = Orders { looks_again: false, ..CORRECT };
        corrected(ORDERS, 1, &[7]);
    });
}

#[test]
fn broken_without_a_fence_of_who_releases_is_rejected() {
    must_be_rejected(HIDDEN, || {
        const ORDERS: Orders = Orders { fences: false, ..CORRECT };
        corrected(ORDERS, 1, &[7]);
    });
}
