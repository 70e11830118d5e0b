//! The check of the order of locks: wrong orders end the process, and right ones do not. Each case
//! runs in a process of its own, which is this test again with the case in its environment.

#![cfg(all(debug_assertions, not(loom)))]

use freehold_sync::lock::Lock;
use freehold_sync::rank::Rank;
use std::env;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

static OUTER: Rank = Rank::new(1, "outer");
static INNER: Rank = Rank::new(2, "inner");

const CASE: &str = "FREEHOLD_ORDER_CASE";
const SIGABRT: i32 = 6;

/// Runs `case` in a process of its own, which is to abort with a message that has these words.
fn aborts(test: &str, words: &[&str], case: fn()) {
    if env::var(CASE).is_ok_and(|it| it == test) {
        return case();
    }
    let ended = Command::new(env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(CASE, test)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.signal(), Some(SIGABRT), "{}, with {said}", ended.status);
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
}

#[test]
fn who_waits_for_an_outer_lock_with_an_inner_one_held_is_stopped() {
    let test = "who_waits_for_an_outer_lock_with_an_inner_one_held_is_stopped";
    aborts(
        test,
        &["order of locks", "\"outer\" is waited for", "holds the lock \"inner\""],
        || {
            let (outer, inner) = (Lock::new(&OUTER), Lock::new(&INNER));
            inner.hold(|| outer.acquire());
        },
    );
}

#[test]
fn who_waits_for_a_second_lock_of_a_kind_is_stopped() {
    let test = "who_waits_for_a_second_lock_of_a_kind_is_stopped";
    aborts(
        test,
        &["order of locks", "\"inner\" is waited for", "holds the lock \"inner\""],
        || {
            let (first, second) = (Lock::new(&INNER), Lock::new(&INNER));
            first.hold(|| second.hold(|| {}));
        },
    );
}

#[test]
fn a_lock_that_was_free_by_chance_counts_as_held() {
    let test = "a_lock_that_was_free_by_chance_counts_as_held";
    aborts(test, &["\"outer\" is waited for", "holds the lock \"inner\""], || {
        let (outer, inner) = (Lock::new(&OUTER), Lock::new(&INNER));
        assert!(inner.try_acquire());
        outer.acquire();
    });
}

#[test]
fn who_takes_all_of_a_kind_is_stopped_at_an_outer_one() {
    let test = "who_takes_all_of_a_kind_is_stopped_at_an_outer_one";
    aborts(test, &["\"outer\" is waited for", "holds the lock \"inner\""], || {
        let (outer, inner) = (Lock::new(&OUTER), Lock::new(&INNER));
        inner.hold(|| outer.acquire_among_peers());
    });
}

#[test]
fn who_releases_what_it_does_not_hold_is_stopped() {
    let test = "who_releases_what_it_does_not_hold_is_stopped";
    aborts(test, &["\"inner\" is released by a thread that does not hold it"], || {
        static LOCK: Lock = Lock::new(&INNER);
        std::thread::spawn(|| LOCK.acquire()).join().unwrap();
        LOCK.release();
    });
}

#[test]
fn the_order_is_each_threads_own_and_nothing_is_left_of_what_was_released() {
    static OUTERMOST: Lock = Lock::new(&OUTER);
    let (first, second) = (Lock::new(&INNER), Lock::new(&INNER));
    OUTERMOST.acquire();
    first.acquire();
    second.acquire_among_peers();
    // Out of order: nobody waits, neither here nor in a thread that holds nothing.
    OUTERMOST.release();
    std::thread::spawn(|| OUTERMOST.hold(|| {})).join().unwrap();
    assert!(OUTERMOST.try_acquire());
    OUTERMOST.release();
    first.release();
    second.reset();
    OUTERMOST.hold(|| first.hold(|| {}));
}
