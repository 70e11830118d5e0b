//! Clocks of threads: what is done with one thing bears rising times, and who goes on by what it
//! has seen does not miss that the mode has changed.

use super::{Checked, explore, must_be_rejected};
use crate::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::concerned::Concerned;
use crate::published::{self, Published, Step};
use loom::sync::Arc;
use loom::thread;

/// Two things that share a place, of which one goes from hand to hand.
struct Shared {
    place: Concerned,
    /// The time of day.
    day: AtomicU64,
    /// The clock of who has used the thing last.
    clock: Checked<u64>,
}

/// Whether who finds another's word leaves its own.
type Leaves = bool;

/// A step of a thread: with a thing, of which it has a word. It takes longer than clocks go on.
fn step(shared: &Shared, clock: &mut u64, word: u64, leaves: Leaves) {
    if !shared.place.is(word) {
        if leaves {
            shared.place.leave(word);
        }
        *clock = (*clock).max(shared.day.load(Ordering::Relaxed));
    }
    *clock += 1;
    shared.day.fetch_add(2, Ordering::Relaxed);
}

fn use_thing(shared: &Shared, clock: &mut u64, word: u64, leaves: Leaves) {
    step(shared, clock, word, leaves);
    shared.clock.write(|last| {
        assert!(*clock > *last, "time went back");
        *last = *clock;
    });
}

/// A thing goes to another thread and comes back, while a third uses one of the same place.
fn handed_over_and_back(leaves: Leaves) {
    let (place, day) = (Concerned::nobody(), AtomicU64::new(0));
    let shared = Arc::new(Shared { place, day, clock: Checked::new(0) });
    let over = Arc::new((AtomicBool::new(false), AtomicBool::new(false)));
    let other = {
        let (shared, over) = (shared.clone(), over.clone());
        thread::spawn(move || {
            if over.0.load(Ordering::Acquire) {
                use_thing(&shared, &mut 0, 2, leaves);
                over.1.store(true, Ordering::Release);
            }
        })
    };
    let third = {
        let shared = shared.clone();
        thread::spawn(move || step(&shared, &mut 0, 3, true))
    };
    let mut clock = 0;
    // The first leaves its word in any case.
    use_thing(&shared, &mut clock, 1, true);
    over.0.store(true, Ordering::Release);
    if over.1.load(Ordering::Acquire) {
        use_thing(&shared, &mut clock, 1, leaves);
    }
    other.join().unwrap();
    third.join().unwrap();
}

/// A thread sees the time of a mode while that changes, and others publish a time.
fn changed_while_seen(change: [Step; 2], look: [Step; 2]) {
    const OLD: u32 = 1;
    const NEW: u32 = 2;
    let shared = Arc::new(Published::new());
    shared.turn(0, OLD);
    shared.publish(5);
    let changing = {
        let shared = shared.clone();
        thread::spawn(move || shared.set_mode_by(change, NEW))
    };
    let publishing = {
        let shared = shared.clone();
        thread::spawn(move || shared.publish(9))
    };
    let seen = shared.see_by(look, 20, OLD);
    changing.join().unwrap();
    assert_ne!(Some(shared.time()), seen, "a change of the mode is never noticed");
    publishing.join().unwrap();
}

#[test]
fn s16_what_is_handed_over_and_back_bears_rising_times() {
    explore(|| handed_over_and_back(true));
}

#[test]
fn s17_who_has_seen_a_mode_notices_that_it_has_changed() {
    explore(|| changed_while_seen(published::CHANGE, published::LOOK));
}

#[test]
fn broken_to_leave_no_word_where_another_was_is_rejected() {
    must_be_rejected("time went back", || handed_over_and_back(false));
}

#[test]
fn broken_to_change_the_time_before_the_mode_is_rejected() {
    must_be_rejected("a change of the mode is never noticed", || {
        changed_while_seen([Step::Time, Step::Mode], published::LOOK);
    });
}

#[test]
fn broken_to_look_at_the_mode_before_the_time_is_rejected() {
    must_be_rejected("a change of the mode is never noticed", || {
        changed_while_seen(published::CHANGE, [Step::Mode, Step::Time]);
    });
}
