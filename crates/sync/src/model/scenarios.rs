//! The protocols as they are, in the situations where they could go wrong.

use super::{
    Checked, LAWS, NEVER, RANK, Slab, exchanged, explore, found_whole, grown_and_claimed,
    left_whole_in_pool, posted, purged_while_freed, released_and_reused,
};
use crate::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::exchange;
use crate::frontier;
use crate::granules::FreeGranules;
use crate::inbox;
use crate::lock::Lock;
use crate::stack::IndexStack;
use crate::word::{self, Count, Ledger, Mask, Pushed, SlabWord, State};
use loom::sync::Arc;
use loom::thread;
use std::vec::Vec;

#[test]
fn s1_the_owner_detaches_while_two_others_free() {
    explore(|| {
        let slab = Slab::new(State::Attached, &[], NEVER, LAWS);
        let others: Vec<_> = [0, 1]
            .map(|o| {
                let slab = slab.clone();
                thread::spawn(move || slab.free(o, false))
            })
            .into();
        if !slab.word.detach(State::Detached, Count::NONE) {
            slab.drain();
        }
        for other in others {
            other.join().unwrap();
        }
        slab.check(0);
    });
}

#[test]
fn s2_a_free_arrives_while_another_thread_adopts() {
    explore(|| {
        let slab = Slab::new(State::Detached, &[], 1, LAWS);
        let other = slab.clone();
        let other = thread::spawn(move || other.free(0, true));
        slab.free(1, true);
        other.join().unwrap();
        slab.check(0);
    });
}

#[test]
fn s3_the_last_free_meets_a_heap_that_takes_from_the_pool() {
    explore(|| {
        let slab = Slab::new(State::Pooled, &[0], NEVER, LAWS);
        let other = slab.clone();
        let other = thread::spawn(move || other.free(1, false));
        slab.take_from_pool();
        other.join().unwrap();
        slab.check(0);
    });
}

