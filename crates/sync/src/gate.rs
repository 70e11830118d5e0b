//! A gate: many may be inside, until somebody closes it to be sure that nobody is.
//!
//! | word | meaning |
//! |---|---|
//! | lower half | how many are inside |
//! | upper half | how many have closed the gate |
//!
//! Nobody waits to get in, since who closes the gate may be waiting for what they hold. One word
//! says both things: who gets in and who closes change it one after the other, so that of two that
//! come at once, either the one finds the gate closed, or the other finds somebody inside.

use crate::atomic::{AtomicU32, Ordering};

const INSIDE: u32 = 1;
const CLOSED: u32 = 1 << 16;

/// A gate.
#[derive(Debug)]
pub struct Gate {
    word: AtomicU32,
}

impl Gate {
    /// An open gate.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self { word: AtomicU32::new(0) }
    }

    /// An open gate.
    #[cfg(loom)]
    pub fn new() -> Self {
        Self { word: AtomicU32::new(0) }
    }

    /// Gets in, unless the gate is closed. Who got in must leave.
    #[must_use]
    pub fn enter(&self) -> bool {
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            if seen >= CLOSED {
                return false;
            }
            // Acquire pairs with the Release in `open`: what was done while it was closed is done.
            let entered = self.word.compare_exchange(
                seen,
                seen + INSIDE,
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            match entered {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
    }

    /// Leaves.
    pub fn leave(&self) {
        // Release pairs with the Acquire in `is_empty`: what was done inside is done.
        self.word.fetch_sub(INSIDE, Ordering::Release);
    }

    /// Lets nobody in from now on.
    pub fn close(&self) {
        // Relaxed: `is_empty` looks at the same word.
        self.word.fetch_add(CLOSED, Ordering::Relaxed);
    }

    /// Whether nobody is inside: of a gate that the caller has closed, this stays so.
    pub fn is_empty(&self) -> bool {
        // Acquire pairs with the Release in `leave`.
        self.word.load(Ordering::Acquire).is_multiple_of(CLOSED)
    }

    /// Opens the gate, if nobody else has closed it.
    pub fn open(&self) {
        // Release pairs with the Acquire in `enter`.
        self.word.fetch_sub(CLOSED, Ordering::Release);
    }

    /// An open gate with nobody inside: in the child of a fork, which has one thread.
    pub fn reset(&self) {
        // Relaxed: there is one thread.
        self.word.store(0, Ordering::Relaxed);
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_gate_that_anybody_has_closed_lets_nobody_in() {
        let gate = Gate::new();
        assert!(gate.enter() && gate.enter());
        gate.close();
        assert!(!gate.enter() && !gate.is_empty());
        gate.leave();
        gate.leave();
        assert!(gate.is_empty());
        gate.close();
        gate.open();
        assert!(!gate.enter());
        gate.open();
        assert!(gate.enter() && !gate.is_empty());
        gate.reset();
        assert!(gate.is_empty());
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    /// One thread changes something inside the gate, while another closes it, and changes the same
    /// if nobody is inside.
    fn inside_and_closed(enter: fn(&Gate) -> bool) {
        loom::model(move || {
            let shared = Arc::new((Gate::new(), UnsafeCell::new(0)));
            let other = shared.clone();
            let inside = thread::spawn(move || {
                let (gate, number) = &*other;
                if enter(gate) {
                    // SAFETY: loom finds out whether anybody else is at it.
                    number.with_mut(|number| unsafe { *number += 1 });
                    gate.leave();
                }
            });
            let (gate, number) = &*shared;
            gate.close();
            if gate.is_empty() {
                // SAFETY: as above.
                number.with_mut(|number| unsafe { *number += 1 });
            }
            gate.open();
            inside.join().unwrap();
        });
    }

    #[test]
    fn nobody_is_inside_a_closed_and_empty_gate() {
        inside_and_closed(Gate::enter);
    }

    #[test]
    #[should_panic(expected = "Causality violation")]
    fn looking_first_and_entering_then_lets_two_in() {
        inside_and_closed(|gate| {
            if gate.word.load(Ordering::Acquire) >= CLOSED {
                return false;
            }
            gate.word.fetch_add(INSIDE, Ordering::Acquire);
            true
        });
    }
}
