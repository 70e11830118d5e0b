//! A slab of medium objects that moves from one pool to another while its last object is freed:
//! S21, and a variant that is wrong on purpose.
//!
//! Which pool it is in stands beside its word, and is changed by who has claimed it; each pool has
//! a lock of its own.

use super::{CAPACITY, Checked, NEVER, RANK, explore, must_be_rejected};
use crate::atomic::{AtomicU32, Ordering};
use crate::lock::Lock;
use crate::word::{Mask, Pushed, SlabWord, State};
use loom::sync::Arc;
use loom::thread;

/// A pool: its lock, and whether the slab is in its list.
struct Pool {
    lock: Lock,
    is_in: Checked<bool>,
}

impl Pool {
    fn new(is_in: bool) -> Self {
        Self { lock: Lock::new(&RANK), is_in: Checked::new(is_in) }
    }

    /// Changes whether the slab is in. With the lock held.
    fn change(&self, is_in: bool) {
        self.is_in.write(|it| assert!(std::mem::replace(it, is_in) != is_in, "the wrong pool"));
    }
}

/// When who moves the slab says where it is.
#[derive(Clone, Copy, PartialEq)]
enum Says {
    BeforeItIsThere,
    WhenItIsThere,
}

struct Moving {
    word: SlabWord<Mask>,
    owner: AtomicU32,
    pools: [Pool; 2],
    released: AtomicU32,
}

impl Moving {
    /// In the pool of its owner, number 1, with one object out that nobody frees here but
    /// [`Moving::free`].
    fn new() -> Arc<Self> {
        let word = SlabWord::new();
        word.create(State::Attached);
        let free = Mask((1 << (CAPACITY - 1)) - 1);
        assert!(word.detach(State::Claimed, free) && word.pool(CAPACITY as i32));
        let [owner, released] = [1, 0].map(AtomicU32::new);
        Arc::new(Self { word, owner, pools: [false, true].map(Pool::new), released })
    }

    fn release(&self) {
        self.released.fetch_add(1, Ordering::Relaxed);
    }

    /// Moves it to the pool that all share, if it is in its owner's still.
    fn move_to_shared(&self, says: Says) {
        let [shared, own] = &self.pools;
        let claimed = own.lock.hold(|| self.word.claim_pooled().then(|| own.change(false)));
        if claimed.is_none() {
            return;
        }
        if says == Says::BeforeItIsThere {
            self.owner.store(0, Ordering::Relaxed);
        }
        let is_in = shared.lock.hold(|| {
            shared.change(true);
            let is_in = self.word.pool(CAPACITY as i32);
            if !is_in {
                shared.change(false);
            }
            is_in
        });
        if says == Says::WhenItIsThere {
            self.owner.store(0, Ordering::Relaxed);
        }
        if !is_in {
            self.release();
        }
    }

    /// Frees the last object.
    fn free(&self) {
        let last = 1 << (CAPACITY - 1);
        match self.word.push(CAPACITY as i32, NEVER, |before| Some(Mask(before.0 | last))) {
            Pushed::CompletedInPool => {
                let pool = &self.pools[self.owner.load(Ordering::Relaxed) as usize];
                pool.lock.hold(|| pool.change(false));
                self.release();
            }
            pushed => assert_eq!(pushed, Pushed::Recorded),
        }
    }

    fn moved_while_freed(says: Says) {
        let slab = Self::new();
        let other = slab.clone();
        let other = thread::spawn(move || other.free());
        slab.move_to_shared(says);
        other.join().unwrap();
        assert_eq!(slab.released.load(Ordering::Relaxed), 1, "released once");
        assert!(slab.pools.iter().all(|pool| pool.is_in.read(|is_in| !*is_in)), "it is in a list");
    }
}

#[test]
fn s21_the_last_object_is_freed_while_the_slab_moves_to_another_pool() {
    explore(|| Moving::moved_while_freed(Says::BeforeItIsThere));
}

#[test]
fn broken_saying_where_a_slab_is_when_it_is_there_is_rejected() {
    must_be_rejected("the wrong pool", || Moving::moved_while_freed(Says::WhenItIsThere));
}
