//! Turns: what a thread uses in its turns nobody uses at the same time who has summoned it and
//! found it out, and each sees what the other did.

use super::{Checked, RACE, explore, must_be_rejected};
use crate::atomic::{Ordering, fence};
use crate::turn::{CORRECT, Orders, Summons, Turn, tells_out};
use loom::sync::Arc;
use loom::thread;

/// A thread takes some turns, and another summons it so many times meanwhile.
fn summoned(orders: &'static Orders, turns: u32, times: u32) {
    let shared = Arc::new((Turn::new(), Summons::new(), Checked::new(0)));
    let summoning = {
        let shared = shared.clone();
        thread::spawn(move || {
            let (turn, summons, own) = &*shared;
            for _ in 0..times {
                assert!(summons.call(turn.address()));
                if orders.barriers {
                    fence(Ordering::SeqCst);
                }
                if tells_out(turn.peek()) {
                    own.write(|own| *own += 1);
                }
                summons.dismiss_by(orders);
            }
        })
    };
    let (turn, summons, own) = &*shared;
    for _ in 0..turns {
        // First as who does something else if anybody is summoned.
        if !turn.begin_unless_any_by(orders, summons) {
            turn.begin_by(orders, summons);
        }
        own.write(|own| *own += 1);
        turn.end_by(orders);
    }
    summoning.join().unwrap();
    own.read(|own| assert!((turns..=turns + times).contains(own)));
}

#[test]
fn s18_nobody_uses_what_a_thread_has_in_its_turn() {
    explore(|| summoned(&CORRECT, 1, 1));
}

#[test]
fn s18_a_thread_that_was_dismissed_sees_what_was_done_in_its_place() {
    explore(|| summoned(&CORRECT, 2, 1));
}

#[test]
fn s18_who_summons_again_sees_what_the_thread_did_in_between() {
    explore(|| summoned(&CORRECT, 1, 2));
}

#[test]
fn broken_without_barriers_is_rejected() {
    must_be_rejected(RACE, || {
        const ORDERS: Orders = Orders { barriers: false, ..CORRECT };
        summoned(&ORDERS, 1, 1);
    });
}

#[test]
fn broken_ending_relaxed_is_rejected() {
    must_be_rejected(RACE, || {
        const ORDERS: Orders = Orders { end: Ordering::Relaxed, ..CORRECT };
        summoned(&ORDERS, 1, 1);
    });
}

#[test]
fn broken_dismissing_relaxed_is_rejected() {
    must_be_rejected(RACE, || {
        const ORDERS: Orders = Orders { dismiss: Ordering::Relaxed, ..CORRECT };
        summoned(&ORDERS, 1, 1);
    });
}