#[test]
fn s4_of_two_frees_that_complete_a_slab_one_gets_it() {
    explore(|| {
        let slab = Slab::new(State::Detached, &[], NEVER, LAWS);
        let other = slab.clone();
        let other = thread::spawn(move || other.free(0, false));
        slab.free(1, false);
        other.join().unwrap();
        slab.check(0);
        assert_eq!(slab.released.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn s5_the_last_free_arrives_while_the_slab_is_put_in_the_pool() {
    explore(|| {
        let slab = Slab::new(State::Detached, &[], 1, LAWS);
        let other = slab.clone();
        let other = thread::spawn(move || other.free(0, false));
        slab.free(1, false);
        other.join().unwrap();
        slab.check(0);
        assert_eq!(slab.released.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn s6_a_stale_look_does_not_outlive_attach_and_detach() {
    explore(|| {
        let slab = Slab::new(State::Detached, &[], 1, LAWS);
        let other = slab.clone();
        let other = thread::spawn(move || other.free(1, false));
        // Frees its object, adopts, gives the same object out again, detaches, frees again.
        slab.free(0, true);
        if slab.word.look().0 == State::Attached && slab.take_out(0) {
            if slab.word.detach(State::Detached, slab.free_count()) {
                slab.free(0, false);
            } else {
                slab.local.write(|local| local.free.push(0));
                slab.drain();
            }
        }
        other.join().unwrap();
        slab.check(0);
    });
}

#[test]
fn s23_a_holder_that_finds_all_objects_back_comes_after_who_freed_them() {
    explore(|| found_whole(&word::CORRECT));
}

#[test]
fn s7_a_lease_is_held_by_one_thread_and_hands_over_all_that_was_done() {
    explore(|| {
        let links: Arc<[AtomicU32; 2]> = Arc::new(std::array::from_fn(|_| AtomicU32::new(0)));
        let stack = Arc::new(IndexStack::new());
        let heaps: Arc<[Checked<u32>; 2]> = Arc::new(std::array::from_fn(|_| Checked::new(0)));
        stack.push(0, |i| &links[i as usize]);
        stack.push(1, |i| &links[i as usize]);
        let work = move || {
            for _ in 0..2 {
                if let Some(i) = stack.pop(|i| &links[i as usize]) {
                    heaps[i as usize].write(|h| *h += 1);
                    stack.push(i, |i| &links[i as usize]);
                }
            }
        };
        let other = thread::spawn(work.clone());
        work();
        other.join().unwrap();
    });
}

#[test]
fn s8_a_map_entry_is_gone_before_its_granule_has_a_new_class() {
    explore(|| released_and_reused(Ordering::Release));
}

#[test]
fn s9_purging_and_claiming_exclude_each_other() {
    explore(|| {
        let block = Arc::new(FreeGranules::new(1));
        let memory = Arc::new(Checked::new(0));
        let purger = {
            let (block, memory) = (block.clone(), memory.clone());
            thread::spawn(move || {
                if block.claim(|free| (free & 1 != 0).then_some(1)).is_some() {
                    memory.write(|m| *m = 0);
                    block.release(1);
                }
            })
        };
        if block.claim(|free| (free & 1 != 0).then_some(1)).is_some() {
            memory.write(|m| *m = 7);
            assert_eq!(memory.read(|m| *m), 7);
            block.release(1);
        }
        purger.join().unwrap();
        assert_eq!(block.look(), 1);
    });
}

#[test]
fn s10_a_shared_heap_serves_one_thread_at_a_time() {
    explore(|| {
        let heaps: Arc<[(Lock, Checked<u32>); 2]> =
            Arc::new(std::array::from_fn(|_| (Lock::new(&RANK), Checked::new(0))));
        let serve = move || {
            let (lock, heap) = if let Some(free) = heaps.iter().find(|(lock, _)| lock.try_acquire())
            {
                free
            } else {
                heaps[0].0.acquire();
                &heaps[0]
            };
            heap.write(|h| *h += 1);
            lock.release();
        };
        let others = [thread::spawn(serve.clone()), thread::spawn(serve.clone())];
        serve();
        for other in others {
            other.join().unwrap();
        }
    });
}

#[test]
fn s11_in_the_child_of_a_fork_a_vanished_claimer_harms_nobody() {
    explore(|| {
        // The parent's other thread had claimed the slab; it does not exist here. Frees are still
        // recorded, the slab is never handed out, and the lock it may have held is made free.
        let slab = Slab::new(State::Attached, &[], NEVER, LAWS);
        assert!(slab.word.detach(State::Claimed, Count::NONE));
        slab.pool.acquire();
        slab.pool.reset();
        slab.free(0, false);
        slab.free(1, false);
        assert!(!slab.take_from_pool());
        assert_eq!(slab.word.look().0, State::Claimed);
        assert_eq!(slab.released.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn a_mask_is_taken_whole_while_others_free() {
    explore(|| {
        let word = Arc::new(SlabWord::<Mask>::new());
        word.create(State::Detached);
        let taken = Arc::new(AtomicU64::new(0));
        let free = |word: &SlabWord<Mask>, taken: &AtomicU64, bit: u64| {
            let pushed = word.push(3, 2, |m: Mask| (m.0 & bit == 0).then_some(Mask(m.0 | bit)));
            match pushed {
                Pushed::Recorded => {}
                Pushed::Woken => {
                    let before = taken.fetch_or(word.take().0, Ordering::Relaxed);
                    assert_eq!(before, 0, "woken twice");
                }
                other => panic!("{other:?}"),
            }
        };
        let others: Vec<_> = [1, 2]
            .map(|bit| {
                let (word, taken) = (word.clone(), taken.clone());
                thread::spawn(move || free(&word, &taken, bit))
            })
            .into();
        for other in others {
            other.join().unwrap();
        }
        let (state, rest) = word.look();
        assert_eq!(state, State::Detached);
        assert_eq!(rest.0 | taken.load(Ordering::Relaxed), 3);
        assert_eq!(rest.0 & taken.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn s12_bits_are_collected_before_their_free_is_counted() {
    explore(|| {
        let slab = Slab::new(State::Attached, &[], NEVER, LAWS);
        let other = slab.clone();
        let other = thread::spawn(move || other.free(0, false));
        // The holder collects, gives out what it found, and lets go: the count may come later.
        slab.drain();
        let held = i32::from(slab.take_out(0));
        if !slab.word.detach(State::Detached, slab.free_count()) {
            slab.drain();
        }
        other.join().unwrap();
        slab.check(1 + held);
    });
}

#[test]
fn s13_a_magazine_that_was_sent_arrives_once_or_is_refused() {
    explore(|| posted(&inbox::CORRECT));
}

#[test]
fn s14_pages_of_a_pooled_slab_are_purged_while_its_last_objects_are_freed() {
    explore(|| {
        let slab = Slab::new(State::Pooled, &[], NEVER, LAWS);
        let others: Vec<_> = [0, 1]
            .map(|o| {
                let slab = slab.clone();
                thread::spawn(move || slab.free(o, false))
            })
            .into();
        slab.purge_in_pool(|| slab.word.claim_pooled());
        for other in others {
            other.join().unwrap();
        }
        slab.check(0);
        assert_eq!(slab.released.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn s14_pages_of_a_pooled_slab_are_purged_while_a_heap_looks_for_one() {
    explore(|| {
        let slab = Slab::new(State::Pooled, &[], NEVER, LAWS);
        slab.free(0, false);
        let other = slab.clone();
        let other = thread::spawn(move || other.take_from_pool());
        slab.purge_in_pool(|| slab.word.claim_pooled());
        other.join().unwrap();
        slab.check(1);
    });
}

#[test]
fn s14_pages_of_a_pooled_slab_of_medium_objects_are_purged_while_one_is_freed() {
    explore(|| purged_while_freed(Ordering::Acquire));
}

#[test]
fn s14_a_slab_of_medium_objects_is_left_in_its_pool_whole_while_a_heap_looks_for_one() {
    explore(|| left_whole_in_pool(Ordering::Release));
}

#[test]
fn s15_a_region_that_grows_is_usable_before_it_is_claimed() {
    explore(|| grown_and_claimed(frontier::CORRECT));
}

#[test]
fn s19_a_lot_that_was_put_in_is_taken_once_or_stays() {
    explore(|| exchanged(&exchange::CORRECT));
}
