//! Variants that are wrong on purpose: each must be rejected, and for the reason given.

use super::{
    CAPACITY, LAWS, Laws, NEVER, Post, RACE, Slab, exchanged, found_whole, grown_and_claimed,
    left_whole_in_pool, must_be_rejected, posted, purged_while_freed, released_and_reused,
};
use crate::atomic::{AtomicU32, Ordering};
use crate::exchange;
use crate::freed::{self, Orders};
use crate::frontier::Step;
use crate::inbox;
use crate::word::{self, Count, Ledger, Pushed, Rules, State};
use loom::sync::Arc;
use loom::thread;

#[test]
fn broken_a_relaxed_push_is_rejected() {
    must_be_rejected(RACE, || {
        const RULES: Rules = Rules { push: Ordering::Relaxed, ..word::CORRECT };
        let slab = Slab::new(State::Detached, &[], NEVER, Laws { word: &RULES, ..LAWS });
        let other = slab.clone();
        let other = thread::spawn(move || other.free(0, false));
        slab.free(1, false);
        other.join().unwrap();
    });
}

#[test]
fn broken_a_relaxed_detach_is_rejected() {
    must_be_rejected(RACE, || {
        const RULES: Rules = Rules { detach: Ordering::Relaxed, ..word::CORRECT };
        let slab = Slab::new(State::Attached, &[0], 2, LAWS);
        let other = slab.clone();
        let other = thread::spawn(move || other.free(1, false));
        slab.local.write(|local| local.free.reverse());
        slab.word.detach_by(&RULES, State::Detached, Count(1));
        other.join().unwrap();
    });
}

#[test]
fn broken_finding_all_objects_back_relaxed_is_rejected() {
    must_be_rejected(RACE, || {
        const RULES: Rules = Rules { whole: Ordering::Relaxed, ..word::CORRECT };
        found_whole(&RULES);
    });
}

#[test]
fn broken_setting_bits_relaxed_is_rejected() {
    must_be_rejected(RACE, || {
        const ORDERS: Orders = Orders { set: Ordering::Relaxed, ..freed::CORRECT };
        let slab = Slab::new(State::Attached, &[], NEVER, Laws { bits: &ORDERS, ..LAWS });
        let other = slab.clone();
        let other = thread::spawn(move || other.free(0, false));
        // Collects without draining: only the bits' own ordering is there.
        slab.take_over(Count::NONE);
        other.join().unwrap();
    });
}

#[test]
fn broken_counting_before_setting_bits_is_rejected() {
    must_be_rejected(RACE, || {
        let slab = Slab::new(State::Detached, &[], NEVER, LAWS);
        let other = slab.clone();
        let count_first = |slab: &Slab, object: usize| {
            let pushed = slab.word.push(CAPACITY as i32, NEVER, |before| Some(Count(before.0 + 1)));
            slab.contents[object].write(|c| *c += 1);
            slab.bits.fetch_or(1 << object, Ordering::Release);
            if pushed == Pushed::Completed {
                slab.release();
            }
        };
        let other = thread::spawn(move || count_first(&other, 0));
        count_first(&slab, 1);
        other.join().unwrap();
    });
}

#[test]
fn broken_a_wake_mark_met_only_exactly_is_rejected() {
    must_be_rejected("I9: a wake-up was lost", || {
        // A batch of two steps over the mark: with equality instead of crossing nobody is woken.
        const RULES: Rules = Rules { crosses: |_, after, mark| after == mark, ..word::CORRECT };
        let slab = Slab::new(State::Detached, &[], 1, LAWS);
        slab.bits.fetch_or(0b11, Ordering::Release);
        let pushed = slab.word.push_by(&RULES, 3, slab.wake, |c| Some(Count(c.0 + 2)));
        assert_eq!(pushed, Pushed::Recorded);
        slab.check(0);
    });
}

#[test]
fn broken_publishing_to_the_pool_without_comparing_is_rejected() {
    must_be_rejected("objects are lost", || {
        // Storing what was seen loses the free that arrives between looking and storing.
        let slab = Slab::new(State::Attached, &[], NEVER, LAWS);
        assert!(slab.word.detach(State::Claimed, Count::NONE));
        let other = slab.clone();
        let other = thread::spawn(move || other.free(0, false));
        slab.pool.acquire();
        slab.listed.write(|l| *l = true);
        let (_, counted) = slab.word.look();
        slab.word.store_for_model(State::Pooled, counted);
        slab.pool.release();
        other.join().unwrap();
        slab.check(1);
    });
}

#[test]
fn broken_releasing_granules_relaxed_is_rejected() {
    must_be_rejected("an object of one class in the bin of another", || {
        released_and_reused(Ordering::Relaxed);
    });
}

/// The design that the real word avoids: the number of frees still to come stands beside the word.
struct TargetBeside {
    count: AtomicU32,
    target: AtomicU32,
    claims: AtomicU32,
}

/// Added to the count while attached.
const ATTACHED: u32 = 100;

