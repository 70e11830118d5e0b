//! Slabs that a heap keeps for its thread: S20, and its variants that are wrong on purpose.

use super::{CAPACITY, LAWS, NEVER, RACE, Slab, explore, must_be_rejected};
use crate::atomic::Ordering;
use crate::word::{Count, Pushed, State};
use loom::thread;
use std::vec::Vec;

impl Slab {
    /// The thread of the heap that keeps the slab uses an object and frees it, as any other if the
    /// slab is not kept any longer.
    fn free_own(&self, object: usize) {
        let kept = self.heap.hold(|| {
            let kept = self.kept.read(|k| *k);
            if kept {
                self.contents[object].write(|c| *c += 1);
                self.local.write(|local| local.free.push(object));
                if self.free_count().0 == CAPACITY as i32 {
                    self.kept.write(|k| *k = false);
                    self.release();
                }
            }
            kept
        });
        if !kept {
            self.free(object, false);
        }
    }

    /// The slab goes into the pool, or is released. With the lock held of the heap that keeps it.
    pub(super) fn let_go(&self) {
        self.let_go_by(Ordering::Acquire);
    }

    fn let_go_by(&self, order: Ordering) {
        self.kept.write(|k| *k = false);
        if self.word.let_go_by(self.free_count().0, order) == CAPACITY as i32 {
            self.release();
        } else {
            self.put_in_pool();
        }
    }

    /// A heap attaches itself to the slab if it is kept, by this heap or by another, whose lock is
    /// free. Returns whether it did.
    fn attach_kept(&self) -> bool {
        if !self.heap.try_acquire() {
            return false;
        }
        let kept = self.kept.read(|k| *k);
        if kept {
            self.kept.write(|k| *k = false);
            let others = self.word.attach_kept();
            self.take_over(others);
        }
        self.heap.release();
        kept
    }
}

#[test]
fn s20_a_kept_slab_is_released_by_whoever_frees_the_last_object() {
    explore(|| {
        let slab = Slab::new(State::Kept, &[], NEVER, LAWS);
        let other = slab.clone();
        let other = thread::spawn(move || other.free(1, false));
        slab.free_own(0);
        other.join().unwrap();
        slab.check(0);
        assert_eq!(slab.released.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn s20_two_others_free_of_a_kept_slab_and_one_lets_go_of_it() {
    explore(|| {
        let slab = Slab::new(State::Kept, &[], NEVER, LAWS);
        let other = slab.clone();
        let other = thread::spawn(move || other.free(1, false));
        slab.free(0, false);
        other.join().unwrap();
        slab.check(0);
        assert_eq!(slab.released.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn s20_a_kept_slab_is_taken_while_its_heap_s_thread_frees() {
    explore(|| {
        let slab = Slab::new(State::Kept, &[0], NEVER, LAWS);
        let other = slab.clone();
        let other = thread::spawn(move || other.attach_kept());
        slab.free_own(1);
        let taken = other.join().unwrap();
        assert_eq!(slab.released.load(Ordering::Relaxed) == 1, !taken);
        slab.check(0);
    });
}

#[test]
fn s20_a_kept_slab_is_taken_while_others_free() {
    explore(|| {
        let slab = Slab::new(State::Kept, &[], NEVER, LAWS);
        let others: Vec<_> = [0, 1]
            .map(|o| {
                let slab = slab.clone();
                thread::spawn(move || slab.free(o, false))
            })
            .into();
        slab.attach_kept();
        for other in others {
            other.join().unwrap();
        }
        slab.check(0);
    });
}

#[test]
fn broken_taking_a_kept_slab_without_its_heap_s_lock_is_rejected() {
    must_be_rejected(RACE, || {
        let slab = Slab::new(State::Kept, &[], NEVER, LAWS);
        let other = slab.clone();
        let other = thread::spawn(move || {
            let others = other.word.attach_kept();
            other.take_over(others);
        });
        slab.free_own(0);
        other.join().unwrap();
    });
}

#[test]
fn broken_freeing_of_a_kept_slab_without_letting_go_of_it_is_rejected() {
    must_be_rejected("disturbed, and nobody has let go of it", || {
        let slab = Slab::new(State::Kept, &[], NEVER, LAWS);
        let other = slab.clone();
        let other = thread::spawn(move || {
            let pushed = other.word.push(CAPACITY as i32, NEVER, |c| Some(Count(c.0 + 1)));
            other.bits.fetch_or(1, Ordering::Release);
            assert!(matches!(pushed, Pushed::Disturbing | Pushed::Recorded));
        });
        other.join().unwrap();
        slab.check(1);
    });
}

#[test]
fn broken_letting_go_of_a_kept_slab_without_comparing_is_rejected() {
    must_be_rejected("objects are lost", || {
        let slab = Slab::new(State::Kept, &[0], NEVER, LAWS);
        let other = slab.clone();
        let other = thread::spawn(move || other.free(1, false));
        slab.heap.hold(|| {
            if slab.kept.read(|k| *k) {
                slab.kept.write(|k| *k = false);
                let all = Count(slab.free_count().0 + slab.word.look().1.0);
                slab.word.store_for_model(State::Claimed, all);
                if all.0 == CAPACITY as i32 {
                    slab.release();
                } else {
                    slab.put_in_pool();
                }
            }
        });
        other.join().unwrap();
        slab.check(0);
    });
}

#[test]
fn broken_letting_go_of_a_kept_slab_relaxed_is_rejected() {
    must_be_rejected(RACE, || {
        let slab = Slab::new(State::Kept, &[0], NEVER, LAWS);
        let other = slab.clone();
        let other = thread::spawn(move || other.free(1, false));
        slab.heap.hold(|| {
            if slab.kept.read(|k| *k) {
                slab.let_go_by(Ordering::Relaxed);
            }
        });
        other.join().unwrap();
    });
}
