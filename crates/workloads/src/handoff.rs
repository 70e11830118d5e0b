//! The word through which two partners hand a slot to each other, and the ways to wait for it.
//!
//! | state  | meaning                            | who changes it, to what                        |
//! |--------|------------------------------------|------------------------------------------------|
//! | EMPTY  | the allocating thread may fill it  | the allocating thread, to FULL or CLOSED       |
//! | FULL   | the freeing thread may drain it    | the freeing thread, to EMPTY                   |
//! | CLOSED | nothing more will be handed over   | nobody                                         |
//!
//! Every state names the one thread that may change it, so there is no race to lose.

use std::hint;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::futex;

pub(crate) const EMPTY: u32 = 0;
pub(crate) const FULL: u32 = 1;
pub(crate) const CLOSED: u32 = 2;

/// Looks before a waiting thread yields or sleeps: about a microsecond, which is what a hand-over
/// to a running partner takes.
const LOOKS: u32 = 300;

/// How a thread waits for its partner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handoff {
    /// Looks again and again, and never enters the kernel.
    Spin,
    /// Looks some hundreds of times, then gives up the processor between looks.
    Yield,
    /// Looks some hundreds of times, then sleeps in the kernel until woken.
    Futex,
}

/// The word itself, and the number of threads that sleep on it.
pub(crate) struct Baton {
    state: AtomicU32,
    sleepers: AtomicU32,
}

impl Baton {
    /// Hands over. Everything written before is visible to the partner that sees `state`.
    pub(crate) fn set(&self, state: u32, handoff: Handoff) {
        if handoff == Handoff::Futex {
            // SeqCst on this store and on the load below, and on the counterparts in `sleep`:
            // either this thread sees the sleeper, or the sleeper sees the new state. With less,
            // both could miss each other and the sleeper would never wake.
            self.state.store(state, Ordering::SeqCst);
            if self.sleepers.load(Ordering::SeqCst) != 0 {
                futex::wake_all(&self.state);
            }
        } else {
            // Release pairs with the acquire in `look`: the blocks stored in the slot come with it.
            self.state.store(state, Ordering::Release);
        }
    }

    /// Waits until the state is something else than `state`; returns what it is now, and the time
    /// that the wait took (zero when the first look succeeded: no clock is read then).
    pub(crate) fn wait_while(&self, state: u32, handoff: Handoff) -> (u32, Duration) {
        let now = self.look();
        if now != state {
            return (now, Duration::ZERO);
        }
        let start = Instant::now();
        let now = self.wait(state, handoff);
        (now, start.elapsed())
    }

    #[cold]
    fn wait(&self, state: u32, handoff: Handoff) -> u32 {
        let mut looks = 0;
        loop {
            let now = self.look();
            if now != state {
                return now;
            }
            if looks < LOOKS || handoff == Handoff::Spin {
                looks = looks.saturating_add(1);
                hint::spin_loop();
            } else if handoff == Handoff::Yield {
                thread::yield_now();
            } else {
                self.sleep(state);
            }
        }
    }

    fn sleep(&self, state: u32) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        if self.state.load(Ordering::SeqCst) == state {
            futex::wait(&self.state, state, None);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    fn look(&self) -> u32 {
        // Acquire pairs with the release in `set`.
        self.state.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rally(handoff: Handoff, times: u32) {
        let baton = Baton { state: AtomicU32::new(EMPTY), sleepers: AtomicU32::new(0) };
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..times {
                    assert_eq!(baton.wait_while(FULL, handoff).0, EMPTY);
                    baton.set(FULL, handoff);
                }
                baton.wait_while(FULL, handoff);
                baton.set(CLOSED, handoff);
            });
            let mut handed_over = 0;
            while baton.wait_while(EMPTY, handoff).0 == FULL {
                handed_over += 1;
                baton.set(EMPTY, handoff);
            }
            assert_eq!(handed_over, times);
        });
    }

    #[test]
    fn every_way_of_waiting_hands_each_slot_over_once() {
        rally(Handoff::Yield, 2000);
        rally(Handoff::Futex, 2000);
        // Few, because on one processor each costs both threads a whole time slice.
        rally(Handoff::Spin, 20);
    }

    #[test]
    fn a_wait_that_need_not_wait_takes_no_time() {
        let baton = Baton { state: AtomicU32::new(FULL), sleepers: AtomicU32::new(0) };
        assert_eq!(baton.wait_while(EMPTY, Handoff::Yield), (FULL, Duration::ZERO));
    }
}