impl TargetBeside {
    fn push(&self) {
        let mut seen = self.count.load(Ordering::Acquire);
        loop {
            let complete = seen + 1 == self.target.load(Ordering::Acquire);
            let exchanged =
                self.count.compare_exchange(seen, seen + 1, Ordering::AcqRel, Ordering::Acquire);
            match exchanged {
                Ok(_) if complete => {
                    self.claims.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }
}

#[test]
fn broken_a_target_beside_the_word_without_a_sequence_number_is_rejected() {
    must_be_rejected("nobody has claimed it", || {
        // Detached with two objects out. One thread frees; the other attaches, takes its own object
        // back, and detaches again with one out: the word looks as before, the target does not.
        let slab = Arc::new(TargetBeside {
            count: AtomicU32::new(0),
            target: AtomicU32::new(2),
            claims: AtomicU32::new(0),
        });
        let other = slab.clone();
        let other = thread::spawn(move || other.push());
        let attached =
            slab.count.compare_exchange(0, ATTACHED, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if attached {
            slab.target.store(1, Ordering::Release);
            // Frees that came while attached are kept.
            let came = slab.count.load(Ordering::Acquire) - ATTACHED;
            if came == 0 {
                let again =
                    slab.count.compare_exchange(ATTACHED, 0, Ordering::AcqRel, Ordering::Acquire);
                if again.is_err() {
                    slab.claims.fetch_add(1, Ordering::Relaxed);
                }
            } else {
                slab.claims.fetch_add(1, Ordering::Relaxed);
            }
        } else {
            slab.push();
        }
        other.join().unwrap();
        assert_eq!(slab.claims.load(Ordering::Relaxed), 1, "complete, and nobody has claimed it");
    });
}

#[test]
fn broken_putting_a_magazine_in_relaxed_is_rejected() {
    must_be_rejected(RACE, || {
        const ORDERS: inbox::Orders = inbox::Orders { put: Ordering::Relaxed, ..inbox::CORRECT };
        posted(&ORDERS);
    });
}

#[test]
fn broken_leaving_a_spare_magazine_relaxed_is_rejected() {
    must_be_rejected(RACE, || {
        const ORDERS: inbox::Orders = inbox::Orders { leave: Ordering::Relaxed, ..inbox::CORRECT };
        posted(&ORDERS);
    });
}

#[test]
fn broken_taking_a_magazine_out_relaxed_is_rejected() {
    must_be_rejected(RACE, || {
        const ORDERS: inbox::Orders = inbox::Orders { look: Ordering::Relaxed, ..inbox::CORRECT };
        posted(&ORDERS);
    });
}

#[test]
fn broken_closing_without_comparing_is_rejected() {
    must_be_rejected("a magazine was lost", || {
        let post = Post::new(&inbox::CORRECT);
        let sender = post.clone();
        let sender = thread::spawn(move || sender.send(0, 1));
        let found = post.inbox.close_blindly_for_model().map_or(0, |full| post.use_up(full));
        let refused = sender.join().unwrap();
        assert_eq!(found | refused, 1, "a magazine was lost");
    });
}

#[test]
fn broken_leaving_a_spare_magazine_in_a_slot_that_is_not_full_is_rejected() {
    must_be_rejected("a magazine was lost", || {
        let post = Post::new(&inbox::CORRECT);
        let sender = post.clone();
        let sender = thread::spawn(move || sender.send(0, 1));
        let taken = post.inbox.leave_blindly_for_model(Post::address(2));
        let received = taken.map_or(0, |full| post.use_up(full));
        let refused = sender.join().unwrap();
        let all = received | post.close() | refused;
        assert_eq!(all & 0xff, 1, "a magazine was lost");
    });
}

#[test]
fn broken_purging_what_is_seen_to_be_free_relaxed_is_rejected() {
    must_be_rejected(RACE, || {
        const ORDERS: Orders = Orders { collect: Ordering::Relaxed, ..freed::CORRECT };
        let slab = Slab::new(State::Pooled, &[], NEVER, Laws { bits: &ORDERS, ..LAWS });
        let other = slab.clone();
        let other = thread::spawn(move || other.free(0, false));
        slab.purge_in_pool(|| slab.word.claim_pooled());
        other.join().unwrap();
    });
    must_be_rejected(RACE, || purged_while_freed(Ordering::Relaxed));
}

#[test]
fn broken_leaving_a_whole_slab_in_its_pool_relaxed_is_rejected() {
    must_be_rejected(RACE, || left_whole_in_pool(Ordering::Relaxed));
}

#[test]
fn broken_purging_in_a_slab_that_was_not_claimed_is_rejected() {
    must_be_rejected(RACE, || {
        let slab = Slab::new(State::Pooled, &[], NEVER, LAWS);
        slab.free(0, false);
        let other = slab.clone();
        let other = thread::spawn(move || other.take_from_pool());
        if freed::look_by(LAWS.bits, &slab.bits) & 1 != 0 {
            slab.contents[0].write(|c| *c = 0);
        }
        other.join().unwrap();
    });
}

#[test]
fn broken_offering_memory_before_it_is_usable_is_rejected() {
    must_be_rejected("memory was given out before it was usable", || {
        grown_and_claimed([Step::Offer, Step::Use, Step::Note]);
    });
}

#[test]
fn broken_noting_memory_before_it_is_offered_is_rejected() {
    must_be_rejected("a region was taken for exhausted", || {
        grown_and_claimed([Step::Use, Step::Note, Step::Offer]);
    });
}

#[test]
fn broken_putting_a_lot_in_relaxed_is_rejected() {
    must_be_rejected(RACE, || {
        const ORDERS: exchange::Orders =
            exchange::Orders { fill: Ordering::Relaxed, ..exchange::CORRECT };
        exchanged(&ORDERS);
    });
}

#[test]
fn broken_holding_a_place_for_a_lot_relaxed_is_rejected() {
    must_be_rejected(RACE, || {
        const ORDERS: exchange::Orders =
            exchange::Orders { hold: Ordering::Relaxed, ..exchange::CORRECT };
        exchanged(&ORDERS);
    });
}

#[test]
fn broken_leaving_a_place_for_a_lot_relaxed_is_rejected() {
    must_be_rejected(RACE, || {
        const ORDERS: exchange::Orders =
            exchange::Orders { clear: Ordering::Relaxed, ..exchange::CORRECT };
        exchanged(&ORDERS);
    });
}
